"""# bad input data

The batch was not finite when it reached the model.

## What proves it
The bad tensor is an argument of the outermost recorded module, or among the first things the step reads, and needs no
gradient: *likely*.

## Example
A sample divided by a standard deviation of zero in the data pipeline.

## How to fix it
Find the sample; check for finite values in the data loader.
"""

from __future__ import annotations

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, found
from firstnan.causes.mechanisms.registry import tried
from firstnan.rank.taint.events import EventKind, Origin


@tried(EventKind.ENTRY, after="bad_parameter")
def bad_input(case: Case) -> Mechanism | None:
    """The bad input is an argument of the outermost module, or the first thing that the run reads."""
    if case.event.origin is not Origin.INPUT_DATA:
        return None
    return found(MechanismKind.BAD_INPUT, Confidence.LIKELY, "why.bad_input")
