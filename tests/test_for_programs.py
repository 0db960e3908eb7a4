"""What a program or a notebook gets without knowing the reporters."""

from __future__ import annotations

from pathlib import Path

import pytest

import firstnan
from firstnan.dump.language import Language
from firstnan.show import Format, Settings, render
from firstnan.show.json import to_dict

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "dp2-tp2"
HEADLINES = {
    Language.EN: "+Inf began on rank 2, step 0, in Torch.exp.0.forward (forward): exp overflow (certain)",
    Language.ZH: "rank 2",
}


@pytest.fixture(scope="module")
def report() -> firstnan.Report:
    return firstnan.analyze(EXAMPLE)


@pytest.mark.parametrize("language", Language)
def test_json_has_the_headline_in_the_language_asked_for(report: firstnan.Report, language: Language) -> None:
    document = to_dict(report, language)
    assert HEADLINES[language] in str(document["headline"])
    first = " ".join(render(report, Format.TEXT, Settings(language=language, width=500)).splitlines()[:1])
    assert document["headline"] == first
    assert to_dict(firstnan.Report.from_dict(document), language) == document


def test_explanations_stand_as_text_beside_their_keys(report: firstnan.Report) -> None:
    mechanism = report.to_dict()["root_causes"][0]["mechanism"]  # type: ignore[index]
    assert mechanism["explanation"].startswith("the exponent reaches")
    assert mechanism["explanation_note"]["key"].startswith("why.")


def test_a_report_shows_itself(report: firstnan.Report) -> None:
    assert report.text().startswith(HEADLINES[Language.EN][:40])
    assert report.markdown().startswith("# ")
    assert report.html().startswith("<!DOCTYPE html>")
    assert 'lang="zh-Hans"' in report.html(Language.ZH)


def test_the_repr_is_short(report: firstnan.Report) -> None:
    assert repr(report) == "<Report anomaly, rank 2, Torch.exp.0.forward, 624 records>"


def test_dir_lists_the_public_names() -> None:
    assert dir(firstnan) == sorted(firstnan.__all__)
    assert {"analyze", "Report", "__version__"} <= set(dir(firstnan))
