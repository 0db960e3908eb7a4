"""Run a function as every rank of a gloo group, in forked processes with a time limit."""

from __future__ import annotations

import datetime
import multiprocessing
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

LIMIT = 120.0
"""Seconds; a rank that hangs fails the test."""


def run(world: int, function: Callable[..., Any], *args: Any, folder: Path, group_seconds: float = 60.0) -> list[Any]:
    """What ``function(rank, *args)`` gives on each rank; it must be picklable."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    store = folder / "store"
    store.unlink(missing_ok=True)
    started = [
        context.Process(target=_rank, args=(rank, world, store, group_seconds, function, args, queue), daemon=True)
        for rank in range(world)
    ]
    for process in started:
        process.start()
    try:
        answers = dict(queue.get(timeout=LIMIT) for _ in started)
    finally:
        for process in started:
            process.join(5.0)
            process.kill()
            process.join()
    failed = {rank: answer for rank, answer in answers.items() if isinstance(answer, Failed)}
    assert not failed, "\n".join(f"rank {rank}: {answer.trace}" for rank, answer in failed.items())
    return [answers[rank] for rank in range(world)]


class Failed:
    """A rank raised."""

    def __init__(self, trace: str) -> None:
        self.trace = trace


def _rank(
    rank: int, world: int, store: Path, seconds: float, function: Callable[..., Any], args: tuple[Any, ...], queue: Any
) -> None:
    torch.set_num_threads(1)
    try:
        timeout = datetime.timedelta(seconds=seconds)
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world, timeout=timeout)
        queue.put((rank, function(rank, *args)))
    except BaseException:  # noqa: BLE001  # told to the test
        queue.put((rank, Failed(traceback.format_exc())))
    queue.close()
    queue.join_thread()
