"""Sentences of a report, each in a case in which it would be false: there another one stands, or none."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Rank, Run, batch, t, the_cause

import firstnan
from firstnan.answer.model import Note, Report
from firstnan.dump.language import Language
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


def embedded(rank: Rank, *, used: bool, result: bool = True) -> None:
    """Reads a table with a bad row; ``used``: the batch uses this row."""
    bad = NAN if used else 1.0
    name = rank.op("Functional.embedding", [batch(3, 0, dtype="int64"), WEIGHT], [t(bad)] if result else [])
    if not result:
        del rank.data[name]["output"]
        return
    total = rank.op("Torch.sum", [t(bad)], [t(bad, shape=())])
    rank.backward(total, [t(1.0, shape=())], [t(bad)])


def test_that_a_bad_parameter_stayed_without_effect_is_said_where_it_was_seen(tmp_path: Path) -> None:
    run = Run()
    embedded(run.rank(0), used=True)
    embedded(run.rank(1), used=False)
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
