"""Modules without records inside (level L0, or operators that the risk level leaves out): what happens between two of
them happens in the one around them.

Rules, each tested under its name:

``between_children_is_inside_the_parent``
    A module takes in a bad value that no other module gave, while the module around it took in clean ones and gives
    bad ones: an operator in the code of the outer module made it, and that module is the answer.
    Example: backward of ``angle = sqrt(lin(x))``: ``lin.backward`` takes in NaN, ``angle.backward`` a finite gradient.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from firstnan.dump.records import Record, RecordKind
from firstnan.rank.taint.events import Event, EventKind, Origin
from firstnan.rank.taint.structure import Structure


def module_around(event: Event, structure: Structure, excluded: Collection[str] = ()) -> Record | None:
    """The record of the module in whose code an entry's value came into being, where modules tell.

    None as well where the user ruled that record out (``excluded``).
    """
    between = event.kind is EventKind.ENTRY and event.origin is Origin.BETWEEN_RECORDS
    if not between or event.record.name.kind is not RecordKind.MODULE:
        return None
    for name in structure.ancestors(event.record.name.full):
        outer = structure.by_name.get(name)
        if outer is None or outer.name.full in excluded:
            return None
        if any(t.state.is_bad for t in outer.inputs):
            continue  # it was handed in already: the module around that one
        is_known = not any(t.state.is_unknown and t.is_floating for t in outer.inputs)
        return outer if is_known and any(t.state.is_bad for t in outer.outputs) else None
    return None


def inside_its_module(event: Event) -> Event:
    """between_children_is_inside_the_parent; other events as they are. For values that came from no other rank."""
    outer = event.around
    if outer is None:
        return event
    return replace(
        event,
        kind=EventKind.BIRTH,
        record=outer,
        bad_inputs=(),
        bad_outputs=tuple(t for t in outer.outputs if t.state.is_bad),
        origin=None,
        writer=None,
        forward_twin=None,
        module=outer.name.path or event.module,
        around=None,
    )
