"""What the README files show is what the program prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from firstnan.cli.arguments import REPORT_EXIT_CODES
from firstnan.cli.parser import parse

ROOT = Path(__file__).resolve().parents[1]
READMES = ["README.md", "README.zh.md"]


def test_shown_output_is_real() -> None:
    command = [sys.executable, ROOT / "tools" / "readme_output.py", "--check"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("readme", READMES)
def test_links_lead_somewhere(readme: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / readme).read_text("utf-8")):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("readme", READMES)
def test_every_exit_code_is_told(readme: str) -> None:
    text = (ROOT / readme).read_text("utf-8")
    codes = re.findall(r"^  (\d+)  ", REPORT_EXIT_CODES, re.MULTILINE)
    assert len(codes) == 5
    assert [code for code in codes if f"| {code} |" not in text] == []


@pytest.mark.parametrize("readme", READMES)
def test_shown_commands_can_be_parsed(readme: str) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / readme).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line.split("#")[0].split() for block in blocks for line in block.splitlines()]
    shown = [words[1:] for words in lines if words[:1] == ["firstnan"]]
    assert shown
    for words in shown:
        parse([{"N": "2", "INDEX": "3"}.get(word, word) for word in words])
