"""Whether a JSON text can be parsed within the memory that is there.

A parser that runs out of memory may end the whole process, and the answer about all other ranks with it. So the values
of a large text are estimated before they are made.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

SMALL = 4 << 20
"""Bytes of a text that is parsed without being asked about."""
_OBJECT, _LIST, _ITEM, _STRING = 230, 72, 40, 30
"""Bytes that an object, a list, one of their items and half a string take in CPython, generously."""
_MEMORY_INFO = Path("/proc/meminfo")
_OWN_PAGES = Path("/proc/self/statm")
_GROUP = Path("/sys/fs/cgroup")


def needed(data: bytes) -> int:
    """About how many bytes the values of a JSON text take; rather too many than too few.

    >>> needed(b'[[],[],[]]') > 10 * len(b'[[],[],[]]')
    True
    """
    return (
        len(data)
        + _OBJECT * data.count(b"{")
        + _LIST * data.count(b"[")
        + _ITEM * (data.count(b",") + 1)
        + _STRING * data.count(b'"')
    )


def shortage(data: bytes) -> str | None:
    """Why a text cannot be parsed within the memory that is there; None when it can, or when nobody knows."""
    if len(data) <= SMALL:
        return None
    there = available()
    wanted = needed(data)
    if there is None or wanted <= there:
        return None
    return f"needs about {wanted >> 20} MiB of memory, {max(there, 0) >> 20} MiB are there"


def available() -> int | None:
    """Bytes this process can still take: the least of what the machine, the container and its own limit leave.

    None where the system does not tell (it is asked the way Linux answers).
    """
    known = [left for left in (_on_machine(), _in_group(), _of_limit()) if left is not None]
    return min(known, default=None)


def _on_machine() -> int | None:
    for line in _text(_MEMORY_INFO).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return None


def _in_group() -> int | None:
    """What the control group (a container, a job scheduler) allows; pages of files that can be dropped do not count."""
    limit, used = _text(_GROUP / "memory.max").strip(), _text(_GROUP / "memory.current").strip()
    if not limit.isdigit() or not used.isdigit():
        return None
    droppable = 0
    for line in _text(_GROUP / "memory.stat").splitlines():
        key, _, value = line.partition(" ")
        if key in ("inactive_file", "active_file") and value.isdigit():
            droppable += int(value)
    return int(limit) - int(used) + droppable


def _of_limit() -> int | None:
    """What ``ulimit -v`` leaves."""
    if sys.platform == "win32":
        return None
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    pages = _text(_OWN_PAGES).split()
    if limit == resource.RLIM_INFINITY or not pages:
        return None
    return limit - int(pages[0]) * os.sysconf("SC_PAGE_SIZE")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
