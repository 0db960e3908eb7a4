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
_unpacked = tempfile.TemporaryDirectory(prefix="firstnan-cases-")


@dataclass(frozen=True)
class Case:
    """One dump, still in its archive."""

    name: str
    archive: Path

    @property
    def folder(self) -> Path:
        return _content(self.archive) / self.name

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
    if (SHARED / "INDEX.json").is_file():
        index = json.loads((SHARED / "INDEX.json").read_text(encoding="utf-8"))
        found = [Case(name, SHARED / entry["archive"]) for name, entry in sorted(index.items())]
        yield from found[::EVERY]
