"""# extreme value from an earlier operator

An extremely large but finite value entered earlier and exceeds the limit only here.

## What proves it
The largest finite input is 1e12 or more; a mask of `finfo(dtype).min` is none. *likely* when the run-up holds a jump by
a factor of 10000 or more (it is named), or when gradients that no record adds up go over the limit, and one operator
made them; *possible* when it entered outside the dump.

## Example
A feature divided by a spread of 1e-25; its square, three operators later, overflows.

## How to fix it
Start at the jump, not at the overflow: a single weight, a corrupted element, a scale factor.
"""

from __future__ import annotations

import math

from firstnan.answer.model import Confidence, Mechanism, MechanismKind, RunUp
from firstnan.causes.mechanisms.case import Case, found
from firstnan.causes.mechanisms.registry import tried
from firstnan.causes.mechanisms.traits import Trait
from firstnan.operators.bounds import largest, largest_operand
from firstnan.rank.surroundings.jumps import ABSURD, JUMP
from firstnan.rank.taint.events import EventKind

TRAITS = frozenset({Trait.TOO_LARGE, Trait.ENDS_GROWTH, Trait.SCALED})


@tried(EventKind.BIRTH, after="fp8_scale")
def large_value_propagation(case: Case) -> Mechanism | None:
    """An extreme finite value is on the way in; the run-up shows where it entered."""
    if case.event.jump is not None and case.event.around is not None:
        return found(
            MechanismKind.LARGE_VALUE_PROPAGATION,
            Confidence.LIKELY,
            "why.large_value_inside",
            before=largest(case.record.inputs),
            after=largest(case.record.outputs),
            module=case.event.around.name.full,
        )
    value = largest_operand(case.record.inputs)
    if case.bad_output is None or value is None or value < ABSURD:
        return None
    entered = first_jump(case.event.run_up)
    if entered is None:
        return found(MechanismKind.LARGE_VALUE_PROPAGATION, Confidence.POSSIBLE, "why.large_value", value=value)
    return found(
        MechanismKind.LARGE_VALUE_PROPAGATION,
        Confidence.LIKELY,
        "why.large_value_from",
        value=value,
        operator=entered.op_name,
        before=entered.magnitude_in,
        after=entered.magnitude_out,
    )


def first_jump(run_up: tuple[RunUp, ...]) -> RunUp | None:
    """The first record of the run-up that made its value larger by :data:`JUMP` or more."""
    for step in run_up:
        if step.magnitude_out is None:
            continue
        if step.magnitude_out >= JUMP * max(step.magnitude_in or 0.0, 1.0) and step.magnitude_out >= math.sqrt(ABSURD):
            return step
    return None
