"""Reports are written whole or not at all, and never into a dump."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from firstnan.cli.output import check_folder, check_target, write_whole
from firstnan.dump.errors import OutputError, UsageError


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "step0" / "rank0"
    folder.mkdir(parents=True)
    return tmp_path / "run"


def test_a_new_file_is_written(tmp_path: Path) -> None:
    write_whole(tmp_path / "report.json", b"{}")
    assert (tmp_path / "report.json").read_bytes() == b"{}"
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_an_existing_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    target.write_bytes(b"old")
    target.chmod(0o640)
    write_whole(target, b"new")
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_bytes(b"old")
    (tmp_path / "link.json").symlink_to("real.json")
    write_whole(tmp_path / "link.json", b"new")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_bytes() == b"new"


@pytest.mark.parametrize("failing", ["replace", "fsync"])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    target = tmp_path / "report.json"
    target.write_bytes(b"old")

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OutputError, match="No space left on device"):
        write_whole(target, b"new")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "report.json", b"new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_device_is_written_directly() -> None:
    write_whole(Path("/dev/null"), b"x")
    assert not Path("/dev/null").is_file()
    with pytest.raises(OutputError, match="No space left"):
        write_whole(Path("/dev/full"), b"x" * 100_000)


@pytest.mark.parametrize("inside", ["r.json", "step0/r.json", "step0/rank0/r.json", "step0/../r.json", "logs/r.json"])
def test_a_target_in_the_dump_root_is_refused(dump: Path, inside: str) -> None:
    (dump / "logs").mkdir()
    with pytest.raises(UsageError, match="inside the dump folder"):
        check_target(dump / inside, dump)


@pytest.mark.parametrize("inside", ["r.json", "step0/r.json", "step0/rank0/r.json", "step1/rank7/r.json"])
@pytest.mark.parametrize("part", ["step0", "step0/rank0"])
def test_the_folders_around_a_rank_or_step_are_the_dump_too(dump: Path, part: str, inside: str) -> None:
    with pytest.raises(UsageError, match="inside the dump folder"):
        check_target(dump / inside, dump / part)


def test_a_link_into_the_dump_is_refused(dump: Path, tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(dump / "step0")
    with pytest.raises(UsageError, match="inside the dump folder"):
        check_target(tmp_path / "out" / "r.json", dump)


def test_a_linked_dump_is_protected(dump: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(dump)
    with pytest.raises(UsageError, match="inside the dump folder"):
        check_target(dump / "r.json", tmp_path / "alias")


def test_a_target_beside_the_dump_is_fine(dump: Path, tmp_path: Path) -> None:
    (tmp_path / "run-reports").mkdir()
    check_target(tmp_path / "r.json", dump)
    check_target(tmp_path / "run-reports" / "r.json", dump)
    check_target(tmp_path / "r.json", dump / "step0" / "rank0")


def test_other_folders_beside_a_step_are_fine(dump: Path) -> None:
    (dump / "reports").mkdir()
    check_target(dump / "reports" / "r.json", dump / "step0")


def test_a_folder_is_no_target(dump: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        check_target(tmp_path, dump)


def test_a_target_without_a_folder_is_told_before_the_work(dump: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="there is no folder"):
        check_target(tmp_path / "none" / "r.json", dump)


def test_a_dump_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    """A mistyped path is told as such by the reader, not as a target inside the dump."""
    check_target(tmp_path / "r.json", tmp_path / "mistyped")


@pytest.fixture
def written(dump: Path) -> Path:
    """A dump that holds a file: a folder is known by it."""
    (dump / "step0" / "rank0" / "dump.json").write_text("{}")
    return dump


@pytest.mark.parametrize("inside", ["", "new", "new/deep", "step0", "step0/new", "step0/rank0", "step0/rank0/new"])
def test_a_folder_in_a_dump_is_refused(written: Path, inside: str) -> None:
    with pytest.raises(UsageError, match="inside the dump folder"):
        check_folder(written / inside)


def test_a_folder_is_refused_by_way_of_a_link_too(written: Path, tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(written / "step0")
    with pytest.raises(UsageError, match="inside the dump folder"):
        check_folder(tmp_path / "out" / "new")


def test_a_folder_in_a_dump_without_steps_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0" / "dump.json").write_text("{}")
    with pytest.raises(UsageError, match="inside the dump folder"):
        check_folder(tmp_path / "new")


def test_a_folder_beside_a_dump_is_fine(written: Path, tmp_path: Path) -> None:
    assert written.is_dir()
    check_folder(tmp_path / "run-example")
    check_folder(tmp_path)


def test_folders_that_are_only_named_like_a_dump_are_fine(tmp_path: Path) -> None:
    (tmp_path / "step1" / "rank0").mkdir(parents=True)
    check_folder(tmp_path / "step1" / "rank0" / "new")
