"""Where a record was called from: module chain and stack frames."""

from __future__ import annotations

from msgspec import Struct, field

from firstnan.dump.problems import Problem


class Frame(Struct, frozen=True):
    """One stack frame of stack.json."""

    file: str
    line: int | None
    function: str
    source: str
    """The source line as recorded; empty when the dump does not hold it."""


class CallSite(Struct, frozen=True, omit_defaults=True):
    """Where one record was called from."""

    op_name: str
    chain: tuple[str, ...] = ()
    """The record itself, then its parents from construct.json, innermost first."""
    frames: tuple[Frame, ...] = ()
    """Full stack, innermost first."""
    location: Frame | None = None
    """The first frame outside the framework and its wrappers."""
    called_at: Frame | None = None
    """The user's line around it, where it only calls another module or function."""
    module: str | None = None
    """Path of the innermost module of the chain (``layers.3.self_attn``); for a module record its own."""
    raw_stack: tuple[str | int | float | None, ...] = ()
    """The stack as written in the file."""
    problems: tuple[Problem, ...] = field(default=())
