"""Sentences of a report, each in a case in which it would be false: there another one stands, or none."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Rank, Run, batch, blank, t, the_cause

import firstnan
from firstnan.answer.model import Note, Report, Where
from firstnan.dump.language import Language
from firstnan.show.outline.causes import dropped
from firstnan.words import text

WEIGHT = t(NAN, shape=(8, 8))


def notes(report: Report) -> list[Note]:
    """All notes of a report's story, caveats, causes and contained values."""
    of_causes = [
        note
        for cause in report.root_causes
        for note in (
            cause.mechanism.explanation,
            *cause.evidence,
            *cause.advice,
            *(other.reason for other in cause.alternatives),
        )
    ]
    return [*report.story, *report.caveats, *of_causes, *(value.reason for value in report.contained)]


def keys(report: Report) -> set[str]:
    return {note.key for note in notes(report)}


def said(report: Report) -> str:
    return " ".join(text(note, Language.EN) for note in notes(report))


# --- "the same parameter is bad on ... too; what they computed from it stayed finite" --------------------------------


def embedded(rank: Rank, *, used: bool, result: bool = True, row: float = NAN) -> None:
    """Reads a table with a bad row; ``used``: the batch uses this row."""
    bad = row if used else 1.0
    weight = WEIGHT if row is NAN else {**WEIGHT, **t(1.0, row, WEIGHT["shape"], grad=True)}
    name = rank.op("Functional.embedding", [batch(3, 0, dtype="int64"), weight], [t(bad)] if result else [])
    if not result:
        del rank.data[name]["output"]
        return
    total = rank.op("Torch.sum", [t(bad)], [t(bad, shape=())])
    rank.backward(total, [t(1.0, shape=())], [t(bad)])


def test_that_a_bad_parameter_stayed_without_effect_is_said_where_it_was_seen(tmp_path: Path) -> None:
    """A row of -Inf may be a mask where the result is finite; a row of NaN is bad on both ranks."""
    run = Run()
    embedded(run.rank(0), used=True, row=-INF)
    embedded(run.rank(1), used=False, row=-INF)
    assert "evidence.parameter_elsewhere" in keys(run.analyze(tmp_path))


def test_that_a_bad_parameter_stayed_without_effect_is_not_said_where_it_was_not_seen(tmp_path: Path) -> None:
    """Rank 1 died in the record: nobody knows what it computed."""
    run = Run()
    embedded(run.rank(0), used=True)
    embedded(run.rank(1), used=True, result=False)
    assert "stayed finite" not in said(run.analyze(tmp_path))


# --- "every rank reads the same parameter, and reads it bad: ... on which rank that shard lies ..." -------------------


def weighted(rank: Rank, weight: object) -> None:
    bad = NAN if weight is WEIGHT else 1.0
    rank.op("Functional.linear", [batch(1.0), weight], [t(bad)])
    total = rank.op("Torch.sum", [t(bad)], [t(bad, shape=())])
    rank.backward(total, [t(1.0, shape=())], [t(bad)])


def test_that_a_bad_shard_cannot_be_seen_is_said_where_every_rank_reads_it_bad(tmp_path: Path) -> None:
    run = Run()
    for number in (0, 1, 2):
        weighted(run.rank(number), WEIGHT)
    report = run.analyze(tmp_path)
    assert "evidence.parameter_everywhere" in keys(report)
    assert "evidence.parameter_bad_too" not in keys(report)


@pytest.mark.parametrize("case", ["one rank reads it clean", "one rank alone", "its shard is seen"])
def test_that_a_bad_shard_cannot_be_seen_is_not_said_elsewhere(case: str, tmp_path: Path) -> None:
    run = Run()
    if case == "its shard is seen":
        for number in (0, 1):
            shard = batch(NAN if number else 1.0, shape=(32,))
            run.rank(number).all_gather(shard, [batch(1.0, shape=(32,)), batch(NAN, shape=(32,))])
            weighted(run.rank(number), WEIGHT)
    else:
        for number in (0, 1) if case == "one rank reads it clean" else (0,):
            weighted(run.rank(number), WEIGHT if number == 0 else t(0.5, shape=(8, 8)))
    report = run.analyze(tmp_path)
    assert report.root_causes
    assert "evidence.parameter_everywhere" not in keys(report)


# --- "It began in the forward pass", "The loss is finite and the gradients are not" ----------------------------------


def trained(rank: Rank, value: float = 1.0) -> None:
    product = rank.op("Functional.linear", [t(1.0), t(1.0, shape=(8, 8))], [t(value)])
    total = rank.op("Torch.sum", [t(value)], [t(value, shape=())])
    rank.backward(total, [t(1.0, shape=())], [t(1.0)])
    rank.backward(product, [t(1.0)], [t(1.0), t(1.0, shape=(8, 8))])


