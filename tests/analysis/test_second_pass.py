"""Second looks: what ranks are asked once more."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Rank, Run, group, named, t, the_cause

from firstnan.answer.model import MechanismKind, Verdict
from firstnan.dump.problems import ProblemKind
from firstnan.rank.surroundings import neighbours
from firstnan.run import dispatch

LONG = 600
"""More records than are looked at whole."""


def short(run: Run, root: Path) -> list[tuple[int | None, str]]:
    report = run.analyze(root)
    assert report.verdict is Verdict.CLEAN
    return [(p.rank, p.detail) for p in report.input.problems if p.kind is ProblemKind.SHORT_RANK]


def test_calls_are_counted_where_something_is_suspected(tmp_path: Path) -> None:
    """A rank that was stopped early ends with another operator than its peers."""
    run = Run()
    for number, calls in ((0, 9), (1, 9), (2, 5)):
        rank = run.rank(number)
        for _ in range(calls):
            rank.skip(LONG // 5)
            rank.all_reduce(t(1.0), t(1.0), group=(0, 1, 2))
        if number < 2:
            rank.op("Torch.sqrt", [t(1.0)], [t(1.0)])
    found = short(run, tmp_path)
    assert [rank for rank, _ in found] == [2]
    assert found[0][1].startswith("5 of 9 calls of all_reduce")


def test_a_clean_member_is_normal_though_its_record_is_not_kept(tmp_path: Path) -> None:
    run = Run()
    ranks = [run.rank(number) for number in range(3)]
    for rank in ranks:
        rank.skip(LONG)
        rank.comm("gather", [t(1.0), None], {"dst": 0, "group": group(0, 1, 2)}, {})
    born = ranks[1].op("Torch.div", [t(1.0)], [t(NAN)])
    kwargs = {"dst": 0, "group": group(0, 1, 2)}
    gathered = [t(1.0), t(NAN), t(1.0)]
    ranks[0].comm("gather", [t(1.0), None], kwargs, {1: gathered})
    ranks[0].op("Torch.stack", gathered, [t(NAN)])
    ranks[1].comm("gather", [t(NAN), None], kwargs, {})
    ranks[2].comm("gather", [t(1.0), None], kwargs, {})
    report = run.analyze(tmp_path)
    assert named(report) == [(1, born)]
    call = report.collectives[0]
    assert (call.call, call.source_ranks, call.propagated_ranks, call.normal_ranks) == (1, (1,), (0,), (2,))


def overflowing(rank: Rank, received: object) -> None:
    """A reduce-scatter of float16 gradients among many records that say nothing."""
    rank.skip(LONG)
    half = t(40000.0, dtype="float16")
    rank.reduce_scatter([half, half], received, group=(0, 1))


def test_members_of_a_call_that_is_a_cause(tmp_path: Path) -> None:
    """Rank 1 holds nothing bad at all, and its part of the sum proves the overflow."""
    run = Run()
    overflowing(run.rank(0), t(INF, dtype="float16"))
    run.rank(0).op("Torch.sum", [t(INF, dtype="float16")], [t(INF, shape=(), dtype="float16")])
    overflowing(run.rank(1), t(100.0, dtype="float16"))
    run.rank(1).skip(LONG)
    cause = the_cause(run.analyze(tmp_path))
    assert cause.op_name == "Distributed.reduce_scatter.0.forward"
    assert cause.mechanism.kind is MechanismKind.REDUCTION_OVERFLOW


def test_dropped_means_look_at_the_rest(tmp_path: Path) -> None:
    """Unwritten slots of an exchanged buffer are dropped by everybody; what matters comes long after."""
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        rank.skip(LONG)
        rank.op("Torch.div", [t(1.0)], [t(NAN)])
        rank.comm("all_to_all_single", [None, t(NAN)], {"group": group(0, 1)}, {0: t(NAN)})
        rank.op("Torch.where", [t(NAN), t(1.0)], [t(1.0)])
        rank.skip(LONG)
    born = run.rank(1).op("Torch.exp", [t(1000.0)], [t(INF)])
    run.rank(1).op("Torch.sum", [t(INF)], [t(INF, shape=())])
    assert named(run.analyze(tmp_path)) == [(1, born)]


def test_only_the_answer_shows_what_stands_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run()
    ranks = [run.rank(number) for number in range(5)]
    born = ranks[3].op("Torch.div", [t(1.0)], [t(NAN)])
    for rank in ranks:
        rank.all_reduce(t(NAN if rank is ranks[3] else 1.0), t(NAN), group=tuple(range(5)))
        rank.op("Torch.mul", [t(NAN)], [t(NAN)])
    read = []
    whole = neighbours.near_records
    monkeypatch.setattr(neighbours, "near_records", lambda records, of: read.append(len(records)) or whole(records, of))
    monkeypatch.setattr(neighbours, "MAX_RANKS", 2)
    monkeypatch.setattr(dispatch, "FEW", 2)
    report = run.analyze(tmp_path)
    assert named(report) == [(3, born)]
    assert [one.rank for one in report.surroundings] == [3, 0]
    assert all(one.records for one in report.surroundings)
    assert len([size for size in read if size]) == 3  # ranks 0 and 1 at once, and the rank of the cause
