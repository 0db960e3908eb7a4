"""Builds the skill folder that works on a machine with nothing but Python.

``python tools/build_skill.py [TARGET]`` copies ``skills/nan-overflow-detection`` to TARGET (default: below ``dist/``)
and puts the whole package beside its scripts as one file, ``scripts/firstnan.pyz``. The file carries the wheels that
firstnan cannot do without, for the Pythons and machines in PYTHONS and MACHINES; they come from a package registry
once and stay in ``build/wheels``. The same sources and wheels give the same bytes: entries are sorted and carry a fixed
time.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SKILL = ROOT / "skills" / "nan-overflow-detection"
EXAMPLE = ROOT / "examples" / "dp2-tp2"
ARCHIVE = "firstnan.pyz"
START = ROOT / "tools" / "single_file" / "carried.py"
WHEELS = ROOT / "build" / "wheels"
PACKAGES = ("jiter", "msgspec")
"""What every run needs; rich and stringzilla are used where they are installed."""
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
GLIBC = "manylinux2014"
FITS = "CPython 3.10 to 3.14 on Linux with glibc 2.17 or newer, x86-64 and AArch64"
EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The time of every entry: the first one that a zip file can hold."""

MAIN = b"""\
import sys

if sys.version_info < (3, 10):
    sys.exit("firstnan needs Python 3.10 or newer and this is " + sys.version.split()[0])

import carried

carried.add()

from firstnan.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
"""


def build(target: Path) -> Path:
    """The skill folder at ``target``, in the place of one that was built there before."""
    if target.exists():
        if not (target / "SKILL.md").is_file():
            raise SystemExit(f"{target} is there already and is not a skill folder")
        shutil.rmtree(target)
    for source in files_below(SKILL):
        if source.is_relative_to(SKILL / "evals"):  # the answers are not for whoever is asked
            continue
        copy = target / source.relative_to(SKILL)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)
    shutil.copy(ROOT / "LICENSE", target)
    write_archive(target / "scripts" / ARCHIVE)
    return target


def write_archive(target: Path) -> None:
    """The package with everything it needs, as a file that Python runs."""
    entries = sorted(contents().items())
    with target.open("wb") as stream:
        stream.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, content in entries:
                entry = zipfile.ZipInfo(name, EARLIEST)
                entry.create_system = 3
                entry.external_attr = 0o644 << 16
                entry.compress_type = zipfile.ZIP_STORED if name.endswith(".whl") else zipfile.ZIP_DEFLATED
                archive.writestr(entry, content)
    target.chmod(0o755)


def contents() -> dict[str, bytes]:
    """Every entry of the archive by name."""
    made = {"__main__.py": MAIN, "LICENSE": (ROOT / "LICENSE").read_bytes(), START.name: START.read_bytes()}
    package, demo = ROOT / "src" / "firstnan", Path("firstnan/demo_data") / EXAMPLE.name
    made |= {path.relative_to(ROOT / "src").as_posix(): path.read_bytes() for path in files_below(package)}
    made |= {(demo / path.relative_to(EXAMPLE)).as_posix(): path.read_bytes() for path in files_below(EXAMPLE)}
    return made | wheels()


def wheels() -> dict[str, bytes]:
    """The wheels and their index (``tools/single_file/carried.py`` reads it)."""
    made: dict[str, bytes] = {}
    index: dict[str, list[tuple[str, str]]] = {}
    for python in PYTHONS:
        for machine in MACHINES:
            found = index.setdefault(f"cp{python.replace('.', '')}-{machine}", [])
            for wheel in fetched(python, machine):
                content = made[f"wheels/{wheel.name}"] = wheel.read_bytes()
                found.append((wheel.name, hashlib.sha256(content).hexdigest()))
    told = {"packages": PACKAGES, "fits": FITS, "wheels": index}
    return {"wheels/index.json": json.dumps(told, indent=1).encode(), **made}


def fetched(python: str, machine: str) -> list[Path]:
    """Wheels for one Python and machine, out of WHEELS or from a registry."""
    declared = (ROOT / "pyproject.toml").read_text("utf-8")
    names = [*PACKAGES, *(["tomli"] if python == "3.10" else [])]  # later ones have a TOML reader
    wanted = re.findall(
        rf'^    "((?:{"|".join(names)})\b[^";]*)', declared.partition("dependency-groups")[0], re.MULTILINE
    )
    place = WHEELS / f"{python}-{machine} {' '.join(wanted)}"
    if not place.is_dir():
        WHEELS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=WHEELS) as folder:
            options = ["--no-deps", "--only-binary", ":all:", "--implementation", "cp", "--python-version", python]
            options += ["--platform", f"{GLIBC}_{machine}", "--dest", f"{folder}/wheels", "--quiet"]
            command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", *options, *wanted]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            if ended.returncode:
                raise SystemExit(f"no wheels for Python {python} on {machine}: {ended.stderr.strip()}")
            if not place.is_dir():
                Path(folder, "wheels").rename(place)
    return sorted(place.iterdir())


def files_below(folder: Path) -> Iterator[Path]:
    """Files that belong to the project: nothing hidden, nothing that Python leaves behind."""
    for path in sorted(folder.rglob("*")):
        names = path.relative_to(folder).parts
        if path.is_file() and "__pycache__" not in names and not any(name.startswith(".") for name in names):
            yield path


if __name__ == "__main__":
    made_at = build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / SKILL.name)
    print(f"built {made_at}")
