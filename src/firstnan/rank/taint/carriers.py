"""Copies, casts and views make nothing.

Rules, each tested under its name:

``copies_make_nothing``
    A record of the rules' kind ``carrier`` whose inputs are finite and whose result is not: it has not made the value,
    unless it casts a number to a dtype that cannot hold it. Something that is not in the dump has, in between.
    Backward is left out: the derivative of ``expand`` and its kind is a sum.
"""

from __future__ import annotations

from msgspec.structs import replace

from firstnan.dump.records import Direction, RecordKind
from firstnan.dump.values import limits
from firstnan.operators.bounds import largest
from firstnan.operators.table import OperatorKind, Rulebook
from firstnan.rank.taint.events import Event, EventKind


def as_found(event: Event, book: Rulebook) -> Event:
    """copies_make_nothing: such a birth as an entry; other events as they are."""
    record = event.record
    forward = record.name.kind is RecordKind.API and event.direction is Direction.FORWARD
    if event.kind is not EventKind.BIRTH or event.bad_inputs or not forward:
        return event
    if not book.is_(record.name, OperatorKind.CARRIER):
        return event
    if any(tensor.state.is_unknown and tensor.is_floating for tensor in record.inputs):
        return event
    value = largest(record.inputs)
    limit = next((limits(t.dtype) for t in event.bad_outputs), None)
    if value is None or limit is None or value > limit.largest:
        return event
    return replace(event, kind=EventKind.ENTRY, bad_inputs=event.bad_outputs)
