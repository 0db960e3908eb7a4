"""What came with a patch release of Python is used with a guard: distributions ship older ones (Debian 12: 3.11.2)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = [
    path
    for place in ("src", "tests", "tools", "benchmarks", "fuzz", "docs", "skills")
    for path in (ROOT / place).rglob("*.py")
]
KEYWORDS = {"extractall": "filter", "extract": "filter"}
"""Methods with a keyword of Python 3.10.12, 3.11.4."""
NAMES = {"data_filter", "tar_filter", "fully_trusted_filter", "set_int_max_str_digits", "get_int_max_str_digits"}
"""Names of Python 3.10.7 to 3.10.12, and 3.11.4."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_newer_than_the_first_patch_release_without_a_guard(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in KEYWORDS:
            assert KEYWORDS[node.func.attr] not in {keyword.arg for keyword in node.keywords}, node.lineno
        assert not (isinstance(node, ast.Attribute) and node.attr in NAMES), f"use getattr: line {node.lineno}"