def test_what_begins_behind_backward_is_not_said_to_begin_in_forward(tmp_path: Path) -> None:
    run = Run()
    for number in (0, 1):
        trained(run.rank(number))
        run.rank(number).all_reduce(t(INF), t(INF), (0, 1))
    report = run.analyze(tmp_path)
    assert not {"story.forward", "story.gradient"} & keys(report)
    assert "story.after_backward" in keys(report)


def test_the_loss_is_not_said_to_be_absent_where_it_is_there(tmp_path: Path) -> None:
    """The loss has several parts; the one from which backward starts is recorded and finite."""
    run = Run()
    mine = run.rank(0)
    mine.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    mine.op("Torch.mean", [t(NAN)], [t(NAN, shape=())])
    trained(mine)
    assert "not in the dump" not in said(run.analyze(tmp_path))


# --- "dropped: its value went into ... and did not come out" ---------------------------------------------------------


def test_every_sentence_about_a_dropped_value_names_who_dropped_it(tmp_path: Path) -> None:
    run = Run()
    mine = run.rank(0)
    with mine.module("net", "Net", [t(1.0)], [t(NAN)]):
        mine.op("Torch.log", [t(1.0, -1.0, shape=(3,))], [t(NAN, shape=(3,))])  # nothing reads it
        mine.op("Torch.sqrt", [t(1.0, -1.0)], [t(NAN)])
    mine.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    assert "went into  and" not in said(run.analyze(tmp_path))


# --- "dump again with level mix" -------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_another_level_is_advised_where_it_shows_more(level: str, tmp_path: Path) -> None:
    run = Run()
    mine = run.rank(0)
    mine.header["level"] = level
    with mine.module("net", "Net", [t(1.0)], [t(NAN)]):
        for name, value in (("first", 1.0), ("second", NAN)):
            with mine.module(f"net.{name}", "Linear", [t(value)], [t(value)]):
                if level == "mix":
                    mine.op("Functional.linear", [t(value), t(1.0, shape=(8, 8))], [t(value)])
    report = run.analyze(tmp_path)
    assert report.root_causes
    assert ("level mix" in said(report)) is (level == "L0")


# --- numbers that show the violation ---------------------------------------------------------------------------------


def test_an_argument_just_beyond_its_domain_is_written_as_such(tmp_path: Path) -> None:
    run = Run()
    mine = run.rank(0)
    mine.op("Torch.acos", [t(1.0000005, -1.0)], [t(NAN)])
    mine.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    report = run.analyze(tmp_path)
    assert the_cause(report).mechanism.explanation.key == "why.domain_error"
    assert "goes to 1.000001," in said(report)


# --- advice about eps ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elements", [1, 8])
def test_eps_is_advised_where_it_helps(elements: int, tmp_path: Path) -> None:
    """Of a single element the spread is 0, whatever eps is."""
    run = Run()
    mine = run.rank(0)
    shape = (4, elements)
    mine.op("Functional.layer_norm", [t(2.0, 2.0, shape=shape), [elements], None, None, 0.0], [t(NAN, shape=shape)])
    mine.op("Torch.sum", [t(NAN, shape=shape)], [t(NAN, shape=())])
    advised = {note.key for note in the_cause(run.analyze(tmp_path)).advice}
    assert ("mechanism.div_by_zero.advice.one_element" in advised) is (elements == 1)
    assert ("mechanism.div_by_zero.advice.no_variance" in advised) is (elements == 8)


# --- records without output ------------------------------------------------------------------------------------------


def test_results_left_out_on_purpose_are_not_said_to_have_raised(tmp_path: Path) -> None:
    run = Run()
    mine = run.rank(0)
    for _ in range(3):
        del mine.data[mine.op("Torch.relu", [t(1.0)], [])]["output"]
    assert [problem.kind.value for problem in run.analyze(tmp_path).input.problems] == ["inputs_only"]


# --- "the loss is finite and the gradients are not" ------------------------------------------------------------------


