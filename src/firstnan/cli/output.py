"""Writing a report: whole or not at all, and never into the dump."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from firstnan.dump.errors import OutputError, UsageError

_PART_OF_DUMP = re.compile(r"(?:step|rank|proc)_?\d*", re.IGNORECASE)
_DUMP_FILE = "dump.json"
_NEW_FILE_MODE = 0o666


def check_target(target: Path, dump: Path) -> None:
    """Refuse a target that lies in the dump or cannot be a file, before any work is done.

    Links are followed. When ``dump`` is a rank or step folder, its step folder and the files beside that are the dump
    as well.

    Raises:
        UsageError: the target is inside the dump folder, or is a folder.
        OutputError: the folder of the target does not exist, or its name leads nowhere.
    """
    try:
        _check_place(target, target.resolve(), _resolved(dump))
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle, before Python 3.13
        raise OutputError(f"'{target}' cannot be written: {_reason(error)}") from error


def check_folder(folder: Path) -> None:
    """Refuse a folder to write into that lies in a dump: below a folder that holds ranks, or is one.

    Example: with ``run/step0/rank0/dump.json``, neither ``run/new`` nor ``run/step0/rank0`` is written into.

    Raises:
        UsageError: the folder is inside a dump folder.
        OutputError: its name leads nowhere.
    """
    try:
        place = folder.resolve()
    except (OSError, RuntimeError) as error:
        raise OutputError(f"'{folder}' cannot be written: {_reason(error)}") from error
    for root in (place, *place.parents):
        if _holds_dump(root):
            raise _inside(folder, root)


def _holds_dump(folder: Path, depth: int = 2) -> bool:
    """Whether ``dump.json`` lies here or in a rank folder, at most a step folder further down."""
    try:
        if (folder / _DUMP_FILE).is_file():
            return True
        parts = [entry for entry in folder.iterdir() if _PART_OF_DUMP.fullmatch(entry.name)] if depth else []
    except OSError:  # not there yet, or not to be looked into: no dump could be read from it either
        return False
    return any(_holds_dump(part, depth - 1) for part in parts)


def _inside(target: Path, root: Path) -> UsageError:
    return UsageError(
        f"'{target}' is inside the dump folder '{root}': nothing is ever written there",
        hint="choose a path outside of it",
    )


def _resolved(dump: Path) -> Path:
    """Whatever is wrong with the path of the dump is told by the reader."""
    try:
        return dump.resolve()
    except (OSError, RuntimeError):
        return dump.absolute()


def _reason(error: OSError | RuntimeError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _check_place(target: Path, place: Path, root: Path) -> None:
    inside = place.is_relative_to(root)
    if root.exists() and not root.is_dir():  # an archive: what stands beside it is no part of it
        root = root.parent
    while _PART_OF_DUMP.fullmatch(root.name):
        root = root.parent
        inside = inside or place.parent == root or _first_part_is_dump(place, root)
    if inside:
        raise _inside(target, root)
    if place.is_dir():
        raise UsageError(f"'{target}' is a folder, not a file")
    if not place.parent.is_dir():
        raise OutputError(f"'{target}' cannot be written: there is no folder '{place.parent}'")


def _first_part_is_dump(place: Path, root: Path) -> bool:
    return place.is_relative_to(root) and bool(_PART_OF_DUMP.fullmatch(place.relative_to(root).parts[0]))


def write_whole(target: Path, content: bytes | Iterable[bytes]) -> None:
    """Write the file so that a reader sees the old content or the new one, never a part.

    The content, or its parts as they come, goes to a temporary file in the same folder, which then takes the place of
    the target (a link is followed; the mode of an existing file is kept). Devices and pipes (``/dev/stdout``,
    ``/dev/fd/63``) are written directly.

    Raises:
        OutputError: it could not be written; what stood there before is untouched.
    """
    parts = (content,) if isinstance(content, bytes) else content
    try:
        mode = _mode(target)
        if mode is not None and not stat.S_ISREG(mode):
            with target.open("wb") as stream:
                stream.writelines(parts)
            return
        _replace(target.resolve(), parts, mode)
    except (OSError, RuntimeError) as error:
        raise OutputError(f"'{target}' could not be written: {_reason(error)}") from error


def _mode(target: Path) -> int | None:
    try:
        return target.stat().st_mode
    except FileNotFoundError:
        return None


def _replace(place: Path, parts: Iterable[bytes], mode: int | None) -> None:
    temporary = place.with_name(f".{place.name[:100]}.{os.urandom(4).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), _NEW_FILE_MODE)
    done = False
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.writelines(parts)
            stream.flush()
            os.fsync(stream.fileno())
        if mode is not None:
            temporary.chmod(stat.S_IMODE(mode))
        os.replace(temporary, place)  # noqa: PTH105  (one call, patched in tests to fail)
        done = True
    finally:
        if not done:
            temporary.unlink(missing_ok=True)
