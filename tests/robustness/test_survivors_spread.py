"""Changes of the analysis that no other test noticed (see tools/mutation_check.py): where values come from."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Rank, Run, batch, blank, named, t, the_cause
from msgspec.structs import replace

from firstnan.answer.model import Where
from firstnan.dump.problems import ProblemKind
from firstnan.dump.records import Direction, Record, RecordKind, RecordName
from firstnan.operators.communication import CallKey, CallKind, GroupKnowledge
from firstnan.rank.taint.events import Ending, Event, EventKind
from firstnan.report.assemble import report
from firstnan.report.calls import _first_of_a_root
from firstnan.step.arrivals import Arrival, RankOutcome, Spread
from firstnan.step.call_series import UNKNOWN_GROUP, Collective, series_of
from firstnan.step.undecided import is_only_undecided


def log(rank: Rank) -> str:
    return rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])


def test_what_an_unseen_input_brought_comes_from_the_member_that_was_bad_before(tmp_path: Path) -> None:
    """The member's own input has no statistics: what it made before tells."""
    run = Run()
    born = log(run.rank(1))
    run.rank(1).op("Torch.mul", [t(NAN)], [t(NAN)])
    for rank in (0, 1):
        run.rank(rank).all_reduce(blank() if rank else t(1.0), t(NAN), group=(0, 1))
        run.rank(rank).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    assert named(run.analyze(tmp_path)) == [(1, born)]


def test_a_pair_of_calls_is_named_by_its_apis(tmp_path: Path) -> None:
    run = Run()
    log(run.rank(0))
    run.rank(0).send(t(NAN), 1)
    run.rank(1).recv(t(NAN), 0)
    run.rank(1).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    (call,) = run.analyze(tmp_path).collectives
    assert call.op in ("send", "recv")


def test_an_illegal_minus_inf_is_known_again_after_a_cast_that_left_no_record(tmp_path: Path) -> None:
    """log(0), rounded to bfloat16 by something that is not dumped: no mask that came from outside."""
    rank = Run().rank(0)
    born = rank.op("Torch.log", [t(3.1415, 0.0)], [t(1.1447, -INF)])
    rank.op("Torch.mul", [t(1.1484375, -INF, dtype="bfloat16"), t(0.0, dtype="bfloat16")], [t(NAN, dtype="bfloat16")])
    rank.op("Torch.sum", [t(NAN, dtype="bfloat16")], [t(NAN, shape=(), dtype="bfloat16")])
    assert named(Run({(0, 0): rank}).analyze(tmp_path)) == [(0, born)]


def test_a_bad_parameter_is_told_at_its_first_use(tmp_path: Path) -> None:
    """An embedding whose bad row the batch does not use; the output layer has the same weight and reads all of it."""
    rank = Run().rank(0)
    weight = t(NAN, shape=(16, 8))
    first = rank.op("Functional.embedding", [batch(3, 0, dtype="int64"), weight], [t(1.0)])
    rank.op("Functional.linear", [t(1.0), weight], [t(NAN, shape=(4, 16))])
    rank.op("Torch.sum", [t(NAN, shape=(4, 16))], [t(NAN, shape=())])
    cause = the_cause(Run({(0, 0): rank}).analyze(tmp_path))
    assert (cause.op_name, cause.where) == (first, Where.PARAMETER)


def test_one_of_several_bad_parameters_makes_the_first_use(tmp_path: Path) -> None:
    """A bias was bad there as well."""
    rank = Run().rank(0)
    weight = t(NAN, shape=(16, 8))
    first = rank.op("Functional.linear", [t(1.0), weight, t(NAN, shape=(16,))], [t(1.0, shape=(4, 16))])
    rank.op("Functional.linear", [t(1.0), weight], [t(NAN, shape=(4, 16))])
    rank.op("Torch.sum", [t(NAN, shape=(4, 16))], [t(NAN, shape=())])
    assert the_cause(Run({(0, 0): rank}).analyze(tmp_path)).op_name == first


