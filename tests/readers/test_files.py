"""Files are opened without blocking, and never more is read than was there."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from firstnan.read.sources import files, places
from firstnan.read.sources.files import Fault
from firstnan.read.sources.places import read_bytes


def test_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    assert read_bytes(tmp_path / "a") == b"x" * 100_000
    (tmp_path / "b").write_bytes(b"")
    assert read_bytes(tmp_path / "b") == b""


def test_absent_and_folder(tmp_path: Path) -> None:
    for name in ("a", "nul\0"):
        fault = read_bytes(tmp_path / name)
        assert isinstance(fault, Fault)
        assert fault.missing
    fault = read_bytes(tmp_path)
    assert isinstance(fault, Fault)
    assert not fault.missing
    assert "directory" in fault.detail.lower()


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device")
def test_a_device_is_not_read() -> None:
    fault = read_bytes(Path("/dev/zero"))
    assert isinstance(fault, Fault)
    assert "device" in fault.detail


def test_a_file_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"x" * 11)
    monkeypatch.setattr(files, "MAX_BYTES", 10)
    fault = read_bytes(tmp_path / "a")
    assert isinstance(fault, Fault)
    assert "11 bytes" in fault.detail


@pytest.mark.parametrize(("change", "expected"), [(b"xyz" * 10, 30), (b"xyz" * 1000, 30), (b"x", 1)])
def test_a_file_that_changes_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: bytes, expected: int
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"a" * 30)
    real = places._read

    def read(file: io.RawIOBase, size: int) -> bytes:
        path.write_bytes(change)
        return real(file, size)

    monkeypatch.setattr(places, "_read", read)
    content = read_bytes(path)
    assert isinstance(content, bytes)
    assert len(content) == expected


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), MemoryError()])
def test_an_error_while_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    (tmp_path / "a").write_bytes(b"x")

    def fail(*_: object) -> bytes:
        raise error

    monkeypatch.setattr(places, "_read", fail)
    fault = read_bytes(tmp_path / "a")
    assert isinstance(fault, Fault)
    assert not fault.missing
