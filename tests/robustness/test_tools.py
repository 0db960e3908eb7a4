"""The programs under tools/ that look after dependencies and tests, as far as they need no registry."""

from __future__ import annotations

import hashlib
import importlib.util
import platform
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


# --- the range of dependencies ------------------------------------------------------------------------------------


def test_the_oldest_releases_are_the_lower_bounds() -> None:
    oldest = tool("check_dependency_range").oldest
    assert oldest(["jiter>=0.5", "rich >=13.0,<99", "tomli>=2.0; python_version < '3.11'"]) == [
        "jiter==0.5",
        "rich==13.0",
        "tomli==2.0; python_version < '3.11'",
    ]


def test_a_dependency_without_a_lower_bound_is_refused() -> None:
    with pytest.raises(SystemExit, match="without a lowest release: rich"):
        tool("check_dependency_range").oldest(["rich"])


def test_every_dependency_of_the_project_has_a_lower_bound() -> None:
    module = tool("check_dependency_range")
    if sys.version_info < (3, 11):
        pytest.importorskip("tomli")
    assert module.oldest(module._project()["dependencies"])


# --- the bundle ---------------------------------------------------------------------------------------------------


def test_each_python_gets_what_it_needs() -> None:
    pytest.importorskip("packaging")
    if sys.version_info < (3, 11):
        pytest.importorskip("tomli")
    module = tool("make_offline_bundle")
    requirements, pythons = module.project()
    assert pythons[0] == "3.10"
    names = {python: [r.split(">")[0] for r in module.needed(requirements, python)] for python in pythons}
    assert "tomli" in names["3.10"]
    assert "tomli" not in names["3.11"]
    assert all("jiter" in found for found in names.values())


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle for this machine and this Python, with one file that is no wheel."""
    return unpacked(tmp_path, platform.machine(), f"{sys.version_info[0]}.{sys.version_info[1]}")


def unpacked(tmp_path: Path, machine: str, pythons: str) -> Path:
    folder = tmp_path / "bundle"
    (folder / "wheels").mkdir(parents=True)
    (folder / "wheels" / "a.whl").write_bytes(b"a")
    (folder / "SHA256SUMS").write_text(f"{hashlib.sha256(b'a').hexdigest()}  wheels/a.whl\n")
    script = (TOOLS / "offline_install.sh").read_text()
    (folder / "install.sh").write_text(script.replace("@MACHINE@", machine).replace("@PYTHONS@", pythons))
    return folder


def install(folder: Path, *arguments: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHON": python, "PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1"}
    command = ["sh", str(folder / "install.sh"), *arguments]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)


linux = pytest.mark.skipif(sys.platform != "linux", reason="the bundle is for Linux")


@linux
@pytest.mark.parametrize("arguments", [(), ("a", "b"), ("--everywhere",)])
def test_the_installer_says_how_it_is_used(bundle: Path, arguments: tuple[str, ...]) -> None:
    ended = install(bundle, *arguments)
    assert ended.returncode == 1
    assert ended.stderr.startswith("install.sh: ")
    assert len(ended.stderr.splitlines()) == 1


@linux
def test_the_installer_refuses_another_machine(tmp_path: Path) -> None:
    ended = install(unpacked(tmp_path, "riscv64", "3.11"), str(tmp_path / "env"))
    assert (ended.returncode, (tmp_path / "env").exists()) == (1, False)
    assert "these wheels are for riscv64" in ended.stderr


@linux
def test_the_installer_refuses_another_python(tmp_path: Path) -> None:
    ended = install(unpacked(tmp_path, platform.machine(), "3.8 3.9"), str(tmp_path / "env"))
    assert (ended.returncode, (tmp_path / "env").exists()) == (1, False)
    assert "these wheels are for 3.8 3.9" in ended.stderr


@linux
def test_the_installer_refuses_a_damaged_archive(bundle: Path, tmp_path: Path) -> None:
    (bundle / "wheels" / "a.whl").write_bytes(b"b")
    ended = install(bundle, str(tmp_path / "env"))
    assert (ended.returncode, (tmp_path / "env").exists()) == (1, False)
    assert "damaged" in ended.stderr


@linux
def test_the_installer_refuses_a_python_that_does_not_run(bundle: Path, tmp_path: Path) -> None:
    ended = install(bundle, str(tmp_path / "env"), python="/nowhere/python")
    assert ended.returncode == 1
    assert "does not run" in ended.stderr


# --- the check of the tests ---------------------------------------------------------------------------------------


def test_changes_are_single_and_can_be_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tool("mutation_check")
    path = tmp_path / "src" / "firstnan" / "sample.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "LIMIT = 3\n\n"
        "def check(values, *, deep=False):\n"
        "    if not values and deep:\n"
        "        return False\n"
        "    return any(v > LIMIT + 1 for v in values)\n"
    )
    monkeypatch.setattr(module, "ROOT", tmp_path)
    found = list(module.mutants(path))
    assert [(m.line, m.what.split(":")[0]) for m in sorted(found, key=lambda m: (m.line, m.what))] == [
        (1, "another number"),
        (4, "And -> Or"),
        (4, "condition negated"),
        (4, "without not"),
        (5, "the other result"),
        (6, "Add -> Sub"),
        (6, "Gt -> GtE"),
        (6, "any -> all"),
    ]
    assert len({mutant.source for mutant in found}) == len(found)
    for mutant in found:
        compile(mutant.source, mutant.file, "exec")
