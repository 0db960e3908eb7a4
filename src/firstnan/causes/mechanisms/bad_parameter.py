"""# bad parameter

A weight was not finite when the step first used it.

## What proves it
The bad input is a recorded parameter of the module, or stands where this operator takes its weight: *certain*. It is a
vector that needs a gradient, that no record gave and that is spread over a larger tensor: *likely*.

## Example
One NaN in the weight of the second layer.

## How to fix it
The step before (gradients, optimizer), or the checkpoint. [Dump two steps](../collecting.md#which-steps).
"""

from __future__ import annotations

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, found
from firstnan.causes.mechanisms.registry import tried
from firstnan.causes.mechanisms.traits import Trait
from firstnan.rank.taint.events import EventKind, Origin

TRAITS = frozenset({Trait.ENDS_GROWTH})


@tried(EventKind.ENTRY)
def bad_parameter(case: Case) -> Mechanism | None:
    """The bad input is a weight."""
    if case.event.origin is not Origin.PARAMETER:
        return None
    sure = Confidence.LIKELY if case.event.by_shape else Confidence.CERTAIN
    return found(MechanismKind.BAD_PARAMETER, sure, "why.bad_parameter", name=case.event.parameter)
