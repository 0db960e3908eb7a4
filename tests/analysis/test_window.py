"""How much of a rank is looked at, and that the answer does not depend on it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import INF, NAN, Rank, Run, named, t
from random_pipeline import Pipeline, pipe, pipelines
from random_programs import Program, play, programs
from random_training import Training, train, trainings
from test_random_programs import MODEST
from views import scanned, whole

from firstnan.dump.folders import RankFolder
from firstnan.rank import window as focus
from firstnan.rank.summary import RankSummary
from firstnan.rank.survey import look
from firstnan.read.callers.construct import Callers


def looked(rank: Rank, root: Path) -> RankSummary:
    """The summary of one rank; both readers give the same windows and events."""
    rank.write(root)
    folder = RankFolder(rank.step, rank.number, root, root.name)
    one, other = (look(*opened(folder), Callers(folder)) for opened in (whole, scanned))
    assert one.windows == other.windows
    assert (one.suspect, one.horizon, one.made) == (other.suspect, other.horizon, other.made)
    assert [event.record.name for event in one.events] == [event.record.name for event in other.events]
    return one


def test_small_dumps_are_looked_at_whole(tmp_path: Path) -> None:
    rank = Run().rank(0)
    rank.skip(focus.SMALL - 20)
    rank.op("Torch.div", [t(1.0)], [t(NAN)])
    rank.skip(10)
    summary = looked(rank, tmp_path)
    assert summary.horizon is None
    assert [window.start for window in summary.windows] == [0]


def test_a_long_dump_is_looked_at_around_its_suspect(tmp_path: Path) -> None:
    rank = Run().rank(0)
    rank.skip(1000)
    born = rank.op("Torch.div", [t(1.0)], [t(NAN)])
    for _ in range(2000):
        rank.op("Torch.add", [t(NAN)], [t(NAN)])
    rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    rank.all_reduce(t(NAN), t(NAN))
    summary = looked(rank, tmp_path)
    assert summary.events[0].record.name.full == born
    assert summary.windows[0].start == 1000 - focus.BACK


def test_harmless_suspects_lead_to_the_next(tmp_path: Path) -> None:
    rank = Run().rank(0)
    for _ in range(20):
        rank.skip(300)
        rank.op("Torch.div", [t(1.0)], [t(NAN)])
        rank.op("Torch.where", [t(NAN), t(1.0)], [t(1.0)])
    rank.skip(300)
    loss = rank.op("Torch.exp", [t(100.0)], [t(INF)])
    rank.op("Torch.sum", [t(INF)], [t(INF, shape=())])
    run = Run({(0, 0): rank})
    assert named(run.analyze(tmp_path / "run")) == [(0, loss)]
    assert looked(rank, tmp_path / "rank").events[-1].record.name.full == loss


def test_every_series_of_calls_shows_its_first_bad_one(tmp_path: Path) -> None:
    """Pure data parallelism: the value reaches the others thousands of records after it came into being."""
    run = Run()
    first, second = run.rank(0), run.rank(1)
    for rank, value in ((first, t(NAN)), (second, t(1.0))):
        rank.skip(700)
        rank.all_reduce(t(1.0), t(1.0))
        rank.op("Torch.div", [t(1.0)], [value])
        for _ in range(1500):
            rank.op("Torch.mul", [value], [value])
        rank.op("Torch.sum", [value], [value])
        rank.all_reduce(value, t(NAN))
        rank.op("Torch.add", [t(NAN)], [t(NAN)])
    report = run.analyze(tmp_path)
    assert named(report) == [(0, "Torch.div.0.forward")]
    assert [(call.call, call.source_ranks, call.propagated_ranks) for call in report.collectives] == [(1, (0,), (1,))]


def test_calls_are_counted_before_the_window(tmp_path: Path) -> None:
    """The second rank makes other calls in between, so that numbers in names do not tell."""
    run = Run()
    first, second = run.rank(0), run.rank(1)
    for rank in (first, second):
        for _ in range(30):
            rank.skip(40)
            rank.all_reduce(t(1.0), t(1.0), group=(0, 1))
            if rank is second:
                rank.all_reduce(t(1.0), t(1.0), group=(1, 2))
    born = first.op("Torch.div", [t(1.0)], [t(NAN)])
    first.all_reduce(t(NAN), t(NAN), group=(0, 1))
    second.all_reduce(t(1.0), t(NAN), group=(0, 1))
    report = run.analyze(tmp_path)
    assert named(report) == [(0, born)]
    assert (report.collectives[0].call, report.collectives[0].source_ranks) == (30, (0,))
    assert report.collectives[0].ops == {0: "Distributed.all_reduce.30.forward", 1: "Distributed.all_reduce.60.forward"}


def narrow(patch: pytest.MonkeyPatch, width: int) -> None:
    """Windows so small that they matter in small dumps."""
    for name, value in (("SMALL", 0), ("BACK", width), ("AHEAD", width)):
        patch.setattr(focus, name, value)


def analyzed_narrowly(run: Run, width: int) -> list[tuple[int, str]]:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        narrow(patch, width)
        return named(run.analyze(Path(folder)))


@MODEST
@given(programs(long=True), st.integers(8, 40))
def test_the_answer_does_not_depend_on_the_windows(program: Program, width: int) -> None:
    played = play(program)
    assert analyzed_narrowly(played.run, width) == [played.cause]


@MODEST
@given(pipelines(), st.integers(16, 40))
def test_the_answer_does_not_depend_on_the_windows_in_pipelines(pipeline: Pipeline, width: int) -> None:
    played = pipe(pipeline)
    assert analyzed_narrowly(played.run, width) == analyzed_narrowly(played.run, 10_000)


@MODEST
@given(trainings(), st.integers(16, 40))
def test_the_answer_does_not_depend_on_the_windows_in_training(training: Training, width: int) -> None:
    played = train(training)
    assert analyzed_narrowly(played.run, width) == analyzed_narrowly(played.run, 10_000)
