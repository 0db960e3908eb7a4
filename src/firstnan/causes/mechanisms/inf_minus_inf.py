"""# Inf - Inf

The difference (or sum) of two infinities of opposite effect is NaN.

## What proves it
An infinity among the inputs of a sum or difference that gives NaN: *certain* when two inputs hold one, or for sums
inside a tensor; *likely* otherwise.

## Example
A softmax by hand: the row's maximum, -Inf, is subtracted from the row.

## How to fix it
A finite mask value, or a guard for rows whose maximum is -Inf.
"""

from __future__ import annotations

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, found, infinite_slots
from firstnan.causes.mechanisms.registry import tried
from firstnan.causes.mechanisms.traits import Trait
from firstnan.operators.table import Computes
from firstnan.rank.taint.events import EventKind

TRAITS = frozenset({Trait.TOO_LARGE, Trait.ENDS_GROWTH, Trait.SCALED})


@tried(EventKind.BIRTH, after="masked_softmax")
def inf_minus_inf(case: Case) -> Mechanism | None:
    """A sum or difference with infinite inputs gives NaN."""
    slots = infinite_slots(case)
    if case.is_backward or not case.computes(Computes.DIFFERENCE) or not slots or not case.gives_nan:
        return None
    sure = Confidence.CERTAIN if len(slots) > 1 or case.computes(Computes.REDUCTION) else Confidence.LIKELY
    return found(MechanismKind.INF_MINUS_INF, sure, "why.inf_minus_inf", slot=slots[0])
