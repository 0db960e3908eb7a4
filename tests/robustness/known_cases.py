"""Dumps with a known root cause, unpacked once: the fixtures, and the shared collection where it is."""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

OWN = Path(__file__).resolve().parents[1] / "data" / "own"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases"
EVERY = 1 if os.environ.get("FIRSTNAN_TEST_ALL_CASES") else 12
"""Of the shared cases every so many are taken: all of them where a long run is wanted."""
UNPACKED = os.environ.get("FIRSTNAN_TEST_CASES")
"""A folder with cases, below which all of them are taken in place of the archives."""
_unpacked = tempfile.TemporaryDirectory(prefix="firstnan-cases-")


@dataclass(frozen=True)
class Case:
    """One dump, still in its archive."""

    name: str
    archive: Path
    """Archive that holds it, or the folder that it stands in."""

    @property
    def folder(self) -> Path:
        return (self.archive if self.archive.is_dir() else _content(self.archive)) / self.name

    @property
    def truth(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "truth.json").read_text(encoding="utf-8"))
        return found


@cache
def _content(archive: Path) -> Path:
    target = Path(_unpacked.name) / archive.name.split(".")[0]
    with tarfile.open(archive) as content:
        content.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and newer
        content.extractall(target)
    return target


def own_cases() -> Iterator[Case]:
    for archive in sorted(OWN.glob("*.tar.gz")):
        yield Case(archive.name.removesuffix(".tar.gz"), archive)


def shared_cases() -> Iterator[Case]:
    """Cases of the first set, whose truth tells the setup."""
    if (SHARED / "INDEX.json").is_file():
        index = json.loads((SHARED / "INDEX.json").read_text(encoding="utf-8"))
        found = [Case(name, SHARED / entry["archive"]) for name, entry in sorted(index.items())]
        yield from found[::EVERY]


def all_cases() -> Iterator[Case]:
    """The repository's own cases and a sample of every shared set; or all below FIRSTNAN_TEST_CASES."""
    if UNPACKED:
        found = sorted(path.parent for path in Path(UNPACKED).rglob("truth.json"))
        yield from (Case(folder.name, folder.parent) for folder in found)
        return
    yield from own_cases()
    yield from shared_cases()
    for archive in sorted((SHARED / "second").glob("r*.tar.gz")) + sorted((SHARED / "second").glob("lib*.tar.gz")):
        with tarfile.open(archive) as content:
            names = sorted({Path(name).parts[0] for name in content.getnames() if name.endswith("truth.json")})
        yield from (Case(name, archive) for name in names[::EVERY])
