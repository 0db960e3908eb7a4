"""Which files one rank folder holds, without opening any."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from firstnan.dump.folders import FileKind
from firstnan.read.sources.files import Fault
from firstnan.read.sources.folders import Unlistable
from firstnan.read.sources.places import entries, size, stored_names

_TOOL_ERRORS = "dump_error_info.log"
_VALUES = (FileKind.DUMP, FileKind.SAVED)
"""Files with values, the one to prefer first."""


class RankFiles(Struct, frozen=True):
    """The files of one rank folder that matter."""

    dump_bytes: int | None
    """Size of the file with its values; None when there is no such file that can be read as one."""
    file: FileKind = FileKind.DUMP
    """Which file that is: dump.json where there is one, else debug.json."""
    fault: str | None = None
    """Why dump.json (or the folder) cannot be read although it is there."""
    tool_errors: str | None = None
    """Name of the dumping tool's own error log, when there is one."""
    others: tuple[str, ...] = ()
    """Other names in the folder."""
    beside: tuple[str, ...] = ()
    """The same file once more, compressed."""


def look(path: Path) -> RankFiles:
    """What a rank folder holds."""
    listing = entries(path)
    if isinstance(listing, Unlistable):
        return RankFiles(None, fault=listing.detail)
    names = {entry.name for entry in listing}
    errors = _TOOL_ERRORS if _TOOL_ERRORS in names else None
    stored = {kind: [name for name in stored_names(kind.value) if name in names] for kind in _VALUES}
    file = next((kind for kind in _VALUES if stored[kind]), None)
    others = tuple(entry.name for entry in listing if entry.name not in stored[FileKind.DUMP])
    if file is None:
        return RankFiles(None, tool_errors=errors, others=others)
    found = size(path / file.value)
    if isinstance(found, Fault):
        return RankFiles(None, file, found.detail, errors, others)
    return RankFiles(found, file, None, errors, others, tuple(stored[file][1:]))