@pytest.mark.parametrize("recorded", [True, False], ids=["the loss is recorded", "it is not"])
def test_that_the_loss_is_finite_is_said_where_it_is_recorded(recorded: bool, tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    root = rank.op("Torch.sqrt", [t(1.0, 0.0)], [t(1.0, 0.0)])
    if recorded:
        loss = rank.op("Torch.sum", [t(1.0, 0.0)], [t(1.0, shape=())])
        rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    rank.backward(root, [t(1.0)], [t(INF, 0.0)])
    found = keys(run.analyze(tmp_path))
    assert ("story.gradient" in found, "story.gradient_alone" in found) == (recorded, not recorded)


# --- "in step N the parameters of this module were finite: the update after it made them bad" ------------------------


def step_of(rank: Rank, weight: object, *, blind: bool = False) -> None:
    weighted(rank, weight)
    if blind:
        rank.op("Torch.exp", [t(None, None)], [t(None, None)])


@pytest.mark.parametrize("case", ["seen", "a gap", "another rank", "without statistics", "cut"])
def test_that_a_parameter_was_fine_is_said_where_the_step_before_shows_it(case: str, tmp_path: Path) -> None:
    run = Run()
    for number in (0, 1):
        if case != "another rank" or number == 1:
            step_of(run.rank(number), t(0.5, shape=(8, 8)), blind=case == "without statistics")
        step_of(run.rank(number, 2 if case == "a gap" else 1), WEIGHT if number == 0 else t(0.5, shape=(8, 8)))
    root = run.write(tmp_path)
    if case == "cut":
        path = root / "step0" / "rank0" / "dump.json"
        path.write_text(path.read_text().rstrip().removesuffix("}").rstrip().removesuffix("}"))
    report = firstnan.analyze(root, firstnan.Options(jobs=1))
    assert the_cause(report).rank == 0
    assert ("evidence.parameter_was_fine" in keys(report)) is (case == "seen")


# --- "the same operator with inputs of the same size is finite on ..." -----------------------------------------------


@pytest.mark.parametrize("peer", ["finite", "no result", "no tensor", "bad", "other inputs"])
def test_that_a_peer_is_finite_is_said_where_its_result_is(peer: str, tmp_path: Path) -> None:
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        read = t(500.0) if number and peer == "other inputs" else t(1.0)
        given = {"no tensor": [], "bad": [t(NAN)]}.get(peer, [t(1.0)]) if number else [t(NAN)]
        name = rank.op("Torch.custom_kernel", [read, read], given)
        if number and peer == "no result":
            rank.data[name].pop("output")
        if given == [t(NAN)] or not number:
            total = rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
            rank.backward(total, [t(1.0, shape=())], [t(NAN)])
    assert ("evidence.peers_finite" in keys(run.analyze(tmp_path))) is (peer == "finite")


# --- "the sum of the members' largest values is beyond the dtype" ----------------------------------------------------


def test_a_reduction_of_infinities_is_not_said_to_overflow(tmp_path: Path) -> None:
    """What was infinite when it went in; the call did not return, and the other member has no dump."""
    run = Run()
    rank = run.rank(0)
    call = rank.all_reduce(t(INF, -200.0, dtype="float16"), t(1.0), (0, 1))
    rank.data[call].pop("output")
    linear = rank.op("Functional.linear", [t(1.0), t(0.5, shape=(8, 8))], [t(1.0)])
    rank.backward(linear, [t(NAN)], [t(NAN)])
    report = run.analyze(tmp_path)
    assert report.root_causes
    assert "why.reduction_overflow" not in keys(report)


# --- "the gradients are finite and their norm is not" ----------------------------------------------------------------


@pytest.mark.parametrize("gradient", [60000.0, NAN], ids=["finite", "bad"])
def test_that_the_norm_itself_overflowed_is_said_where_it_reads_finite_gradients(
    gradient: float, tmp_path: Path
) -> None:
    """What DDP reduced has no record: the norm is the first that reads it."""
    run = Run()
    rank = run.rank(0)
    linear = rank.op("Functional.linear", [batch(1.0), t(0.5, shape=(8, 8))], [t(1.0)])
    loss = rank.op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    rank.backward(linear, [t(1.0)], [t(1.0)])
    norm = t(INF if gradient == 60000.0 else NAN, "mirror", shape=(), dtype="float16")
    rank.op("Torch.vector_norm", [t(gradient, shape=(64,), dtype="float16")], [norm])
    rank.op("Torch.vector_norm", [norm], [norm])
    assert ("story.grad_norm" in keys(run.analyze(tmp_path))) is (gradient == 60000.0)


# --- "the loss is finite on ... and the gradients are not; the loss of ... is not in the dump" ------------------------


@pytest.mark.parametrize("recorded", [True, False], ids=["the loss is recorded", "it is not"])
def test_that_the_loss_of_others_is_finite_is_said_where_it_is_recorded(recorded: bool, tmp_path: Path) -> None:
    """The rank that made it has no dump: another one received a bad gradient."""
    run = Run()
    rank = run.rank(0)
    linear = rank.op("Functional.linear", [batch(1.0), t(0.5, shape=(8, 8))], [t(1.0)])
    if recorded:
        loss = rank.op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
        rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    rank.backward(linear, [t(1.0)], [t(1.0)])
    rank.all_reduce(t(1.0), t(NAN), (0, 1))
    report = run.analyze(tmp_path)
    assert the_cause(report).rank == 1
    assert ("story.gradient_partly_seen" in keys(report)) is recorded


# --- "... is the constant ...", "not all inputs were recorded with statistics", "the forward record of this call is" --


def with_loss(rank: Rank, value: object) -> None:
    total = rank.op("Torch.sum", [t(value)], [t(value, shape=())])
    rank.backward(total, [t(1.0, shape=())], [t(value)])


@pytest.mark.parametrize("factor", [INF, 2.0])
def test_that_an_argument_is_a_constant_is_said_where_it_is_not_finite(factor: float, tmp_path: Path) -> None:
    run = Run()
    run.rank(0).op("Torch.mul", [t(1.0), factor], [t(INF)])
    with_loss(run.rank(0), INF)
    report = run.analyze(tmp_path)
    assert the_cause(report).op_name == "Torch.mul.0.forward"
    assert ("evidence.constant" in keys(report)) is (factor == INF)


@pytest.mark.parametrize("second", [blank(), t(2.0), blank(dtype="int64")], ids=["unknown", "known", "of integers"])
def test_that_inputs_are_unknown_is_said_where_one_has_no_statistics(second: object, tmp_path: Path) -> None:
    run = Run()
    run.rank(0).op("Torch.custom_kernel", [t(1.0), second], [t(NAN)])
    with_loss(run.rank(0), NAN)
    report = run.analyze(tmp_path)
    assert the_cause(report).op_name == "Torch.custom_kernel.0.forward"
    assert ("evidence.unknown_inputs" in keys(report)) is (second == blank())


@pytest.mark.parametrize("recorded", [True, False], ids=["its forward is recorded", "it is not"])
def test_the_forward_record_of_a_backward_is_named_where_there_is_one(recorded: bool, tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    root = rank.op("Torch.sqrt", [t(1.0, 0.0)], [t(1.0, 0.0)])
    with_loss(rank, 1.0)
    rank.backward(root, [t(1.0)], [t(INF, 0.0)])
    if not recorded:
        del rank.data[root]
        del rank.construct[root]
    report = run.analyze(tmp_path)
    assert the_cause(report).op_name == "Torch.sqrt.0.backward"
    twins = [note.params["op_name"] for note in the_cause(report).evidence if note.key == "evidence.forward_twin"]
    assert twins == ([root] if recorded else [])


# --- "the first non-finite value that follows is in ..." -------------------------------------------------------------


@pytest.mark.parametrize("received", [1e30, 2.0], ids=["impossible", "possible"])
def test_what_follows_a_wrong_result_is_said_where_the_result_is_wrong(received: float, tmp_path: Path) -> None:
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        got = t(received if number else 2.0)
        rank.all_reduce(t(1.0), got, (0, 1))
        given = INF if number else 4.0
        rank.op("Torch.mul", [got, got], [t(given)])
        with_loss(rank, given)
    report = run.analyze(tmp_path)
    told = [note.params for note in notes(report) if note.key == "evidence.first_effect"]
    assert told == ([{"rank": 1, "op_name": "Torch.mul.0.forward"}] if received == 1e30 else [])
    assert report.root_causes


# --- "no record of that call on ... either: it could be the source as well" ------------------------------------------


@pytest.mark.parametrize("third", ["absent", "finite"])
def test_that_another_rank_is_missing_too_is_said_where_it_is(third: str, tmp_path: Path) -> None:
    run = Run()
    for number in (0,) if third == "absent" else (0, 2):
        rank = run.rank(number)
        rank.all_reduce(t(1.0), t(NAN), (0, 1, 2))
        with_loss(rank, NAN)
    report = run.analyze(tmp_path)
    told = [note.params for note in notes(report) if note.key == "evidence.other_missing"]
    assert report.root_causes[0].rank == 1
    assert bool(told) is (third == "absent")


# --- "rank N sends it with ..., which you ruled out" -----------------------------------------------------------------


@pytest.mark.parametrize("ruled_out", ["0:Distributed.send.0.forward", "0:Torch.relu.0.forward"])
def test_that_the_sender_was_ruled_out_is_said_where_it_was(ruled_out: str, tmp_path: Path) -> None:
    run = Run()
    run.rank(0).op("Torch.relu", [t(1.0)], [t(1.0)])
    run.rank(0).send(t(NAN), 1)
    run.rank(1).recv(t(NAN), 0)
    with_loss(run.rank(1), NAN)
    found = keys(run.analyze(tmp_path, exclude_ops=(ruled_out,)))
    assert ("evidence.excluded_sender" in found) is ("send" in ruled_out)


def test_no_sender_is_said_to_be_ruled_out_where_another_record_was(tmp_path: Path) -> None:
    """The result of the call is bad although all members sent finite values."""
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        rank.op("Torch.relu", [t(1.0)], [t(1.0)])
        rank.all_reduce(t(1.0), t(NAN), (0, 1))
        with_loss(rank, NAN)
    report = run.analyze(tmp_path, exclude_ops=("0:Torch.relu.0.forward",))
    assert {cause.where for cause in report.root_causes} == {Where.COMMUNICATION}
    assert "evidence.excluded_sender" not in keys(report)


# --- "the report lists ... of ..." -----------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [0, 1])
def test_that_calls_are_left_out_is_said_where_they_are(
    more: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firstnan.report.calls.MAX_COLLECTIVES", 2)
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        rank.op("Torch.custom_kernel", [t(1.0)], [t(NAN)])
        for _ in range(2 + more):
            rank.all_reduce(t(NAN), t(NAN), (0, 1))
        with_loss(rank, NAN)
    report = run.analyze(tmp_path)
    assert len(report.collectives) == 2
    told = [note.params for note in report.caveats if note.key == "caveat.listed_calls"]
    assert told == ([{"shown": 2, "count": 3}] if more else [])


@pytest.mark.parametrize("more", [0, 1])
def test_that_causes_are_left_out_is_said_where_they_are(
    more: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firstnan.report.assemble.MAX_CAUSES", 2)
    run = Run()
    for number in range(2 + more):
        run.rank(number).op(f"Torch.custom_{number}", [t(1.0)], [t(NAN)])
        with_loss(run.rank(number), NAN)
    report = run.analyze(tmp_path)
    assert len(report.root_causes) == 2
    told = [note.params for note in report.caveats if note.key == "caveat.listed_causes"]
    assert told == ([{"shown": 2, "count": 3}] if more else [])


@pytest.mark.parametrize("more", [0, 1])
def test_that_contained_values_are_left_out_is_said_where_they_are(
    more: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firstnan.report.assemble.MAX_CONTAINED", 2)
    run = Run()
    rank = run.rank(0)
    for at in range(2 + more):
        rank.op(f"Torch.custom_{at}", [t(1.0, shape=(3 + at,))], [t(NAN, shape=(3 + at,))])
    with_loss(rank, 1.0)
    report = run.analyze(tmp_path)
    assert len(report.contained) == 2
    told = [note.params for note in report.caveats if note.key == "caveat.listed_contained"]
    assert told == ([{"shown": 2, "count": 3}] if more else [])


# --- "the dump of ... is empty or unreadable", "... calls could not be matched across ranks" --------------------------


@pytest.mark.parametrize("damage", ["empty", "no json", None])
def test_that_a_rank_is_unreadable_is_said_where_it_is(damage: str | None, tmp_path: Path) -> None:
    run = Run()
    for number in (0, 1):
        weighted(run.rank(number), t(0.5, shape=(8, 8)))
    root = run.write(tmp_path)
    if damage is not None:
        (root / "step0" / "rank1" / "dump.json").write_text("" if damage == "empty" else "no json")
    report = firstnan.analyze(root, firstnan.Options(jobs=1))
    told = [note.params["ranks"] for note in report.caveats if note.key == "caveat.unreadable_ranks"]
    assert told == ([] if damage is None else ["1"])


@pytest.mark.parametrize("names_it", [False, True], ids=["from any rank", "from rank 1"])
def test_that_calls_are_unmatched_is_said_where_no_peer_is_recorded(names_it: bool, tmp_path: Path) -> None:
    run = Run()
    run.rank(0).op("Torch.custom_kernel", [t(1.0)], [t(NAN)])
    run.rank(0).comm("recv", [None], {"src": 1} if names_it else {}, {0: t(1.0)})
    run.rank(1).send(t(1.0), 0)
    with_loss(run.rank(0), NAN)
    report = run.analyze(tmp_path)
    told = [note.params["count"] for note in report.caveats if note.key == "caveat.unmatched_calls"]
    assert told == ([] if names_it else [1])


# --- "parameters are not finite", "step N already had non-finite gradients" -------------------------------------------


@pytest.mark.parametrize("output", [NAN, 1.0], ids=["its module gives it on", "it does not"])
def test_that_only_parameters_are_bad_is_said_where_no_loss_is(output: float, tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    with rank.module("net", "Linear", [batch(1.0)], [t(NAN)], {"weight": WEIGHT}):
        rank.op("Functional.linear", [batch(1.0), WEIGHT], [t(NAN)])
    if output is NAN:
        with_loss(rank, NAN)
    assert ("story.parameter" in keys(run.analyze(tmp_path))) is (output == 1.0)


@pytest.mark.parametrize("gradient", [INF, 1.0])
def test_that_gradients_were_bad_before_is_said_where_they_were(gradient: float, tmp_path: Path) -> None:
    """The loss scaler skipped the step before; the bad parameter belongs to a layer that only this step uses."""
    run = Run()
    for step in (0, 1):
        rank = run.rank(0, step)
        half = t(1.0, dtype="float16")
        linear = rank.op(
            "Functional.linear", [batch(1.0, dtype="float16"), t(0.5, shape=(8, 8), dtype="float16")], [half]
        )
        total = rank.op("Torch.sum", [half], [t(1.0, 1.0, shape=(), dtype="float16")])
        rank.backward(total, [t(6e4, 6e4, shape=(), dtype="float16")], [t(6e4, dtype="float16")])
        rank.backward(linear, [t(6e4, dtype="float16")], [t(1.0 if step else gradient, dtype="float16")])
    weighted(run.rank(0, 1), WEIGHT)
    report = run.analyze(tmp_path)
    assert (report.step, the_cause(report).op_name) == (1, "Functional.linear.1.forward")
    assert ("evidence.gradients_before" in keys(report)) is (gradient == INF)


# --- "only a guess links it to ...", "dropped here: this record uses the value" --------------------------------------


@pytest.mark.parametrize("shape", [(4, 16), (4, 8)], ids=["of another shape", "the same tensor"])
def test_that_a_link_is_a_guess_is_said_where_it_is_one(shape: tuple[int, ...], tmp_path: Path) -> None:
    """The dump lists a call between the two and does not hold it."""
    run = Run()
    rank = run.rank(0)
    born = rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN)])
    rank.construct["Torch.cat.0.forward"] = None
    read = rank.op("Torch.relu", [t(NAN, shape=shape)], [t(NAN, shape=shape)])
    loss = rank.op("Torch.sum", [t(NAN, shape=shape)], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(NAN, shape=shape)])
    cause = the_cause(run.analyze(tmp_path))
    guesses = [
        (other.op_name, other.reason.params) for other in cause.alternatives if other.reason.key == "reason.guess"
    ]
    assert cause.op_name == born
    assert guesses == ([] if shape == (4, 8) else [(read, {"op_name": born})])


@pytest.mark.parametrize(
    ("closer", "key"),
    [("Torch.where.0.forward", "reason.dropped_here"), ("Torch.nan_to_num.0.forward", "reason.contained")],
)
def test_who_dropped_a_value_is_said_as_it_is_known(closer: str, key: str) -> None:
    assert dropped(Note("reason.contained", {"closer": closer}), "Torch.where.0.forward").key == key


# --- why: each example tells its own sentence, and in no other one does it stand -------------------------------------

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "small"
TELLS = {
    "why.bad_input": {"bad_input"},
    "why.bad_parameter": {"bad_parameter"},
    "why.cast_between": {"cast_not_recorded"},
    "why.cast_overflow": {"cast_overflow"},
    "why.comm_corruption": {"comm_corruption"},
    "why.device_fault": {"device_fault_suspected"},
    "why.div_by_zero": {"div_by_zero"},
    "why.divergence": {"divergence"},
    "why.domain_error": {"domain_error"},
    "why.exp_overflow": {"exp_overflow"},
    "why.fp8_scale": {"fp8_scale"},
    "why.inf_minus_inf": {"inf_minus_inf"},
    "why.large_value_from": {"large_value_propagation"},
    "why.log_zero": {"log_zero"},
    "why.masked_softmax": {"masked_softmax"},
    "why.missing_rank_absent": {"missing_rank"},
    "why.nan_argument": {"nan_argument"},
    "why.overflow": {"bf16_overflow", "fp16_overflow", "fp32_overflow"},
    "why.reduction_overflow": {"reduction_overflow"},
    "why.saturation": {"saturation"},
    "why.saved_nonfinite": {"saved_nonfinite"},
    "why.sqrt_backward": {"sqrt_backward"},
    "why.transient": {"transient"},
    "why.uninitialised": {"uninitialised_memory"},
    "why.unknown": {"before_dump", "device_fault", "unknown"},
    "why.zero_times_inf": {"zero_times_inf"},
}


@pytest.mark.parametrize("example", sorted({path.parent.name for path in EXAMPLES.glob("*/step*")}))
def test_why_is_said_in_the_example_of_its_cause_alone(example: str) -> None:
    report = firstnan.analyze(EXAMPLES / example, firstnan.Options(jobs=1))
    told = {cause.mechanism.explanation.key for cause in report.root_causes}
    assert told == {key for key, examples in TELLS.items() if example in examples}


# --- "the value came from rank N, whose dump is absent / is cut / cannot be read / is empty" --------------------------


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ("whole", None),
        ("cut", "why.missing_rank_cut"),
        ("no json", "why.missing_rank_unreadable"),
        ("no records", "why.missing_rank_empty"),
        ("absent", "why.missing_rank_absent"),
    ],
)
def test_what_is_there_of_the_sender_is_said_as_it_is(there: str, why: str | None, tmp_path: Path) -> None:
    run = Run()
    run.rank(0).all_reduce(t(1.0), t(NAN), (0, 1))
    with_loss(run.rank(0), NAN)
    sender = run.rank(1)
    if there != "no records":
        sender.op("Torch.custom_kernel", [t(1.0)], [t(NAN if there == "whole" else 1.0)])
        sender.all_reduce(t(NAN), t(NAN), (0, 1))
    if there == "absent":
        run.drop(1)
    root = run.write(tmp_path)
    dump = root / "step0" / "rank1" / "dump.json"
    if there == "no json":
        dump.write_text("no json")
    if there == "cut":
        dump.write_text(dump.read_text().partition('"Distributed.')[0])
    report = firstnan.analyze(root, firstnan.Options(jobs=1))
    told = [key for key in keys(report) if key.startswith("why.missing_rank")]
    assert told == ([] if why is None else [why])


