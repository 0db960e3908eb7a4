"""What is shipped: the wheel, the source archive, the example, and the commands that make them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import firstnan
from firstnan.cli import demo

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / demo.NAME


def build(kind: str, target: Path) -> Path:
    """Build with the installed backend: no isolated environment, no registry."""
    pytest.importorskip("hatchling")
    ended = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    (made,) = target.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_is_for_every_platform(wheel: Path) -> None:
    assert wheel.name == f"firstnan-{firstnan.__version__}-py3-none-any.whl"


def test_the_wheel_holds_types_rules_and_example(wheel: Path) -> None:
    held = names(wheel)
    assert {"firstnan/py.typed", "firstnan/operators/operators.toml", "firstnan/cli/main.py"} <= held
    with zipfile.ZipFile(wheel) as archive:
        for path in EXAMPLE.rglob("*.json"):
            packed = f"firstnan/demo_data/{demo.NAME}/{path.relative_to(EXAMPLE).as_posix()}"
            assert archive.read(packed) == path.read_bytes()


def test_the_wheel_holds_nothing_else(wheel: Path) -> None:
    roots = {name.split("/")[0] for name in names(wheel)}
    assert roots == {"firstnan", f"firstnan-{firstnan.__version__}.dist-info"}
    assert not any(name.endswith(".pyc") or "/." in name for name in names(wheel))


def test_the_core_needs_little(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = f"firstnan-{firstnan.__version__}.dist-info"
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode("utf-8"))
        entry_points = archive.read(f"{info}/entry_points.txt").decode("utf-8")
    needed = {
        re.split(r"[^a-z]", requirement)[0]: requirement
        for requirement in metadata.get_all("Requires-Dist", [])
        if "extra ==" not in requirement
    }
    assert {"jiter", "msgspec", "rich", "tomli"} <= needed.keys()
    assert "ray" not in needed
    assert "torch" not in needed
    assert {"ray", "record"} <= set(metadata.get_all("Provides-Extra", []))
    assert "python_version < '3.11'" in needed["tomli"].replace('"', "'")
    assert metadata["Requires-Python"] == ">=3.10"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert "firstnan = firstnan.__main__:main" in entry_points


def test_the_source_archive_can_be_worked_with(tmp_path: Path) -> None:
    made = build("sdist", tmp_path)
    with tarfile.open(made) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    wanted = (
        *("Makefile", "README.md", "README.zh.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "pyproject.toml"),
        *("src/firstnan/py.typed", "tests/test_packaging.py", "tools/build_skill.py", "docs/architecture.md"),
        *("skills/nan-overflow-detection/SKILL.md", f"examples/{demo.NAME}/step0/rank0/dump.json"),
    )
    assert set(wanted) <= held
    assert not any(name.startswith((".venv", "dist", ".git/")) or name.endswith(".pyc") for name in held)


def test_the_demo_is_the_example_of_the_checkout(tmp_path: Path) -> None:
    root = demo.unpack(tmp_path)
    unpacked = {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert unpacked == {path.relative_to(EXAMPLE): path.read_bytes() for path in EXAMPLE.rglob("*") if path.is_file()}
    assert len(unpacked) == 12


def commands(readme: str) -> list[str]:
    """Lines of the ``sh`` blocks of a README, in order."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / readme).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("readme", ["README.md", "README.zh.md"])
def test_the_first_two_commands_need_nothing_else(readme: str) -> None:
    assert commands(readme)[:2] == ["make demo", "make test"]


@pytest.mark.skipif(not (ROOT / ".ci" / "run").exists(), reason="the source archive has no .ci")
def test_ci_runs_the_readmes_test_command() -> None:
    script = ROOT / ".ci" / "run"
    lines = script.read_text("utf-8").splitlines()
    assert "set -euo pipefail" in lines
    assert os.access(script, os.X_OK)
    assert sum(commands("README.md")[1] in line for line in lines if not line.startswith("#")) == 1


@pytest.mark.parametrize("readme", ["README.md", "README.zh.md"])
def test_every_make_target_in_the_readme_exists(readme: str) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = {line.split()[1] for line in commands(readme) if line.startswith("make ")}
    assert {target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)} == set()
