"""Exit codes, JSON and --lang are the same for every command: one table, and a row for each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from firstnan.cli import commands
from firstnan.cli import main as cli

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "dp2-tp2"
FAST = ["--interval", "0", "--settle", "0", "--timeout", "0"]

ROWS: dict[str, tuple[list[str], int]] = {
    "analyze": (["DUMP", "--jobs", "1"], 1),
    "ranks": (["DUMP", "--jobs", "1"], 1),
    "agree": (["DUMP", "--jobs", "1"], 0),
    "trace": (["DUMP", "--rank", "2", "--jobs", "1"], 1),
    "scan": (["DUMP", "--jobs", "1"], 0),
    "merge": (["PART"], 1),
    "show": (["DUMP", "--rank", "2"], 0),
    "compare": (["DUMP", "DUMP", "--jobs", "1"], 0),
    "watch": (["DUMP", "--jobs", "1", *FAST], 1),
    "rules": ([], 0),
    "schema": ([], 0),
    "completion": (["bash"], 0),
    "demo": ([], 0),
}
"""Arguments with which a command answers, and what it ends with. The server of ``mcp`` and ``replay``, which needs
PyTorch, have tests of their own."""
ALONE = {"mcp", "replay"}
READING = {"analyze", "ranks", "agree", "trace", "scan", "show", "compare", "watch"}
"""Commands that take the path of a dump."""
ANSWERING = {"analyze", "ranks", "agree", "trace", "merge", "show", "compare", "watch", "demo"}
"""Commands with ``--format json``."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("table")
    shutil.copytree(EXAMPLE, folder / "dump")
    assert cli.main(["scan", str(folder / "dump"), "-o", str(folder / "part.json"), "--jobs", "1"]) == 0
    return {"DUMP": str(folder / "dump"), "PART": str(folder / "part.json")}


def asked(name: str, places: dict[str, str], *more: str) -> list[str]:
    return [name, *(places.get(word, word) for word in ROWS[name][0]), *more]


def test_every_command_has_a_row() -> None:
    assert ROWS.keys() | ALONE == set(commands.NAMES)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", ROWS)
def test_the_exit_code_in_both_languages(
    name: str, language: str, places: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(asked(name, places, "--lang", language)) == ROWS[name][1]
    assert capsys.readouterr().out


@pytest.mark.parametrize("name", commands.NAMES)
def test_usage_is_2_and_help_is_0(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--no-such-option"]) == 2
    assert cli.main([name, "--lang", "fr"]) == 2
    assert cli.main([name, "--help"]) == 0
    assert "exit codes:" in capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(READING))
def test_nothing_readable_is_3(
    name: str, places: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = {**places, "DUMP": str(tmp_path / "absent")}
    assert cli.main(asked(name, absent)) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("firstnan: ")


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", sorted(ANSWERING))
def test_json_is_one_strict_document_with_a_schema(
    name: str, language: str, places: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(asked(name, places, "--format", "json", "--lang", language)) == ROWS[name][1]

    def refuse(constant: str) -> Any:
        raise AssertionError(f"{constant} is not strict JSON")

    document = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert document["schema"].startswith("firstnan.")
    assert document["tool"]["name"] == "firstnan"


def test_json_differs_in_words_alone(places: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    documents = []
    for language in ("en", "zh"):
        cli.main(asked("analyze", places, "--format", "json", "--lang", language))
        documents.append(json.loads(capsys.readouterr().out))
    english, chinese = documents
    assert english["root_causes"][0]["evidence"] != chinese["root_causes"][0]["evidence"]
    assert english["root_causes"][0]["evidence_notes"] == chinese["root_causes"][0]["evidence_notes"]
    assert english.keys() == chinese.keys()
