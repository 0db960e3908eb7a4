"""Every rule that stands under a name in the analysis' docstrings has a test of that name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import firstnan

FLOORS = ("rank", "step", "causes", "report", "run")
MODULES = sorted(path for floor in FLOORS for path in (Path(firstnan.__path__[0]) / floor).rglob("*.py"))
TESTS = Path(__file__).parents[1]
_RULE = re.compile(r"^``([a-z0-9]+(?:_[a-z0-9]+)+)``", re.MULTILINE)
"""At the beginning of a line of the docstring; names of arguments are indented or inside a sentence."""


def _rules() -> list[tuple[str, str]]:
    found = []
    for module in MODULES:
        docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
        found += [(module.stem, rule) for rule in _RULE.findall(docstring)]
    return found


@pytest.mark.parametrize(("module", "rule"), _rules(), ids=[f"{module}-{rule}" for module, rule in _rules()])
def test_every_rule_has_a_test_of_its_name(module: str, rule: str) -> None:
    tests = TESTS.rglob("test_*.py")
    name = re.compile(rf"^def test_{rule}\b", re.MULTILINE)
    assert any(name.search(test.read_text(encoding="utf-8")) for test in tests), f"no test_{rule} for {module}.py"


def test_there_are_rules() -> None:
    assert len(_rules()) > 20
