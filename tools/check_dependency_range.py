"""Runs a part of the tests with the oldest and with the newest releases that pyproject.toml allows.

``python tools/check_dependency_range.py [oldest|newest ...]`` makes an environment for each, outside of the checkout.
The oldest releases have wheels for the oldest Python that the project supports, so that this one is used where it is
installed. Ends with 0 when all tests pass. Needs a package registry.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TESTS = (
    "tests/readers",
    "tests/reporters",
    "tests/test_cli.py",
    "tests/test_progress.py",
    "tests/test_rulebook.py",
    "tests/test_report_json.py",
    "tests/test_api.py",
    "tests/test_engines.py",
    "tests/test_ray_engine.py",
    "src/firstnan/read",
    "src/firstnan/show",
)
"""Where the packages from outside are used."""
EXTRAS = ("ray",)
"""Extras whose packages are looked at as well."""
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)\s*>=\s*([0-9][0-9A-Za-z.]*)\s*(?:,[^;]*)?(;.*)?")


def main() -> None:
    """Raises SystemExit with the reason when something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ends", nargs="*", default=["oldest", "newest"], help="oldest, newest (default: both)")
    parser.add_argument("--python", help="the interpreter (default: the oldest supported one that is here)")
    chosen = parser.parse_args()
    project = _project()
    lowest = oldest(_requirements(project))
    with tempfile.TemporaryDirectory(prefix="firstnan-range-") as folder:
        for end in chosen.ends:
            usual = _oldest_python(project["requires-python"]) if end == "oldest" else sys.executable
            python = chosen.python or usual
            told = check(Path(folder) / end, python, lowest if end == "oldest" else [])
            print(f"{end}: {told}", flush=True)


def _project() -> dict[str, Any]:
    """The parts of pyproject.toml that matter; it is simple enough to be read without a TOML reader of its own."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    with (ROOT / "pyproject.toml").open("rb") as file:
        project: dict[str, Any] = tomllib.load(file)["project"]
    return project


def _requirements(project: dict[str, Any]) -> list[str]:
    """What the project needs, and what its extras add."""
    extras: dict[str, list[str]] = project["optional-dependencies"]
    return [*project["dependencies"], *(requirement for name in EXTRAS for requirement in extras[name])]


def oldest(requirements: Sequence[str]) -> list[str]:
    """Every requirement, pinned to its lowest release.

    >>> oldest(["jiter>=0.5", "tomli>=2.0,<3; python_version < '3.11'"])
    ['jiter==0.5', "tomli==2.0; python_version < '3.11'"]
    """
    pinned = []
    for requirement in requirements:
        match = _REQUIREMENT.fullmatch(requirement)
        if match is None:
            raise SystemExit(f"a dependency without a lowest release: {requirement}")
        pinned.append(f"{match[1]}=={match[2]}{match[3] or ''}")
    return pinned


def _oldest_python(required: list[str] | str) -> str:
    """The interpreter of the oldest version that is supported, else this one."""
    name = "python" + str(required).removeprefix(">=")
    try:
        ended = subprocess.run([name, "--version"], capture_output=True, check=False)
    except OSError:
        return sys.executable
    return name if ended.returncode == 0 else sys.executable


def check(place: Path, python: str, pins: Sequence[str]) -> str:
    """Makes the environment, runs the tests in it; tells the versions and the count of tests."""
    run([python, "-m", "venv", str(place)])
    inside = str(place / ("Scripts" if os.name == "nt" else "bin") / "python")
    pip = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(
        [*pip, "--upgrade", "--editable", f"{ROOT}[{','.join(EXTRAS)}]", "pytest>=8", "hypothesis", "jsonschema", *pins]
    )
    run([inside, "-m", "pip", "check"])
    there = run([inside, "-m", "pip", "list", "--format", "freeze", "--exclude-editable"]).split()
    names = {re.split(r"[>=;\s]", r)[0].lower() for r in _requirements(_project())}
    used = [line for line in there if line.split("==")[0].lower() in names]
    tests = [test for test in TESTS if (ROOT / test).exists()]
    counted = run([inside, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]).splitlines()[-1]
    version = run([inside, "--version"]).strip()
    return f"{version} with {', '.join(used)}: {counted}"


def run(command: Sequence[str]) -> str:
    """What the command wrote to stdout."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    ended = subprocess.run(command, cwd=ROOT, env=clean, capture_output=True, text=True, check=False)
    if ended.returncode:
        said = ended.stdout[-4000:] + ended.stderr[-4000:]
        raise SystemExit(f"{' '.join(command)} ended with {ended.returncode}:\n{said}")
    return ended.stdout


if __name__ == "__main__":
    main()
