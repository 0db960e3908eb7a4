"""Says how many small mistakes in the analysis the tests would notice.

``python tools/mutation_check.py --count 150`` changes one place at a time (a comparison, and/or, a number, a
condition) in a copy of the checkout, and runs the tests that belong to the file. A change that no test notices has
survived: either a test is missing, or the change makes no difference. Takes some seconds for each change; the same seed
gives the same changes.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src/firstnan")
FILES = ("rank/*.py", "step/*.py", "causes/**/*.py", "dump/values.py")
COPIED = ("src", "tests", "examples", "benchmarks", "docs", "fuzz", "pyproject.toml")
EARLY, LATE = ("what_decides", "mechanism"), ("long", "cut_files", "focus", "random", "cases")
"""Parts of names of test files: those that notice most at little cost, and those that take long, the longest last."""
PATIENCE = 240
"""Seconds after which the tests of one change are given up: it counts as noticed."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip
_CALLS = {"any": "all", "all": "any", "min": "max", "max": "min"}


@dataclass(frozen=True)
class Mutant:
    """One change."""

    file: str
    line: int
    what: str
    text: str
    """The file without it."""
    place: int
    """Number of the node in the walk through the file's tree."""
    number: int
    """Which of the changes of this node."""

    @property
    def source(self) -> str:
        """The whole file with it."""
        tree = ast.parse(self.text)
        node = next(itertools.islice(ast.walk(tree), self.place, None))
        change, _ = next(itertools.islice(changes(node), self.number, None))
        change(node)
        return ast.unparse(tree)


def main() -> int:
    """Prints every survivor and the score; the exit code is 0 whatever the score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=150, help="how many changes (default: 150)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="changes that are listed with this text (rank/taint/def_use.py:12)")
    parser.add_argument("--list", action="store_true", help="show the changes and run nothing")
    chosen = parser.parse_args()
    files = [path for pattern in FILES for path in sorted((ROOT / PACKAGE).glob(pattern))]
    found = [mutant for path in files for mutant in mutants(path) if chosen.only in listed(mutant)]
    picked = random.Random(chosen.seed).sample(found, min(chosen.count, len(found)))
    print(f"{len(picked)} of {len(found)} possible changes in {len(files)} files", flush=True)
    if chosen.list:
        print("\n".join(map(listed, picked)))
        return 0
    survived = 0
    with tempfile.TemporaryDirectory(prefix="firstnan-mutants-") as folder:
        place = Path(folder)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, place / name)
            else:
                shutil.copy(ROOT / name, place / name)
        if run(place, tests_of(place, "numerics.py"), 10 * PATIENCE):
            raise SystemExit("the tests fail without any change")
        for number, mutant in enumerate(picked, 1):
            if not is_noticed(place, mutant):
                survived += 1
                print(f"survived: {listed(mutant)}", flush=True)
            if number % 10 == 0:
                print(f"{number} done, {survived} survived", flush=True)
    print(f"score: {100 * (1 - survived / len(picked)):.0f} % of {len(picked)} changes were noticed")
    return 0


def listed(mutant: Mutant) -> str:
    """File, line and change."""
    return f"{mutant.file}:{mutant.line}: {mutant.what}"


def is_noticed(place: Path, mutant: Mutant) -> bool:
    """Runs the tests with the change in place, and takes it back."""
    path = place / PACKAGE / mutant.file
    sound = path.read_text(encoding="utf-8")
    path.write_text(mutant.source, encoding="utf-8")
    try:
        return run(place, tests_of(place, mutant.file), PATIENCE)
    finally:
        path.write_text(sound, encoding="utf-8")


def tests_of(place: Path, file: str) -> list[str]:
    """All tests of the analysis; those with the file's name first, the slow ones last."""
    stem = Path(file).stem
    there = [*(place / "tests" / "analysis").glob("test_*.py"), *(place / "tests").glob("test_value_states.py")]
    there += [p for name in ("test_pipeline.py", "test_cases.py") for p in (place / "tests").glob(name)]
    there += (place / "tests" / "robustness").glob("test_survivors_*.py")
    there.append(place / "tests" / "robustness" / "test_documented_limits.py")

    def order(path: Path) -> tuple[int, bool, bool, str]:
        late = next((number for number, word in enumerate(LATE, 1) if word in path.name), 0)
        own = f"_{stem.split('_')[0]}" in path.stem
        return late if not own else 0, not own, not any(word in path.name for word in EARLY), path.name

    return [str(path) for path in sorted(there, key=order)]


