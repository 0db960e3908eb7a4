"""The weights that the first records of a step read: whether the step before changed them.

Numbers in record names are those of their own step, or go on from step to step; so a weight is known by its operator
and by the how-many-eth record of this operator it is.
"""

from __future__ import annotations

import zlib
from collections import Counter

from firstnan.dump.records import Direction, Record, RecordKind, TensorStat
from firstnan.dump.values import ValueState
from firstnan.dump.view import RankView
from firstnan.operators.table import WEIGHT_KEYWORDS, Rulebook, short_api
from firstnan.rank.summary import Weights

MAX_RECORDS = 4096
"""First records of a step among which weights are looked for."""
MAX_WEIGHTS = 512
"""Weights of a rank that are kept, the first ones."""
_CHUNK = 256


def first_weights(view: RankView, book: Rulebook) -> Weights:
    """The weights that the forward pass of a step reads first, by place."""
    backward, _ = view.passes()
    end = min(view.overview.end if backward is None else backward, MAX_RECORDS)
    marks: dict[str, int] = {}
    finite = True
    calls: Counter[str] = Counter()
    for start in range(0, end, _CHUNK):
        for record in view.records(start, min(start + _CHUNK, end)):
            operator = _operator(record)
            nth = calls[operator]
            calls[operator] += 1
            for tensor in _weights_of(record, book):
                marks[f"{operator}.{nth} {tensor.slot}"] = _mark(tensor)
                finite = finite and tensor.state is ValueState.FINITE
        if len(marks) >= MAX_WEIGHTS:
            break
    return Weights(marks, finite)


def _operator(record: Record) -> str:
    name = record.name
    return ".".join(part for part in (name.prefix, name.path, name.api) if part)


def _weights_of(record: Record, book: Rulebook) -> list[TensorStat]:
    """The trainable weights among a forward record's tensors that have statistics."""
    name = record.name
    if name.direction is Direction.BACKWARD or name.kind is RecordKind.PARAMETERS_GRAD:
        return []
    places = book.weights(short_api(name)) if name.kind is RecordKind.API else ()
    slots = {*(f"input_args.{place}" for place in places), *(f"input_kwargs.{key}" for key in WEIGHT_KEYWORDS)}
    taken = [t for t in record.inputs if places and t.slot in slots]
    known = (t for t in (*taken, *record.parameters) if not t.state.is_unknown and t.max is not None)
    return [tensor for tensor in known if tensor.is_floating and tensor.requires_grad is not False]


def _mark(tensor: TensorStat) -> int:
    """A number that is the same for the very same statistics."""
    return zlib.crc32(repr((tensor.shape, tensor.max, tensor.min, tensor.mean, tensor.norm)).encode())