# --- why: variants of one mechanism, of which one alone is true ------------------------------------------------------

ROWS, TARGET, MASK = t(1.0, -INF), batch(7, 0, shape=(4,), dtype="int64"), batch(1, 0, dtype="bool")
VARIANTS = [
    ("Torch.div", [t(1e10), t(1e-30, 1e-35)], INF, "why.tiny_divisor"),
    ("Torch.div", [t(1e10), t(1.0, 0.0)], INF, "why.div_by_zero"),
    ("Functional.layer_norm", [t(2.0, shape=(4, 1)), [1], None, None, 0.0], NAN, "why.one_element_rows"),
    ("Functional.layer_norm", [t(2.0, 2.0), [8], None, None, 0.0], NAN, "why.no_variance"),
    ("Torch.std", [t(2.0, shape=(4, 8, 1)), -1], NAN, "why.single_elements"),
    ("Functional.scaled_dot_product_attention", [t(1.0), t(1.0), t(1.0), MASK], NAN, "why.masked_attention"),
    ("Functional.scaled_dot_product_attention", [t(1.0), t(1.0), t(1.0)], NAN, "why.unknown"),
    ("Functional.cross_entropy", [ROWS, TARGET], INF, "why.masked_label"),
    ("Functional.cross_entropy", [ROWS, TARGET], NAN, "why.masked_softmax"),
]


