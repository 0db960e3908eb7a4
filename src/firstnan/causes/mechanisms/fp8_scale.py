"""# bad quantisation scale

The scale of a low-precision quantisation became zero, tiny or infinite.

## What proves it
fp8 tensors have no statistics in a dump, so nothing is proven: *possible*, whenever a low-precision dtype takes part
in the operator that gives the first bad value.

## Example
fp8 weights of which one block held only zeros: its scale is 448 / 0.

## How to fix it
A lower bound for the absolute maximum before it is divided by; look for a block of zeros, and at the amax history.
"""

from __future__ import annotations

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, found
from firstnan.causes.mechanisms.registry import tried
from firstnan.rank.taint.events import EventKind

_LOW_PRECISION = ("float8", "hifloat8", "float4")


@tried(EventKind.BIRTH, after="domain_error")
def fp8_scale(case: Case) -> Mechanism | None:
    """A low-precision dtype takes part."""
    if not any(t.dtype.startswith(_LOW_PRECISION) for t in (*case.record.inputs, *case.record.outputs)):
        return None
    return found(MechanismKind.FP8_SCALE, Confidence.POSSIBLE, "why.fp8_scale")
