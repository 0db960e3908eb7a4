"""# saved bad value in backward

Forward dropped a bad value, by a selection or a mask, but autograd saved it: backward multiplies the gradient with
it.

## What proves it
The backward record makes NaN out of a finite gradient, and the forward call of the same operator read a NaN:
*likely*.

## Example
A padded row holds NaN; `where` drops it after the product, and the gradient of the product is NaN.

## How to fix it
Replace the bad value before the operator that saves it, not after it: mask the input, not the output.
"""

from __future__ import annotations

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, found
from firstnan.causes.mechanisms.registry import tried
from firstnan.dump.values import ValueState
from firstnan.rank.taint.events import EventKind


@tried(EventKind.BIRTH, after="nan_argument")
def saved_nonfinite(case: Case) -> Mechanism | None:
    """Backward from a value that was NaN in the forward call: dropped there, it still multiplies the gradient."""
    if not case.is_backward or case.forward is None:
        return None
    for tensor in case.forward.inputs:
        if tensor.state is ValueState.NAN:
            return found(
                MechanismKind.SAVED_NONFINITE,
                Confidence.LIKELY,
                "why.saved_nonfinite",
                slot=tensor.slot,
                operator=case.forward.name.full,
            )
    return None
