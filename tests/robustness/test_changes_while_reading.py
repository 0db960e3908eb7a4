"""Files that grow, shrink, are replaced or disappear between being found, being read and being read again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asking import Answer, ask, check
from damage import Effect
from three_ranks import FILES, OTHER, ROOT, SOURCE, rank_folder, write

from firstnan.read.layout import dump_layout
from firstnan.read.sources import files

Change = Callable[[Path], None]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path / "dump")


def _disappears(path: Path) -> None:
    path.unlink()


def _shrinks(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _is_emptied(path: Path) -> None:
    os.truncate(path, 0)


def _grows(path: Path) -> None:
    """A record more: the job goes on."""
    text = path.read_text()
    more = ',\n  "Torch.late.0.forward": {\n   "input_args": [],\n   "input_kwargs": {},\n   "output": []\n  }\n }\n}'
    path.write_text(text[: text.rindex("\n }\n}")] + more if "\n }\n}" in text else text + " ")


def _is_garbled(path: Path) -> None:
    """Other bytes, as many as before."""
    path.write_bytes(b"\xff" * path.stat().st_size)


def _becomes_a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _becomes_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


CHANGES = {
    change.__name__.strip("_"): change
    for change in (_disappears, _shrinks, _is_emptied, _grows, _is_garbled, _becomes_a_fifo, _becomes_a_folder)
}


# --- between listing and reading ----------------------------------------------------------------------------------


@pytest.fixture
def after_listing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Have something happen when the ranks were found and before they are read."""

    def arrange(change: Callable[[], None]) -> None:
        survey = dump_layout.survey

        def found(*asked: Any, **more: Any) -> dump_layout.Layout:
            answer = survey(*asked, **more)
            change()
            return answer

        monkeypatch.setattr(dump_layout, "survey", found)

    return arrange


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("file", FILES)
def test_a_file_changes_after_it_was_listed(root: Path, after_listing: Any, file: str, change: str) -> None:
    path = rank_folder(root, OTHER) / file
    after_listing(lambda: CHANGES[change](path))
    check(ask("analyze", root), file, Effect.NONE if change == "grows" else Effect.UNJUDGED)


def test_a_rank_folder_disappears_after_it_was_listed(root: Path, after_listing: Any) -> None:
    after_listing(lambda: shutil.rmtree(rank_folder(root, OTHER)))
    check(ask("analyze", root), "dump.json", Effect.UNJUDGED)


def test_everything_disappears_after_it_was_listed(root: Path, after_listing: Any) -> None:
    after_listing(lambda: shutil.rmtree(root))
    answer = ask("analyze", root)
    assert (answer.code, answer.report) == (3, {})
    assert "could be read" in answer.said


# --- while it is open ---------------------------------------------------------------------------------------------


def after_opening(monkeypatch: pytest.MonkeyPatch, path: Path, change: Change, opening: int) -> None:
    """Have a file change when it was opened for the n-th time and its size was asked."""
    real, seen = os.fstat, []

    def fstat(descriptor: int) -> os.stat_result:
        status = real(descriptor)
        if path.exists() and os.path.samestat(status, path.stat()):
            seen.append(descriptor)
            if len(seen) == opening:
                change(path)
        return status

    monkeypatch.setattr(files.os, "fstat", fstat)


@pytest.mark.parametrize("change", ["grows", "shrinks", "is_emptied", "is_garbled"])
@pytest.mark.parametrize("file", ["dump.json", "construct.json"])
def test_a_file_changes_while_it_is_read(root: Path, monkeypatch: pytest.MonkeyPatch, file: str, change: str) -> None:
    """What stood there when its size was asked counts; less than that is a file that is cut."""
    after_opening(monkeypatch, rank_folder(root, OTHER) / file, CHANGES[change], 1)
    answer = ask("analyze", root)
    assert (answer.code, answer.causes) == (1, [ROOT])
    if change != "grows":
        told = answer.problems(file)
        assert told
        assert all(problem["effect"] for problem in told)
        assert answer.report["complete"] is (file != "dump.json")


@pytest.mark.parametrize("opening", [2, 3, 4, 5])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("rank", [SOURCE, OTHER])
def test_a_dump_changes_between_two_looks(
    root: Path, monkeypatch: pytest.MonkeyPatch, rank: int, change: str, opening: int
) -> None:
    """Parts of a file are read again when they matter. Either the whole rank was seen as it was, or what is there now
    is taken: then the change is told, and of a source that is gone only its rank is named."""
    after_opening(monkeypatch, rank_folder(root, rank) / "dump.json", CHANGES[change], opening)
    answer = ask("analyze", root)
    assert answer.code == 1
    assert answer.causes in ([ROOT], [(SOURCE, "")])
    if answer.causes != [ROOT]:
        assert answer.report["root_causes"][0]["where"] == "missing_rank"
    told = answer.problems("dump.json", rank)
    assert answer.report["complete"] is not any(not problem["judged"] for problem in told)
    assert answer.report["complete"] or answer.report["caveats"]


def still_right(answer: Answer) -> None:
    assert (answer.code, answer.causes) == (1, [ROOT])


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("file", ["construct.json", "stack.json"])
def test_call_chain_and_code_of_the_cause_change(
    root: Path, monkeypatch: pytest.MonkeyPatch, file: str, change: str
) -> None:
    path = rank_folder(root, SOURCE) / file
    after_opening(monkeypatch, path, CHANGES[change], 2 if file == "construct.json" else 1)
    still_right(ask("analyze", root))
