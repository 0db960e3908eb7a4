"""Growth over steps: since when, and where first.

``the_whole_rank_grows``
    Not one value decides but the largest of all: an adapter that begins at zero grows a thousandfold in a healthy run.
``growth_reaches_the_break``
    Every step up to the break is more than :data:`FACTOR` times the one before. What grew once and then stood still is
    no run-up.
``warm_up_is_no_run_up``
    Before the break the values have grown :data:`LEAST` times at least, and in a step of their own: a batch of huge
    values that breaks in the same step has not grown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from firstnan.answer.growth import Growth, GrowthKind, StepValue
from firstnan.rank.magnitudes import Key, Magnitudes

FACTOR = 4.0
"""Growth a step that is more than learning."""
LEAST = 8.0
"""Growth over all steps before the break."""
MOST = 3
"""Values that are told: one of each kind."""


def run_up_steps(seen: Sequence[Magnitudes], broke: int | None) -> tuple[Growth, ...]:
    """What grew on one rank until it broke: the activation that grew first, then the first parameter and gradient.

    ``seen``: the steps of that rank in order; ``broke``: the step of the first bad value, None when all are finite and
    the last one is near a dtype's limit.
    """
    before = [one for one in seen if broke is None or one.step < broke]
    whole = _since([(one.step, _largest(one)) for one in before])
    if whole is None:
        return ()
    found = [growth for growth in (_growth(seen, before, key) for key in _keys(before)) if growth is not None]
    return tuple(first for kind in GrowthKind for first in _first(found, kind, whole))


def _largest(one: Magnitudes) -> float:
    """the_whole_rank_grows."""
    return max((v for (kind, _), v in one.largest.items() if kind is GrowthKind.ACTIVATION), default=0.0)


def _since(values: Sequence[tuple[int, float]]) -> int | None:
    """growth_reaches_the_break, warm_up_is_no_run_up: the first step of the growth at the end of a series."""
    finite = [(step, value) for step, value in values if 0 < value < math.inf]
    since = None
    for (before, small), (after, large) in zip(reversed(finite[:-1]), reversed(finite[1:]), strict=True):
        if math.log(large / small) <= (after - before) * math.log(FACTOR):
            break
        since = (after, small)
    return since[0] if since is not None and finite[-1][1] >= LEAST * since[1] else None


def _keys(seen: Sequence[Magnitudes]) -> list[Key]:
    return list(dict.fromkeys(key for one in seen for key in one.largest))


def _growth(seen: Sequence[Magnitudes], before: Sequence[Magnitudes], key: Key) -> Growth | None:
    since = _since([(one.step, one.largest[key]) for one in before if key in one.largest])
    if since is None:
        return None
    values = tuple(StepValue(one.step, one.largest[key]) for one in seen if key in one.largest)
    return Growth(before[-1].rank, key[0], key[1], since, values)


def _first(found: Sequence[Growth], kind: GrowthKind, whole: int) -> Sequence[Growth]:
    """The value of a kind that grew first; of those that began together the one that grew most in that step."""
    of_kind = [growth for growth in found if growth.kind is kind and growth.since <= whole + 1]
    return sorted(of_kind, key=lambda one: (one.since, -_jump(one)))[:1]


def _jump(growth: Growth) -> float:
    values: Mapping[int, float] = {value.step: value.largest for value in growth.values}
    before = max((step for step in values if step < growth.since), default=growth.since)
    return values[growth.since] / values[before]
