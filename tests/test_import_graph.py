"""What the layers in pyproject.toml cannot say: who prints, where packages from outside come in, which are optional."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
PACKAGE = SOURCE / "firstnan"
FILES = sorted(PACKAGE.rglob("*.py"))
BANNED_NAMES = {"utils", "util", "common", "helpers", "helper", "misc"}

STANDARD = sys.stdlib_module_names | {"tomllib"}
"""Modules of the standard library; tomllib is one from Python 3.11 on."""

PRINTERS = {"cli", "__main__"}
"""The parts of the package that may print, exit, or touch stdout."""

THIRD_PARTY = {
    "jiter": {"read.json.lenient"},
    "msgspec": {"*"},
    "rich": {"show.console", "cli.progress"},
    "stringzilla": {"read.scan.search"},
    "tomli": {"operators.table"},
    "ray": {"run.engines.ray"},
    "torch": {"recording.*", "replaying.*"},
    "numpy": {"replaying.*", "recording.writer"},
    "torch_npu": {"replaying.repro_script"},
    "fsspec": {"read.sources.remote"},
    "mcp": {"serving.server"},
    "zstandard": {"read.sources.compressed"},
}
"""Each package outside of the standard library, and the only modules that import it; ``*``: all may, ``package.*``: all
of that package."""

OPTIONAL = {"read.scan.search"}
"""The seam at which a package may be absent: searching. (The terminal looks whether there is ``rich``.)"""
PROGRAMS = {"replaying.repro_script"}
"""Programs that are copied out of the package: they print and exit for themselves."""


def name_of(path: Path) -> str:
    """``src/firstnan/read/records/values.py`` is ``read.records.values``; a package is its ``__init__``."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


BELOW_THE_COMMAND_LINE = [
    path for path in FILES if name_of(path).split(".")[0] not in PRINTERS and name_of(path) not in PROGRAMS
]


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), filename=str(path), feature_version=(3, 10))


def imports(path: Path) -> Iterator[str]:
    """Dotted names of everything imported, anywhere in the file; relative imports made absolute."""
    package = path.relative_to(SOURCE).parts[:-1]
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def by_name(path: Path) -> str:
    return name_of(path)


@pytest.mark.parametrize("path", FILES, ids=by_name)
def test_packages_from_outside_come_in_at_one_place(path: Path) -> None:
    roots = {name.split(".")[0] for name in imports(path)} - STANDARD - {"firstnan"}
    if name_of(path) in PROGRAMS:
        roots -= {"operators"}  # the folder that is copied beside it
    places = {"*", name_of(path), f"{name_of(path).partition('.')[0]}.*"}
    assert {root for root in roots if not places & THIRD_PARTY.get(root, set())} == set()


def calls(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


@pytest.mark.parametrize("path", BELOW_THE_COMMAND_LINE, ids=by_name)
def test_only_the_command_line_prints_or_exits(path: Path) -> None:
    tree = tree_of(path)
    assert set(calls(tree)) & {"print", "input", "exit", "quit", "sys.exit", "os._exit", "os.abort"} == set()
    names = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert "sys.stdout" not in names
    raised = {ast.unparse(node.exc) for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc}
    assert not any(text.startswith("SystemExit") for text in raised)


def import_guards(tree: ast.Module) -> Iterator[int]:
    """Lines of handlers that go on without a package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            caught = set(ast.unparse(node.type).strip("()").split(", "))
            if caught & {"ImportError", "ModuleNotFoundError"}:
                yield node.lineno


@pytest.mark.parametrize("path", FILES, ids=by_name)
def test_imports_are_optional_at_one_seam_only(path: Path) -> None:
    guarded = list(import_guards(tree_of(path)))
    if name_of(path) == "show.__init__":
        assert len(guarded) == 1, "only the loading of a form that this installation does not have"
    elif name_of(path) == "__init__":
        assert len(guarded) == 1, "only the public names that need PyTorch"
    elif name_of(path) not in OPTIONAL:
        assert guarded == []


def test_no_module_is_a_drawer_for_everything() -> None:
    assert {name_of(path) for path in FILES if BANNED_NAMES & set(name_of(path).split("."))} == set()


def test_the_package_is_found() -> None:
    assert len(FILES) > 40
