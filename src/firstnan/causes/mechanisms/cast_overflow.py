"""# overflow in a cast

A finite value was converted to a dtype whose largest finite value is smaller.

## What proves it
The input of the cast is beyond the new dtype: *certain*. The same when the cast left no record but the value before
it and the dtype after it did.

## Example
Activations of 120000, cast to float16. How the same program looks when the cast is not recorded:
[undumped_operator](where.md#undumped_operator).

## How to fix it
Keep the wide dtype up to the next normalisation. Mask constants: `finfo(x.dtype).min` instead of -1e9.
"""

from __future__ import annotations

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, found
from firstnan.causes.mechanisms.registry import tried
from firstnan.causes.mechanisms.traits import Trait
from firstnan.dump.values import limits
from firstnan.operators.bounds import largest
from firstnan.operators.table import Computes
from firstnan.rank.taint.events import EventKind

TRAITS = frozenset({Trait.TOO_LARGE, Trait.ENDS_GROWTH, Trait.SCALED, Trait.OWN_ADVICE_IN_BACKWARD})


@tried(EventKind.BIRTH, after="saturated_result")
def cast_overflow(case: Case) -> Mechanism | None:
    """A cast of a value beyond the new dtype (in backward: of the gradient, to the input's dtype)."""
    value = largest(case.record.inputs)
    if not case.computes(Computes.CAST) or case.limit is None or value is None or value <= case.limit.largest:
        return None
    return found(
        MechanismKind.CAST_OVERFLOW,
        Confidence.CERTAIN,
        "why.cast_overflow",
        value=value,
        limit=case.limit.largest,
        dtype=case.limit.name,
    )


@tried(EventKind.ENTRY, after="uninitialised_memory")
def cast_between(case: Case) -> Mechanism | None:
    """The value before the entry is finite and beyond the entry's dtype.

    Example: ``linear`` gives 8.4e4 in float32, the next record reads Inf in float16 of the same size.
    """
    for tensor in case.event.bad_inputs:
        limit = limits(tensor.dtype)
        if limit is None or case.event.writer is None:
            continue
        before = [t for t in case.event.writer.outputs if t.numel == tensor.numel and t.dtype != tensor.dtype]
        value = largest(before)
        if value is not None and value > limit.largest:
            name = case.event.writer.name.full
            return found(
                MechanismKind.CAST_OVERFLOW,
                Confidence.CERTAIN,
                "why.cast_between",
                value=value,
                limit=limit.largest,
                dtype=tensor.dtype,
                before=name,
            )
    return None
