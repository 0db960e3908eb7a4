"""# transient fault

The first run of a step was not finite, and the same step again is finite ([guard](../recording.md)). A bit flipped in
memory, a link or a kernel answered wrongly once, or two streams raced. Or the two runs were not the same: a batch that
is drawn inside the step, a random generator or another state that the guard does not know.

## What proves it
The values of both runs in guard.json: *likely*. The records are those of the second run, and show nothing.

## Example
A gradient that is NaN in the first run alone (imitated).

## How to fix it
Run the same step several times on the same device, and on another one: what comes back on one device alone is the
device's. Before that, draw the batch outside of the step, and name every generator and state to the guard.
"""

from __future__ import annotations

from collections.abc import Mapping

from firstnan.answer.model import Confidence, Mechanism, MechanismKind, Note, RootCause, Where
from firstnan.dump.guard_file import GuardFile, NotFinite, StepValues, Trigger, number_of
from firstnan.dump.records import Direction


def transient(step: int, guards: Mapping[int, GuardFile]) -> tuple[RootCause, ...]:
    """The fault of a first run that the second does not show; ``guards`` by rank.

    A loss is a rank's own; a gradient may have come from another one. So the ranks with a bad loss are the first to
    name, then all with a bad gradient norm.
    """
    if not guards or any(guard.reproduced is not False for guard in guards.values()):
        return ()
    for trigger in Trigger:
        ranks = sorted(r for r, guard in guards.items() if isinstance(guard.first.of(trigger), NotFinite))
        if ranks:
            return (_cause(step, trigger, ranks, guards[ranks[0]]),)
    return ()


def _cause(step: int, trigger: Trigger, ranks: list[int], guard: GuardFile) -> RootCause:
    return RootCause(
        step=step,
        rank=ranks[0],
        op_name="",
        exec_order=None,
        direction=Direction.FORWARD if trigger is Trigger.LOSS else Direction.BACKWARD,
        where=Where.FIRST_RUN,
        mechanism=Mechanism(MechanismKind.TRANSIENT, Confidence.LIKELY, Note("why.transient")),
        evidence=(*_told(guard.first, "first"), *_told(guard.again or StepValues(), "again")),
        ranks_also=tuple(ranks[1:]),
    )


def _told(values: StepValues, run: str) -> tuple[Note, ...]:
    return tuple(
        Note(f"evidence.{run}_run_{trigger.value}", {"value": number_of(value)})
        for trigger in Trigger
        if (value := values.of(trigger)) is not None
    )
