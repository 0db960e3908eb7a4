"""What the name of a folder says: a step, a rank, a process; and what an archive of that name stands for."""

from __future__ import annotations

import re

from msgspec.structs import replace

from firstnan.dump.folders import FileKind
from firstnan.read.sources.folders import Entry, Unlistable
from firstnan.read.sources.places import entries, stored_names

STEP = re.compile(r"step[_-]?([0-9]{1,9})\Z", re.IGNORECASE)
RANK = re.compile(r"rank[_-]?([0-9]{0,9})\Z", re.IGNORECASE)
PROCESS = re.compile(r"proc[_-]?([0-9]{1,18})\Z", re.IGNORECASE)

RANK_FILES = frozenset(
    name
    for kind in (FileKind.DUMP.value, FileKind.CONSTRUCT.value, FileKind.STACK.value, FileKind.SAVED.value)
    for name in stored_names(kind)
)


LOOKED_INTO = "?"
"""Stands for the name of an archive that says nothing of what is in it."""


def is_part(entry: Entry) -> bool:
    """The name of a step or of a rank, whether it can be listed or not."""
    return bool(STEP.match(entry.part) or RANK.match(entry.part) or PROCESS.match(entry.part))


def number_in(pattern: re.Pattern[str], name: str) -> int | None:
    """The step or rank that a name says; a name without a number is that of rank 0."""
    match = pattern.match(name)
    return int(match[1] or 0) if match else None


def seen_through(archive: Entry) -> Entry:
    """The folder in an archive that is the rank or step which its name says; there may be one folder around it.

    The same archive, with a name that says nothing, when it holds something else.
    """
    inner, inside = archive, entries(archive.path)
    is_step = STEP.match(archive.stem) is not None
    while not isinstance(inside, Unlistable):
        if is_step and any(is_part(one) and not STEP.match(one.part) for one in inside):
            return inner
        if not is_step and any(one.name in RANK_FILES for one in inside):
            return inner
        if len(inside) != 1 or not inside[0].is_folder or _names_another(archive, inside[0]):
            return replace(archive, stem=LOOKED_INTO)
        inner = Entry(f"{inner.name}/{inside[0].name}", inside[0].path, True, archive.stem)
        inside = entries(inner.path)
    return inner


def _names_another(archive: Entry, inner: Entry) -> bool:
    """Whether a folder in an archive is a step or a rank, and not the one after which the archive is called."""
    patterns = (STEP, RANK, PROCESS)
    return is_part(inner) and any(number_in(one, inner.name) != number_in(one, archive.stem) for one in patterns)
