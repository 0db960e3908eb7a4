"""Which files one rank folder holds, without opening any."""

from __future__ import annotations

import stat
from pathlib import Path

from msgspec import Struct

from firstnan.dump.folders import FileKind
from firstnan.read.files import kind_of, reason
from firstnan.read.layout.folders import Unlistable, entries

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


def look(path: Path) -> RankFiles:
    """What a rank folder holds."""
    listing = entries(path)
    if isinstance(listing, Unlistable):
        return RankFiles(None, listing.detail)
    names = {entry.name for entry in listing}
    errors = _TOOL_ERRORS if _TOOL_ERRORS in names else None
    others = tuple(entry.name for entry in listing if entry.name not in (FileKind.DUMP.value, _DEBUG))
    debug = _DEBUG in names
    if FileKind.DUMP.value not in names:
        return RankFiles(None, None, debug, errors, others)
    try:
        status = (path / FileKind.DUMP.value).stat()
    except OSError as error:
        return RankFiles(None, reason(error), debug, errors, others)
    if not stat.S_ISREG(status.st_mode):
        return RankFiles(None, f"{kind_of(status.st_mode)}, not a file", debug, errors, others)
    return RankFiles(status.st_size, None, debug, errors, others)
