"""# division by zero

A divisor is zero, or something that divides inside: `rsqrt(0)`, a normalisation of rows without spread, a mean over
nothing, the standard deviation of one element.

## What proves it
*certain* when zero is the Max or Min of the divisor, a plain zero, or a mean over no elements or only ignored
targets, a deviation of single elements, or a normalisation with a recorded eps of 0 whose numbers are too small for
anything else; *likely* when zero lies between Min and Max, when the divisor is so small
that the quotient leaves the dtype, or when the rows of a normalisation are flat; *possible* for other normalisations.

## Example
Vectors divided by their length, one of them zero (a padded token).

## How to fix it
eps inside the operation, or a guard for what may be empty. 1e-8 is 0 in float16.
"""

from __future__ import annotations

import math

from firstnan.answer.model import Confidence, Mechanism, MechanismKind, NoteValue
from firstnan.causes.mechanisms.case import Case, found, number, operand
from firstnan.causes.mechanisms.registry import tried
from firstnan.causes.mechanisms.traits import Trait
from firstnan.dump.records import Record, TensorStat
from firstnan.dump.values import ValueState, limits, magnitude
from firstnan.operators.bounds import holds_zero, magnitudes, touches_zero
from firstnan.operators.table import Computes
from firstnan.rank.taint.events import EventKind

TRAITS = frozenset({Trait.ZERO, Trait.MORE_ADVICE_IN_FLOAT16})
ADVICE = {
    "why.no_variance": "no_variance",
    "why.one_element_rows": "one_element",
    "why.empty_mean": "empty_mean",
    "why.all_ignored": "all_ignored",
    "why.single_elements": "single_elements",
}
"""Explanations that ask for something else than a guard against zero."""

_DEVIATIONS = frozenset(["std", "var", "std_mean", "var_mean"])


@tried(EventKind.BIRTH, after="large_value_propagation")
def div_by_zero(case: Case) -> Mechanism | None:
    """The divisor holds a zero, or is so small that the quotient leaves the dtype."""
    forward = case.forward
    if forward is not None and case.computes(Computes.POWER):
        return _negative_power(forward)
    if forward is None or not case.computes(Computes.DIVISION):
        return None
    divisors = _divisors(case, forward)
    for tensor in divisors:
        if holds_zero(tensor):
            sure = Confidence.CERTAIN if touches_zero(tensor) else Confidence.LIKELY
            return found(
                MechanismKind.DIV_BY_ZERO, sure, "why.div_by_zero", slot=tensor.slot, min=tensor.min, max=tensor.max
            )
    scalar = operand(forward, 1)
    if number(scalar) == 0 and scalar is not None and not case.computes(Computes.INVERSE):
        return found(
            MechanismKind.DIV_BY_ZERO, Confidence.CERTAIN, "why.div_by_zero", slot=scalar.slot, min=0.0, max=0.0
        )
    return _tiny_divisor(case, divisors)


def _negative_power(forward: Record) -> Mechanism | None:
    """``x ** -0.5`` with a zero in x."""
    exponent = number(operand(forward, 1))
    base = forward.inputs[0] if forward.inputs else None
    if exponent is None or exponent >= 0 or base is None or not holds_zero(base):
        return None
    sure = Confidence.CERTAIN if touches_zero(base) else Confidence.LIKELY
    return found(MechanismKind.DIV_BY_ZERO, sure, "why.div_by_zero", slot=base.slot, min=base.min, max=base.max)


def _tiny_divisor(case: Case, divisors: list[TensorStat]) -> Mechanism | None:
    small = [abs(float(v)) for t in divisors for v in (t.min, t.max) if v is not None]
    scalar = number(operand(case.record, 1))
    if not divisors and scalar is not None:
        small = [abs(scalar)]
    top = max(magnitudes(case.record.inputs[:1]), default=None)
    if case.limit is None or top is None or not small or min(small) <= 0:
        return None
    over = 1.0 if case.computes(Computes.INVERSE) else top
    if over / min(small) <= case.limit.largest:
        return None
    return found(
        MechanismKind.DIV_BY_ZERO,
        Confidence.LIKELY,
        "why.tiny_divisor",
        value=min(small),
        limit=case.limit.largest,
        dtype=case.limit.name,
    )


def _divisors(case: Case, forward: Record) -> list[TensorStat]:
    tensors = [t for t in forward.inputs if not t.slot.startswith("input_kwargs.out")]
    if case.computes(Computes.INVERSE):
        return tensors[:1]
    return tensors[2:3] if case.api == "addcdiv" else tensors[1:2]


_OVER_THE_LAST = frozenset({"layer_norm", "rms_norm", "npu_rms_norm", "LayerNorm", "RMSNorm"})
"""Normalisations over the last dimension at least."""


