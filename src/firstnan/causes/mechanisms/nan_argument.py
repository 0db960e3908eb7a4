"""# NaN as a plain number

A plain number among the arguments is NaN. Python computed it, outside the framework.

## What proves it
The record shows the number: *certain*.

## Example
A loss weight computed as the mean of an empty list.

## How to fix it
Follow the number back in the code of the caller: an average of nothing, a metric that was never set, a parsed
setting.
"""

from __future__ import annotations

import math

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, found
from firstnan.causes.mechanisms.registry import tried
from firstnan.rank.taint.events import EventKind


@tried(EventKind.BIRTH, after="flagged")
def nan_argument(case: Case) -> Mechanism | None:
    """A plain number among the arguments is NaN: it was computed outside the framework."""
    for scalar in case.record.scalars:
        if isinstance(scalar.value, float) and math.isnan(scalar.value) and not scalar.slot.startswith("output"):
            return found(MechanismKind.NAN_ARGUMENT, Confidence.CERTAIN, "why.nan_argument", slot=scalar.slot)
    return None
