"""Writing a report: whole or not at all, and never into the dump."""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path

from firstnan.errors import OutputError, UsageError

_PART_OF_DUMP = re.compile(r"(?:step|rank|proc)_?\d*", re.IGNORECASE)
_NEW_FILE_MODE = 0o666


def check_target(target: Path, dump: Path) -> None:
    """Refuse a target that lies in the dump or cannot be a file, before any work is done.

    Links are followed. When ``dump`` is a rank or step folder, its step folder and the files beside that are the dump
    as well.

    Raises:
        UsageError: the target is inside the dump folder, or is a folder.
        OutputError: the folder of the target does not exist.
    """
    place = target.resolve()
    root = dump.resolve()
    if root.exists() and not root.is_dir():
        root = root.parent
    inside = place.is_relative_to(root)
    while _PART_OF_DUMP.fullmatch(root.name):
        root = root.parent
        inside = inside or place.parent == root or _first_part_is_dump(place, root)
    if inside:
        raise UsageError(
            f"'{target}' is inside the dump folder '{root}': nothing is ever written there",
            hint="choose a path outside of it",
        )
    if place.is_dir():
        raise UsageError(f"'{target}' is a folder, not a file")
    if not place.parent.is_dir():
        raise OutputError(f"'{target}' cannot be written: there is no folder '{place.parent}'")


def _first_part_is_dump(place: Path, root: Path) -> bool:
    return place.is_relative_to(root) and bool(_PART_OF_DUMP.fullmatch(place.relative_to(root).parts[0]))


def write_whole(target: Path, content: bytes) -> None:
    """Write the file so that a reader sees the old content or the new one, never a part.

    The content goes to a temporary file in the same folder, which then takes the place of the target (a link is
    followed; the mode of an existing file is kept). Devices and pipes are written directly.

    Raises:
        OutputError: it could not be written; what stood there before is untouched.
    """
    place = target.resolve()
    try:
        mode = _mode(place)
        if mode is not None and not stat.S_ISREG(mode):
            place.write_bytes(content)
            return
        _replace(place, content, mode)
    except OSError as error:
        raise OutputError(f"'{target}' could not be written: {error.strerror or error}") from error


def _mode(place: Path) -> int | None:
    try:
        return place.stat().st_mode
    except FileNotFoundError:
        return None


def _replace(place: Path, content: bytes, mode: int | None) -> None:
    temporary = place.with_name(f".{place.name[:100]}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), _NEW_FILE_MODE)
    done = False
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if mode is not None:
            temporary.chmod(stat.S_IMODE(mode))
        os.replace(temporary, place)  # noqa: PTH105  (one call, patched in tests to fail)
        done = True
    finally:
        if not done:
            temporary.unlink(missing_ok=True)
