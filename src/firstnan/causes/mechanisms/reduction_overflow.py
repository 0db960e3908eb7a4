"""# overflow in a reduction across ranks

Every rank's input is finite, and their sum is beyond the dtype in which the reduction runs.

## What proves it
All members' inputs are recorded and finite, and the sum of their largest absolute values exceeds the dtype's limit:
*certain*.

## Example
Four ranks, 20000 to 23000 each, summed in float16: 86000.

## How to fix it
Reduce in float32, or divide before the sum instead of after it.
"""

from __future__ import annotations

from firstnan.answer.model import Confidence, Mechanism, MechanismKind, NoteValue
from firstnan.causes.mechanisms.case import found
from firstnan.causes.mechanisms.traits import Trait
from firstnan.dump.values import limits
from firstnan.step.matching import MatchedCall

TRAITS = frozenset({Trait.ENDS_GROWTH, Trait.SCALED})


def reduction_overflow(call: MatchedCall, bound: float | None) -> Mechanism | None:
    """The sum of the members' largest values is beyond the dtype.

    Example: two members with 4e4 in float16: 8e4 > 65504. ``bound``: the largest value that can stand on the way to
    the result, None when an input is not known.
    """
    facts = list(call.members.values())
    limit = next((limits(t.dtype) for f in facts for t in f.call.sent if limits(t.dtype)), None)
    if bound is None or limit is None or bound <= limit.largest or not any(f.call.reduces for f in facts):
        return None
    params: dict[str, NoteValue] = {
        "bound": bound,
        "limit": limit.largest,
        "dtype": limit.name,
        "members": len(facts),
    }
    return found(MechanismKind.REDUCTION_OVERFLOW, Confidence.CERTAIN, "why.reduction_overflow", **params)
