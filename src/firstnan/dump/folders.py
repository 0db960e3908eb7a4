"""One rank of one step on disk."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from msgspec import Struct


class FileKind(Enum):
    """The files of one rank."""

    DUMP = "dump.json"
    """Operators with their statistics."""
    CONSTRUCT = "construct.json"
    """Who called whom."""
    STACK = "stack.json"
    """Code locations."""
    SAVED = "debug.json"
    """Values that the program saved with ``debugger.save`` (level debug)."""


class RankFolder(Struct, frozen=True):
    """One rank of one step on disk."""

    step: int
    rank: int
    path: Path
    label: str
    """Path relative to the analysed path, for people."""
    dump_bytes: int = 0
    """Size of the file with its values when listed; 0 when absent."""
    nodes: tuple[str, ...] = ()
    """Nodes of a cluster on whose own disks it lies, the one to ask first in front; empty: its path leads to it."""
    file: FileKind = FileKind.DUMP
    """What holds its values: :attr:`FileKind.DUMP`, or :attr:`FileKind.SAVED` where there is no such file."""

    @property
    def values(self) -> Path:
        """The file that holds its values."""
        return self.path / self.file.value
