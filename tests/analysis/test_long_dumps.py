"""Dumps that are too long to be looked at whole: windows around suspects (``focus``) and second looks (``again``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from made_runs import INF, NAN, Rank, Run, named, p2p_op, t, the_cause
from random_programs import Program, play, programs

from firstnan.answer.model import Confidence, MechanismKind, Verdict, Where
from firstnan.dump.folders import RankFolder
from firstnan.dump.problems import ProblemKind
from firstnan.dump.records import Record
from firstnan.operators import table
from firstnan.rank.in_memory import WholeDump
from firstnan.rank.survey import look
from firstnan.rank.suspects import Lookout
from firstnan.rank.taint.events import Event
from firstnan.rank.window import AHEAD, BACK, NARROW, SMALL, Focus, Window
from firstnan.read.callers import call_site
from firstnan.run import rank_passes

LONG = 2 * SMALL
"""Records that lie between two places, so that they cannot be seen together."""


def log(rank: Rank) -> str:
    return rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])


def dropped(rank: Rank) -> str:
    """A NaN that is dropped at once."""
    name = rank.op("Torch.sqrt", [t(1.0, -1.0)], [t(NAN)])
    rank.op("Torch.nan_to_num", [t(NAN)], [t(1.0)])
    return name


def end(rank: Rank) -> str:
    return rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])


def focus(rank: Rank, path: Path) -> Focus:
    dump = Run({(0, 0): rank}).dumps(path)[0]
    return Focus(WholeDump(dump, Lookout(table.load(), 0)))


def test_small_dumps_are_looked_at_whole(tmp_path: Path) -> None:
    rank = Run().rank(0)
    log(rank)
    rank.skip(SMALL - 1)
    assert focus(rank, tmp_path / "small").windows == [Window(0, SMALL)]
    rank.skip(1)
    (window,) = focus(rank, tmp_path / "long").windows
    assert (window.start, window.stop < SMALL) == (0, True)


def test_harmless_suspects_lead_to_the_next(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    first = dropped(rank)
    rank.skip(LONG)
    dropped(rank)
    rank.skip(LONG)
    born = log(rank)
    end(rank)
    report = run.analyze(tmp_path)
    assert named(report) == [(0, born)]
    assert report.contained[0].op_name == first


def test_harmless_suspects_alone_are_clean(tmp_path: Path) -> None:
    run = Run()
    for _ in range(3):
        dropped(run.rank(0))
        run.rank(0).skip(LONG)
    report = run.analyze(tmp_path)
    assert (report.verdict, report.exit_code) == (Verdict.CLEAN, 0)
    assert len(report.contained) == 3


def test_every_series_of_calls_shows_its_first_bad_one(tmp_path: Path) -> None:
    """The NaN reaches rank 1 long after its birth, through the second of three calls."""
    run = Run()
    first, second = run.rank(0), run.rank(1)
    first.all_reduce(t(1.0), t(2.0))
    born = log(first)
    first.op("Torch.mul", [t(NAN), t(2.0)], [t(NAN)])
    first.skip(LONG)
    second.all_reduce(t(1.0), t(2.0))
    second.skip(LONG)
    for _ in range(2):
        first.all_reduce(t(NAN), t(NAN))
        second.all_reduce(t(1.0), t(NAN))
        end(first)
        end(second)
        first.skip(LONG)
        second.skip(LONG)
    report = run.analyze(tmp_path)
    assert named(report) == [(0, born)]
    affected = report.collectives[0]
    assert dict(affected.ops) == {0: "Distributed.all_reduce.1.forward", 1: "Distributed.all_reduce.1.forward"}
    assert (affected.source_ranks, affected.propagated_ranks) == ((0,), (1,))


def test_calls_are_counted_where_something_is_suspected(tmp_path: Path) -> None:
    """Rank 1's record of the call is old and looks clean: its number among rank 1's calls is known all the same."""
    run = Run()
    for rank in (0, 1):
        mine = run.rank(rank)
        mine.skip(LONG)
        for _ in range(3):
            mine.all_reduce(t(1.0), t(2.0), (0, 1))
            mine.skip(LONG)
    born = log(run.rank(0))
    run.rank(0).all_reduce(t(NAN), t(NAN), (0, 1), async_op=True)
    end(run.rank(0))
    run.rank(1).all_reduce(t(1.0), t(1.0), (0, 1), async_op=True)
    run.rank(1).skip(LONG)
    report = run.analyze(tmp_path)
    assert named(report) == [(0, born)]
    assert (report.complete, report.collectives[0].call, report.collectives[0].group) == (True, 3, (0, 1))


def test_calls_are_counted_where_something_is_suspected_or_a_rank_ends_early(tmp_path: Path) -> None:
    run = Run()
    for rank in (0, 1):
        mine = run.rank(rank)
        for _ in range(2 + rank):
            mine.skip(LONG)
            mine.all_reduce(t(1.0), t(2.0), (0, 1))
        mine.op("Torch.sin" if rank else "Torch.cos", [t(1.0)], [t(1.0)])
    report = run.analyze(tmp_path)
    assert (report.verdict, report.exit_code) == (Verdict.CLEAN, 4)
    assert [p.rank for p in report.input.problems] == [0]


def test_members_of_a_call_that_is_a_cause(tmp_path: Path) -> None:
    """Nothing is suspected on rank 0; what it put in is needed to prove that the result is impossible."""
    run = Run()
    for rank in (0, 1):
        mine = run.rank(rank)
        mine.skip(LONG)
        call = mine.all_reduce(t(1.0 + rank), t(NAN) if rank else t(3.0), (0, 1))
        mine.skip(LONG)
    end(run.rank(1))
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.rank, cause.op_name, cause.where) == (1, call, Where.COMMUNICATION)
    assert (cause.mechanism.kind, cause.mechanism.confidence) == (MechanismKind.COMM_CORRUPTION, Confidence.CERTAIN)
    assert cause.mechanism.explanation.params["bound"] == 3.0


def test_members_of_a_call_that_is_a_cause_and_of_an_impossible_one(tmp_path: Path) -> None:
    """The large value on rank 1 came out of a sum of small ones."""
    run = Run()
    for rank, value in enumerate([5.0, 1e37]):
        mine = run.rank(rank)
        mine.skip(LONG)
        call = mine.all_reduce(t(2.0 + rank), t(value), (0, 1), op="SUM")
        mine.op("Torch.square", [t(value)], [t(INF) if rank else t(25.0, 0.0)])
        mine.skip(LONG)
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.rank, cause.op_name) == (1, call)
    assert cause.mechanism.kind is MechanismKind.COMM_CORRUPTION


def test_dropped_means_look_at_the_rest(tmp_path: Path) -> None:
    """Garbage goes through all_to_all and is dropped everywhere; the fault comes long after."""
    run = Run()
    for rank in (0, 1):
        mine = run.rank(rank)
        with mine.module("moe", "Moe", [t(1.0)], [t(1.0)]):
            mine.comm("all_to_all_single", [None, t(NAN, shape=(8, 8))], {}, {0: t(NAN, shape=(8, 8))})
            mine.op("Torch.index_select", [t(NAN, shape=(8, 8)), 0, t(3, 0, dtype="int64")], [t(1.0)])
        mine.skip(LONG)
    born = log(run.rank(1))
    end(run.rank(1))
    assert named(run.analyze(tmp_path)) == [(1, born)]


@pytest.mark.parametrize("pause", [0, LONG], ids=["at once", "long after"])
@pytest.mark.parametrize("call", ["batch", "async"])
def test_an_old_record_explains_its_reader(call: str, pause: int, tmp_path: Path) -> None:
    """The record of the receive shows the buffer from before, and its reader comes at once or long after."""
    run = Run()
    first, second = run.rank(0), run.rank(1)
    born = log(first)
    if call == "batch":
        first.batch_isend_irecv(p2p_op("isend", t(NAN), 1))
        second.batch_isend_irecv(p2p_op("irecv", t(0.0), 0))
    else:
        first.all_reduce(t(NAN), t(NAN), async_op=True)
        second.all_reduce(t(1.0), t(1.0), async_op=True)
    second.skip(pause)
    end(first)
    second.op("Torch.mul", [t(NAN), t(2.0)], [t(NAN)])
    assert named(run.analyze(tmp_path)) == [(0, born)]


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(program=programs(long=True))
def test_the_source_is_named_in_long_dumps_too(tmp_path_factory: pytest.TempPathFactory, program: Program) -> None:
    played = play(program)
    assert named(played.run.analyze(tmp_path_factory.mktemp("long"))) == [played.cause]


@pytest.mark.parametrize("before", range(3))
def test_what_is_read_behind_the_edge_of_a_window_is_no_output(tmp_path: Path, before: int) -> None:
    """Whatever stands at the last place that was looked at: the record behind it drops the value."""
    run = Run()
    rank = run.rank(0)
    rank.skip(before)
    for _ in range(SMALL):
        dropped(rank)
        rank.skip(1)
    born = log(rank)
    end(rank)
    assert named(run.analyze(tmp_path)) == [(0, born)]


def test_a_value_that_spread_over_many_records_is_an_output_at_the_edge(tmp_path: Path) -> None:
    """What everything behind it takes in is not followed to the end of the file."""
    run = Run()
    rank = run.rank(0)
    log(rank)
    for _ in range(8 * SMALL):
        rank.op("Torch.mul", [t(NAN)], [t(NAN)])
    folder = RankFolder(0, 0, run.write(tmp_path) / "step0" / "rank0", "rank0")
    assert (rank_passes.survey(folder, table.load(), (), shown=()).horizon or 0) <= 2 * SMALL


class Counting(WholeDump):
    """Tells which records were asked for."""

    def __init__(self, rank: Rank, path: Path) -> None:
        dump = Run({(0, 0): rank}).dumps(path)[0]
        self.parents, _ = call_site.parents(dump.folder)
        self.watch = Lookout(table.load(), 0)
        self.asked: list[int] = []
        super().__init__(dump, self.watch)

    def records(self, start: int, stop: int) -> Sequence[Record]:
        found = super().records(start, stop)
        self.asked += [record.index for record in found]
        return found

    def look(self) -> tuple[Event, ...]:
        self.asked.clear()
        return look(self, self.watch, lambda _: self.parents, nearby=False).events


def test_a_window_ends_where_nothing_is_in_flight(tmp_path: Path) -> None:
    """Where every NaN is dropped at once little is looked at behind it."""
    rank = Run().rank(0)
    for _ in range(200):
        dropped(rank)
        rank.skip(60)
    view = Counting(rank, tmp_path)
    assert [event.closer for event in view.look()] == [f"Torch.nan_to_num.{at}.forward" for at in range(200)]
    assert len(view.asked) < BACK + 2 * AHEAD + 9 * sum(NARROW) + 190 * (2 * NARROW[0] + 2) + 300


def test_what_is_in_flight_is_followed_further(tmp_path: Path) -> None:
    """The module in which one NaN stays shows it at its end, farther away than all others are dropped."""
    rank = Run().rank(0)
    for at in range(200):
        if at == 150:
            with rank.module("m", "M", [t(1.0)], [t(1.0)]):
                log(rank)
                rank.skip(NARROW[1] - 5)
            rank.skip(60)
        dropped(rank)
        rank.skip(60)
    found = Counting(rank, tmp_path).look()
    assert (len(found), [event.record.name.full for event in found if event.is_open]) == (201, [])


@pytest.mark.parametrize("records", [SMALL // 2, LONG, 5000])
@pytest.mark.parametrize("is_checked", [True, False])
def test_the_end_is_looked_at_for_a_check(records: int, is_checked: bool, tmp_path: Path) -> None:
    """However far behind the value the check stands that ended the run; without one nothing shows where it went."""
    run = Run()
    rank = run.rank(0)
    with rank.module("m", "Keeps", [t(1.0)], []):
        born = log(rank)
    rank.skip(records)
    rank.op("Torch.isnan", [t(NAN if is_checked else 1.0)], [t(True, False, dtype="bool", grad=False)])
    report = run.analyze(tmp_path)
    if not is_checked:
        assert (report.verdict, report.exit_code) == (Verdict.CLEAN, 4)
        return
    assert named(report) == [(0, born)]
    assert ProblemKind.ENDED_AT_CHECK in [problem.kind for problem in report.input.problems]
    assert the_cause(report).place_confidence is Confidence.POSSIBLE


@pytest.mark.parametrize("gap", [300, 700])
def test_windows_without_an_illegal_value_reach_no_further(gap: int, tmp_path: Path) -> None:
    """All that was suspected is a mask in the end: every element of a block, which softmax makes finite."""
    run = Run()
    rank = run.rank(0)
    for _ in range(4):
        rank.op("Tensor.masked_fill", [t(1.0), t(True, False, dtype="bool"), -INF], [t(-INF, -INF)])
        rank.op("Functional.softmax", [t(-INF, -INF)], [t(0.5)])
        rank.skip(gap)
    loss = rank.op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    assert run.analyze(tmp_path).exit_code == 0
