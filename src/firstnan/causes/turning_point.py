"""Where the values on the way to a cause changed most: what a reader looks at first, and what advice begins with."""

from __future__ import annotations

import math

from msgspec import Struct

from firstnan.answer.model import RootCause, RunUp
from firstnan.causes.mechanisms.registry import has
from firstnan.causes.mechanisms.traits import Trait

GROWTH = 10.0
"""From this factor on, growth inside one record is worth a sentence."""


class TurningPoint(Struct, frozen=True):
    """The record before a cause in which its values changed most."""

    step: RunUp
    factor: float
    """How much they grew; 0: they became 0."""


def turning_point(cause: RootCause) -> TurningPoint | None:
    """the_jump_is_said_aloud: the record in which the values grew most, from 10 times on; for divisions and the like
    the record that made them 0. None where the cause itself is that record."""
    known = [s for s in cause.run_up if s.magnitude_in and s.magnitude_out is not None]
    fallen = [s for s in known if s.magnitude_out == 0]
    if fallen and has(cause.mechanism.kind, Trait.ZERO):
        return TurningPoint(fallen[-1], 0.0)
    grown = [(s.magnitude_out / s.magnitude_in, s) for s in known if s.magnitude_in and s.magnitude_out]
    factor, step = max(((f, s) for f, s in grown if math.isfinite(f)), key=lambda one: one[0], default=(0.0, None))
    if step is None or factor < GROWTH or step.exec_order == cause.exec_order:
        return None
    return TurningPoint(step, factor)
