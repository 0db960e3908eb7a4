"""Records with NaN or Inf before the first one that matters, and why each of them is not the cause.

A reader who scrolls through a dump finds these first: what a receive buffer held before its message, fresh memory.
-Inf alone is a mask or a fault, is judged as such, and is not listed here.
"""

from __future__ import annotations

from collections.abc import Iterator

from firstnan.dump.records import Record, RecordKind, TensorStat
from firstnan.dump.values import ValueState
from firstnan.operators.communication import Freshness
from firstnan.operators.table import OperatorKind
from firstnan.rank.taint.def_use import Flow
from firstnan.rank.taint.events import Earlier, Event, Harmless

MOST = 3
"""Records of one rank that are kept, the first of each reason before all others."""


def earlier(flow: Flow, event: Event, known: frozenset[int]) -> tuple[Earlier, ...]:
    """What stands before ``event``; ``known`` are indices of records that are told of in another place."""
    kept: dict[Harmless, Earlier] = {}
    for record in flow.records.bad:
        if record.index >= event.index or len(kept) == MOST:
            break
        if record.index in known or not any(map(_is_strange, (*record.inputs, *record.outputs))):
            continue
        reason = _reason(flow, record)
        kept.setdefault(reason, Earlier(record.name.full, record.index, record.name.direction, reason))
    return tuple(sorted(kept.values(), key=lambda one: one.index))


def _is_strange(tensor: TensorStat) -> bool:
    return tensor.state.is_bad and tensor.is_floating and tensor.state is not ValueState.NEG_INF


def _reason(flow: Flow, record: Record) -> Harmless:
    if record.name.full in flow.excluded:
        return Harmless.EXCLUDED
    if record.name.kind is RecordKind.PARAMETERS_GRAD:
        return Harmless.PARAMETER_GRADIENT
    if flow.book.is_(record.name, OperatorKind.INITIALISER):
        return Harmless.FRESH_MEMORY
    if record.index in flow.calls and not any(map(_is_strange, _moved(flow, record))):
        return Harmless.RECEIVE_BUFFER
    return Harmless.NOT_USED


def _moved(flow: Flow, record: Record) -> Iterator[TensorStat]:
    """What the call sent, and what it received as far as the record was read after it."""
    for call in flow.calls[record.index]:
        yield from call.sent
        if call.freshness is Freshness.FRESH:
            yield from call.received