def test_the_first_call_that_a_short_rank_did_not_make_is_named(tmp_path: Path) -> None:
    run = Run()
    for rank in (0, 1):
        run.rank(rank).all_reduce(t(1.0), t(1.0), group=(0, 1))
    log(run.rank(0))
    calls = [run.rank(0).all_reduce(t(NAN), t(NAN), group=(0, 1)) for _ in range(3)]
    run.rank(1).op("Torch.relu", [t(1.0)], [t(1.0)])
    (told,) = [p for p in run.analyze(tmp_path).input.problems if p.kind is ProblemKind.SHORT_RANK]
    assert told.rank == 1
    assert told.detail == f"no call that matches {calls[0]} of rank 0; its last record is Torch.relu.0.forward"


def test_the_clean_side_of_a_message_that_came_bad_is_named(tmp_path: Path) -> None:
    """Nothing is suspected on the sender: its call is looked up for the answer."""
    run = Run()
    sent = run.rank(0).send(t(1.0), 1)
    got = run.rank(1).recv(t(NAN), 0)
    run.rank(1).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    found = run.analyze(tmp_path)
    assert (the_cause(found).op_name, the_cause(found).where) == (got, Where.COMMUNICATION)
    (call,) = found.collectives
    assert set(call.ops.values()) == {sent, got}


def test_an_input_shows_the_result_also_where_nothing_reads_it(tmp_path: Path) -> None:
    """zero_dim_input_shows_the_result: rank 0 drops the sum, so that nothing bad happens on it."""
    run = Run()
    run.rank(1).op("Torch.log", [t(1.0, -1.0)], [t(NAN, shape=())])
    run.rank(1).all_reduce(t(NAN, shape=()), t(NAN, shape=()), group=(0, 1))
    run.rank(1).op("Torch.sum", [t(NAN, shape=())], [t(NAN, shape=())])
    with run.rank(0).module("net", "Net", [t(1.0)], [t(1.0)]):
        run.rank(0).all_reduce(t(NAN, shape=()), t(NAN, shape=()), group=(0, 1))
    (call,) = run.analyze(tmp_path).collectives
    assert (call.source_ranks, call.propagated_ranks) == ((1,), (0,))


def test_one_input_of_the_size_is_enough_for_a_stale_receive(tmp_path: Path) -> None:
    """The reader got another bad value along with what came."""
    run = Run()
    born = log(run.rank(0))
    run.rank(0).send(t(NAN), 1)
    run.rank(1).comm("irecv", [t(1.0)], {"src": 0}, {})
    run.rank(1).op("Torch.add", [t(NAN), t(NAN, shape=(3,))], [t(NAN)])
    run.rank(1).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    assert named(run.analyze(tmp_path)) == [(0, born)]


def test_a_clean_run_has_the_map_of_its_last_step(tmp_path: Path) -> None:
    answers = []
    for step in (0, 1):
        run = Run()
        for rank in (0, 1):
            for _ in range(step + 1):
                run.rank(rank, step).all_reduce(t(1.0), t(1.0), group=(0, 1))
        answers.append(run.judge(tmp_path / str(step)))
    shown = report("dump", answers, [], [0, 1], []).call_map
    assert shown is not None
    assert (shown.step, len(shown.columns)) == (1, 2)
    assert report("dump", [], [], [], []).call_map is None


def test_a_lone_member_of_a_group_without_ranks_received_from_whoever_made_a_value(tmp_path: Path) -> None:
    """The other members are there under names of their own: the reduction is not to blame."""
    run = Run()
    born = log(run.rank(1))
    for rank, name in ((1, "hccl_a"), (0, "hccl_b")):
        run.rank(rank).comm("all_reduce", [t(NAN) if rank else t(1.0)], {"group": name}, {0: t(NAN)})
        run.rank(rank).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    assert named(run.analyze(tmp_path)) == [(1, born)]


