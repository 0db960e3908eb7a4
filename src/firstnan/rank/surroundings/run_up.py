"""The way a large finite value took before it overflowed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from firstnan.answer.model import RunUp
from firstnan.dump.records import Record, RecordKind, TensorStat
from firstnan.dump.values import magnitude

MAX_STEPS = 64
"""Longest run-up that is kept."""

_Key = tuple[int | None, object, object]


def run_up(records: Sequence[Record], record: Record) -> tuple[RunUp, ...]:
    """Follows the largest input of ``record`` back from writer to writer, earliest first.

    A value is recognised by size, Max and Min; modules are left out, since they repeat their operators.

    Example: ``linear (5 -> 1e38), mul (1e38 -> 5e37)`` before ``square (5e37 -> Inf)``.
    """
    writers: dict[_Key, list[int]] = {}
    for earlier in records[: record.index]:
        if earlier.name.kind is not RecordKind.API:
            continue
        for tensor in earlier.outputs:
            if tensor.is_floating and tensor.max is not None:
                writers.setdefault(_key(tensor), []).append(earlier.index)
    steps: list[RunUp] = []
    current = record
    while len(steps) < MAX_STEPS:
        largest = _largest(current.inputs)
        if largest is None:
            break
        before = [i for i in writers.get(_key(largest), ()) if i < current.index]
        if not before:
            break
        current = records[before[-1]]
        steps.append(
            RunUp(
                current.name.full, current.index, _value(_largest(current.inputs)), magnitude(largest.max, largest.min)
            )
        )
    return tuple(reversed(steps))


def _key(tensor: TensorStat) -> _Key:
    return tensor.numel, tensor.max, tensor.min


def _largest(tensors: Sequence[TensorStat]) -> TensorStat | None:
    finite = [
        (m, t) for t in tensors if t.is_floating and (m := magnitude(t.max, t.min)) is not None and math.isfinite(m)
    ]
    return max(finite, key=lambda pair: pair[0])[1] if finite else None


def _value(tensor: TensorStat | None) -> float | None:
    return None if tensor is None else magnitude(tensor.max, tensor.min)
