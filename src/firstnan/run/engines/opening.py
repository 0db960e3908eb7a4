"""Where the work of one rank is done: the only module that knows about processes (of a cluster: :mod:`.ray`).

What goes wrong with one item never ends the work on the others: an exception, and the death of a worker (the kernel
kills the process that takes too much memory), become a :class:`Failed` in place of that item's result.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

from firstnan.dump.errors import UsageError
from firstnan.dump.options import EngineKind, Options
from firstnan.read.sources.remote_path import is_remote
from firstnan.run.engines.engine import Engine, Engines, Failed, Node, Place, attempt, available_cores

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess

T = TypeVar("T")
R = TypeVar("R")

SMALL = 8 << 20
"""Bytes of dump below which starting processes costs more than it gains."""
TOGETHER = 1 << 20
"""Bytes of an item below which several are given to a worker at once."""
MOST_TOGETHER = 16
_ROUNDS = 8
"""So often each worker is given something, at least: the last one to end shall not be waited for long."""
_PATIENCE = 1.0
"""Seconds in which a worker that was told to end may do so."""


class InProcess:
    """One after the other, in this process."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R | Failed]]:
        for position, item in enumerate(items):
            yield position, attempt(function, item)


class ProcessPool:
    """Worker processes on this machine; a worker that dies is replaced.

    Each has one item at a time, or some together where they are small; of those that a dying worker had, each is tried
    once more by itself, so that one item fails and no other.
    """

    def __init__(self, jobs: int, *, fresh: bool = False, together: int = 1) -> None:
        """``fresh``: every worker is a new program, as threads of the parent (of a client of a store) do not survive a
        fork; ``together``: so many items are given at once."""
        self.jobs = jobs
        self._fresh = fresh
        self._together = together

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R | Failed]]:
        from multiprocessing import connection

        context = _context(self._fresh)
        numbered = list(enumerate(items))
        waiting = [numbered[at : at + self._together] for at in range(0, len(items), self._together)][::-1]
        busy: dict[Connection, _Worker[T, R]] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < self.jobs:
                    with _interrupts_held():  # a worker begins with them held; it is never started and then forgotten
                        worker = _Worker(context, function)
                        busy[worker.results] = worker
                    worker.give(waiting.pop())
                for ready in connection.wait(list(busy)):
                    worker = busy[ready]  # type: ignore[index]
                    had = worker.items
                    results = worker.take()
                    if not isinstance(results, Failed) and waiting:
                        worker.give(waiting.pop())
                    else:
                        del busy[worker.results]
                        worker.end()
                    if isinstance(results, Failed):
                        if len(had) > 1:
                            waiting += [[one] for one in had]
                            continue
                        results = [results]
                    yield from ((position, result) for (position, _), result in zip(had, results, strict=True))
        finally:
            with _interrupts_held():
                for worker in busy.values():
                    worker.kill()


class _Worker(Generic[T, R]):
    """One worker process, as seen from the parent."""

    def __init__(self, context: BaseContext, function: Callable[[T], R]) -> None:
        self.results, other = context.Pipe()
        self.items: Sequence[tuple[int, T]] = ()
        """What it works on, with their positions."""
        self._process: BaseProcess = context.Process(target=_work, args=(function, other), daemon=True)  # type: ignore[attr-defined]
        self._process.start()
        other.close()  # what remains is the worker's end: it closes when the worker ends, however it ends

    def give(self, items: Sequence[tuple[int, T]]) -> None:
        self.items = items
        with suppress(OSError):  # it died while it waited: taking its results tells
            self.results.send([item for _, item in items])

    def take(self) -> list[R | Failed] | Failed:
        """The results of its items; :class:`Failed` alone: it died."""
        try:
            results: list[R | Failed] = self.results.recv()
        except (EOFError, OSError):
            self._process.join(_PATIENCE)
            return Failed(_how_it_ended(self._process.exitcode))
        return results

    def end(self) -> None:
        """Tells it to end; closing the line would not do, since workers forked later hold it as well."""
        with suppress(OSError):
            self.results.send([])
        self.results.close()
        self._process.join(_PATIENCE)
        if self._process.is_alive():
            self.kill()

    def kill(self) -> None:
        self.results.close()
        self._process.kill()
        self._process.join()


def _work(function: Callable[[T], R], items: Connection) -> None:
    """The life of a worker: items in, results out, until the parent says so or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's matter; it ends its workers
    while True:
        try:
            given = items.recv()
        except (EOFError, OSError):
            return
        if not given:
            return
        results = [attempt(function, item) for item in given]
        try:
            items.send(results)
        except OSError:
            return


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C that comes inside is taken notice of afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _how_it_ended(code: int | None) -> str:
    if code is not None and code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        hint = ", out of memory?" if -code == getattr(signal, "SIGKILL", None) else ""
        return f"the worker process was killed ({name}{hint})"
    return f"the worker process ended (exit code {code})"


def _context(fresh: bool) -> BaseContext:
    """Forked workers start at once and have everything loaded; elsewhere the platform's own way."""
    import multiprocessing

    if fresh:
        return multiprocessing.get_context("spawn")
    return multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else None)


@contextmanager
def opened(options: Options) -> Iterator[Engines]:
    """The engines that the options ask for, as long as they are needed.

    Raises:
        UsageError: they are not there, or options contradict each other.
    """
    if options.engine is EngineKind.LOCAL:
        for name, given in (("--ray-address", options.ray_address is not None), ("--node-local", options.node_local)):
            if given:
                raise UsageError(f"{name} is for a Ray cluster", hint="add --engine ray")
        yield Local(options.jobs)
        return
    if find_spec("ray") is None:
        raise UsageError(
            "the ray engine needs the package ray, which is not installed",
            hint="pip install 'firstnan[ray]', or leave out --engine: ranks are read on this machine",
        )
    from firstnan.run.engines import ray

    with ray.connected(options.ray_address, options.jobs, node_local=options.node_local) as cluster:
        yield cluster


class Local(Struct, frozen=True):
    """Engines of this machine."""

    jobs: int | None = None
    nodes: tuple[Node, ...] = ()

    def engine(self, places: Sequence[Place]) -> Engine:
        fresh = any(place.file is not None and is_remote(place.file) for place in places)
        return local(self.jobs, len(places), sum(place.bytes for place in places), fresh=fresh)


def local(jobs: int | None, items: int, total_bytes: int, *, fresh: bool = False) -> Engine:
    """The engine for this machine: no processes for work that is done before they have started."""
    count = min(jobs or available_cores(), items)
    if count <= 1 or (jobs is None and total_bytes < SMALL):
        return InProcess()
    small = total_bytes < TOGETHER * items  # of items of one size; some larger ones among them do no harm
    together = max(1, min(MOST_TOGETHER, items // (count * _ROUNDS))) if small else 1
    return ProcessPool(count, fresh=fresh, together=together)
