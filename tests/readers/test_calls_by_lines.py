"""Calls of one kind are told by their lines: the parser reads the first of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import Rank, Run, t

from firstnan.answer.model import AgreementVerdict
from firstnan.read.scan.fingerprints import PrintsReader

CALLS = 60


def pipeline(run: Run, odd: int | None = None) -> None:
    """Stage 0 sends, stage 1 receives; the message ``odd`` arrives changed."""
    first, second = run.rank(0), run.rank(1)
    for number in range(CALLS):
        sent = t(1.0 + number, -2.0 - number)
        first.send(sent, 1, (0, 1))
        second.recv(t(1.5 + number, -2.0 - number) if number == odd else sent, 0, (0, 1))
        for rank in (first, second):
            ordinary(rank)


def ordinary(rank: Rank) -> None:
    rank.op("Torch.relu", [t(1.0)], [t(1.0)])


@pytest.mark.parametrize("odd", [None, 40])
def test_sends_and_receives(odd: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    parsed = PrintsReader._parsed
    monkeypatch.setattr(PrintsReader, "_parsed", lambda *of: read.append(of[-1]) or parsed(*of))
    run = Run()
    pipeline(run, odd)
    report = run.analyze(tmp_path)
    assert 0 < len(read) < CALLS / 4
    assert report.verdict_agreement is (AgreementVerdict.AGREE if odd is None else AgreementVerdict.DIFFER)
