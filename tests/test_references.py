"""References in docstrings lead somewhere: ``:mod:``, ``:class:`` and ``:func:``."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from test_import_graph import FILES, SOURCE, by_name, tree_of

REFERENCE = re.compile(r":(mod|class|func):`~?([\w.]+)`")
ROLES = {"class": (ast.ClassDef, ast.Assign, ast.AnnAssign), "func": (ast.FunctionDef,)}
CITATION = re.compile(r"[Dd]ump\s+format,\s+sections?((?:[\s,]+(?:to|and)?\s*\d+(?:\.\d)?)+)")
DUMP_FORMAT = SOURCE.parent / "docs" / "concepts" / "dump-format.md"


def file_of(module: str) -> Path | None:
    base = SOURCE.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


@cache
def definitions(path: Path) -> set[tuple[str, type[ast.AST]]]:
    """Names that a module defines or imports at its top, and what with."""
    found: set[tuple[str, type[ast.AST]]] = set()
    for node in tree_of(path).body:
        inside = node.body if isinstance(node, ast.If) else [node]  # if TYPE_CHECKING
        for one in inside:
            if isinstance(one, (ast.FunctionDef, ast.ClassDef)):
                found.add((one.name, type(one)))
            elif isinstance(one, ast.ImportFrom):
                found |= {(alias.asname or alias.name, ast.ImportFrom) for alias in one.names}
            elif isinstance(one, (ast.Assign, ast.AnnAssign)):
                targets = one.targets if isinstance(one, ast.Assign) else [one.target]
                found |= {(target.id, type(one)) for target in targets if isinstance(target, ast.Name)}
    return found


def leads_somewhere(role: str, target: str, path: Path) -> bool:
    """``firstnan.a.b``; ``.a.b`` from the module's package on; ``b`` in the module or in its package."""
    package = ".".join(path.relative_to(SOURCE).parts[:-1])
    if role == "mod" and target in sys.stdlib_module_names:
        return True
    whole = target if target.startswith("firstnan") else f"{package}.{target.removeprefix('.')}"
    if role == "mod":
        return file_of(whole) is not None
    module, _, name = whole.rpartition(".")
    if "." in target:
        home = file_of(module)
        kinds = (*ROLES[role], ast.ImportFrom)
        return home is not None and any((name, kind) in definitions(home) for kind in kinds)
    if (name, ast.ImportFrom) in definitions(path):
        return True
    return any((name, kind) in definitions(home) for home in path.parent.glob("*.py") for kind in ROLES[role])


@pytest.mark.parametrize("path", FILES, ids=by_name)
def test_references_lead_somewhere(path: Path) -> None:
    references = REFERENCE.findall(path.read_text("utf-8"))
    assert [f":{role}:`{target}`" for role, target in references if not leads_somewhere(role, target, path)] == []


@pytest.mark.parametrize(
    "reference",
    [
        "mod msprobe",
        "mod .focus",
        "mod firstnan.read.sources.gone",
        "class Gone",
        "class .Gone",
        "class firstnan.dump.values.Gone",
        "func firstnan.dump.values.ValueState",
        "func .values.gone",
    ],
)
def test_a_dead_reference_is_noticed(reference: str) -> None:
    role, target = reference.split()
    assert not leads_somewhere(role, target, SOURCE / "firstnan" / "dump" / "records.py")


def test_cited_sections_of_the_dump_format_are_there() -> None:
    sections = set(re.findall(r"^##+ (\d+(?:\.\d)?)\.? ", DUMP_FORMAT.read_text("utf-8"), re.MULTILINE))
    cited = {
        section
        for path in [*FILES, *Path(__file__).parent.rglob("*.py")]
        for numbers in CITATION.findall(path.read_text("utf-8"))
        for section in re.findall(r"\d+(?:\.\d)?", numbers)
    }
    assert len(cited) > 10
    assert cited - sections == set()
