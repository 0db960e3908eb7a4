"""The mechanisms, and the order in which their tests are tried.

Each kind of mechanism has a room of its own here, ``<kind>.py``: its documentation page is the docstring, its tests
carry :func:`tried`, ``TRAITS`` and ``ADVICE`` say what other code asks about the kind (:mod:`.traits`). The first test
that answers gives the mechanism; ``certain`` only where the recorded numbers prove it. A test that does not fit answers
nothing: ``unknown`` with the right operator is worth more than a confident wrong answer. Some kinds are found elsewhere
(communication, peers, replicas); their rooms hold the page, and the test where it is a pure one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType

from msgspec import Struct

from firstnan.answer.model import Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, Test
from firstnan.causes.mechanisms.traits import Trait
from firstnan.operators.table import Rulebook
from firstnan.rank.taint.events import Event, EventKind


class Tried(Struct, frozen=True):
    """One test and its place in the order."""

    test: Test
    on: tuple[EventKind, ...]
    after: str
    """Name of the test that is tried before this one; empty: this one is among the first."""


_TRIED: list[Tried] = []


def tried(*on: EventKind, after: str = "") -> Callable[[Test], Test]:
    """Registers a test for events of some kinds, behind the test named ``after``.

    ``after`` names a test, which is a function and not always called like its room. Tests of one kind of event stand in
    one line: the test that stood behind ``after`` until now has to name the new one.
    """

    def register(test: Test) -> Test:
        _TRIED.append(Tried(test, on, after))
        return test

    return register


def room(kind: MechanismKind) -> str:
    """The documentation of a mechanism: the docstring of its module."""
    return _module(kind).__doc__ or ""


def has(kind: MechanismKind, trait: Trait) -> bool:
    """Whether a mechanism's room declares the trait (``TRAITS``)."""
    return trait in getattr(_module(kind), "TRAITS", ())


def advice_of(kind: MechanismKind, explanation: str) -> str | None:
    """The variant of a mechanism's advice for one explanation (``ADVICE``); None: it has none of its own."""
    variants: dict[str, str] = getattr(_module(kind), "ADVICE", {})
    return variants.get(explanation)


def _module(kind: MechanismKind) -> ModuleType:
    return import_module(f"{__package__}.{kind.value}")


@cache
def in_order() -> tuple[Tried, ...]:
    """Every test behind the one that its ``after`` names.

    Raises:
        LookupError: an ``after`` names no test, tests wait for each other, or two stand behind the same.
    """
    for kind in MechanismKind:
        room(kind)
    followers: dict[tuple[str, EventKind], str] = {}
    for one in _TRIED:
        for event in one.on:
            other = followers.setdefault((one.after, event), one.test.__name__)
            if other != one.test.__name__:
                raise LookupError(f"both {other} and {one.test.__name__} are tried after {one.after!r}")
    waiting, ordered, placed = list(_TRIED), [], {""}
    while waiting:
        ready = [one for one in waiting if one.after in placed]
        if not ready:
            raise LookupError(f"nothing is tried before {waiting[0].test.__name__}: no test {waiting[0].after!r}")
        ordered += ready
        placed |= {one.test.__name__ for one in ready}
        waiting = [one for one in waiting if one not in ready]
    return tuple(ordered)


def explain(event: Event, book: Rulebook) -> Mechanism:
    """The mechanism of an event; ``unknown`` when no other test fits."""
    case = Case(event, book)
    kind = EventKind.ENTRY if event.kind is EventKind.ENTRY else EventKind.BIRTH
    answers = (one.test(case) for one in in_order() if kind in one.on)
    return next(answer for answer in answers if answer is not None)