def test_a_reduction_of_clean_inputs_is_not_explained_by_a_rank_outside(tmp_path: Path) -> None:
    run = Run()
    born = log(run.rank(2))
    run.rank(2).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    for rank in (0, 1):
        call = run.rank(rank).all_reduce(t(1.0), t(NAN), group=(0, 1))
        run.rank(rank).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    causes = run.analyze(tmp_path).root_causes
    assert {(cause.op_name, cause.where) for cause in causes} == {
        (born, Where.OPERATOR),
        (call, Where.COMMUNICATION),
    }


@pytest.mark.parametrize(("groups", "order"), [(((0, 1), (2, 3)), (1, 0)), (((0, 2), (2, 3)), (0, 1))])
def test_the_call_into_which_a_cause_went_comes_first(
    tmp_path: Path, groups: tuple[tuple[int, ...], ...], order: tuple[int, ...]
) -> None:
    """Of calls that nothing orders; those that came before it stay before it."""
    run = Run()
    for rank in groups[0]:
        run.rank(rank).all_reduce(t(1.0), t(1.0), group=groups[0])
    log(run.rank(2))
    for rank in groups[1]:
        run.rank(rank).all_reduce(t(NAN) if rank == 2 else t(1.0), t(NAN), group=groups[1])
        run.rank(rank).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    answer = run.judge(tmp_path)
    calls = answer.matching.calls
    positions = sorted(range(len(calls)), key=lambda at: groups.index(calls[at].group or ()))
    assert _first_of_a_root(answer, positions) == [positions[at] for at in order]


@pytest.mark.parametrize("before", [0, 1])
def test_an_absent_rank_may_have_passed_on_what_it_got_in_the_same_call(tmp_path: Path, before: int) -> None:
    """Rank 1 is not there; it gave NaN to rank 0 in its first call. Rank 2 gave it NaN: in that call, or in a later
    one, as the order of calls on rank 2 tells; then rank 1 had NaN of its own before."""
    run = Run()
    for _ in range(before):
        run.rank(2).all_reduce(t(1.0), t(1.0), group=(1, 2))
    born = log(run.rank(2))
    run.rank(2).all_reduce(t(NAN), t(NAN), group=(1, 2))
    run.rank(0).all_reduce(t(1.0), t(NAN), group=(0, 1))
    for rank in (0, 2):
        run.rank(rank).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    assert sorted(named(run.analyze(tmp_path))) == ([(1, ""), (2, born)] if before else [(2, born)])


def test_a_group_whose_name_is_empty_is_not_recorded() -> None:
    key = CallKey(CallKind.COLLECTIVE, "all_reduce", None, GroupKnowledge.NAMED, "", None, 0)
    assert series_of(key, 0, (0, 1), "") == Collective(UNKNOWN_GROUP, "all_reduce")


NAME = RecordName("Torch.log.0.forward", RecordKind.API, "Torch", "log", "", 0, Direction.FORWARD)
EVENT = Event(EventKind.BIRTH, Record(NAME, 0, (), ()), (), ())
CUT = replace(EVENT, endings=frozenset({Ending.CUT}))
LOSS = replace(EVENT, endings=frozenset({Ending.CUT, Ending.LOSS}))


@pytest.mark.parametrize(
    ("outcomes", "only"),
    [
        ([RankOutcome(0, CUT, Arrival.OWN)], True),
        ([RankOutcome(0, CUT, Arrival.OWN), RankOutcome(1, CUT, Arrival.OWN)], True),
        ([RankOutcome(0, CUT, Arrival.OWN), RankOutcome(1, LOSS, Arrival.OWN)], False),
        ([RankOutcome(0, CUT, Arrival.OWN), RankOutcome(1, CUT, Arrival.MISSING)], False),
        ([RankOutcome(0, LOSS, Arrival.OWN)], False),
        ([RankOutcome(0, CUT, Arrival.RECEIVED)], False),
        ([], False),
    ],
)
def test_one_settled_cause_settles_the_step(outcomes: list[RankOutcome], only: bool) -> None:
    assert is_only_undecided(Spread(tuple(outcomes), frozenset())) is only
