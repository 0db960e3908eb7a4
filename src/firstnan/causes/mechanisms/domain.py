"""Tests for operators whose inputs stand outside their domain, or at its edge."""

from __future__ import annotations

import math

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, found, number, operand
from firstnan.dump.records import Record, RecordKind, TensorStat
from firstnan.dump.values import ValueState, limits, magnitude
from firstnan.operators import families
from firstnan.operators.bounds import holds_zero, magnitudes, touches_zero

NEAR_ZERO = 1e-6
"""Values of this size may be zero among elements that Max and Min do not show."""
_CERTAIN, _LIKELY, _POSSIBLE = Confidence.CERTAIN, Confidence.LIKELY, Confidence.POSSIBLE


def _infinite_slots(case: Case) -> list[str]:
    """Inputs that hold an infinity: tensors and constants."""
    slots = [t.slot for t in case.record.inputs if t.state.is_bad and t.state is not ValueState.NAN]
    return slots + [s.slot for s in case.record.scalars if s.value in (math.inf, -math.inf)]


def masked_softmax(case: Case) -> Mechanism | None:
    """softmax or attention over -Inf: a row that is masked throughout gives 0 / 0."""
    if case.is_backward or case.api not in families.SOFTMAXES:
        return None
    masks = [t for t in case.record.inputs if t.state is ValueState.NEG_INF]
    if masks:
        plain = case.api in families.PLAIN_SOFTMAXES or any(t.max == -math.inf for t in masks)
        return found(
            MechanismKind.MASKED_SOFTMAX, _CERTAIN if plain else _LIKELY, "why.masked_softmax", slot=masks[0].slot
        )
    if any(t.dtype == "bool" for t in case.record.inputs):
        return found(MechanismKind.MASKED_SOFTMAX, _POSSIBLE, "why.masked_attention")
    return None


def inf_minus_inf(case: Case) -> Mechanism | None:
    """A sum or difference with infinite inputs gives NaN."""
    slots = _infinite_slots(case)
    if case.is_backward or case.api not in families.DIFFERENCES or not slots or not case.gives_nan:
        return None
    sure = _CERTAIN if len(slots) > 1 or case.api in families.REDUCING_SUMS else _LIKELY
    return found(MechanismKind.INF_MINUS_INF, sure, "why.inf_minus_inf", slot=slots[0])


def zero_times_inf(case: Case) -> Mechanism | None:
    """A product with infinite inputs gives NaN; in backward, with an infinity in the forward call's inputs, or in the
    result of an exponential, which is its own derivative."""
    if case.api not in families.MULTIPLICATIONS | families.EXPONENTIALS or not case.gives_nan:
        return None
    forward = case.forward
    if case.is_backward:
        kept = () if forward is None else forward.outputs if case.api in families.EXPONENTIALS else forward.inputs
        saved = [t for t in kept if t.state.is_bad and t.state is not ValueState.NAN]
        if not saved:
            return None
        return found(MechanismKind.ZERO_TIMES_INF, _LIKELY, "why.zero_times_inf", slot=saved[0].slot)
    slots = _infinite_slots(case)
    if not slots or case.api in families.EXPONENTIALS:
        return None
    zero = any(touches_zero(t) for t in case.record.inputs) or any(s.value == 0 for s in case.record.scalars)
    return found(MechanismKind.ZERO_TIMES_INF, _CERTAIN if zero else _LIKELY, "why.zero_times_inf", slot=slots[0])


def exp_overflow(case: Case) -> Mechanism | None:
    """The exponent is beyond the logarithm of the dtype's limit (88.7 for float32, 11.1 for float16)."""
    if case.is_backward or case.bad_output is None or case.limit is None:
        return None
    base = math.e
    exponents = list(case.record.inputs)
    if case.api == "exp2":
        base = 2.0
    elif case.api in families.POWERS:
        scalar = number(operand(case.record, 1 if case.api == "__rpow__" else 0))
        if scalar is not None:
            base = abs(scalar)
        elif len(exponents) > 1:
            base, exponents = magnitude(exponents[0].max, exponents[0].min) or 0.0, exponents[1:]
        else:
            return None
    elif case.api not in families.EXPONENTIALS:
        return None
    if base <= 0 or base == 1 or not exponents:
        return None
    edge = math.log(case.limit.largest) / math.log(base)
    ends = [float(v) for t in exponents for v in (t.max, t.min) if v is not None]
    value = (max(ends) if base > 1 else min(ends)) if ends else None
    if case.api in ("sinh", "cosh") and ends:
        value = max(abs(v) for v in ends)
    if value is None or (value <= edge if base > 1 else value >= edge):
        return None
    return found(
        MechanismKind.EXP_OVERFLOW, _CERTAIN, "why.exp_overflow", value=value, edge=edge, dtype=case.limit.name
    )


