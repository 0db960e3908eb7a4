"""# argument outside the domain

An argument stands outside the domain of its operator: the square root of a negative number, `acos` beyond 1, a
negative base with a fractional exponent. The result is NaN.

## What proves it
The recorded Max or Min of the argument is outside the domain and the output is NaN: *certain*.

## Example
`acos` of a cosine that rounding made larger than 1.

## How to fix it
Clamp the argument to the domain, `acos(x.clamp(-1, 1))`, and find out why it left it: rounding in a short dtype, a
variance computed as a difference. A running variance is a mean of squares: a negative one was overwritten or loaded
wrongly.
"""

from __future__ import annotations

import math

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, found, number, operand
from firstnan.causes.mechanisms.registry import tried
from firstnan.dump.records import Record, TensorStat
from firstnan.dump.values import ValueState
from firstnan.operators.table import STORED_STATISTICS, Computes, short_api
from firstnan.rank.taint.events import EventKind

_EPS = ("input_args.7", "input_kwargs.eps")
_EPS_LEFT_OUT = 1e-5
"""What a call without one adds."""
_TRAINS = ("input_args.5", "input_kwargs.training", "input_kwargs.use_input_stats")


@tried(EventKind.BIRTH, after="log_zero")
def domain_error(case: Case) -> Mechanism | None:
    """sqrt of a negative number, acos beyond 1, a negative base with a fractional exponent: NaN."""
    argument = next((t for t in case.record.inputs if t.max is not None and t.min is not None), None)
    if case.is_backward or not case.gives_nan:
        return None
    variance = _stored_variance(case)
    if variance is not None:
        argument, (low, high) = variance, (0.0, math.inf)
    else:
        low, high = _domain(case)
    if argument is None or argument.max is None or argument.min is None:
        return None
    beyond = [float(v) for v in (argument.min, argument.max) if v < low or v > high]
    if not beyond:
        return None
    return found(
        MechanismKind.DOMAIN_ERROR,
        Confidence.CERTAIN,
        "why.domain_error",
        slot=argument.slot,
        value=beyond[0],
        operator=case.api,
    )


def _stored_variance(case: Case) -> TensorStat | None:
    """The running variance that a normalisation of a batch takes the root of, where it is negative beyond any eps that
    is added to it; in training it is not read."""
    slots = ("input_args.2", "input_kwargs.running_var")
    api, is_functional = short_api(case.record.name), case.record.name.prefix == "Functional"
    if not is_functional or not case.computes(Computes.NORMALISATION) or api not in STORED_STATISTICS:
        return None
    trains = next((s.value for s in case.record.scalars if s.slot in _TRAINS), api == "instance_norm")
    if trains:
        return None
    given = (s.value for s in case.record.scalars if isinstance(s.value, float) and s.slot in _EPS)
    eps = max(given, default=_EPS_LEFT_OUT)
    return next((t for t in case.record.inputs if t.slot in slots and t.min is not None and t.min < -eps), None)


def _domain(case: Case) -> tuple[float, float]:
    """The smallest and the largest argument for which the operator is defined."""
    known = case.book.domain(case.api)
    if known is not None:
        return known
    exponent = number(operand(case.record, 1))
    if exponent is None:
        exponent = _one_number(case.record)
    if case.computes(Computes.POWER) and case.api != "__rpow__" and exponent is not None and not exponent.is_integer():
        return 0.0, math.inf
    return -math.inf, math.inf


def _one_number(record: Record) -> float | None:
    """The exponent that a tensor of equal elements gives, a learnt one without dimensions among them."""
    given = next((t for t in record.inputs if t.slot in ("input_args.1", "input_kwargs.exponent")), None)
    if given is None or given.state is not ValueState.FINITE or given.max is None or given.max != given.min:
        return None
    return float(given.max)
