"""Records without statistics on the way to a birth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_runs import INF, NAN, Json, Rank, Run, batch, blank, scalar, t, the_cause

import firstnan
from firstnan.answer.model import Confidence, MechanismKind, Verdict, Where

ZERO = t(0.0)
ROWS = (4,)


def normalised(rank: Rank, *, before: bool, behind: bool, size: tuple[int, ...]) -> tuple[str, str]:
    """``x.amax() / y`` with both zero, of which ``x`` may have come from a record without statistics."""
    rank.op("Torch.relu", [t(1.0)], [t(1.0)])
    blind = rank.op("Torch.exp", [blank(size)], [blank(size)]) if before else ""
    rank.op("Tensor.amax", [ZERO], [t(0.0, shape=ROWS)])
    div = rank.op("Tensor.__truediv__", [t(0.0, shape=ROWS), t(0.0, shape=ROWS)], [t(NAN, shape=ROWS)])
    if behind:
        rank.op("Torch.exp", [blank(size)], [blank(size)])
    loss = rank.op("Torch.mean", [t(NAN, shape=ROWS)], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0, shape=ROWS)])
    return blind, div


def test_a_blind_record_may_hold_the_cause(tmp_path: Path) -> None:
    run = Run()
    blind, div = normalised(run.rank(0), before=True, behind=False, size=(4, 8))
    cause = the_cause(run.analyze(tmp_path))
    assert cause.op_name == div
    assert (cause.place_confidence, cause.mechanism.confidence) == (Confidence.LIKELY, Confidence.LIKELY)
    assert (cause.alternatives[0].op_name, cause.alternatives[0].reason.key) == (blind, "reason.blind")


@pytest.mark.parametrize(
    ("before", "behind", "size"),
    [(False, True, (4, 8)), (True, False, (4, 9))],
    ids=["behind the birth", "of another size"],
)
def test_a_blind_record_elsewhere_takes_nothing_away(
    before: bool, behind: bool, size: tuple[int, ...], tmp_path: Path
) -> None:
    run = Run()
    normalised(run.rank(0), before=before, behind=behind, size=size)
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.place_confidence, cause.mechanism.confidence) == (Confidence.CERTAIN, Confidence.CERTAIN)


def test_the_way_back_goes_through_recorded_results(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.exp", [blank()], [blank()])
    rank.op("Tensor.mul", [ZERO, t(1.0)], [ZERO])
    rank.op("Torch.relu", [t(1.0)], [t(1.0)])
    div = rank.op("Tensor.__truediv__", [ZERO, ZERO], [t(NAN)])
    loss = rank.op("Torch.mean", [t(NAN)], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.place_confidence) == (div, Confidence.LIKELY)  # mul took in what exp gave
    rank.data["Torch.exp.0.forward"]["output"] = [t(1.0)]
    assert the_cause(run.analyze(tmp_path)).place_confidence is Confidence.CERTAIN


# --- the same operator before -----------------------------------------------------------------------------------------


def twice(rank: Rank, first: Json, api: str = "Torch.exp") -> tuple[str, str]:
    """Two calls of exp beyond its range; ``first``: what is recorded of the result of the first one."""
    one = rank.op(api, [t(100.0)], [first])
    other = rank.op("Torch.exp", [t(100.0, shape=ROWS)], [t(INF, shape=ROWS)])
    loss = rank.op("Torch.mean", [t(INF, shape=ROWS)], [t(INF, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0, shape=ROWS)])
    return one, other


@pytest.mark.parametrize("way", ["no statistics", "no tensor", "no result"])
def test_the_same_operator_may_have_failed_before(way: str, tmp_path: Path) -> None:
    run = Run()
    one, other = twice(run.rank(0), blank())
    if way == "no tensor":
        run.rank(0).data[one]["output"] = []
    elif way == "no result":
        del run.rank(0).data[one]["output"]
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.place_confidence) == (other, Confidence.LIKELY)
    assert cause.mechanism.confidence is Confidence.LIKELY
    assert (cause.alternatives[0].op_name, cause.alternatives[0].reason.key) == (one, "reason.blind")


@pytest.mark.parametrize(
    ("first", "api"), [(t(1.0), "Torch.exp"), (blank(), "Torch.relu")], ids=["a known result", "another operator"]
)
def test_another_call_takes_nothing_away(first: Json, api: str, tmp_path: Path) -> None:
    run = Run()
    _, other = twice(run.rank(0), first, api)
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.place_confidence) == (other, Confidence.CERTAIN)


@pytest.mark.parametrize(
    ("given", "sure"), [([t(1.0)], Confidence.CERTAIN), ([blank()], Confidence.LIKELY), ([], Confidence.LIKELY)]
)
def test_the_forward_call_is_not_recorded(given: list[Json], sure: Confidence, tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    root = rank.op("Torch.sqrt", [t(1.0, 0.0)], given)
    loss = rank.op("Torch.mean", [t(0.5)], [t(0.5, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    bad = rank.backward(root, [t(1.0)], [t(INF)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.place_confidence) == (bad, sure)
    assert (root in [other.op_name for other in cause.alternatives]) is (sure is Confidence.LIKELY)


# --- what no record wrote ---------------------------------------------------------------------------------------------


def unseen(rank: Rank, argument: Json, result: Json) -> tuple[str, str]:
    """exp, whose result is read bad; what stands before and behind is finite."""
    rank.op("Torch.relu", [t(100.0)], [t(100.0)])
    exp = rank.op("Torch.exp", [argument], [result])
    mul = rank.op("Tensor.mul", [t(INF), scalar(2.0)], [t(INF)])
    loss = rank.op("Torch.mean", [t(INF)], [t(INF, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    return exp, mul


@pytest.mark.parametrize(("argument", "sure"), [(t(100.0), Confidence.LIKELY), (blank(), Confidence.POSSIBLE)])
def test_the_last_writer_is_blind(argument: Json, sure: Confidence, tmp_path: Path) -> None:
    run = Run()
    exp, mul = unseen(run.rank(0), argument, blank())
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where, cause.place_confidence) == (exp, Where.OPERATOR, sure)
    assert cause.mechanism.confidence is not Confidence.CERTAIN
    assert cause.evidence[0].key == "evidence.no_result"
    assert (cause.alternatives[0].op_name, cause.alternatives[0].reason.key) == (mul, "reason.reads_blind")


@pytest.mark.parametrize("case", ["known", "another size", "ruled out", "a finite one behind"])
def test_a_value_between_two_records_stays_there(case: str, tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    result = {"known": t(1.0), "another size": blank((4, 9))}.get(case, blank())
    if case == "a finite one behind":
        rank.op("Torch.exp", [t(1.0)], [result])
        result = t(1.0)
    exp, mul = unseen(rank, t(100.0), result)
    rejected = frozenset({f"0:{exp}"}) if case == "ruled out" else frozenset()
    cause = the_cause(run.analyze(tmp_path, exclude_ops=rejected))
    assert cause.op_name == mul
    assert all(note.key != "evidence.no_result" for note in cause.evidence)


@pytest.mark.parametrize("way", ["no tensor", "no result"])
def test_a_record_without_a_result_is_the_first_alternative(way: str, tmp_path: Path) -> None:
    run = Run()
    exp, mul = unseen(run.rank(0), t(100.0), blank())
    if way == "no tensor":
        run.rank(0).data[exp]["output"] = []
    else:
        del run.rank(0).data[exp]["output"]
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.place_confidence) == (mul, Confidence.POSSIBLE)
    assert (cause.alternatives[0].op_name, cause.alternatives[0].reason.key) == (exp, "reason.blind")


@pytest.mark.parametrize(("result", "inside"), [(blank(), True), (t(1.0), False)])
def test_what_a_module_gave_is_blind_inside(result: Json, inside: bool, tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    with rank.module("mlp", "Mlp", [t(100.0)], [t(INF)]) as module:
        exp = rank.op("Torch.exp", [t(100.0)], [result])
    loss = rank.op("Torch.mean", [t(INF)], [t(INF, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    cause = the_cause(run.analyze(tmp_path))
    assert cause.op_name == (exp if inside else module)
    assert cause.place_confidence is Confidence.LIKELY


def test_an_unknown_input_may_be_bad(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    exp = rank.op("Torch.exp", [t(100.0)], [blank()])
    mul = rank.op("Tensor.mul", [blank(), scalar(2.0)], [t(INF)])
    loss = rank.op("Torch.mean", [t(INF)], [t(INF, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.place_confidence) == (mul, Confidence.POSSIBLE)
    assert cause.alternatives[0].op_name == exp


@pytest.mark.parametrize(("result", "sure"), [(t(1.0), Confidence.CERTAIN), (blank(), Confidence.POSSIBLE)])
def test_a_blind_record_between(result: Json, sure: Confidence, tmp_path: Path) -> None:
    """A NaN, and a record without statistics before the one that reads a NaN: which of the two it reads is open."""
    run = Run()
    rank = run.rank(0)
    div = rank.op("Tensor.__truediv__", [ZERO, ZERO], [t(NAN)])
    rank.op("Torch.erf", [t(1.0)], [result])
    rank.op("Tensor.mul", [t(NAN), scalar(2.0)], [t(NAN)])
    loss = rank.op("Torch.mean", [t(NAN)], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.place_confidence) == (div, sure)


# --- calls ------------------------------------------------------------------------------------------------------------


def test_a_call_without_a_result_is_named(tmp_path: Path) -> None:
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        call = rank.all_reduce(t(3e38), t(INF), (0, 1))
        if number == 0:
            del rank.data[call]["output"]
        rank.op("Tensor.mul", [t(INF), scalar(2.0)], [t(INF)])
        loss = rank.op("Torch.mean", [t(INF)], [t(INF, shape=())])
        rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where) == ("Distributed.all_reduce.0.forward", Where.COMMUNICATION)
    assert cause.mechanism.kind is MechanismKind.REDUCTION_OVERFLOW


@pytest.mark.parametrize("calls", [1, 2])
def test_uneven_series_prove_nothing(calls: int, tmp_path: Path) -> None:
    """Which of two calls of one rank is the only one of the other is not known."""
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        rank.all_reduce(t(2.0), t(INF), (0, 1))
        if number < calls - 1:
            rank.all_reduce(t(1.0), t(1.0), (0, 1))
        loss = rank.op("Torch.mean", [t(INF)], [t(INF, shape=())])
        rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    cause = the_cause(run.analyze(tmp_path))
    sure = Confidence.CERTAIN if calls == 1 else Confidence.LIKELY
    assert (cause.mechanism.kind, cause.mechanism.confidence) == (MechanismKind.COMM_CORRUPTION, sure)


@pytest.mark.parametrize(("sent", "sure"), [([t(2.0)], Confidence.CERTAIN), ([], Confidence.POSSIBLE)])
def test_what_a_member_put_in_is_not_recorded(sent: list[Json], sure: Confidence, tmp_path: Path) -> None:
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        call = rank.all_reduce(t(2.0), t(INF), (0, 1))
        if number:
            rank.data[call] |= {"input_args": sent}
        loss = rank.op("Torch.mean", [t(INF)], [t(INF, shape=())])
        rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.mechanism.kind, cause.mechanism.confidence) == (MechanismKind.COMM_CORRUPTION, sure)


# --- weights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "sure"), [(0, Confidence.CERTAIN), (1, Confidence.LIKELY)])
def test_a_weight_that_was_fine_before_was_made_bad_by_something(step: int, sure: Confidence, tmp_path: Path) -> None:
    run = Run()
    for number in range(step + 1):
        rank, bad = run.rank(0, number), number == step
        value = NAN if bad else 1.0
        rank.op("Functional.linear", [batch(1.0), t(value, shape=(8, 8))], [t(value)])
        loss = rank.op("Torch.mean", [t(value)], [t(value, shape=())])
        rank.backward(loss, [t(1.0, shape=())], [t(value)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.where, cause.mechanism.confidence) == (Where.PARAMETER, sure)


def test_what_came_in_too_large_began_elsewhere(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    square = rank.op("Torch.square", [t(1e38)], [t(INF)])
    loss = rank.op("Torch.mean", [t(INF)], [t(INF, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.mechanism.kind) == (square, MechanismKind.LARGE_VALUE_PROPAGATION)
    assert cause.place_confidence is Confidence.LIKELY


def test_another_value_inside_does_not_become_what_a_blind_record_gave(tmp_path: Path) -> None:
    """A NaN that nothing reads, and a module whose result is Inf: the record without statistics has its size."""
    run = Run()
    rank = run.rank(0)
    with rank.module("mlp", "Mlp", [t(100.0)], [t(INF)]):
        rank.op("Torch.sqrt", [t(-1.0, -2.0, shape=ROWS)], [t(NAN, shape=ROWS)])
        exp = rank.op("Torch.exp", [t(100.0)], [blank()])
    loss = rank.op("Torch.mean", [t(INF)], [t(INF, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    assert the_cause(run.analyze(tmp_path)).op_name == exp


@pytest.mark.parametrize("indent", [1, 4], ids=["scanned", "read whole"])
@pytest.mark.parametrize(("gradient", "is_complete"), [(True, False), (False, True)])
def test_a_call_with_a_gradient_gave_a_result(indent: int, gradient: bool, is_complete: bool, tmp_path: Path) -> None:
    """A record without output is a call that raised, unless the backward of the call is there."""
    run = Run()
    rank = run.rank(0)
    exp = rank.op("Torch.exp", [t(1.0)], [])
    del rank.data[exp]["output"]
    loss = rank.op("Torch.mean", [t(1.0)], [t(1.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    if gradient:
        rank.backward(exp, [t(1.0)], [t(1.0)])
    path = run.write(tmp_path) / "step0" / "rank0" / "dump.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")), indent=indent), "utf-8")
    report = firstnan.analyze(tmp_path, firstnan.Options(jobs=1))
    assert (report.verdict, report.complete) == (Verdict.CLEAN, is_complete)


@pytest.mark.parametrize(("least", "sure"), [(-INF, Confidence.LIKELY), (-200.0, Confidence.CERTAIN)])
def test_a_swallowed_value_may_be_a_zero(least: float, sure: Confidence, tmp_path: Path) -> None:
    """The run ends before backward, whose gradient would show the weight of -Inf."""
    run = Run()
    rank = run.rank(0)
    exp = rank.op("Torch.exp", [t(0.5, least)], [t(1.5, 0.0)])
    div = rank.op("Tensor.__truediv__", [t(1.5, 0.0), t(1.5, 0.0)], [t(NAN)])
    rank.op("Torch.matmul", [t(NAN), t(1.0, shape=(8, 8))], [t(NAN)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.mechanism.kind) == (div, MechanismKind.DIV_BY_ZERO)
    assert (cause.place_confidence, cause.mechanism.confidence) == (sure, sure)
    first = [other.op_name for other in cause.alternatives[:1] if other.reason.key == "reason.swallowed"]
    assert first == ([exp] if sure is Confidence.LIKELY else [])
