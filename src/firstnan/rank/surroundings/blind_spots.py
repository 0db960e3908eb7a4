"""Records without statistics that stand on the way to a birth.

``a_blind_record_may_hold_the_cause``
    A weight of -Inf makes ``exp`` 0 and ``0 / 0`` NaN. Where the record of ``exp`` has no statistics, the division is
    the first that shows something bad, and its clean inputs prove nothing of what made them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from firstnan.dump.records import Direction, Record, RecordKind, TensorStat

MAX_STEPS = 64
"""Records on the way back that are looked at."""

_Key = tuple[int | None, object, object]


class BlindSpots:
    """The records that gave something of which nothing is known."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records: dict[int, Record] = {}
        self._writers: dict[_Key, list[int]] = {}
        self._blind: dict[int | None, list[int]] = {}
        """Size of a result -> records that gave one of this size and have no statistics at all"""
        for record in records:
            if record.name.direction is Direction.BACKWARD or record.name.kind is not RecordKind.API:
                continue
            self._records[record.index] = record
            floating = [tensor for tensor in record.outputs if tensor.is_floating]
            taken = [tensor for tensor in record.inputs if tensor.is_floating]
            is_blind = bool(taken) and all(tensor.state.is_unknown for tensor in (*taken, *floating))
            for tensor in floating:
                if is_blind:
                    self._blind.setdefault(tensor.numel, []).append(record.index)
                else:
                    self._writers.setdefault(_key(tensor), []).append(record.index)

    def before(self, record: Record) -> Record | None:
        """The nearest one from which an input of ``record`` can come, by way of recorded results."""
        queue, seen = [record], {record.index}
        while self._blind and queue and len(seen) <= MAX_STEPS:
            current = queue.pop(0)
            for tensor in current.inputs:
                if not tensor.is_floating or tensor.state.is_unknown:
                    continue
                writer = _last(self._writers.get(_key(tensor)), current.index)
                blind = _last(self._blind.get(tensor.numel), current.index)
                if blind is not None and (writer is None or writer < blind):
                    return self._records[blind]
                if writer is not None and writer not in seen:
                    seen.add(writer)
                    queue.append(self._records[writer])
        return None


def _key(tensor: TensorStat) -> _Key:
    return tensor.numel, tensor.max, tensor.min


def _last(ascending: Sequence[int] | None, before: int) -> int | None:
    place = bisect_left(ascending or (), before)
    return ascending[place - 1] if ascending and place else None
