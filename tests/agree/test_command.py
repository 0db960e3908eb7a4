"""``firstnan agree`` as a program: forms, choices, exit codes; and its section in ``analyze``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from replicas_made import Json, nudge, write

from firstnan.cli.main import main

WEIGHT = "Module.head.Linear.weight"


def changed(step: int, rank: int, records: Json) -> None:
    """From step 1 on rank 2 holds another weight."""
    if rank == 2 and step > 0:
        nudge(records["Module.head.Linear.forward.0"]["parameters"]["weight"], "Mean")


@pytest.fixture
def differing(tmp_path: Path) -> str:
    return str(write(tmp_path / "run", edit=changed))


@pytest.fixture
def clean(tmp_path: Path) -> str:
    return str(write(tmp_path / "clean"))


@pytest.mark.parametrize("form", ["text", "markdown", "json", "html"])
@pytest.mark.parametrize("command", ["agree", "analyze"])
def test_every_form_names_what_differs(
    differing: str, command: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, differing, "--format", form, "--lang", "en"]) == 1
    shown = capsys.readouterr().out
    assert WEIGHT in shown.replace("\\", "")
    if form == "json":
        told = json.loads(shown)
        assert (told["verdict"], told["verdict_agreement"]) == ("clean", "differ")
        assert told["disagreements"][0]["odd_ranks"] == [2]
    else:
        assert "Ranks that should be equal" in shown


def test_the_name_of_the_file_chooses_the_form(
    differing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, begin in (("a.html", "<!DOCTYPE html>"), ("a.md", "#"), ("a.json", "{")):
        assert main(["agree", differing, "-o", str(tmp_path / name)]) == 1
        assert (tmp_path / name).read_text("utf-8").startswith(begin)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("choice", "code"),
    [
        ([], 1),
        (["--step", "0"], 0),
        (["--step", "1"], 1),
        (["--step", "1-2"], 1),
        (["--ranks", "0,1"], 0),
        (["--ranks", "1,2"], 1),
        (["--ranks", "2"], 4),
        (["--ranks", "9"], 2),
        (["--step", "9"], 2),
    ],
    ids=str,
)
def test_steps_and_ranks_are_chosen(
    differing: str, choice: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["agree", differing, *choice]) == code
    capsys.readouterr()


def test_exit_codes_where_ranks_agree_or_nothing_was_compared(
    clean: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = str(write(tmp_path / "alone", world=1))
    found = {(command, path): main([command, path]) for command in ("agree", "analyze") for path in (clean, alone)}
    assert found == {("agree", clean): 0, ("analyze", clean): 0, ("agree", alone): 4, ("analyze", alone): 0}
    assert main(["agree", str(tmp_path / "nothing")]) == 3
    capsys.readouterr()


def test_a_rank_alone_is_never_said_to_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["agree", str(write(tmp_path / "alone", world=1)), "--lang", "en"])
    assert "nothing could be compared" in capsys.readouterr().out.lower().replace("\n", " ")
