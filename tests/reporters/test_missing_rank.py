"""A source rank without a dump: text, page and step 1 say the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from analysis.made_runs import INF, NAN, Run, t
from firstnan.answer.model import Report, Where
from firstnan.show import Format, Settings, View, render


def without(rank: int, folder: Path) -> Report:
    run = Run()
    for number in {0, 1, 2} - {rank}:
        run.rank(number).all_reduce(t(1.0), t(NAN), group=(0, 1, 2))
        run.rank(number).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    return run.analyze(folder)


def page(report: Report) -> dict[str, object]:
    made = render(report, Format.HTML, Settings())
    found = re.search(r'id="page-data">(.*?)</script>', made, re.DOTALL)
    assert found is not None
    document: dict[str, object] = json.loads(found[1])
    return document


def strings(value: object) -> str:
    """Every text inside a JSON value, in order."""
    if isinstance(value, str):
        return value
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return " ".join(filter(None, map(strings, inside)))


def test_the_page_says_what_the_text_says(tmp_path: Path) -> None:
    report = without(1, tmp_path)
    assert report.root_causes[0].where is Where.MISSING_RANK
    told = render(report, Format.TEXT, Settings(width=120))
    english = page(report)["texts"]["en"]  # type: ignore[index]
    place = strings(english["causes"][0]["place"])
    for line in ("on a rank that has no dump", "reached"):
        assert line in told
        assert line in place
    assert "cut or empty" not in place
    assert "What could change this answer" not in told
    assert english["doubts"] == []


def test_step_1_says_that_the_source_has_no_dump(tmp_path: Path) -> None:
    told = render(without(1, tmp_path), Format.TEXT, Settings(view=View.RANKS, width=200))
    assert "Source: not recorded, rank 1 has no dump. Propagated: ranks 0,2." in told.splitlines()[0]
    assert "Source: none" not in told


def test_step_1_says_when_the_call_itself_is_the_cause(tmp_path: Path) -> None:
    run = Run()
    for number in range(2):
        run.rank(number).all_reduce(t(60000.0, dtype="float16"), t(INF, dtype="float16"))
        run.rank(number).op("Torch.sum", [t(INF)], [t(INF, shape=())])
    told = render(run.analyze(tmp_path), Format.TEXT, Settings(view=View.RANKS, width=200))
    assert "Source: none, the call itself is the cause" in told.splitlines()[0]


@pytest.mark.parametrize("gap", ["absent", "left_out", "cut", "empty", "unreadable"])
def test_every_gap_has_words_for_step_1(gap: str) -> None:
    from firstnan.words import has

    assert has(f"ranks.source.{gap}")
