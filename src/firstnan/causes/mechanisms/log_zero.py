"""# log of zero or less

The log of zero is -Inf, of a negative number NaN. Losses that take a log inside (`binary_cross_entropy`, `kl_div`,
...) as well.

## What proves it
The recorded argument goes down to zero or below: *certain*.

## Example
An entropy written by hand: softmax gave exactly 0.

## How to fix it
`log_softmax`, `logsigmoid`, the `*_with_logits` losses; or clamp the argument.
"""

from __future__ import annotations

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, found
from firstnan.causes.mechanisms.registry import tried
from firstnan.causes.mechanisms.traits import Trait
from firstnan.operators.table import Computes
from firstnan.rank.taint.events import EventKind

TRAITS = frozenset({Trait.ZERO, Trait.MORE_ADVICE_IN_FLOAT16})


@tried(EventKind.BIRTH, after="exp_overflow")
def log_zero(case: Case) -> Mechanism | None:
    """The argument of a logarithm is zero or negative (in backward: of the forward call)."""
    if not case.computes(Computes.LOGARITHM) or case.forward is None:
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
    return found(MechanismKind.LOG_ZERO, Confidence.CERTAIN, "why.log_zero", value=min(lows))
