"""# float32 overflow

The result is beyond 3.40e38, the largest finite float32.

## What proves it
As for bfloat16.

## Example
The same fourth power in float32.

## How to fix it
Follow the inputs to the first jump in size; look at the learning rate, clipping and weights of the steps before.
"""

from __future__ import annotations

from firstnan.answer.model import Mechanism, MechanismKind
from firstnan.causes.mechanisms.beyond_range import beyond_range
from firstnan.causes.mechanisms.case import Case
from firstnan.causes.mechanisms.registry import tried
from firstnan.causes.mechanisms.traits import Trait
from firstnan.rank.taint.events import EventKind

TRAITS = frozenset({Trait.TOO_LARGE, Trait.ENDS_GROWTH})


@tried(EventKind.BIRTH, after="bf16_overflow")
def fp32_overflow(case: Case) -> Mechanism | None:
    """The inputs allow a result beyond 3.40e38 in float32."""
    return beyond_range(case, "float32", MechanismKind.FP32_OVERFLOW)
