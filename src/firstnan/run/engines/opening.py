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
_PATIENCE = 1.0
"""Seconds in which a worker that was told to end may do so."""


class InProcess:
    """One after the other, in this process."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R | Failed]]:
        for position, item in enumerate(items):
            yield position, attempt(function, item)


class ProcessPool:
    """Worker processes on this machine, each with one item at a time; a worker that dies is replaced."""

    def __init__(self, jobs: int, *, fresh: bool = False) -> None:
        """``fresh``: every worker is a new program, as threads of the parent (of a client of a store) do not survive a
        fork."""
        self.jobs = jobs
        self._fresh = fresh

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R | Failed]]:
        from multiprocessing import connection

        context = _context(self._fresh)
        waiting = list(enumerate(items))[::-1]
        busy: dict[Connection, _Worker[T, R]] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < self.jobs:
                    with _interrupts_held():  # a worker begins with them held; it is never started and then forgotten
                        worker = _Worker(context, function)
                        busy[worker.results] = worker
                    worker.give(*waiting.pop())
                for ready in connection.wait(list(busy)):
                    worker = busy[ready]  # type: ignore[index]
                    position, result, is_alive = worker.take()
                    if is_alive and waiting:
                        worker.give(*waiting.pop())
                    else:
                        del busy[worker.results]
                        worker.end()
                    yield position, result
        finally:
            with _interrupts_held():
                for worker in busy.values():
                    worker.kill()


class _Worker(Generic[T, R]):
    """One worker process, as seen from the parent."""

    def __init__(self, context: BaseContext, function: Callable[[T], R]) -> None:
        self.results, other = context.Pipe()
        self._position = -1
        self._process: BaseProcess = context.Process(target=_work, args=(function, other), daemon=True)  # type: ignore[attr-defined]
        self._process.start()
        other.close()  # what remains is the worker's end: it closes when the worker ends, however it ends

    def give(self, position: int, item: T) -> None:
        self._position = position
        with suppress(OSError):  # it died while it waited: taking its result tells
            self.results.send((item,))

    def take(self) -> tuple[int, R | Failed, bool]:
        """Position and result of its item, and whether it can do another."""
        try:
            return self._position, self.results.recv(), True
        except (EOFError, OSError):
            self._process.join(_PATIENCE)
            return self._position, Failed(_how_it_ended(self._process.exitcode)), False

    def end(self) -> None:
        """Tells it to end; closing the line would not do, since workers forked later hold it as well."""
        with suppress(OSError):
            self.results.send(())
        self.results.close()
        self._process.join(_PATIENCE)
        if self._process.is_alive():
            self.kill()

    def kill(self) -> None:
        self.results.close()
        self._process.kill()
        self._process.join()


def _work(function: Callable[[T], R], items: Connection) -> None:
    """The life of a worker: item in, result out, until the parent says so or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's matter; it ends its workers
    while True:
        try:
            given = items.recv()
        except (EOFError, OSError):
            return
        if not given:
            return
        result = attempt(function, given[0])
        try:
            items.send(result)
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
    return ProcessPool(count, fresh=fresh)
