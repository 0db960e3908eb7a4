"""Which files one rank folder holds, without opening any."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from firstnan.dump.folders import FileKind
from firstnan.read.sources.files import Fault
from firstnan.read.sources.folders import Unlistable
from firstnan.read.sources.places import entries, size, stored_names

_TOOL_ERRORS = "dump_error_info.log"
_DEBUG = "debug.json"


class RankFiles(Struct, frozen=True):
    """The files of one rank folder that matter."""

    dump_bytes: int | None
    """Size of dump.json; None when there is no such file that can be read as one."""
    fault: str | None = None
    """Why dump.json (or the folder) cannot be read although it is there."""
    debug: bool = False
    """There is a debug.json (level debug)."""
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
        return RankFiles(None, listing.detail)
    names = {entry.name for entry in listing}
    dumps = [name for name in stored_names(FileKind.DUMP.value) if name in names]
    errors = _TOOL_ERRORS if _TOOL_ERRORS in names else None
    others = tuple(entry.name for entry in listing if entry.name not in (*dumps, _DEBUG))
    debug = _DEBUG in names
    if not dumps:
        return RankFiles(None, None, debug, errors, others)
    found = size(path / FileKind.DUMP.value)
    if isinstance(found, Fault):
        return RankFiles(None, found.detail, debug, errors, others)
    return RankFiles(found, None, debug, errors, others, tuple(dumps[1:]))
