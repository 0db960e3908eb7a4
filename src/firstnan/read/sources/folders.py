"""Listing other people's folders: links are followed, loops and refusals are told, nothing raises."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from msgspec import Struct

from firstnan.read.sources.files import kind_of, reason

_DIGITS = re.compile(r"([0-9]+)")
_LONGEST_NUMBER = 18


class Entry(Struct, frozen=True):
    """One name in a folder."""

    name: str
    """For people: characters that are no text are replaced."""
    path: Path
    is_folder: bool
    """After following links; an archive counts as one."""
    stem: str = ""
    """The name without what says that it is an archive; empty: it is none."""

    @property
    def part(self) -> str:
        """The name by which a step or a rank is known."""
        return self.stem or self.name


class Unlistable(Struct, frozen=True):
    """Why a folder could not be listed."""

    detail: str
    file: bool = False
    """True: it is there, but no folder."""


def shown(name: str) -> str:
    """A file name as text: bytes that are no UTF-8 become U+FFFD, so that it can be written anywhere."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def entries(path: Path) -> list[Entry] | Unlistable:
    """What a folder holds, in natural order of names; names that begin with a dot are left out."""
    found: list[Entry] = []
    try:
        mode = path.stat().st_mode
        if not stat.S_ISDIR(mode):
            return Unlistable(kind_of(mode), file=True)
        with os.scandir(path) as listing:
            for item in listing:
                if not item.name.startswith("."):
                    found.append(Entry(shown(item.name), path / item.name, _is_folder(item)))
    except OSError as error:
        return Unlistable(reason(error))
    except ValueError:  # a path with a NUL character
        return Unlistable("no such file or directory")
    return in_natural_order(found)


def in_natural_order(found: list[Entry]) -> list[Entry]:
    return sorted(found, key=lambda entry: natural(entry.name))


def _is_folder(item: os.DirEntry[str]) -> bool:
    try:
        return item.is_dir()
    except OSError:  # a link that leads to itself, or to a place that refuses
        return False


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key with numbers by value: ``step9`` before ``step10``. Very long numbers count as text.

    >>> sorted(["rank10", "rank9", "rank"], key=natural)
    ['rank', 'rank9', 'rank10']
    """
    return tuple(
        (0, int(part), part) if index % 2 and len(part) <= _LONGEST_NUMBER else (1, 0, part)
        for index, part in enumerate(_DIGITS.split(name))
    )
