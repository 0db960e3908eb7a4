"""The cases by which the skill is tried: their answers are true, and stand in what the skill's commands print."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

import firstnan
from firstnan.answer.model import MechanismKind, Verdict, Where
from firstnan.dump.language import Language
from firstnan.show import Format, Settings, render

ROOT = Path(__file__).parents[1]
FILE = ROOT / "skills" / "nan-overflow-detection" / "evals" / "evals.json"
DOCUMENT = json.loads(FILE.read_text("utf-8"))
EVALS: list[dict[str, Any]] = DOCUMENT["evals"]


def truth_of(archive: Path) -> dict[str, Any]:
    with tarfile.open(archive) as packed:
        (name,) = (name for name in packed.getnames() if name.endswith("/truth.json"))
        content = packed.extractfile(name)
        assert content is not None
        found: dict[str, Any] = json.load(content)
        return found


def test_there_are_ten_and_they_are_whole() -> None:
    assert DOCUMENT["skill_name"] == "nan-overflow-detection"
    assert [one["id"] for one in EVALS] == list(range(1, 11))
    for one in EVALS:
        assert {"id", "prompt", "expected_output", "files", "expectations", "answer"} == one.keys()
        assert one["expectations"]
        assert all((ROOT / file).is_file() for file in one["files"])
        assert "op_names" not in one["prompt"]
    assert {one["answer"]["verdict"] for one in EVALS} == {"anomaly", "clean"}
    assert any(ord(letter) > 0x4E00 for one in EVALS for letter in one["prompt"])


@pytest.mark.parametrize("one", EVALS, ids=lambda one: Path(one["files"][0]).name)
def test_the_answer_is_the_truth_that_was_put_in(one: dict[str, Any]) -> None:
    truth, answer = truth_of(ROOT / one["files"][0]), one["answer"]
    assert Verdict(answer["verdict"]).value == truth["verdict"]
    told = [{"ranks": {cause["rank"], *cause.get("ranks_also", ())}, **cause} for cause in truth["root_causes"]]
    for cause in answer["causes"]:
        assert any(
            cause["rank"] in known["ranks"]
            and (cause["operator"] is None or cause["operator"] in known["op_names"])
            and Where(cause["where"]).value in (known["where"], *known["where_also"])
            and MechanismKind(cause["mechanism"]).value in (known["mechanism"], *known["mechanism_also"])
            for known in told
        ), cause


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("one", EVALS, ids=lambda one: Path(one["files"][0]).name)
def test_the_answer_stands_in_what_is_printed(one: dict[str, Any], language: Language) -> None:
    report = firstnan.analyze(ROOT / one["files"][0], firstnan.Options(jobs=1))
    shown = "".join(render(report, Format.TEXT, Settings(language=language, width=120)).split())
    for cause in one["answer"]["causes"]:
        assert re.search(rf"ranks?(?:\d+,)*{cause['rank']}(?!\d)", shown)
        for part in ("operator", "line"):
            assert cause[part] is None or cause[part] in shown, part