@pytest.mark.parametrize(("api", "inputs", "given", "why"), VARIANTS, ids=[f"{row[0]} {row[3]}" for row in VARIANTS])
def test_why_is_the_variant_that_is_true(
    api: str, inputs: list[object], given: float, why: str, tmp_path: Path
) -> None:
    run = Run()
    run.rank(0).op("Torch.masked_fill", [t(1.0), MASK, -INF], [ROWS])
    run.rank(0).op(api, inputs, [t(given)])
    with_loss(run.rank(0), given)
    assert the_cause(run.analyze(tmp_path)).mechanism.explanation.key == why


@pytest.mark.parametrize("elements", [1, 2])
def test_that_a_deviation_is_of_single_elements_is_said_where_it_is(elements: int, tmp_path: Path) -> None:
    run = Run()
    run.rank(0).op("Torch.std", [t(2.0, shape=(4, 8, elements)), -1], [t(NAN)])
    with_loss(run.rank(0), NAN)
    found = keys(run.analyze(tmp_path))
    assert ("why.single_elements" in found) is (elements == 1)
    assert "why.no_variance" not in found  # the deviation of equal elements is 0


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_that_smoothing_reads_the_mask_is_said_where_there_is_some(smoothing: float, tmp_path: Path) -> None:
    run = Run()
    run.rank(0).op("Torch.masked_fill", [t(1.0), MASK, -INF], [ROWS])
    run.rank(0).op("Functional.cross_entropy", [ROWS, TARGET], [t(INF, shape=())], label_smoothing=smoothing)
    told = the_cause(run.analyze(tmp_path)).mechanism.explanation.key
    assert told == ("why.smoothed_mask" if smoothing else "why.masked_label")


