"""# derivative at the edge

The forward value is finite, its derivative is not: `sqrt`, `norm`, `pow` at 0, `acos` and `asin` at 1. Infinity times
a gradient of zero is NaN.

## What proves it
A backward record of such an operator makes NaN or Inf out of finite gradients. *certain* when the forward call stands
at zero; *likely* when zero lies between Min and Max, or for operators with other edges; *possible* without a forward
record to compare.

## Example
`where(x > 0, sqrt(x), 0)`: right in forward, NaN in backward.

## How to fix it
Keep the argument off the edge: `sqrt(x + eps)`. A `where` behind it does not help: mask the input, not the output.
"""

from __future__ import annotations

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, found
from firstnan.causes.mechanisms.registry import tried
from firstnan.dump.records import RecordKind, TensorStat
from firstnan.operators.bounds import holds_zero, touches_zero
from firstnan.operators.table import Computes
from firstnan.rank.taint.events import EventKind

NEAR_ZERO = 1e-6
"""Values of this size may be zero among elements that Max and Min do not show."""
_EDGE_AT_ZERO = frozenset(["sqrt", "rsqrt", "norm", "vector_norm", "matrix_norm"])


@tried(EventKind.BIRTH, after="div_by_zero")
def sqrt_backward(case: Case) -> Mechanism | None:
    """The derivative of sqrt, norm, pow, acos ... at the edge of the domain."""
    if not case.is_backward or not case.computes(Computes.ROOT) or case.record.name.kind is RecordKind.MODULE:
        return None
    sure = Confidence.POSSIBLE
    if case.forward is not None:
        tensors = [t for t in (*case.forward.inputs, *case.forward.outputs) if t.is_floating]
        if any(touches_zero(t) for t in tensors):
            sure = Confidence.CERTAIN
        elif case.api in _EDGE_AT_ZERO and not any(_comes_near_zero(t) for t in tensors):
            return None
        elif any(holds_zero(t) for t in tensors) or case.api not in ("sqrt", "rsqrt"):
            sure = Confidence.LIKELY
    return found(MechanismKind.SQRT_BACKWARD, sure, "why.sqrt_backward", value=0.0, operator=case.api)


def _comes_near_zero(tensor: TensorStat) -> bool:
    if tensor.max is None or tensor.min is None or holds_zero(tensor):
        return True
    return min(abs(float(tensor.max)), abs(float(tensor.min))) < NEAR_ZERO
