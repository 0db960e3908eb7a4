"""Tests for results beyond the range of their dtype."""

from __future__ import annotations

import math

from firstnan.answer.model import Confidence, Mechanism, MechanismKind, RunUp
from firstnan.causes.mechanisms.case import Case, found
from firstnan.dump.values import ValueState, limits
from firstnan.operators import families
from firstnan.operators.bounds import backward_bound, largest, result_bound

_CERTAIN, _LIKELY, _POSSIBLE = Confidence.CERTAIN, Confidence.LIKELY, Confidence.POSSIBLE
ABSURD = 1e12
"""Finite values of this size do not occur in healthy training in any layer."""
SMALL = 16.0
"""Up to here an unknown operator of float16 would have to multiply its input by thousands."""
JUMP = 1e4
"""A growth by this factor in one operator is where an absurd value entered."""
_OVERFLOWS = {
    "float16": MechanismKind.FP16_OVERFLOW,
    "bfloat16": MechanismKind.BF16_OVERFLOW,
    "float32": MechanismKind.FP32_OVERFLOW,
}
_LOW_PRECISION = ("float8", "hifloat8", "float4")


def saturated_result(case: Case) -> Mechanism | None:
    """A finite result exactly at its dtype's limit: clamped where Inf would be."""
    tensor = case.bad_output
    if tensor is None or tensor.state is not ValueState.FINITE or case.limit is None:
        return None
    return found(MechanismKind.SATURATION, _LIKELY, "why.saturated_result", slot=tensor.slot, limit=case.limit.largest,
                 dtype=case.limit.name)  # fmt: skip


def cast_overflow(case: Case) -> Mechanism | None:
    """A cast of a value beyond the new dtype (in backward: of the gradient, to the input's dtype)."""
    value = largest(case.record.inputs)
    if case.api not in families.CASTS or case.limit is None or value is None or value <= case.limit.largest:
        return None
    return found(MechanismKind.CAST_OVERFLOW, _CERTAIN, "why.cast_overflow", value=value, limit=case.limit.largest,
                 dtype=case.limit.name)  # fmt: skip


def fp8_scale(case: Case) -> Mechanism | None:
    """A low-precision dtype takes part."""
    if not any(t.dtype.startswith(_LOW_PRECISION) for t in (*case.record.inputs, *case.record.outputs)):
        return None
    return found(MechanismKind.FP8_SCALE, _POSSIBLE, "why.fp8_scale")


def large_value(case: Case) -> Mechanism | None:
    """An absurd finite value is on the way in; the run-up shows where it entered."""
    value = largest(case.record.inputs)
    if case.bad_output is None or value is None or value < ABSURD:
        return None
    entered = first_jump(case.event.run_up)
    if entered is None:
        return found(MechanismKind.LARGE_VALUE_PROPAGATION, _POSSIBLE, "why.large_value", value=value)
    return found(MechanismKind.LARGE_VALUE_PROPAGATION, _LIKELY, "why.large_value_from", value=value,
                 operator=entered.op_name, before=entered.magnitude_in, after=entered.magnitude_out)  # fmt: skip


def first_jump(run_up: tuple[RunUp, ...]) -> RunUp | None:
    """The first record of the run-up that made its value larger by :data:`JUMP` or more."""
    for step in run_up:
        if step.magnitude_out is None:
            continue
        if step.magnitude_out >= JUMP * max(step.magnitude_in or 0.0, 1.0) and step.magnitude_out >= math.sqrt(ABSURD):
            return step
    return None


def saturated_input(case: Case) -> Mechanism | None:
    """An input stands exactly at the limit of a narrow dtype: it was clamped there before."""
    for tensor in case.record.inputs:
        limit = limits(tensor.dtype)
        if limit is None or limit.largest > 1e5:
            continue
        if limit.largest in (tensor.max, -(tensor.min or 0)):
            return found(MechanismKind.SATURATION, _LIKELY, "why.saturation", slot=tensor.slot, limit=limit.largest,
                         dtype=limit.name)  # fmt: skip
    return None


def overflow(case: Case) -> Mechanism | None:
    """The inputs allow a result beyond the dtype.

    With a bound for the operator, the bound decides; without one, a narrow dtype or huge inputs do.
    """
    tensor, limit = case.bad_output, case.limit
    kind = _OVERFLOWS.get(limit.name) if limit else None
    if tensor is None or limit is None or kind is None or any(t.state.is_bad for t in case.record.inputs):
        return None
    value = largest(case.record.inputs)
    if case.is_backward:
        bound = backward_bound(case.record, case.forward) if case.forward else None
    else:
        bound = result_bound(case.record)
    if bound is not None:
        if bound <= limit.largest:
            return None
        sure = _CERTAIN if tensor.state is not ValueState.NAN and not case.is_backward else _LIKELY
        return found(kind, sure, "why.overflow", value=value, bound=bound, limit=limit.largest, dtype=limit.name)
    if case.api in families.NO_GROWTH and not case.is_backward:
        return None
    narrow = limit.name == "float16" and (tensor.state is not ValueState.NAN or (value or 0) > 100)
    large = value is not None and value * value > limit.largest
    if narrow or large:
        sure = _LIKELY if large or value is None or value > SMALL else _POSSIBLE
        return found(kind, sure, "why.overflow_narrow", value=value, limit=limit.largest, dtype=limit.name)
    return None


def flagged(case: Case) -> Mechanism | None:
    """Dumps with device flags hold no statistics: only the dtype speaks."""
    tensor = case.bad_output
    if tensor is None or tensor.state is not ValueState.NON_FINITE or case.api not in families.PRODUCTS:
        return None
    if tensor.dtype != "float16":
        return None
    return found(MechanismKind.FP16_OVERFLOW, _POSSIBLE, "why.flagged", limit=65504.0)
