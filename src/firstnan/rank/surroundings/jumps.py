"""Values that grow out of all measure in one operator.

``a_sum_of_gradients_has_no_record``
    Autograd adds up the gradients of a tensor that several operators read, and the sum is no record: the backward of a
    module takes in usual gradients and gives Inf, while every operator inside is finite. Where one of them made
    gradients close to the limit of usual ones, it is the answer.
"""

from __future__ import annotations

from msgspec.structs import replace

from firstnan.dump.records import Direction, Record, RecordKind
from firstnan.dump.values import limits
from firstnan.operators.bounds import largest
from firstnan.rank.taint.def_use import Flow
from firstnan.rank.taint.events import Event, EventKind

ABSURD = 1e12
"""Finite values of this size do not occur in healthy training in any layer."""
JUMP = 1e4
"""A growth by this factor in one operator is where an absurd value entered."""
TERMS = 64
"""So many gradients at most are added up: each has to be this part of the limit at least."""
MAX_INSIDE = 1000
"""Records before a module's in which its operators are looked for."""


def jump_inside(flow: Flow, event: Event) -> Record | None:
    """The operator inside a module's backward that made its gradients absurd."""
    record = event.record
    is_backward = event.direction is Direction.BACKWARD and record.name.kind is RecordKind.MODULE
    if event.kind is not EventKind.BIRTH or not is_backward or not event.bad_outputs:
        return None
    limit = limits(event.bad_outputs[0].dtype)
    inside = [
        r
        for r in flow.records[max(0, record.index - MAX_INSIDE) : record.index]
        if r.name.kind is RecordKind.API and record.name.full in flow.structure.ancestors(r.name.full)
    ]
    reached = max((largest(r.outputs) or 0.0 for r in inside), default=0.0)
    if limit is None or limit.largest < ABSURD or reached < limit.largest / TERMS:
        return None
    return next((r for r in inside if _jumps(r)), None)


def _jumps(record: Record) -> bool:
    before, after = largest(record.inputs) or 0.0, largest(record.outputs) or 0.0
    return after >= ABSURD and after >= JUMP * max(before, 1.0)


def at_its_jump(event: Event) -> Event:
    """a_sum_of_gradients_has_no_record; other events as they are."""
    if event.jump is None:
        return event
    return replace(event, record=event.jump, bad_outputs=(), around=event.record, forward_twin=None)