def log_zero(case: Case) -> Mechanism | None:
    """The argument of a logarithm is zero or negative (in backward: of the forward call)."""
    if case.api not in families.LOGS or case.forward is None:
        return None
    edge = -1.0 if case.api == "log1p" else 0.0
    arguments = [t for t in case.forward.inputs if t.is_floating][:1]
    if case.api in ("xlogy", "binary_cross_entropy"):
        arguments = [t for t in case.forward.inputs if t.is_floating]
    lows = [float(t.min) for t in arguments if t.min is not None]
    if case.api in ("logit", "binary_cross_entropy"):  # symmetric: 1 is an edge too
        lows += [1.0 - float(t.max) for t in arguments if t.max is not None]
    if not lows or min(lows) > edge:
        return None
    return found(MechanismKind.LOG_ZERO, _CERTAIN, "why.log_zero", value=min(lows))


def nan_argument(case: Case) -> Mechanism | None:
    """A plain number among the arguments is NaN: it was computed outside the framework."""
    for scalar in case.record.scalars:
        if isinstance(scalar.value, float) and math.isnan(scalar.value) and not scalar.slot.startswith("output"):
            return found(MechanismKind.UNKNOWN, _CERTAIN, "why.nan_argument", slot=scalar.slot)
    return None


def saved_bad(case: Case) -> Mechanism | None:
    """Backward from a value that was NaN in the forward call: dropped there, it still multiplies the gradient."""
    if not case.is_backward or case.forward is None:
        return None
    for tensor in case.forward.inputs:
        if tensor.state is ValueState.NAN:
            return found(
                MechanismKind.UNKNOWN, _LIKELY, "why.saved_bad", slot=tensor.slot, operator=case.forward.name.full
            )
    return None


def outside_domain(case: Case) -> Mechanism | None:
    """sqrt of a negative number, acos beyond 1: NaN, and none of the named mechanisms."""
    low = families.DOMAINS.get(case.api)
    if case.is_backward or low is None or not case.gives_nan:
        return None
    for tensor in case.record.inputs[:1]:
        ends = [float(v) for v in (tensor.min, tensor.max) if v is not None]
        beyond = [v for v in ends if v < low or (low == -1.0 and v > 1.0)]
        if beyond:
            return found(MechanismKind.UNKNOWN, _CERTAIN, "why.outside_domain", slot=tensor.slot, value=beyond[0],
                         operator=case.api)  # fmt: skip
    return None


def div_by_zero(case: Case) -> Mechanism | None:
    """The divisor holds a zero, or is so small that the quotient leaves the dtype."""
    forward = case.forward
    if forward is not None and case.api in families.POWERS:
        return _negative_power(forward)
    if forward is None or case.api not in families.DIVISIONS:
        return None
    divisors = _divisors(case.api, forward)
    for tensor in divisors:
        if holds_zero(tensor):
            sure = _CERTAIN if touches_zero(tensor) else _LIKELY
            return found(
                MechanismKind.DIV_BY_ZERO, sure, "why.div_by_zero", slot=tensor.slot, min=tensor.min, max=tensor.max
            )
    scalar = operand(forward, 1)
    if number(scalar) == 0 and scalar is not None and case.api not in families.INVERSES:
        return found(MechanismKind.DIV_BY_ZERO, _CERTAIN, "why.div_by_zero", slot=scalar.slot, min=0.0, max=0.0)
    return _tiny_divisor(case, divisors)


def _negative_power(forward: Record) -> Mechanism | None:
    """``x ** -0.5`` with a zero in x."""
    exponent = number(operand(forward, 1))
    base = forward.inputs[0] if forward.inputs else None
    if exponent is None or exponent >= 0 or base is None or not holds_zero(base):
        return None
    sure = _CERTAIN if touches_zero(base) else _LIKELY
    return found(MechanismKind.DIV_BY_ZERO, sure, "why.div_by_zero", slot=base.slot, min=base.min, max=base.max)


