"""Garbage that is computed with and thrown away.

Rules, each tested under its name:

``a_stage_is_tried_on_garbage``
    ``torch.distributed.pipelining`` runs every later stage once on uninitialised buffers, to infer shapes, before the
    first tensor arrives. What a rank computes before that message, when it has sent no tensor itself, is an island
    when the same module runs again behind it on finite data: nothing in it leaves the rank or is read behind it.
``views_of_unfilled_memory_are_unfilled``
    Cuts of a buffer that nothing has written yet hold the same garbage; sharded training hands them to a collective.
"""

from __future__ import annotations

from itertools import islice

from firstnan.dump.records import Direction, Record, RecordKind
from firstnan.dump.values import ValueState
from firstnan.dump.view import RankView
from firstnan.operators.communication import CallKind, calls
from firstnan.rank.taint.structure import Structure

MAX_CALLS = 64
"""Calls of the beginning of a run among which the first message of a tensor is looked for."""
VIEWS = frozenset(
    ["split", "split_with_sizes", "chunk", "unbind", "view", "view_as", "reshape", "flatten", "narrow", "as_strided",
     "__getitem__", "select", "transpose", "t", "detach", "unflatten"]
)  # fmt: skip
"""Other looks at the same memory."""


def first_message(view: RankView) -> int | None:
    """Index of the first floating tensor that the rank receives from a peer; None when it sends one before."""
    over, held = view.overview, view.calls()
    kinds = [
        {call.kind for call in calls(like, over.folder.rank, groups_recorded=over.groups_recorded)}
        for like in held.likes
    ]
    messages = (at for at, kind in enumerate(held.kind_of) if not kinds[kind] <= {CallKind.COLLECTIVE})
    for at in islice(messages, MAX_CALLS):
        record = held.record(at)
        if any(t.is_floating for t in (*record.inputs, *record.outputs)):
            return None if CallKind.SEND in kinds[held.kind_of[at]] else record.index
    return None


def is_tried(structure: Structure, first: Record, arrival: int) -> bool:
    """Whether the outermost module around a record runs again behind the arrival, on finite data."""
    chain = structure.ancestors(first.name.full)
    outer = first.name.full if first.name.kind is RecordKind.MODULE and not chain else chain[-1] if chain else None
    module = structure.by_name.get(outer) if outer else None
    if module is None or module.name.direction is not Direction.FORWARD or module.index >= arrival:
        return False
    stem, _, number = module.name.full.rpartition(".")
    again = structure.by_name.get(f"{stem}.{int(number) + 1}") if number.isdigit() else None
    if again is None or again.index <= arrival:
        return False
    taken = [tensor for tensor in again.inputs if tensor.is_floating]
    return bool(taken) and all(tensor.state is ValueState.FINITE for tensor in taken)
