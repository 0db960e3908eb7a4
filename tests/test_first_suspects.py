"""The first bad value while ranks are read, and ``--first``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "analysis"))

from made_runs import NAN, Run, named, t

import firstnan
from firstnan.dump.options import ProgressEvent
from firstnan.dump.problems import ProblemKind
from firstnan.run import first_suspects

GUILTY = 33
TEAM = (0, 30, 31, 32, 33, 34, 35, 36)


def spread(run: Run) -> str:
    """40 ranks: one of them spoils its team of eight, which spoils all."""
    born = ""
    for number in range(40):
        rank = run.rank(number)
        rank.op("Torch.mul", [t(1.0)], [t(1.0)])
        if number == GUILTY:
            born = rank.op("Torch.div", [t(1.0)], [t(NAN)])
        if number in TEAM:
            rank.all_reduce(t(NAN if number == GUILTY else 1.0), t(NAN), group=TEAM)
        rank.all_reduce(t(NAN if number in TEAM else 1.0), t(NAN), group=tuple(range(40)))
        rank.op("Torch.relu", [t(NAN)], [t(NAN)])
    return born


def test_the_trail_leads_to_the_rank_on_which_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_suspects, "BATCH", 4)
    run = Run()
    born = spread(run)
    report = run.analyze(tmp_path, first=True)
    assert named(report) == [(GUILTY, born)]
    assert not report.complete
    assert report.exit_code == 1
    told = [problem for problem in report.input.problems if problem.kind is ProblemKind.STOPPED_EARLY]
    assert len(told) == 1
    assert told[0].detail == f"{len(report.input.ranks)} of 40 read"
    assert len(report.input.ranks) <= 12


def test_where_nothing_began_all_ranks_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_suspects, "BATCH", 2)
    run = Run()
    for number in range(5):
        run.rank(number).op("Torch.mul", [t(1.0)], [t(1.0)])
    report = run.analyze(tmp_path, first=True)
    assert (report.complete, report.exit_code, report.input.ranks) == (True, 0, (0, 1, 2, 3, 4))


def test_what_is_told_gets_better(tmp_path: Path) -> None:
    """A value that began on a rank is told before one that came by communication, wherever that stands."""
    run = Run()
    born = spread(run)
    events: list[ProgressEvent] = []
    firstnan.analyze(run.write(tmp_path), firstnan.Options(jobs=1), events.append)
    told = [event.first for event in events if event.first is not None]
    assert told
    assert told == sorted(told, reverse=True)
    assert (told[-1].rank, told[-1].op_name) == (GUILTY, born)
