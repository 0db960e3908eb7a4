"""No limit of the analysis changes an answer silently: with hardly any room left it is the same, or names a limit."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import made_sizes
import pytest
from known_cases import own_cases
from made_runs import INF, NAN, Run, t

import firstnan
from firstnan.answer.model import Report
from firstnan.dump.problems import ProblemKind

TIGHT = {
    "rank.taint.endings.MAX_EVENTS": 1,
    "rank.taint.endings.MAX_HARMLESS": 1,
    "rank.taint.endings.MAX_NEXT_CALLS": 1,
    "rank.taint.endings.PENDING_CALLS": 1,
    "rank.taint.def_use.LINKS": 1,
    "rank.taint.def_use.SEARCH": 2,
    "rank.taint.shelf.SEARCH": 2,
    "rank.taint.legality.MAX_ILLEGAL": 0,
    "rank.taint.islands.MAX_BEHIND": 2,
    "rank.taint.fates.MAX_TALLIES": 2,
    "rank.suspects.MAX_GARBAGE": 1,
    "rank.suspects.MAX_MASKS": 1,
    "rank.summarize.MAX_READ": 1,
    "rank.surroundings.blind_spots.MAX_STEPS": 1,
    "run.second_pass.ROUNDS": 1,
    "run.second_pass.MOST_RECEIVES": 0,
}
ALSO = ("MAX_NEXT_CALLS", "PENDING_CALLS")
"""Those that :mod:`firstnan.rank.taint.limits` knows too."""


MADE = {"births": 40, "entries": 40, "sends": 20, "readers": 40, "masks": 40, "backward": 40, "calls": 20, "groups": 10}
"""Dumps in which something is there very often, and how often."""


def swallowed() -> Run:
    """Infinities that a reciprocal maps to zero, and a fault behind them that reads one of two values."""
    run = Run()
    rank = run.rank(0)
    for number in range(1, 6):
        rank.op("Torch.exp", [t(100.0)], [t(INF, float(number))])
        rank.op("Torch.reciprocal", [t(INF, float(number))], [t(1.0, 0.0)])
    rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN, shape=(3, 3))])
    loss = rank.op("Torch.sum", [t(NAN, shape=(3, 3))], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0, shape=(3, 3))])
    return run


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("made")
    made = [made_sizes.write(root / name, getattr(made_sizes, name)(number)) for name, number in MADE.items()]
    made.append(swallowed().write(root / "swallowed"))
    return [*made, *(case.folder for case in own_cases())]


def analysed(dump: Path) -> Report:
    return firstnan.analyze(dump, firstnan.Options(jobs=1))


@cache
def usual(dump: Path) -> object:
    return answer(analysed(dump))


def answer(report: Report) -> object:
    causes = [
        (c.step, c.rank, c.op_name, c.where, c.mechanism.kind, c.mechanism.confidence, c.place_confidence)
        for c in report.root_causes
    ]
    return report.verdict, causes


@pytest.mark.parametrize("limit", TIGHT)
def test_no_limit_changes_an_answer_silently(limit: str, dumps: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    before = {dump: usual(dump) for dump in dumps}
    monkeypatch.setattr(f"firstnan.{limit}", TIGHT[limit])
    name = limit.rpartition(".")[2]
    if name in ALSO:
        monkeypatch.setattr(f"firstnan.rank.taint.limits.{name}", TIGHT[limit])
    silent = []
    for dump in dumps:
        report = analysed(dump)
        is_told = not report.complete and ProblemKind.LIMIT in [problem.kind for problem in report.input.problems]
        if answer(report) != before[dump] and not is_told:
            silent.append(dump.name)
    assert not silent