# --- sentences of mechanisms ------------------------------------------------------------------------------------------


def why(rank: Rank, tmp_path: Path, ending: dict[str, object]) -> set[str]:
    """The keys of a report on a rank whose last result reaches a loss."""
    loss = rank.op("Torch.sum", [ending], [t(INF, INF, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    run = Run()
    run.ranks[0, 0] = rank
    return keys(run.analyze(tmp_path))


@pytest.mark.parametrize(("sent", "is_said"), [(blank(), True), (t(2.0), False), (t(INF), False)])
def test_that_inputs_of_a_call_are_clean_as_far_as_recorded(sent: object, is_said: bool, tmp_path: Path) -> None:
    """Not where all of them are recorded, and not where one of them is bad."""
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        rank.all_reduce(sent if number else t(2.0), t(INF), (0, 1))
        loss = rank.op("Torch.sum", [t(INF)], [t(INF, INF, shape=())])
        rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    assert ("why.comm_corruption_blind" in keys(run.analyze(tmp_path))) is is_said


@pytest.mark.parametrize("case", ["flags alone", "with statistics", "float32", "no product"])
def test_that_the_dump_holds_flags_and_no_statistics(case: str, tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    dtype = "float32" if case == "float32" else "float16"
    bare = {k: v for k, v in t(1.0, dtype=dtype).items() if k not in ("Max", "Min", "Mean", "Norm")}
    taken = t(1.0, dtype=dtype) if case == "with statistics" else bare
    names = [
        rank.op("Functional.embedding", [bare], [bare]),
        rank.op("Tensor.add" if case == "no product" else "Functional.linear", [taken, taken], [bare]),
        rank.op("Torch.relu", [bare], [bare]),
    ]
    for name, flag in zip(names, (0, 1, 1), strict=True):
        rank.data[name]["is_nan"] = flag
    assert ("why.flagged" in keys(run.analyze(tmp_path))) is (case == "flags alone")


@pytest.mark.parametrize("case", ["infinity", "NaN", "float32", "a weight", "a record without statistics"])
def test_that_an_infinity_was_made_by_no_record(case: str, tmp_path: Path) -> None:
    rank = Run().rank(0)
    dtype = "float32" if case == "float32" else "float16"
    bad = t(NAN if case == "NaN" else INF, shape=(8, 8) if case == "a weight" else (4, 8), dtype=dtype)
    rank.op("Torch.relu", [t(1.0, dtype=dtype)], [t(1.0, dtype=dtype)])
    if case == "a record without statistics":
        name = rank.op("Torch.exp", [t(1.0, dtype=dtype)], [])
        del rank.data[name]["output"]
    taken = [t(1.0, dtype=dtype), bad] if case == "a weight" else [bad, t(0.5, shape=(8, 8), dtype=dtype)]
    rank.op("Functional.linear", taken, [t(INF, dtype=dtype)])
    assert ("why.fp16_between" in why(rank, tmp_path, t(INF, dtype=dtype))) is (case == "infinity")


@pytest.mark.parametrize(("grows", "apart"), [(False, 0), (True, 0), (True, 1100)])
def test_that_the_records_do_not_show_where_a_large_value_entered(grows: bool, apart: int, tmp_path: Path) -> None:
    """Not where one of them does; far behind that one it is true of the records before."""
    rank = Run().rank(0)
    rank.op("Torch.exp", [t(86.0)], [t(2e37 if grows else 1.0)])
    rank.skip(apart)
    rank.op("Torch.square", [t(2e37)], [t(INF)])
    found = why(rank, tmp_path, t(INF))
    assert ("why.large_value" in found, "why.large_value_from" in found) == (
        not grows or apart > 0,
        grows and not apart,
    )


@pytest.mark.parametrize(
    ("taken", "key"),
    [(t(900.0, dtype="float16"), "why.overflow_narrow"), (blank(dtype="float16"), "why.overflow_unseen")],
)
def test_that_the_largest_input_is_told_where_it_is_known(taken: object, key: str, tmp_path: Path) -> None:
    rank = Run().rank(0)
    rank.op("Torch.i0", [taken], [t(INF, dtype="float16")])
    found = why(rank, tmp_path, t(INF, dtype="float16"))
    assert {name for name in found if name.startswith("why.overflow")} == {key}


@pytest.mark.parametrize(
    ("factor", "high", "is_said"), [(300.0, 65504.0, True), (1.0, 65504.0, False), (300.0, 6e4, False)]
)
def test_that_the_hardware_clamped_a_result(factor: float, high: float, is_said: bool, tmp_path: Path) -> None:
    """Not where the arithmetic gives no more, and not below the limit."""
    run = Run()
    half = t(factor, dtype="float16")
    rank = run.rank(0)
    rank.op("Torch.matmul", [half, t(factor, shape=(8, 8), dtype="float16")], [t(high, dtype="float16")])
    rank.op("Torch.relu", [t(1.0)], [t(1.0)])
    assert ("why.saturated_result" in keys(run.analyze(tmp_path))) is is_said


@pytest.mark.parametrize(("least", "key"), [(0.0, "why.zero_weight"), (-1.0, "why.weight_around_zero"), (0.5, None)])
def test_that_a_weight_holds_a_zero(least: float, key: str | None, tmp_path: Path) -> None:
    run = Run()
    weight = t(1.0, least, (8,))
    rank = run.rank(0)
    norm = rank.op("NPU.npu_rms_norm", [t(1.0), weight, 1e-6], [t(1.0), t(1.0, 0.5, (4, 1))])
    loss = rank.op("Torch.sum", [t(1.0)], [t(8.0, 8.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    rank.backward(norm, [t(1.0)], [t(NAN), t(1.0, shape=(8,))])
    found = keys(run.analyze(tmp_path))
    assert {k for k in found if k in ("why.zero_weight", "why.weight_around_zero")} == ({key} if key else set())
