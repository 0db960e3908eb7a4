"""# exp overflow

An exponential of an argument beyond the logarithm of the dtype's limit: 11.09 in float16, 88.7 in bfloat16 and
float32, 709.8 in float64. `exp`, `exp2`, `expm1`, `sinh`, `cosh`, `softplus`, and powers with the exponent as tensor.

## What proves it
The recorded argument is beyond that edge: *certain*.

## Example
A softplus written by hand, of scores that nothing bounds.

## How to fix it
Subtract the maximum first, or use the fused form (softmax, logsumexp, softplus); find out why the argument grew.
"""

from __future__ import annotations

import math

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, found, number, operand
from firstnan.causes.mechanisms.registry import tried
from firstnan.causes.mechanisms.traits import Trait
from firstnan.dump.values import magnitude
from firstnan.operators.table import Computes
from firstnan.rank.taint.events import EventKind

TRAITS = frozenset({Trait.TOO_LARGE, Trait.ENDS_GROWTH})


@tried(EventKind.BIRTH, after="zero_times_inf")
def exp_overflow(case: Case) -> Mechanism | None:
    """The exponent is beyond the logarithm of the dtype's limit (88.7 for float32, 11.1 for float16)."""
    if case.is_backward or case.bad_output is None or case.limit is None:
        return None
    base = math.e
    exponents = list(case.record.inputs)
    if case.api == "exp2":
        base = 2.0
    elif case.computes(Computes.POWER):
        scalar = number(operand(case.record, 1 if case.api == "__rpow__" else 0))
        if scalar is not None:
            base = abs(scalar)
        elif len(exponents) > 1:
            base, exponents = magnitude(exponents[0].max, exponents[0].min) or 0.0, exponents[1:]
        else:
            return None
    elif not case.computes(Computes.EXPONENTIAL):
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
        MechanismKind.EXP_OVERFLOW,
        Confidence.CERTAIN,
        "why.exp_overflow",
        value=value,
        edge=edge,
        dtype=case.limit.name,
    )
