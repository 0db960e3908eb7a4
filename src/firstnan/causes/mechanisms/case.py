"""What a mechanism's test looks at, and how it answers."""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

from firstnan.answer.model import Confidence, Mechanism, MechanismKind, Note, NoteValue
from firstnan.dump.records import Direction, Record, Scalar, TensorStat
from firstnan.dump.values import DtypeLimits, ValueState, limits
from firstnan.operators.table import Computes, Rulebook, short_api
from firstnan.rank.taint.events import Event


class Case(Struct, frozen=True):
    """One event as the tests see it."""

    event: Event
    book: Rulebook
    """What is known about operators."""

    @property
    def record(self) -> Record:
        return self.event.record

    @property
    def api(self) -> str:
        """The operator's name without prefix (a module's class)."""
        return short_api(self.record.name)

    def computes(self, *what: Computes) -> bool:
        """Whether the operator computes one of these."""
        return self.book.computes(self.api, *what)

    @property
    def is_backward(self) -> bool:
        return self.event.direction is Direction.BACKWARD

    @property
    def forward(self) -> Record | None:
        """The forward record of the call: the record itself, or a backward record's twin."""
        return self.event.forward_twin if self.is_backward else self.record

    @property
    def bad_output(self) -> TensorStat | None:
        return self.event.bad_outputs[0] if self.event.bad_outputs else None

    @property
    def limit(self) -> DtypeLimits | None:
        """The finite range of the bad output's dtype."""
        return limits(self.bad_output.dtype) if self.bad_output else None

    @property
    def gives_nan(self) -> bool:
        return any(t.state is ValueState.NAN for t in self.event.bad_outputs)


def infinite_slots(case: Case) -> list[str]:
    """Inputs that hold an infinity: tensors and constants."""
    slots = [t.slot for t in case.record.inputs if t.state.is_bad and t.state is not ValueState.NAN]
    return slots + [s.slot for s in case.record.scalars if s.value in (math.inf, -math.inf)]


Test = Callable[[Case], Mechanism | None]
"""None: this mechanism does not fit."""


def found(kind: MechanismKind, confidence: Confidence, key: str, **params: NoteValue) -> Mechanism:
    """A test's answer."""
    return Mechanism(kind, confidence, Note(key, params))


def operand(record: Record, position: int) -> Scalar | None:
    """The plain number at a position among the arguments."""
    return next((s for s in record.scalars if s.slot in (f"input_args.{position}", f"input.{position}")), None)


def number(scalar: Scalar | None) -> float | None:
    """A scalar's value where it is a number."""
    if scalar is None or isinstance(scalar.value, bool) or not isinstance(scalar.value, (int, float)):
        return None
    return float(scalar.value)
