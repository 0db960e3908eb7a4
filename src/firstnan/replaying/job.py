"""What is run again: records, and where the ranks of their steps are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

READY = "ready"
"""What the child says when torch is loaded."""

MEMORY = 1 << 30
"""Bytes that the tensors of one record may take."""
TIME_LIMIT = 120.0
"""Seconds that one record may take."""


class Task(Struct, frozen=True):
    """One record to run again."""

    step: int
    rank: int
    op_name: str
    exec_order: int


class Job(Struct, frozen=True):
    """Records to run again, in order, and where the ranks of their steps are."""

    folders: Mapping[tuple[int, int], Path]
    """(step, rank) -> rank folder, absolute."""
    tasks: tuple[Task, ...]
    memory: int = MEMORY
    time_limit: float = TIME_LIMIT
