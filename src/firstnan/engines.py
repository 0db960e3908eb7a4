"""Where the work of one rank is done: the only module that knows about processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
R = TypeVar("R")


class Engine(Protocol):
    """Maps a picklable function over items; results come as they are ready, each with its item's position."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R]]:
        """Position and result of every item, in any order."""
        ...


class InProcess:
    """One after the other, in this process."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R]]:
        for position, item in enumerate(items):
            yield position, function(item)


class ProcessPool:
    """Worker processes on this machine; a bounded number of items is under way at once."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R]]:
        from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait

        waiting = iter(enumerate(items))
        with ProcessPoolExecutor(max_workers=self.jobs) as pool:
            running: dict[Future[R], int] = {}
            try:
                for position, item in _take(waiting, 2 * self.jobs):
                    running[pool.submit(function, item)] = position
                while running:
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        position = running.pop(future)
                        for then, item in _take(waiting, 1):
                            running[pool.submit(function, item)] = then
                        yield position, future.result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


def _take(items: Iterator[tuple[int, T]], count: int) -> Iterable[tuple[int, T]]:
    for _ in range(count):
        try:
            yield next(items)
        except StopIteration:
            return


def local(jobs: int | None, items: int, total_bytes: int) -> Engine:
    """The engine for this machine: no processes for work that is done before they have started."""
    count = min(jobs or available_cores(), items)
    if count <= 1 or (jobs is None and total_bytes < SMALL):
        return InProcess()
    return ProcessPool(count)


SMALL = 8 << 20
"""Bytes of dump below which starting processes costs more than it gains."""


def available_cores() -> int:
    """Cores this process may use (containers and job schedulers restrict them)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1
