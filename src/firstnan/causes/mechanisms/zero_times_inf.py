"""# 0 * Inf

Zero times infinity is NaN.

## What proves it
An infinity among the inputs of a product that gives NaN: *certain* when another input certainly holds a zero, else
*likely*; in backward an infinity that the forward call had saved: *likely*.

## Example
Scores masked with -Inf and multiplied with a mask of 0 and 1.

## How to fix it
Mask by selection (`where`), not by multiplication with 0: that keeps Inf and NaN alive.
"""

from __future__ import annotations

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, found, infinite_slots
from firstnan.causes.mechanisms.registry import tried
from firstnan.causes.mechanisms.traits import Trait
from firstnan.dump.values import ValueState
from firstnan.operators.bounds import touches_zero
from firstnan.operators.table import MULTIPLIES, Computes
from firstnan.rank.taint.events import EventKind

TRAITS = frozenset({Trait.ENDS_GROWTH})


@tried(EventKind.BIRTH, after="inf_minus_inf")
def zero_times_inf(case: Case) -> Mechanism | None:
    """A product with infinite inputs gives NaN; in backward, with an infinity in the forward call's inputs, or in the
    result of an exponential, which is its own derivative."""
    if not case.computes(*MULTIPLIES, Computes.EXPONENTIAL) or not case.gives_nan:
        return None
    forward = case.forward
    if case.is_backward:
        kept = () if forward is None else forward.outputs if case.computes(Computes.EXPONENTIAL) else forward.inputs
        saved = [t for t in kept if t.state.is_bad and t.state is not ValueState.NAN]
        if not saved:
            return None
        return found(MechanismKind.ZERO_TIMES_INF, Confidence.LIKELY, "why.zero_times_inf", slot=saved[0].slot)
    slots = infinite_slots(case)
    if not slots or case.computes(Computes.EXPONENTIAL):
        return None
    zero = any(touches_zero(t) for t in case.record.inputs) or any(s.value == 0 for s in case.record.scalars)
    return found(
        MechanismKind.ZERO_TIMES_INF,
        Confidence.CERTAIN if zero else Confidence.LIKELY,
        "why.zero_times_inf",
        slot=slots[0],
    )
