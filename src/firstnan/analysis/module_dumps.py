"""Modules without records inside (level L0, or operators that the risk level leaves out): what happens between two of
them happens in the one around them.

Rules, each tested under its name:

``between_children_is_inside_the_parent``
    A module takes in a bad value that no other module gave, while the module around it took in clean ones and gives
    bad ones: an operator in the code of the outer module made it, and that module is the answer.
    Example: backward of ``angle = sqrt(lin(x))``: ``lin.backward`` takes in NaN, ``angle.backward`` a finite gradient.
"""

from __future__ import annotations

from dataclasses import replace

from firstnan.analysis.events import Event, EventKind, Origin
from firstnan.analysis.structure import Structure
from firstnan.dump import RecordKind


def inside_its_module(event: Event, structure: Structure) -> Event:
    """between_children_is_inside_the_parent; other events as they are."""
    between = event.kind is EventKind.ENTRY and event.origin is Origin.BETWEEN_RECORDS
    if not between or event.record.name.kind is not RecordKind.MODULE:
        return event
    for name in structure.ancestors(event.record.name.full):
        outer = structure.by_name.get(name)
        if outer is None:
            return event
        if any(t.state.is_bad for t in outer.inputs):
            continue  # it was handed in already: the module around that one
        given = tuple(t for t in outer.outputs if t.state.is_bad)
        if not given or any(t.state.is_unknown and t.is_floating for t in outer.inputs):
            return event
        return replace(
            event,
            kind=EventKind.BIRTH,
            record=outer,
            bad_inputs=(),
            bad_outputs=given,
            origin=None,
            writer=None,
            forward_twin=structure.twin(outer),
            module=structure.module_path(name),
        )
    return event
