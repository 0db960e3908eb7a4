"""Builds the skill folder that works on a machine with nothing but Python 3.10 or newer.

``python tools/build_skill.py [TARGET]`` copies ``skills/nan-overflow-detection`` to TARGET (default: below ``dist/``)
and puts the whole package beside its scripts as one file, ``scripts/firstnan.pyz``. The same sources give the same
bytes: entries are sorted and carry a fixed time.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SKILL = ROOT / "skills" / "nan-overflow-detection"
EXAMPLE = ROOT / "examples" / "dp2-tp2"
ARCHIVE = "firstnan.pyz"
EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The time of every entry: the first one that a zip file can hold."""

MAIN = b"""\
import sys

if sys.version_info < (3, 10):
    sys.exit("firstnan needs Python 3.10 or newer and this is " + sys.version.split()[0])

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
        copy = target / source.relative_to(SKILL)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)
    shutil.copy(ROOT / "LICENSE", target)
    write_archive(target / "scripts" / ARCHIVE)
    return target


def write_archive(target: Path) -> None:
    """The package with everything it needs, as a file that Python runs."""
    with target.open("wb") as stream:
        stream.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, content in sorted(contents().items()):
                entry = zipfile.ZipInfo(name, EARLIEST)
                entry.create_system = 3
                entry.external_attr = 0o644 << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, content)
    target.chmod(0o755)


def contents() -> dict[str, bytes]:
    """Every entry of the archive by name."""
    made = {"__main__.py": MAIN, "LICENSE": (ROOT / "LICENSE").read_bytes()}
    package, demo = ROOT / "src" / "firstnan", Path("firstnan/demo_data") / EXAMPLE.name
    made |= {path.relative_to(ROOT / "src").as_posix(): path.read_bytes() for path in files_below(package)}
    made |= {(demo / path.relative_to(EXAMPLE)).as_posix(): path.read_bytes() for path in files_below(EXAMPLE)}
    return made | tomli()


def tomli() -> dict[str, bytes]:
    """The TOML reader for Python 3.10, whose standard library has none: plain Python, with its licence."""
    found = {}
    for file in metadata.files("tomli") or ():
        if file.parts[0] == "tomli" and file.suffix == ".py":
            found[file.as_posix()] = file.read_binary()
        elif file.name.startswith("LICENSE"):
            found["tomli/LICENSE"] = file.read_binary()
    if not {"tomli/__init__.py", "tomli/LICENSE"} <= found.keys():
        raise SystemExit("the installed package tomli has no plain Python files or no licence: it cannot be put in")
    return found


def files_below(folder: Path) -> Iterator[Path]:
    """Files that belong to the project: nothing hidden, nothing that Python leaves behind."""
    for path in sorted(folder.rglob("*")):
        names = path.relative_to(folder).parts
        if path.is_file() and "__pycache__" not in names and not any(name.startswith(".") for name in names):
            yield path


if __name__ == "__main__":
    made_at = build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / SKILL.name)
    print(f"built {made_at}")
