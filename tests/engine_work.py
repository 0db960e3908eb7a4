"""What workers are given to do in tests: a module of its own, which those of a cluster load quickly."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def where(_: None) -> str:
    return str(Path.cwd())


def as_it_is(anything: object) -> object:
    return anything


def squared(number: int) -> int:
    return number * number


def picky(number: int) -> int:
    if number == 3:
        raise MemoryError
    if number == 4:
        raise ValueError("four")
    return number


def dies_once(marker: Path) -> str:
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return marker.name


def mortal(number: int) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 5:
        os._exit(7)
    return number


def takes_its_node_along(number: int) -> int:
    if number == 1:
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def alone(folder: Path) -> None:
    """Fails when another one does the same at the same time."""
    folder.mkdir()
    time.sleep(0.02)
    folder.rmdir()
