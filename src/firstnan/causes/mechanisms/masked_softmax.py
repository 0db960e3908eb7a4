"""# softmax over a fully masked row

Every element of a row is -Inf, so that softmax computes 0 / 0.

## What proves it
*certain* when the input of a plain softmax holds -Inf and the output is NaN, or when a mask is -Inf throughout;
*likely* in fused attention with a mask of -Inf; *possible* with a boolean mask, whose rows are not recorded.
A cross entropy that is +Inf and not NaN has no row that is masked throughout: label smoothing over forbidden classes,
or a label that is one of them; the mechanism is then `unknown` with that reason.

## Example
A query that may look at no key.

## How to fix it
Leave out rows without a key (padding, windows, packed sequences), or mask with `finfo(dtype).min`.
"""

from __future__ import annotations

import math

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, found
from firstnan.causes.mechanisms.registry import tried
from firstnan.dump.records import TensorStat
from firstnan.dump.values import ValueState
from firstnan.operators.table import Computes
from firstnan.rank.taint.events import EventKind


@tried(EventKind.BIRTH, after="saved_nonfinite")
def masked_softmax(case: Case) -> Mechanism | None:
    """softmax or attention over -Inf: a row that is masked throughout gives 0 / 0."""
    if case.is_backward or not case.computes(Computes.SOFTMAX):
        return None
    masks = [t for t in case.record.inputs if t.state is ValueState.NEG_INF]
    if masks and case.api == "cross_entropy" and not case.gives_nan:
        return _infinite_loss(case, masks[0])
    if masks:
        plain = case.computes(Computes.PLAIN_SOFTMAX) or any(t.max == -math.inf for t in masks)
        return found(
            MechanismKind.MASKED_SOFTMAX,
            Confidence.CERTAIN if plain else Confidence.LIKELY,
            "why.masked_softmax",
            slot=masks[0].slot,
        )
    if any(t.dtype == "bool" for t in case.record.inputs):
        return found(MechanismKind.MASKED_SOFTMAX, Confidence.POSSIBLE, "why.masked_attention")
    return None


def _infinite_loss(case: Case, mask: TensorStat) -> Mechanism:
    """+Inf, not NaN: no row is masked throughout, but the loss reads a forbidden class."""
    smoothing = next((s.value for s in case.record.scalars if s.slot.endswith("label_smoothing")), 0.0)
    if isinstance(smoothing, float) and smoothing > 0:
        return found(MechanismKind.UNKNOWN, Confidence.CERTAIN, "why.smoothed_mask", slot=mask.slot, value=smoothing)
    return found(MechanismKind.UNKNOWN, Confidence.LIKELY, "why.masked_label", slot=mask.slot)
