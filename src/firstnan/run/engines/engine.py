"""What an engine is, and what passes between engines and those who use them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec import Struct

T = TypeVar("T")
R = TypeVar("R")


class Failed(Struct, frozen=True):
    """What stands in place of a result that could not be had."""

    reason: str
    """In words of Python or of the operating system; never translated."""


class Engine(Protocol):
    """Maps a picklable function over items; results come as they are ready, each with its item's position."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R | Failed]]:
        """Position and result of every item, in any order."""
        ...


class Node(Struct, frozen=True):
    """A machine of a cluster."""

    id: str
    name: str
    """For people."""


class Place(Struct, frozen=True):
    """Where the files of one item are."""

    bytes: int = 0
    """How much there is to read."""
    nodes: tuple[str, ...] = ()
    """Ids of the nodes that have them, the one to ask first in front; empty: whichever worker can read them."""
    file: Path | None = None
    """A file that a worker has to see, or else the item has failed."""


class Engines(Protocol):
    """Whoever does the work of one analysis."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The machines that each hold a part of the dump; empty: this one sees all of it."""
        ...

    def engine(self, places: Sequence[Place]) -> Engine:
        """For work on items at these places, one for each."""
        ...


def attempt(function: Callable[[T], R], item: T) -> R | Failed:
    """The function's result, or what went wrong; Ctrl-C and the like pass through."""
    try:
        return function(item)
    except Exception as error:  # noqa: BLE001  (whatever it is, the other ranks go on, and it is reported)
        return Failed(f"{type(error).__name__}: {error}".rstrip(": "))


_QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Processor time that a container may use, and in which time, in microseconds; ``max``: no limit."""


def available_cores(quota: Path = _QUOTA) -> int:
    """Cores this process may use (containers and job schedulers restrict them), rounded down; at least one."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        used, period = quota.read_text().split()
        return max(1, min(count, int(used) // int(period)))
    except (OSError, ValueError, ZeroDivisionError):  # no such limit
        return max(1, count)
