"""What a fuzzing target raises."""

from __future__ import annotations


class BrokenPromiseError(AssertionError):
    """A reader gave something that its docstring rules out."""


def promise(holds: bool, what: str) -> None:
    """Unlike ``assert``, kept under ``python -O``."""
    if not holds:
        raise BrokenPromiseError(what)
