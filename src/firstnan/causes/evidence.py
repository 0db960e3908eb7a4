"""What a reader can check of a cause: the facts about its event, as notes."""

from __future__ import annotations

import math

from firstnan.answer.model import Note
from firstnan.dump.values import magnitude
from firstnan.rank.taint.events import Event, EventKind, Origin


def evidence_of(event: Event) -> tuple[Note, ...]:
    notes: list[Note] = []
    if event.kind is EventKind.BIRTH:
        constants = [s for s in event.record.scalars if isinstance(s.value, float) and not math.isfinite(s.value)]
        for scalar in constants[:4]:
            value = scalar.value if isinstance(scalar.value, float) else None
            notes.append(Note("evidence.constant", {"slot": scalar.slot, "value": value}))
        finite = [m for t in event.record.inputs if (m := magnitude(t.max, t.min)) is not None and math.isfinite(m)]
        if finite and not event.bad_inputs and not constants:
            notes.append(Note("evidence.inputs_finite", {"largest": max(finite)}))
        for tensor in event.bad_inputs:
            notes.append(Note("evidence.legal_input", {"slot": tensor.slot}))
    elif event.kind is EventKind.ENTRY:
        if event.is_of_a_copy:
            notes.append(Note("evidence.only_copies", {"op_name": event.record.name.full}))
        for tensor in event.bad_inputs[:4] if not event.is_of_a_copy else ():
            params = {"slot": tensor.slot, "max": tensor.max, "min": tensor.min}
            notes.append(Note("evidence.input_bad", params))
        is_good = event.writer is not None and not any(t.state.is_bad for t in event.writer.outputs)
        if event.writer is not None and event.origin is Origin.BETWEEN_RECORDS and (is_good or event.follows_ruled_out):
            between = {"before": event.writer.name.full, "after": event.record.name.full}
            notes.append(Note("evidence.excluded_writer" if event.follows_ruled_out else "evidence.between", between))
    if event.hidden and not event.follows_ruled_out:
        params = {"module": event.module or "", "ops": ", ".join(event.hidden)}
        notes.append(Note("evidence.hidden_operators", params))
    unknown = [t.slot for t in event.record.inputs if t.state.is_unknown and t.is_floating]
    if unknown and event.kind is EventKind.BIRTH:
        notes.append(Note("evidence.unknown_inputs", {"slots": ", ".join(unknown[:8])}))
    for tensor in event.bad_outputs[:4]:
        params = {"slot": tensor.slot, "max": tensor.max, "min": tensor.min, "dtype": tensor.dtype}
        notes.append(Note("evidence.output_bad", params))
    notes += _clean_outputs(event)
    if event.forward_twin is not None:
        is_bad = any(tensor.state.is_bad for tensor in event.forward_twin.outputs)
        key = "evidence.twin_bad" if is_bad and event.kind is EventKind.BIRTH else "evidence.forward_twin"
        notes.append(Note(key, {"op_name": event.forward_twin.name.full}))
    return tuple(notes)


def _clean_outputs(event: Event) -> list[Note]:
    """Which outputs are still finite: tells which of several results went bad."""
    clean = [t.slot for t in event.record.outputs if t not in event.bad_outputs and not t.state.is_bad]
    if not clean or not event.bad_outputs:
        return []
    return [Note("evidence.output_clean", {"slots": ", ".join(clean[:8])})]
