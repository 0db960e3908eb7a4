"""Files that options name: FIFOs, devices and deep nests are refused with words, never waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from three_ranks import write

from firstnan.cli import main as cli

needs_fifos = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return write(tmp_path / "dump", faulty=False)


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    made = tmp_path / "fifo"
    os.mkfifo(made)
    return made


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> int:
    """The exit code of a command that says one thing in words."""
    code = cli.main([*map(str, arguments), "--lang", "en"])
    said = capsys.readouterr().err
    assert said.startswith("firstnan: ")
    assert "Traceback" not in said
    return code


@needs_fifos
def test_rules_from_a_fifo_are_refused(dump: Path, fifo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "analyze", dump, "--rules", fifo) == 2


@needs_fifos
def test_parts_from_a_fifo_are_refused(dump: Path, fifo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "merge", fifo) == 3
    assert refused(capsys, "scan", dump, "-o", fifo.with_suffix(".json"), "--others", fifo) == 3


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device")
def test_a_device_without_an_end_is_refused(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "analyze", dump, "--rules", "/dev/zero") == 2
    assert refused(capsys, "merge", "/dev/zero") == 3


@pytest.mark.parametrize("text", ["a = " + "[" * 5000 + "]" * 5000, "a = " + "{b=" * 5000 + "1" + "}" * 5000])
def test_deep_rules_are_refused(text: str, dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = dump.parent / "rules.toml"
    rules.write_text(text, encoding="utf-8")
    assert refused(capsys, "analyze", dump, "--rules", rules) == 2


@pytest.mark.parametrize("rules", ["a = " + "[" * 5000 + "]" * 5000, "a = ", "[[rule]]\nname = 3"])
def test_a_part_with_broken_rules_is_refused(rules: str, dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A crafted part file: its packed rules are read like a rules file."""
    from msgspec.structs import replace

    from firstnan.run import parts, two_stage

    file = dump.parent / "part.json"
    file.write_text(parts.to_text(replace(two_stage.scan(dump), rules=rules)), encoding="utf-8")
    assert refused(capsys, "merge", file) in (2, 3)
