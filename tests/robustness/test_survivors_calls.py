"""Changes of the analysis that no other test noticed (see tools/mutation_check.py): calls, and what the user sees."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import NAN, Json, Rank, Run, blank, events, record, t, the_cause

from firstnan.answer.model import MechanismKind, RankState, SymptomKind, Where
from firstnan.rank.taint.events import EventKind
from firstnan.rank.taint.legality import is_mask_sum
from firstnan.report.calls import state_of


def rank0() -> Rank:
    return Run().rank(0)


def test_all_members_with_an_impossible_result_are_named(tmp_path: Path) -> None:
    run = Run()
    for rank in (0, 1, 2):
        got = t(1e30 if rank else 6.0)
        made = t(NAN) if rank else t(1.0)
        run.rank(rank).all_reduce(t(2.0), got, group=(0, 1, 2))
        run.rank(rank).op("Torch.mul", [got, got], [made])
        run.rank(rank).op("Torch.sum", [made], [t(NAN if rank else 1.0, shape=())])
    cause = the_cause(run.analyze(tmp_path))
    assert cause.mechanism.kind is MechanismKind.COMM_CORRUPTION
    assert (cause.rank, cause.ranks_also) == (1, (2,))


def test_a_call_that_is_a_cause_has_the_module_of_its_call_chain(tmp_path: Path) -> None:
    run = Run()
    for rank in (0, 1):
        with run.rank(rank).module("net", "Net", [t(1.0)], [t(NAN)]):
            run.rank(rank).all_reduce(t(1.0), t(NAN), group=(0, 1))
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.where, cause.module) == (Where.COMMUNICATION, "net")


def test_the_module_of_a_cause_is_told_from_a_construct_that_was_not_used(tmp_path: Path) -> None:
    """It does not list another module; what it says of this record is right all the same."""
    rank = rank0()
    with rank.module("net", "Net", [t(1.0)], [t(NAN)]) as module:
        born = rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    with rank.module("head", "Head", [t(NAN)], [t(NAN)]) as other:
        pass
    del rank.construct[other]
    cause = the_cause(Run({(0, 0): rank}).analyze(tmp_path))
    assert (cause.op_name, cause.module, cause.construct_chain) == (born, "net", (born, module))


@pytest.mark.parametrize(
    ("received", "is_bad", "state"),
    [
        (t(1.0), False, RankState.NORMAL),
        (t(1.0), True, RankState.PROPAGATED),
        (t(NAN), False, RankState.PROPAGATED),
        (blank(), False, RankState.UNDECIDED),
    ],
)
def test_the_state_of_a_receiver_is_that_of_what_was_sent(
    tmp_path: Path, received: Json, is_bad: bool, state: RankState
) -> None:
    run = Run()
    run.rank(0).send(t(1.0), 1)
    run.rank(1).recv(received, 0)
    (call,) = run.judge(tmp_path).matching.calls
    assert state_of(call.members[1], call, 1, is_bad) is state
    assert state_of(call.members[0], call, 0, is_bad) is RankState.NORMAL


@pytest.mark.parametrize(
    ("high", "low", "is_mask"),
    [(0.0, -40_000.0, True), (0.0, -30_000.0, False), (5.0, -40_000.0, False), (5.0, -65_000.0, True)],
)
def test_a_mask_of_large_finite_values(tmp_path: Path, high: float, low: float, is_mask: bool) -> None:
    """Without a positive element half of the range is enough; an activation has to stand at the limit."""
    rank = rank0()
    made = record(rank, rank.op("Torch.add", [t(high, low, dtype="float16"), t(1.0)], [t(1.0)]), tmp_path)
    assert is_mask_sum(made, made.inputs) is is_mask


def test_one_bad_result_of_the_loss_function_is_a_bad_loss(tmp_path: Path) -> None:
    """It gave a second scalar as well."""
    rank = rank0()
    loss = rank.op("Functional.loss", [t(1.0)], [t(NAN, shape=()), t(1.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(NAN)])
    symptoms = Run({(0, 0): rank}).analyze(tmp_path).symptoms
    assert [symptom.op_name for symptom in symptoms if symptom.kind is SymptomKind.LOSS] == [loss]


def test_a_record_with_statistics_does_not_follow_a_flagged_one(tmp_path: Path) -> None:
    """One of its inputs is known to be finite: then it is not a record of a dump with flags alone."""
    rank = rank0()
    rank.data[rank.op("Torch.log", [blank()], [blank()])]["is_nan"] = 1
    rank.op("Torch.mul", [t(1.0), blank()], [t(NAN)])
    assert [event.kind for event in events(rank, tmp_path)] == [EventKind.BIRTH, EventKind.BIRTH]
