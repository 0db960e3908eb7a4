"""# saturated value

A value was clamped at the limit of its dtype instead of becoming Inf, as devices in saturation mode do; the bad
value follows from it.

## What proves it
An input stands exactly at the largest finite value of a narrow dtype, or a finite result does that should be larger:
*likely*.

## Example
A float16 product clamped to 65504 (imitated), and its square.

## How to fix it
Treat the clamped operator as an overflow. On Ascend, switch to INF/NAN mode and dump again.
"""

from __future__ import annotations

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, found
from firstnan.causes.mechanisms.registry import tried
from firstnan.causes.mechanisms.traits import Trait
from firstnan.dump.records import TensorStat
from firstnan.dump.values import DtypeLimits, ValueState, limits
from firstnan.rank.taint.events import EventKind

TRAITS = frozenset({Trait.TOO_LARGE, Trait.ENDS_GROWTH, Trait.SCALED})


@tried(EventKind.BIRTH)
def saturated_result(case: Case) -> Mechanism | None:
    """A finite result exactly at its dtype's limit: clamped where Inf would be."""
    tensor = case.bad_output
    if tensor is None or tensor.state is not ValueState.FINITE or case.limit is None:
        return None
    return found(
        MechanismKind.SATURATION,
        Confidence.LIKELY,
        "why.saturated_result",
        slot=tensor.slot,
        limit=case.limit.largest,
        dtype=case.limit.name,
    )


@tried(EventKind.BIRTH, after="no_variance")
def saturated_input(case: Case) -> Mechanism | None:
    """An input stands exactly at the limit of a narrow dtype: it was clamped there before."""
    for tensor in case.record.inputs:
        limit = limits(tensor.dtype)
        if limit is None or limit.largest > 1e5 or _is_mask(tensor, limit):
            continue
        if limit.largest in (tensor.max, -(tensor.min or 0)):
            return found(
                MechanismKind.SATURATION,
                Confidence.LIKELY,
                "why.saturation",
                slot=tensor.slot,
                limit=limit.largest,
                dtype=limit.name,
            )
    return None


def _is_mask(tensor: TensorStat, limit: DtypeLimits) -> bool:
    """finfo.min where a position is forbidden, 0 where it is not: the program wrote a mask, nothing was clamped."""
    return tensor.min == -limit.largest and tensor.max in (0.0, -limit.largest)
