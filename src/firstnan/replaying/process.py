"""The parent's side of the child process that runs records again. Knows no torch."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType

from firstnan.answer.replay import NotRun, Replay, ReplayVerdict
from firstnan.dump.errors import UsageError
from firstnan.replaying.job import READY, Job, Task

_START_LIMIT = 300.0
_PATIENCE = 3.0


def run(job: Job, budget: float | None = None) -> Iterator[tuple[Task, Replay]]:
    """Each task with its answer, until all are done or the budget (seconds) is used up.

    A record that ends the child process, or does not end in time, is ``not_run``, and a new child goes on behind it.

    Raises:
        UsageError: torch cannot be loaded.
    """
    end = None if budget is None else time.monotonic() + budget
    at = 0
    while at < len(job.tasks):
        with _child(job, at) as (process, answers):
            while at < len(job.tasks):
                left = job.time_limit if end is None else min(job.time_limit, end - time.monotonic())
                if left <= 0:
                    return
                answer = _answer(process, answers, left)
                if answer.reason is NotRun.TIMED_OUT and left < job.time_limit:
                    return  # the budget ended, not the record's own limit
                yield job.tasks[at], answer
                at += 1
                if answer.reason in (NotRun.TIMED_OUT, NotRun.CRASHED):
                    break


def write_repro(job: Job, folder: Path) -> str | None:
    """Write the repro of the job's one record into an empty folder; gives why not, where it cannot be run.

    Raises:
        OSError: it could not be written.
        UsageError: torch cannot be loaded.
    """
    with _child(job, 0, folder) as (process, answers):
        try:
            found: str | OSError | None = answers.recv() if answers.poll(job.time_limit) else NotRun.TIMED_OUT.value
        except EOFError:
            process.join(_PATIENCE)
            return f"{NotRun.CRASHED.value}: {_how(process.exitcode)}"
    if isinstance(found, OSError):
        raise found
    return found


def _answer(process: BaseProcess, answers: Connection, seconds: float) -> Replay:
    try:
        if not answers.poll(seconds):
            return Replay(ReplayVerdict.NOT_RUN, NotRun.TIMED_OUT)
        found: Replay = answers.recv()
    except EOFError:
        process.join(_PATIENCE)
        return Replay(ReplayVerdict.NOT_RUN, NotRun.CRASHED, _how(process.exitcode))
    return found


def _how(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


@contextmanager
def _child(job: Job, start: int, repro: Path | None = None) -> Iterator[tuple[BaseProcess, Connection]]:
    context = multiprocessing.get_context("spawn")  # torch does not survive a fork once it has run
    answers, answering = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(job, start, answering, repro), daemon=True)
    with _no_main():
        process.start()
    answering.close()
    try:
        try:
            ready = answers.poll(_START_LIMIT) and answers.recv() == READY
        except EOFError:
            ready = False
        if not ready:
            process.join(_PATIENCE)
            raise UsageError(f"the process that loads torch has ended ({_how(process.exitcode)})")
        yield process, answers
    finally:
        for stop in (process.terminate, process.kill):
            if process.is_alive():
                stop()
            process.join(_PATIENCE)
        answers.close()


@contextmanager
def _no_main() -> Iterator[None]:
    """While a child starts there is no main program that it would run again: a training script, say."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _serve(job: Job, start: int, answers: Connection, repro: Path | None) -> None:
    from firstnan.replaying import child  # loads torch, in the child alone

    if repro is None:
        child.serve(job, start, answers)
    else:
        child.serve_repro(job, answers, repro)
