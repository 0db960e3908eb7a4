"""Opening other people's files: never a FIFO, never a device, never more than was there at opening."""

from __future__ import annotations

import os
import stat
from io import FileIO
from pathlib import Path

from msgspec import Struct

MAX_BYTES = 64 << 30
"""A file beyond this is not a dump (the writer itself refuses more than 10 GB)."""


class Fault(Struct, frozen=True):
    """Why a file could not be read."""

    missing: bool
    """True: there is no such file; False: it is there and could not be read."""
    detail: str


def kind_of(mode: int) -> str:
    """What a file mode stands for, in words: ``a directory``, ``a FIFO`` ...

    >>> kind_of(stat.S_IFIFO)
    'a FIFO'
    """
    names = (
        (stat.S_ISREG, "a regular file"),
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((name for test, name in names if test(mode)), "a special file")


def reason(error: OSError) -> str:
    """The operating system's words for an error, without the path."""
    return error.strerror or type(error).__name__


def read_bytes(path: Path) -> bytes | Fault:
    """The content of a regular file as it was when opened; links are followed.

    A file that grows meanwhile gives what stood there at first; one that shrinks gives less (and is found to be cut
    by the parser).
    """
    opened = open_regular(path)
    if isinstance(opened, Fault):
        return opened
    file, status = opened
    try:
        with file:
            return _read(file.fileno(), status.st_size)
    except OSError as error:
        return Fault(False, reason(error))
    except MemoryError:
        return Fault(False, "does not fit into memory")


def open_regular(path: Path) -> tuple[FileIO, os.stat_result] | Fault:
    """A regular file, opened unbuffered, and its status; links are followed.

    Opened without blocking and checked after opening, so that a FIFO put in its place in between
    cannot hang the program.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return Fault(True, "no such file")
    except OSError as error:
        return Fault(False, reason(error))
    except ValueError:  # a path with a NUL character
        return Fault(True, "no such file")
    try:
        status = os.fstat(descriptor)
        fault = _refused(status)
        if fault is None:
            return FileIO(descriptor, "rb"), status  # of a directory it would raise, and leave the descriptor open
    except OSError as error:
        fault = Fault(False, reason(error))
    os.close(descriptor)
    return fault


def _refused(status: os.stat_result) -> Fault | None:
    if not stat.S_ISREG(status.st_mode):
        return Fault(False, f"{kind_of(status.st_mode)}, not a file")
    if status.st_size > MAX_BYTES:
        return Fault(False, f"{status.st_size} bytes, more than the limit of {MAX_BYTES}")
    return None


def _read(descriptor: int, size: int) -> bytes:
    parts = []
    while size > 0:
        part = os.read(descriptor, min(size, 1 << 30))  # one call gives at most 2 GiB
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
