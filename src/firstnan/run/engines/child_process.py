"""Work in a process of its own: for what may end the process that it runs in.

Ray ends a process at once, with exit code 1 and without a word, when the node that it is connected to is gone. Here 1
says that an anomaly was found. So the command line gives what needs Ray to a process of its own and hears from it what
was found, or that nothing will come any more.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TypeVar

from firstnan.dump.errors import FirstnanError, InputError

R = TypeVar("R")

_PATIENCE = 3.0
"""Seconds in which the process has to end after an interrupt, and once more after it is told to."""


def run(function: Callable[[], R]) -> R:
    """What a function gives, called in a process of its own where the system can fork, else here.

    The process ends when this one does, and when this one is interrupted.

    Raises:
        FirstnanError, MemoryError: the function did.
        InputError: the process was ended before it had an answer.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        return function()
    context = multiprocessing.get_context("fork")
    answers, answering = context.Pipe(duplex=False)
    watched, watching = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(function, answering, watched, (answers, watching)))
    process.start()
    answering.close()
    watched.close()
    try:
        answer: R | FirstnanError | MemoryError = answers.recv()
    except EOFError:
        process.join()
        raise InputError(
            f"the process that used Ray was ended by it ({_how(process.exitcode)}): there is no answer",
            hint="Ray does this when its node or its object store on this machine is lost: see its logs "
            "(/tmp/ray/session_latest/logs), or run without --engine ray",
        ) from None
    finally:
        for end in (process.terminate, process.kill):
            process.join(_PATIENCE)
            if process.is_alive():
                end()
        process.join()
        watching.close()
        answers.close()
    if isinstance(answer, (FirstnanError, MemoryError)):
        raise answer
    return answer


def _how(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _answer(
    function: Callable[[], object], answering: Connection, watched: Connection, others: tuple[Connection, ...]
) -> None:
    for end in others:
        end.close()
    threading.Thread(target=_end_with, args=(watched,), daemon=True).start()
    try:
        answering.send(function())
    except (FirstnanError, MemoryError) as error:
        answering.send(error)
    except KeyboardInterrupt:
        return  # the process that waits was interrupted as well, and says so


def _end_with(watched: Connection) -> None:
    """Ends this process when the other end is closed: the process that waits for the answer is gone.

    Not by an interrupt: what is started in the background ignores it.
    """
    try:
        watched.recv()
    except (EOFError, OSError):
        os.kill(os.getpid(), signal.SIGTERM)
