"""# float16 overflow

The result is beyond 65504, the largest finite float16. Sums over a long dimension get there with inputs of ordinary
size.

## What proves it
Every input is finite, and the largest result that arithmetic allows for them is beyond the dtype: for products |a| x
|b| x length of the sum, for sums |a| x number of elements. *certain* in forward when the result is an infinity;
*likely* for gradients, for NaN, for fused kernels, and for operators without such a bound; *possible* when an infinity
in float16 comes from no record, or when the device only flagged it.

## Example
A dot product over 512 elements: 12 x 16 x 512 = 98304.

## How to fix it
float32 or bfloat16 for this operator (leave it out of autocast), or smaller inputs. In backward: a lower loss scale.
"""

from __future__ import annotations

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.beyond_range import beyond_range
from firstnan.causes.mechanisms.case import Case, found
from firstnan.causes.mechanisms.registry import tried
from firstnan.causes.mechanisms.traits import Trait
from firstnan.dump.values import ValueState
from firstnan.operators.table import Computes
from firstnan.rank.taint.events import EventKind

TRAITS = frozenset({Trait.TOO_LARGE, Trait.ENDS_GROWTH, Trait.SCALED, Trait.OWN_ADVICE_IN_BACKWARD})


@tried(EventKind.ENTRY, after="cast_between")
def narrow_between(case: Case) -> Mechanism | None:
    """An infinity, not a NaN, in float16: an undumped operator or cast overflowed."""
    tensor = case.event.bad_inputs[0] if case.event.bad_inputs else None
    if tensor is None or tensor.dtype != "float16" or tensor.state is ValueState.NAN or case.event.blind is not None:
        return None
    return found(MechanismKind.FP16_OVERFLOW, Confidence.POSSIBLE, "why.fp16_between", limit=65504.0)


@tried(EventKind.BIRTH, after="cast_overflow")
def flagged(case: Case) -> Mechanism | None:
    """Dumps with device flags hold no statistics: only the dtype speaks."""
    tensor = case.bad_output
    if tensor is None or tensor.state is not ValueState.NON_FINITE or not case.computes(Computes.PRODUCT):
        return None
    if tensor.dtype != "float16" or any(t.max is not None for t in case.record.inputs):
        return None
    return found(MechanismKind.FP16_OVERFLOW, Confidence.POSSIBLE, "why.flagged", limit=65504.0)


@tried(EventKind.BIRTH, after="saturated_input")
def fp16_overflow(case: Case) -> Mechanism | None:
    """The inputs allow a result beyond 65504."""
    return beyond_range(case, "float16", MechanismKind.FP16_OVERFLOW)
