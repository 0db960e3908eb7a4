"""Folders of ranks and steps that are something else, refuse, or lead elsewhere."""

from __future__ import annotations

import os
import pickle
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from asking import Answer, ask, check
from damage import Effect
from three_ranks import FILES, OTHER, RANKS, ROOT, SOURCE, rank_folder, write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path / "dump")


# --- the folder of a rank ----------------------------------------------------------------------------------------


def _moved_out(folder: Path) -> None:
    outside = folder.parents[2] / "outside"
    shutil.move(folder, outside)
    folder.symlink_to(outside)


def _instead(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        shutil.rmtree(folder)
        make(folder)

    return apply


FOLDERS = {
    "empty": (_instead(lambda folder: folder.mkdir()), Effect.UNJUDGED),
    "file": (_instead(lambda folder: folder.write_text("{}")), Effect.UNJUDGED),
    "fifo": (_instead(os.mkfifo), Effect.UNJUDGED),
    "link_to_itself": (_instead(lambda folder: folder.symlink_to(folder.name)), Effect.UNJUDGED),
    "link_to_the_step": (_instead(lambda folder: folder.symlink_to("..")), Effect.UNJUDGED),
    "dangling_link": (_instead(lambda folder: folder.symlink_to("nowhere")), Effect.UNJUDGED),
    "link_out_of_the_tree": (_moved_out, Effect.NONE),
    "a_folder_deeper": (
        lambda folder: (shutil.copytree(folder, folder / "rank2"), [(folder / f).unlink() for f in FILES])[0],
        Effect.UNJUDGED,
    ),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_something_else_for_a_rank(root: Path, name: str) -> None:
    apply, effect = FOLDERS[name]
    apply(rank_folder(root, OTHER))
    check(ask("analyze", root), "dump.json", effect)


def test_two_folders_for_a_rank(root: Path) -> None:
    shutil.copytree(rank_folder(root, OTHER), root / "step0" / "rank_02")
    answer = ask("analyze", root)
    assert (answer.code, answer.causes) == (1, [ROOT])
    assert [p["kind"] for p in answer.report["input"]["problems"]] == ["duplicate_rank"]
    assert not answer.report["complete"]


def test_a_link_loop_above_the_steps(root: Path) -> None:
    (root.parent / "up").symlink_to(root.parent)
    answer = ask("analyze", root.parent)
    assert (answer.code, answer.causes) == (1, [ROOT])


@pytest.mark.parametrize("name", ["rank\n3", "rank3 ", "ränk3", "rank٣", "rank3.tar", b"rank\xff3", "rank9999999999"])
def test_folders_whose_names_say_no_rank(root: Path, name: str | bytes) -> None:
    odd = root / "step0" / os.fsdecode(name)
    try:
        shutil.copytree(rank_folder(root, OTHER), odd)
    except OSError:
        pytest.skip("the file system does not take this name")
    answer = ask("analyze", root)
    assert (answer.code, answer.causes) == (1, [ROOT])
    assert answer.report["input"]["ranks"] == list(RANKS)
    assert [p["kind"] for p in answer.report["input"]["problems"]] == ["ignored_folder"]


# --- no permission ------------------------------------------------------------------------------------------------

NOBODY = 65534


@pytest.fixture
def open_root() -> Iterator[Path]:
    """A dump that another user can reach (the test's own folder is closed to them)."""
    with tempfile.TemporaryDirectory(prefix="firstnan-test-") as folder:
        Path(folder).chmod(0o755)
        root = write(Path(folder) / "dump")
        yield root
        for path in root.rglob("*"):
            path.chmod(0o755)


def as_nobody(root: Path, *arguments: str | Path) -> Answer:
    """``ask`` in a process that has given its rights away (root may read everything)."""
    if not hasattr(os, "fork"):
        pytest.skip("no processes that could give away their rights")
    ask("analyze", root)  # everything is imported before the rights are gone
    with tempfile.TemporaryFile() as told:
        child = os.fork()
        if child == 0:
            _in_child(told.fileno(), arguments)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) == 77:
            pytest.skip("this process cannot give away its rights")
        assert os.waitstatus_to_exitcode(status) == 0
        told.seek(0)
        answer = pickle.loads(told.read())
    assert isinstance(answer, Answer)
    return answer


def _in_child(descriptor: int, arguments: tuple[str | Path, ...]) -> None:
    try:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
    except OSError:
        os._exit(77)
    code = 1
    try:
        answer = ask(*arguments)
        os.write(descriptor, pickle.dumps(answer))
        code = 0
    finally:
        os._exit(code)


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_refuses(open_root: Path, file: str) -> None:
    (rank_folder(open_root, OTHER) / file).chmod(0)
    answer = as_nobody(open_root, "analyze", open_root)
    check(answer, file, Effect.UNJUDGED)
    if file != "stack.json":
        assert "Permission denied" in answer.problems(file)[0]["detail"]


@pytest.mark.parametrize("mode", [0o000, 0o600], ids=["not_to_be_listed", "listed_but_not_entered"])
def test_a_rank_folder_that_refuses(open_root: Path, mode: int) -> None:
    rank_folder(open_root, OTHER).chmod(mode)
    check(as_nobody(open_root, "analyze", open_root), "dump.json", Effect.UNJUDGED)


def test_call_chain_and_code_of_the_cause_that_refuse(open_root: Path) -> None:
    """The answer stays; that its location is not known has a reason in the report."""
    for file in ("construct.json", "stack.json"):
        (rank_folder(open_root, SOURCE) / file).chmod(0)
    answer = as_nobody(open_root, "analyze", open_root)
    assert (answer.code, answer.causes) == (1, [ROOT])
    assert answer.report["root_causes"][0]["location"] is None
    assert answer.report["complete"]
    for file in ("construct.json", "stack.json"):
        assert [p["kind"] for p in answer.problems(file, SOURCE)] == ["unreadable"]


@pytest.mark.parametrize("place", ["", "step0"])
def test_nothing_to_be_listed_ends_with_3(open_root: Path, place: str) -> None:
    (open_root / place).chmod(0)
    answer = as_nobody(open_root, "analyze", open_root)
    assert (answer.code, answer.report) == (3, {})
    assert "Permission denied" in answer.said


def test_a_report_where_nothing_may_be_written(open_root: Path) -> None:
    answer = as_nobody(open_root, "analyze", open_root, "-o", open_root.parent / "report.json")
    assert (answer.code, answer.report) == (2, {})
    assert "Permission denied" in answer.said
    assert not (open_root.parent / "report.json").exists()


def test_nothing_is_written_into_the_dump(root: Path) -> None:
    """Not even times of access change anything but themselves."""
    before = _state(root)
    for command in (["analyze"], ["ranks"], ["trace", "--rank", str(SOURCE)]):
        ask(command[0], root, *command[1:])
    assert _state(root) == before
    if sys.platform == "linux":
        for path in [root, *root.rglob("*")]:
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o222)
        assert ask("analyze", root).causes == [ROOT]


def _state(root: Path) -> dict[str, tuple[int, int, int]]:
    found = [root, *root.rglob("*")]
    return {str(p): (p.stat().st_mtime_ns, p.stat().st_size, p.stat().st_mode) for p in found}
