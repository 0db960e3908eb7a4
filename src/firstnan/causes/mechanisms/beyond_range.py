"""What the three overflows of a dtype have in common: the largest result that the inputs allow."""

from __future__ import annotations

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, found
from firstnan.dump.values import ValueState
from firstnan.operators.bounds import backward_bound, largest_operand, result_bound
from firstnan.operators.table import Computes

SMALL = 16.0
"""Up to here an unknown operator of float16 would have to multiply its input by thousands."""


def beyond_range(case: Case, dtype: str, kind: MechanismKind) -> Mechanism | None:
    """The inputs of an operator with a bad result in ``dtype`` allow a result beyond it.

    With a bound for the operator, the bound decides; without one, a narrow dtype or huge inputs do.
    """
    tensor, limit = case.bad_output, case.limit
    if tensor is None or limit is None or limit.name != dtype or any(t.state.is_bad for t in case.record.inputs):
        return None
    value = largest_operand(case.record.inputs)
    if case.is_backward:
        bound = backward_bound(case.record, case.forward, case.book) if case.forward else None
    else:
        bound = result_bound(case.record, case.book)
    if bound is not None:
        if bound <= limit.largest:
            return None
        proves = not (case.is_backward or tensor.state is ValueState.NAN or case.computes(Computes.FUSED))
        sure = Confidence.CERTAIN if proves else Confidence.LIKELY
        return found(kind, sure, "why.overflow", value=value, bound=bound, limit=limit.largest, dtype=limit.name)
    if case.computes(Computes.BOUNDED) and not case.is_backward:
        return None
    narrow = limit.name == "float16" and (tensor.state is not ValueState.NAN or (value or 0) > 100)
    large = value is not None and value * value > limit.largest
    if narrow or large:
        if value is None:
            return found(kind, Confidence.POSSIBLE, "why.overflow_unseen", limit=limit.largest, dtype=limit.name)
        sure = Confidence.LIKELY if large or value > SMALL else Confidence.POSSIBLE
        return found(kind, sure, "why.overflow_narrow", value=value, limit=limit.largest, dtype=limit.name)
    return None