def run(place: Path, tests: Sequence[str], seconds: float) -> bool:
    """Whether a test fails."""
    clean = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    clean |= {"PYTHONPATH": str(place / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-o", "addopts="]
    options += ["--basetemp", str(place / "temporary")]  # the usual folder is shared: cleaning it up may fail
    command = [sys.executable, "-m", "pytest", *options, *tests]
    try:
        ended = subprocess.run(command, cwd=place, env=clean, capture_output=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return True
    return ended.returncode != 0


# --- the changes --------------------------------------------------------------------------------------------------


def mutants(path: Path) -> Iterator[Mutant]:
    """Every change of one file, in the order of its lines."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    file = path.relative_to(ROOT / PACKAGE).as_posix()
    for place, node in enumerate(ast.walk(tree)):
        for number, (_, what) in enumerate(changes(node)):
            yield Mutant(file, getattr(node, "lineno", 0), f"{what}: {_shown(node)}", text, place, number)


Change = Callable[[ast.AST], None]


def changes(node: ast.AST) -> Iterator[tuple[Change, str]]:
    """What can be changed at one node: how, and in which words."""
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            other = _COMPARISONS[type(operator)]
            yield _set_item("ops", index, other), f"{type(operator).__name__} -> {other.__name__}"
    elif isinstance(node, ast.BoolOp):
        swapped = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield _set("op", swapped), f"{type(node.op).__name__} -> {swapped.__name__}"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield _replace_not, "without not"
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC and not _is_text(node):
        turned = _ARITHMETIC[type(node.op)]
        yield _set("op", turned), f"{type(node.op).__name__} -> {turned.__name__}"
    elif isinstance(node, (ast.If, ast.IfExp, ast.While)) and not _is_type_checking(node.test):
        yield _negate, "condition negated"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        yield _rename(_CALLS[node.func.id]), f"{node.func.id} -> {_CALLS[node.func.id]}"
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool):
        yield _flip, "the other result"
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.keyword)) and _is_number(node.value):
        yield _one_more, "another number"


def _set(field: str, kind: Callable[[], ast.AST]) -> Change:
    return lambda node: setattr(node, field, kind())


def _set_item(field: str, index: int, kind: Callable[[], ast.AST]) -> Change:
    return lambda node: getattr(node, field).__setitem__(index, kind())


def _rename(name: str) -> Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Call)
        node.func = ast.Name(name, ast.Load())

    return change


def _replace_not(node: ast.AST) -> None:
    assert isinstance(node, ast.UnaryOp)
    node.operand = ast.UnaryOp(ast.Not(), node.operand)


def _negate(node: ast.AST) -> None:
    assert isinstance(node, (ast.If, ast.IfExp, ast.While))
    node.test = ast.UnaryOp(ast.Not(), node.test)


def _flip(node: ast.AST) -> None:
    assert isinstance(node, ast.Return)
    assert isinstance(node.value, ast.Constant)
    node.value = ast.Constant(not node.value.value)


def _one_more(node: ast.AST) -> None:
    assert isinstance(node, (ast.Assign, ast.AnnAssign, ast.keyword))
    assert isinstance(node.value, ast.Constant)
    assert isinstance(node.value.value, (int, float))
    node.value = ast.Constant(node.value.value * 2 + 1)


def _is_number(value: ast.expr | None) -> bool:
    return (
        isinstance(value, ast.Constant) and isinstance(value.value, (int, float)) and not isinstance(value.value, bool)
    )


def _is_text(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    return any(isinstance(side, (ast.JoinedStr, ast.Tuple, ast.List)) for side in sides) or any(
        isinstance(side, ast.Constant) and isinstance(side.value, str) for side in sides
    )


def _is_type_checking(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node.test if isinstance(node, (ast.If, ast.While)) else node).replace("\n", " ")
    return text if len(text) <= 100 else text[:97] + "..."


if __name__ == "__main__":
    sys.exit(main())