def _tiny_divisor(case: Case, divisors: list[TensorStat]) -> Mechanism | None:
    small = [abs(float(v)) for t in divisors for v in (t.min, t.max) if v is not None]
    scalar = number(operand(case.record, 1))
    if not divisors and scalar is not None:
        small = [abs(scalar)]
    top = max(magnitudes(case.record.inputs[:1]), default=None)
    if case.limit is None or top is None or not small or min(small) <= 0:
        return None
    over = 1.0 if case.api in families.INVERSES else top
    if over / min(small) <= case.limit.largest:
        return None
    return found(MechanismKind.DIV_BY_ZERO, _LIKELY, "why.tiny_divisor", value=min(small), limit=case.limit.largest,
                 dtype=case.limit.name)  # fmt: skip


def _divisors(api: str, forward: Record) -> list[TensorStat]:
    tensors = [t for t in forward.inputs if not t.slot.startswith("input_kwargs.out")]
    if api in families.INVERSES:
        return tensors[:1]
    return tensors[2:3] if api == "addcdiv" else tensors[1:2]


def no_variance(case: Case) -> Mechanism | None:
    """Normalisation of rows without spread or length (eps 0), by a zero weight in backward."""
    forward = case.forward
    if forward is None or case.api not in families.NORMALISATIONS or not forward.inputs:
        return None
    tensor = forward.inputs[0]
    limit, value = limits(tensor.dtype), magnitude(tensor.max, tensor.min)
    if limit is not None and value is not None and value * value > limit.largest:
        return None  # its square overflows: another mechanism
    if case.is_backward and any(holds_zero(t) for t in forward.inputs[1:2]):
        return found(MechanismKind.DIV_BY_ZERO, _LIKELY, "why.zero_weight", slot=forward.inputs[1].slot)
    eps = [s.value for s in forward.scalars if isinstance(s.value, float)]
    flat = tensor.max == tensor.min or touches_zero(tensor) or 0.0 in eps
    return found(MechanismKind.DIV_BY_ZERO, _LIKELY if flat else _POSSIBLE, "why.no_variance", slot=tensor.slot)


def empty_mean(case: Case) -> Mechanism | None:
    """A mean over nothing: no elements, or every target ignored."""
    if case.is_backward or case.api not in families.MEANS:
        return None
    if any(t.state is ValueState.EMPTY for t in case.record.inputs):
        return found(MechanismKind.DIV_BY_ZERO, _CERTAIN, "why.empty_mean")
    targets = [t for t in case.record.inputs[1:2] if t.dtype.startswith("int")]
    ignore = next((s.value for s in case.record.scalars if s.slot.endswith("ignore_index")), -100)
    if targets and targets[0].max == targets[0].min == ignore:
        return found(MechanismKind.DIV_BY_ZERO, _CERTAIN, "why.all_ignored", value=targets[0].max)
    return None


def sqrt_backward(case: Case) -> Mechanism | None:
    """The derivative of sqrt, norm, pow, acos ... at the edge of the domain."""
    if not case.is_backward or case.api not in families.ROOTS or case.record.name.kind is RecordKind.MODULE:
        return None
    sure = _POSSIBLE
    if case.forward is not None:
        tensors = [t for t in (*case.forward.inputs, *case.forward.outputs) if t.is_floating]
        if any(touches_zero(t) for t in tensors):
            sure = _CERTAIN
        elif case.api in _EDGE_AT_ZERO and not any(_comes_near_zero(t) for t in tensors):
            return None
        elif any(holds_zero(t) for t in tensors) or case.api not in ("sqrt", "rsqrt"):
            sure = _LIKELY
    return found(MechanismKind.SQRT_BACKWARD, sure, "why.sqrt_backward", value=0.0, operator=case.api)


_EDGE_AT_ZERO = frozenset(["sqrt", "rsqrt", "norm", "vector_norm", "matrix_norm"])


def _comes_near_zero(tensor: TensorStat) -> bool:
    if tensor.max is None or tensor.min is None or holds_zero(tensor):
        return True
    return min(abs(float(tensor.max)), abs(float(tensor.min))) < NEAR_ZERO
