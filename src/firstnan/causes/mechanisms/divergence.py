"""# divergence

The values of the whole rank grew more than fourfold from step to step until one overflowed: the training diverged.

## What proves it
Several steps are dumped, and in each of them up to the break the largest activation is more than 4 times that of the
step before: *likely* where a weight grew as well, *possible* where only activations did.

## Example
A learning rate of 5 for plain gradient descent.

## How to fix it
Look at the step in which the growth began, not at the one that broke: learning rate, warm-up, clipping of gradients, a
normalisation that is absent.
"""

from __future__ import annotations

from collections.abc import Sequence

from firstnan.answer.growth import Growth, GrowthKind
from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import found


def divergence(grown: Sequence[Growth]) -> Mechanism | None:
    """What grew up to the break, of which the first is an activation."""
    if not grown or grown[0].kind is not GrowthKind.ACTIVATION:
        return None
    first = grown[0]
    weights = any(growth.kind is GrowthKind.PARAMETER for growth in grown)
    return found(
        MechanismKind.DIVERGENCE,
        Confidence.LIKELY if weights else Confidence.POSSIBLE,
        "why.divergence",
        since=first.since,
        name=first.name,
        factor=float(f"{first.factor:.3g}"),
    )
