"""# bfloat16 overflow

The result is beyond 3.39e38, the largest finite bfloat16.

## What proves it
As for float16. Inputs of 1e12 and more count as [extreme](#large_value_propagation) instead: a value of this size is
rarely meant, and where it entered is what matters.

## Example
A fourth power of activations that had grown to 1e10.

## How to fix it
Follow the inputs to the first jump in size. Another dtype only hides it.
"""

from __future__ import annotations

from firstnan.answer.model import Mechanism, MechanismKind
from firstnan.causes.mechanisms.beyond_range import beyond_range
from firstnan.causes.mechanisms.case import Case
from firstnan.causes.mechanisms.registry import tried
from firstnan.causes.mechanisms.traits import Trait
from firstnan.rank.taint.events import EventKind

TRAITS = frozenset({Trait.TOO_LARGE, Trait.ENDS_GROWTH})


@tried(EventKind.BIRTH, after="fp16_overflow")
def bf16_overflow(case: Case) -> Mechanism | None:
    """The inputs allow a result beyond 3.39e38 in bfloat16."""
    return beyond_range(case, "bfloat16", MechanismKind.BF16_OVERFLOW)
