"""The whole program on small dumps: options, steps, incomplete input, verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

import firstnan
from analysis.made_runs import INF, NAN, Json, Rank, Run, batch, blank, named, t, the_cause
from firstnan.answer.model import MechanismKind, Report, SymptomKind, Verdict, Where
from firstnan.dump.errors import InputError, UsageError
from firstnan.dump.options import Options, ProgressEvent
from firstnan.dump.problems import ProblemKind
from firstnan.dump.records import Direction

LOSS = t(3.0, 3.0, shape=())


def log(rank: Rank, value: float = NAN) -> str:
    return rank.op("Torch.log", [t(1.0, -1.0)], [t(value)])


def end(rank: Rank, value: float = NAN) -> str:
    return rank.op("Torch.sum", [t(value)], [t(value, shape=())])


def layer(rank: Rank, weight: Json, output: Json) -> str:
    with rank.module("fc", "Linear", [batch(1.0)], [output], {"weight": weight}):
        return rank.op("Functional.linear", [batch(1.0), weight], [output])


def two_candidates() -> tuple[Run, str, str]:
    """A logarithm and, unrelated, a division by zero, both in the loss of rank 0; rank 1 receives."""
    run = Run()
    first, second = run.rank(0), run.rank(1)
    one = log(first)
    other = first.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(INF)])
    first.op("Torch.add", [t(NAN), t(INF)], [t(NAN)])
    for rank, sent in ((first, t(NAN)), (second, t(1.0))):
        rank.all_reduce(sent, t(NAN))
        end(rank)
    return run, one, other


# -- rejecting an answer -------------------------------------------------------------------------------


def test_a_rejected_answer_gives_the_next(tmp_path: Path) -> None:
    run, one, other = two_candidates()
    assert named(run.analyze(tmp_path)) == [(0, one)]
    assert named(run.analyze(tmp_path, exclude_ops=(one,))) == [(0, other)]


def test_an_answer_is_rejected_on_one_rank(tmp_path: Path) -> None:
    run, one, other = two_candidates()
    assert named(run.analyze(tmp_path, exclude_ops=(f"0:{one}",))) == [(0, other)]
    assert named(run.analyze(tmp_path, exclude_ops=(f"1:{one}",))) == [(0, one)]


def test_several_answers_are_rejected(tmp_path: Path) -> None:
    """What reads their values has no writer any more."""
    run, one, other = two_candidates()
    cause = the_cause(run.analyze(tmp_path, exclude_ops=(one, other)))
    assert (cause.op_name, cause.where) == ("Torch.add.0.forward", Where.UNDUMPED_OPERATOR)


def test_alternatives_say_why_they_lost(tmp_path: Path) -> None:
    run, one, other = two_candidates()
    cause = the_cause(run.analyze(tmp_path))
    assert [(a.op_name, a.reason.key) for a in cause.alternatives][:1] == [(other, "reason.later")]
    assert one not in {a.op_name for a in cause.alternatives}


# -- several steps -------------------------------------------------------------------------------------


def training(run: Run, step: int, weight: Json, output: Json, gradient: Json) -> str:
    rank = run.rank(0, step)
    product = layer(rank, weight, output)
    loss = rank.op("Torch.sum", [output], [t(output["Max"], output["Max"], ())])
    rank.backward(loss, [LOSS], [t(1.0)])
    return rank.backward(product, [t(1.0)], [gradient])


WEIGHT, BAD_WEIGHT = t(0.5, shape=(8, 8)), t(NAN, shape=(8, 8))


def test_the_earliest_bad_step_is_the_answer(tmp_path: Path) -> None:
    run = Run()
    for step, value in ((3, 0.5), (10, NAN), (11, NAN)):
        log(run.rank(0, step), value)
        end(run.rank(0, step), value)
    report = run.analyze(tmp_path)
    assert (report.step, report.input.steps) == (10, (3, 10, 11))
    assert [(c.step, c.op_name) for c in report.root_causes] == [(10, "Torch.log.0.forward")]
    assert [note.key for note in report.story if "clean" in note.key] == ["story.earlier_steps_clean"]


def test_a_bad_parameter_points_to_the_gradients_of_the_step_before(tmp_path: Path) -> None:
    """The scaler did not skip: step 0's gradient is the cause, and step 1's parameter shows the damage."""
    run = Run()
    born = training(run, 0, WEIGHT, t(2.0), t(NAN))
    training(run, 1, BAD_WEIGHT, t(NAN), t(NAN))
    report = run.analyze(tmp_path)
    assert (report.step, named(report)) == (0, [(0, born)])
    assert the_cause(report).direction is Direction.BACKWARD


def test_a_bad_parameter_after_a_clean_step(tmp_path: Path) -> None:
    run = Run()
    training(run, 0, WEIGHT, t(2.0), t(1.0))
    training(run, 1, BAD_WEIGHT, t(NAN), t(NAN))
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.step, cause.where) == (1, Where.PARAMETER)
    assert [(n.key, n.params) for n in cause.evidence if "parameter" in n.key] == [
        ("evidence.parameter_was_fine", {"step": 0})
    ]


def test_a_bad_parameter_in_the_first_step_points_to_the_checkpoint(tmp_path: Path) -> None:
    run = Run()
    training(run, 5, BAD_WEIGHT, t(NAN), t(NAN))
    cause = the_cause(run.analyze(tmp_path))
    assert "evidence.parameter_from_start" in {note.key for note in cause.evidence}


def test_the_steps_asked_for_are_analysed(tmp_path: Path) -> None:
    run = Run()
    for step in (0, 1):
        log(run.rank(0, step))
        end(run.rank(0, step))
    assert run.analyze(tmp_path, steps=(1,)).step == 1
    with pytest.raises(UsageError, match="no step 7"):
        run.analyze(tmp_path, steps=(7,))


def scaled(run: Run, step: int, weight: float, gradient: float, dtype: str = "float16") -> None:
    half: dict[str, Json] = {"dtype": dtype}
    rank = run.rank(0, step)
    output = t(NAN if weight != weight else 2.0, **half)
    with rank.module("fc", "Linear", [batch(1.0, **half)], [output], {"weight": t(weight, shape=(8, 8), **half)}):
        product = rank.op("Functional.linear", [batch(1.0, **half), t(weight, shape=(8, 8), **half)], [output])
    loss = rank.op("Torch.sum", [output], [t(output["Max"], output["Max"], (), dtype)])
    rank.backward(loss, [t(6e4, 6e4, (), dtype)], [t(6e4, **half)])
    rank.backward(product, [t(6e4, **half)], [t(gradient, **half)])


def test_a_gradient_overflow_that_the_loss_scaler_skips_is_no_anomaly(tmp_path: Path) -> None:
    run = Run()
    scaled(run, 0, 0.5, INF)
    scaled(run, 1, 0.5, 1.0)
    report = run.analyze(tmp_path)
    assert (report.verdict, report.exit_code) == (Verdict.CLEAN, 0)
    assert [(note.key, note.params) for note in report.story] == [("story.skipped", {"steps": "0"})]


def test_a_gradient_overflow_that_reaches_the_parameters_is_damage(tmp_path: Path) -> None:
    run = Run()
    scaled(run, 0, 0.5, INF)
    scaled(run, 1, NAN, NAN)
    report = run.analyze(tmp_path)
    assert (report.step, named(report)) == (0, [(0, "Functional.linear.0.backward")])
    assert the_cause(report).mechanism.kind is MechanismKind.FP16_OVERFLOW


def test_a_gradient_overflow_in_the_last_step_is_told_as_open(tmp_path: Path) -> None:
    run = Run()
    scaled(run, 0, 0.5, INF)
    report = run.analyze(tmp_path)
    assert report.verdict is Verdict.ANOMALY
    assert "caveat.skip_unknown" in {note.key for note in report.caveats}


def test_a_gradient_overflow_in_a_wide_type_is_never_skipped(tmp_path: Path) -> None:
    run = Run()
    scaled(run, 0, 0.5, INF, "bfloat16")
    scaled(run, 1, 0.5, 1.0, "bfloat16")
    assert run.analyze(tmp_path).step == 0


# -- symptoms ------------------------------------------------------------------------------------------


def test_a_bad_loss_and_bad_gradients_are_two_stories(tmp_path: Path) -> None:
    lost, finite = Run(), Run()
    training(lost, 0, WEIGHT, t(NAN), t(NAN))
    training(finite, 0, WEIGHT, t(2.0), t(NAN))
    report = lost.analyze(tmp_path / "lost")
    assert {s.kind for s in report.symptoms} == {SymptomKind.LOSS, SymptomKind.GRADIENT}
    assert [note.key for note in report.story] == ["story.loss"]
    report = finite.analyze(tmp_path / "finite")
    assert {s.kind for s in report.symptoms} == {SymptomKind.GRADIENT}
    assert [note.key for note in report.story] == ["story.gradient"]


# -- what cannot be judged -----------------------------------------------------------------------------


def flagged_tensor(**more: Json) -> Json:
    tensor = t(1.0, dtype="float16")
    return {k: v for k, v in tensor.items() if k not in ("Max", "Min", "Mean", "Norm")} | more


def test_device_flags_for_whole_records(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    rank.header["task"] = "nan_check"
    bare = flagged_tensor()
    fine = rank.op("Functional.embedding", [bare], [bare])
    born = rank.op("Functional.linear", [bare, bare], [bare])
    later = rank.op("Torch.add", [bare, bare], [bare])
    for name, flag in ((fine, 0), (born, 1), (later, 1)):
        rank.data[name]["is_nan"] = flag
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.mechanism.kind) == (born, MechanismKind.FP16_OVERFLOW)


def test_device_flags_for_single_tensors(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    rank.header["task"] = "nan_check"
    fine, bad = flagged_tensor(is_nan=0), flagged_tensor(is_nan=1)
    rank.op("Functional.linear", [fine, fine], [fine])
    born = rank.op("Torch.log", [fine], [bad])
    rank.op("Torch.mul", [bad, fine], [bad])
    assert named(run.analyze(tmp_path)) == [(0, born)]


def test_device_flags_without_an_overflow_are_clean(tmp_path: Path) -> None:
    run = Run()
    fine = flagged_tensor(is_nan=0)
    run.rank(0).op("Functional.linear", [fine, fine], [fine])
    assert run.analyze(tmp_path).verdict is Verdict.CLEAN


@pytest.mark.parametrize("bare", [flagged_tensor(md5="0x00b2390282791dda"), blank()], ids=["checksums", "nulls"])
def test_without_statistics_nothing_is_known(bare: Json, tmp_path: Path) -> None:
    run = Run()
    run.rank(0).op("Functional.linear", [bare, bare], [bare])
    report = run.analyze(tmp_path)
    assert (report.verdict, report.complete, report.exit_code) == (Verdict.UNKNOWN, False, 4)
    assert [p.kind for p in report.input.problems] == [ProblemKind.NO_STATISTICS]
    assert "caveat.no_statistics" in {note.key for note in report.caveats}


def test_without_records_nothing_is_known(tmp_path: Path) -> None:
    run = Run()
    run.rank(0)
    report = run.analyze(tmp_path)
    assert (report.verdict, report.exit_code) == (Verdict.UNKNOWN, 4)
    assert [p.kind for p in report.input.problems] == [ProblemKind.NO_RECORDS]


def clean(ranks: int = 2) -> Run:
    run = Run()
    for rank in range(ranks):
        log(run.rank(rank), 0.5)
        run.rank(rank).all_reduce(t(0.5), t(1.0), tuple(range(ranks)))
    return run


def test_clean_and_complete(tmp_path: Path) -> None:
    report = clean().analyze(tmp_path)
    assert (report.verdict, report.complete, report.exit_code) == (Verdict.CLEAN, True, 0)
    assert (report.root_causes, report.collectives, report.caveats, report.step) == ((), (), (), None)
    assert (report.input.records, report.input.ranks, report.input.steps) == (4, (0, 1), (0,))
    sizes = [file.stat().st_size for file in tmp_path.rglob("dump.json")]
    assert report.input.bytes == sum(sizes)


def test_clean_but_not_complete(tmp_path: Path) -> None:
    run = clean(3)
    run.drop(1)
    report = run.analyze(tmp_path)
    assert (report.verdict, report.complete, report.exit_code) == (Verdict.CLEAN, False, 4)
    assert report.input.missing_ranks == (1,)
    assert [(p.kind, p.rank) for p in report.input.problems] == [(ProblemKind.MISSING_RANK, 1)]
    assert [note.params for note in report.caveats if note.key == "caveat.missing_ranks"] == [{"ranks": "1"}]


def test_a_rank_that_ends_before_the_others_is_told(tmp_path: Path) -> None:
    run = clean()
    for _ in range(2):
        run.rank(0).all_reduce(t(0.5), t(1.0), (0, 1))
    report = run.analyze(tmp_path)
    assert [(p.kind, p.rank) for p in report.input.problems] == [(ProblemKind.SHORT_RANK, 1)]
    assert report.exit_code == 4


@pytest.mark.parametrize("content", [b"", b"no json", b"[]", b'{"data": 3}'], ids=["empty", "text", "list", "number"])
def test_nothing_readable_is_an_error(content: bytes, tmp_path: Path) -> None:
    clean().write(tmp_path)
    for file in tmp_path.rglob("dump.json"):
        file.write_bytes(content)
    with pytest.raises(InputError, match="could be read"):
        firstnan.analyze(tmp_path)


def test_no_dump_is_an_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError):
            firstnan.analyze(path)


@pytest.mark.parametrize("value", [NAN, 1.0])
def test_of_several_dumps_the_one_that_was_looked_at_is_told_first(value: float, tmp_path: Path) -> None:
    for name in ("monday", "tuesday", "wednesday"):
        run = Run()
        end(run.rank(0), value)
        run.write(tmp_path / name)
    report = firstnan.analyze(tmp_path)
    assert report.story[0].key == "story.several_dumps"
    assert report.story[0].params == {"used": "monday/step0/rank0", "count": 2, "names": "tuesday, wednesday"}
    told = [(p.kind, p.file, p.judged) for p in report.input.problems]
    assert told == [(ProblemKind.SECOND_DUMP, name, False) for name in ("tuesday", "wednesday")]
    assert not report.complete


def test_one_unreadable_rank_does_not_stop_the_others(tmp_path: Path) -> None:
    run, one, _ = two_candidates()
    run.write(tmp_path)
    (tmp_path / "step0" / "rank1" / "dump.json").write_text("no json")
    report = firstnan.analyze(tmp_path)
    assert named(report) == [(0, one)]
    assert not report.complete


# -- one rank ------------------------------------------------------------------------------------------


def test_a_traced_rank_that_received_its_value_names_where_it_came_in(tmp_path: Path) -> None:
    run, _, _ = two_candidates()
    cause = the_cause(run.trace(tmp_path, 1))
    assert (cause.rank, cause.op_name, cause.where) == (1, "Distributed.all_reduce.0.forward", Where.COMMUNICATION)
    assert cause.mechanism.explanation.key == "why.received"


def test_a_traced_rank_that_made_its_value_names_the_operator(tmp_path: Path) -> None:
    run, one, _ = two_candidates()
    cause = the_cause(run.trace(tmp_path, 0))
    assert (cause.op_name, cause.where) == (one, Where.OPERATOR)
    assert cause.location is not None
    assert (cause.location.file, cause.location.line) == ("/train/model.py", 1)


def test_a_rank_folder_can_be_given(tmp_path: Path) -> None:
    run, one, _ = two_candidates()
    run.write(tmp_path)
    assert named(firstnan.analyze(tmp_path / "step0" / "rank0")) == [(0, one)]
    assert named(firstnan.analyze(tmp_path / "step0")) == [(0, one)]


def test_a_rank_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    run, _, _ = two_candidates()
    with pytest.raises(UsageError, match="no rank 9") as caught:
        run.trace(tmp_path, 9)
    assert "0,1" in caught.value.hint


def test_the_ranks_asked_for_are_analysed(tmp_path: Path) -> None:
    run, _, _ = two_candidates()
    report = run.analyze(tmp_path, ranks=(1,))
    assert report.input.ranks == (1,)
    assert [n.key for n in report.caveats if "left_out" in n.key] == ["caveat.ranks_left_out"]


# -- progress and workers ------------------------------------------------------------------------------


def test_progress_is_told_after_each_rank(tmp_path: Path) -> None:
    told: list[ProgressEvent] = []
    clean(3).write(tmp_path)
    firstnan.analyze(tmp_path, Options(jobs=1), told.append)
    assert [(e.ranks_done, e.ranks_total) for e in told] == [(1, 3), (2, 3), (3, 3)]
    assert told[-1].bytes_done == told[-1].bytes_total > 0


def test_processes_do_not_change_the_answer(tmp_path: Path) -> None:
    run, _, _ = two_candidates()
    run.write(tmp_path)
    reports: list[Report] = [firstnan.analyze(tmp_path, Options(jobs=jobs)) for jobs in (1, 2)]
    assert reports[0].to_dict() == reports[1].to_dict()


def test_nothing_is_written_into_the_dump(tmp_path: Path) -> None:
    run, _, _ = two_candidates()
    run.write(tmp_path)
    before = {f: f.stat().st_mtime_ns for f in tmp_path.rglob("*")}
    firstnan.analyze(tmp_path)
    firstnan.trace(tmp_path, 0)
    assert {f: f.stat().st_mtime_ns for f in tmp_path.rglob("*")} == before


def keys(report: firstnan.Report) -> list[str]:
    return [note.key for note in report.caveats]


def test_what_was_ruled_out_is_told_and_what_is_nowhere_as_well(tmp_path: Path) -> None:
    run, first, _ = two_candidates()
    root = run.write(tmp_path)
    assert keys(firstnan.analyze(root, Options(exclude_ops=(first,)))) == ["caveat.excluded"]
    for name in ("Torch.nothing.0.forward", f"7:{first}"):
        assert keys(firstnan.analyze(root, Options(exclude_ops=(name,))))[-1] == "caveat.excluded_nowhere"
    assert "caveat.excluded" not in keys(firstnan.analyze(root))


def test_a_value_of_what_was_ruled_out_is_not_said_to_come_from_nowhere(tmp_path: Path) -> None:
    run = Run()
    born = run.rank(0).op("Torch.exp", [t(1000.0)], [t(INF)])
    run.rank(0).op("Torch.sum", [t(INF)], [t(INF, shape=())])
    (cause,) = run.analyze(tmp_path, exclude_ops=(born,)).root_causes
    assert cause.op_name == "Torch.sum.0.forward"
    (note,) = [note for note in cause.evidence if note.key == "evidence.excluded_writer"]
    assert note.params == {"before": born, "after": "Torch.sum.0.forward"}
    assert [one.key for one in cause.advice] == ["advice.excluded_writer"]


@pytest.mark.parametrize("content", [b"no dump", b"\x00\xff\xfe" * 9])
def test_a_source_that_could_not_be_read_was_not_killed_early(content: bytes, tmp_path: Path) -> None:
    run = Run()
    run.rank(0).all_reduce(t(1.0), t(NAN), group=(0, 1))
    run.rank(0).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    run.rank(1).all_reduce(t(NAN), t(NAN), group=(0, 1))
    root = run.write(tmp_path)
    (root / "step0" / "rank1" / "dump.json").write_bytes(content)
    (cause,) = firstnan.analyze(root).root_causes
    assert (cause.rank, cause.where) == (1, Where.MISSING_RANK)
    assert "evidence.rank_unreadable" in [note.key for note in cause.evidence]
    assert [note.key for note in cause.advice] == ["where.missing_rank.advice.unreadable"]


def test_what_one_rank_received_is_no_story_of_the_run(tmp_path: Path) -> None:
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        rank.all_reduce(t(NAN if number else 1.0), t(NAN), group=(0, 1))
        rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    report = run.trace(tmp_path, 0)
    assert [cause.mechanism.explanation.key for cause in report.root_causes] == ["why.received"]
    assert report.story == ()


def test_the_ranks_beside_a_rank_folder_are_not_absent(tmp_path: Path) -> None:
    root = clean(3).write(tmp_path)
    report = firstnan.analyze(root / "step0" / "rank1")
    assert (report.input.ranks, report.input.missing_ranks) == ((1,), ())
    assert keys(report) == ["caveat.ranks_left_out"]
    assert firstnan.analyze(root, Options(ranks=(1,))).to_dict()["caveats"] == report.to_dict()["caveats"]


def test_a_rank_folder_that_stands_alone_has_none_beside_it(tmp_path: Path) -> None:
    (tmp_path / "copied").mkdir()
    folder = (clean(1).write(tmp_path / "run") / "step0" / "rank0").rename(tmp_path / "copied" / "rank0")
    assert keys(firstnan.analyze(folder)) == []
