"""Opening other people's files: never a FIFO, never a device, never more than was there at opening."""

from __future__ import annotations

import os
import stat
from io import FileIO, RawIOBase
from pathlib import Path

from msgspec import Struct

MAX_BYTES = 64 << 30
"""A file beyond this is not a dump (the writer itself refuses more than 10 GB)."""


class Fault(Struct, frozen=True):
    """Why a file could not be read."""

    missing: bool
    """True: there is no such file; False: it is there and could not be read."""
    detail: str


class Opened(Struct, frozen=True):
    """A file that can be read, from any place on."""

    file: RawIOBase
    size: int
    """Bytes, when it was opened."""
    modified: int
    """When it was last written to, in nanoseconds since 1970; 0: nobody knows."""


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


def size(path: Path) -> int | Fault:
    """Bytes of a regular file, without opening it."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return Fault(True, "no such file")
    except OSError as error:
        return Fault(False, reason(error))
    if not stat.S_ISREG(status.st_mode):
        return Fault(False, f"{kind_of(status.st_mode)}, not a file")
    return status.st_size


def open_regular(path: Path) -> Opened | Fault:
    """A regular file of this machine, opened unbuffered; links are followed.

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
            # Of a directory FileIO would raise, and leave the descriptor open.
            return Opened(FileIO(descriptor, "rb"), status.st_size, status.st_mtime_ns)
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