@tried(EventKind.BIRTH, after="empty_reduction")
def no_variance(case: Case) -> Mechanism | None:
    """Normalisation of rows without spread or length (eps 0), by a zero weight in backward."""
    forward = case.forward
    if forward is None or not case.computes(Computes.NORMALISATION) or not forward.inputs:
        return None
    if case.api in _DEVIATIONS and not case.is_backward:
        return None  # the deviation of equal elements is 0; only its derivative divides by it
    tensor = forward.inputs[0]
    limit, value = limits(tensor.dtype), magnitude(tensor.max, tensor.min)
    if limit is not None and value is not None and value * value > limit.largest:
        return None  # its square overflows: another mechanism
    weight = forward.inputs[1] if case.is_backward and len(forward.inputs) > 1 else None
    if weight is not None and touches_zero(weight):
        return found(MechanismKind.DIV_BY_ZERO, Confidence.LIKELY, "why.zero_weight", slot=weight.slot)
    if weight is not None and holds_zero(weight):
        around: dict[str, NoteValue] = {"slot": weight.slot, "min": weight.min, "max": weight.max}
        return found(MechanismKind.DIV_BY_ZERO, Confidence.POSSIBLE, "why.weight_around_zero", **around)
    if tensor.shape and tensor.shape[-1] == 1 and case.api in _OVER_THE_LAST:
        return found(MechanismKind.DIV_BY_ZERO, Confidence.LIKELY, "why.one_element_rows", slot=tensor.slot)
    eps = [s.value for s in forward.scalars if isinstance(s.value, float)]
    if _only_zero_is_left(case, forward, eps):
        return found(MechanismKind.DIV_BY_ZERO, Confidence.CERTAIN, "why.no_variance", slot=tensor.slot)
    flat = tensor.max == tensor.min or touches_zero(tensor) or 0.0 in eps
    return found(
        MechanismKind.DIV_BY_ZERO,
        Confidence.LIKELY if flat else Confidence.POSSIBLE,
        "why.no_variance",
        slot=tensor.slot,
    )


def _only_zero_is_left(case: Case, forward: Record, eps: list[float]) -> bool:
    """eps is recorded as 0, and neither the squares of a row nor its product with the weight can leave the dtype: a
    result that is not finite has divided by zero."""
    if case.is_backward or eps != [0.0] or case.api not in _OVER_THE_LAST:
        return False
    rows, *others = forward.inputs
    limit, largest = limits(rows.dtype), magnitude(rows.max, rows.min)
    scales = [magnitude(tensor.max, tensor.min) for tensor in others if tensor.is_floating]
    if limit is None or largest is None or rows.numel is None or any(scale is None for scale in scales):
        return False
    spread = max(4 * largest * largest * rows.numel, largest)  # 4: the mean can be as far on the other side
    result = math.sqrt(rows.numel) * math.prod(max(1.0, float(scale or 0.0)) for scale in scales)
    return spread <= limit.largest and result + sum(float(scale or 0.0) for scale in scales) <= limit.largest


@tried(EventKind.BIRTH, after="sqrt_backward")
def empty_reduction(case: Case) -> Mechanism | None:
    """A mean over nothing: no elements, or every target ignored; a deviation of single elements: n - 1 is 0."""
    if case.is_backward:
        return None
    if case.api in _DEVIATIONS and _of_single_elements(case):
        return found(MechanismKind.DIV_BY_ZERO, Confidence.CERTAIN, "why.single_elements", operator=case.api)
    if not case.computes(Computes.MEAN):
        return None
    if any(t.state is ValueState.EMPTY for t in case.record.inputs):
        return found(MechanismKind.DIV_BY_ZERO, Confidence.CERTAIN, "why.empty_mean")
    targets = [t for t in case.record.inputs[1:2] if t.dtype.startswith("int")]
    ignore = next((s.value for s in case.record.scalars if s.slot.endswith("ignore_index")), -100)
    if targets and targets[0].max == targets[0].min == ignore:
        return found(MechanismKind.DIV_BY_ZERO, Confidence.CERTAIN, "why.all_ignored", value=targets[0].max)
    return None


def _of_single_elements(case: Case) -> bool:
    """Every result of a deviation comes from one element, and the divisor is the count less one."""
    corrected = all(
        s.value not in (False, 0) for s in case.record.scalars if s.slot.endswith(("unbiased", "correction"))
    )
    counts = [t.numel for t in (*case.record.inputs[:1], *case.record.outputs[:1])]
    return corrected and len(counts) == 2 and counts[0] is not None and counts[0] == counts[1]
