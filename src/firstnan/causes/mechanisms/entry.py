"""Tests for bad inputs that no record made."""

from __future__ import annotations

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, found
from firstnan.dump.values import ValueState, limits
from firstnan.operators.bounds import largest
from firstnan.rank.events import Origin


def bad_parameter(case: Case) -> Mechanism | None:
    """The bad input is a weight."""
    if case.event.origin is not Origin.PARAMETER:
        return None
    return found(MechanismKind.BAD_PARAMETER, Confidence.CERTAIN, "why.bad_parameter", name=case.event.parameter)


def bad_input(case: Case) -> Mechanism | None:
    """The bad input is an argument of the outermost module, or the first thing that the run reads."""
    if case.event.origin is not Origin.INPUT_DATA:
        return None
    return found(MechanismKind.BAD_INPUT, Confidence.LIKELY, "why.bad_input")


def uninitialised(case: Case) -> Mechanism | None:
    """The bad input was written by an initialiser alone."""
    if case.event.origin is not Origin.UNINITIALISED or case.event.writer is None:
        return None
    memory = case.event.writer.name.full
    return found(MechanismKind.UNINITIALISED_MEMORY, Confidence.LIKELY, "why.uninitialised", memory=memory)


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
            return found(MechanismKind.CAST_OVERFLOW, Confidence.CERTAIN, "why.cast_between", value=value,
                         limit=limit.largest, dtype=tensor.dtype, before=name)  # fmt: skip
    return None


def narrow_between(case: Case) -> Mechanism | None:
    """An infinity, not a NaN, in float16: an undumped operator or cast overflowed."""
    tensor = case.event.bad_inputs[0] if case.event.bad_inputs else None
    if tensor is None or tensor.dtype != "float16" or tensor.state is ValueState.NAN:
        return None
    return found(MechanismKind.FP16_OVERFLOW, Confidence.POSSIBLE, "why.fp16_between", limit=65504.0)
