"""Which record wrote a tensor of some shape last, before another record."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterable

from firstnan.dump.records import Direction, Record, RecordKind

NEAREST = 200
"""Records before a reader among which its writer is looked for."""


class FiniteWriters:
    """X of "between X and Y" for every Y: filled once, since there may be as many Y as records."""

    def __init__(self, records: Iterable[Record], *, inputs_only: bool) -> None:
        self._by_shape: dict[Hashable, list[int]] = {}
        self._by_size: dict[Hashable, list[int]] = {}
        self._inputs_only = inputs_only
        self.extend(records)

    def extend(self, records: Iterable[Record]) -> None:
        """More records, which stand behind the others."""
        for record in records:
            if record.name.kind is RecordKind.PARAMETERS_GRAD:
                continue  # it writes no gradient of an activation
            direction = record.name.direction
            for tensor in record.inputs if self._inputs_only else record.outputs:
                if not tensor.state.is_bad:
                    _add(self._by_shape, (direction, tensor.shape), record.index)
                _add(self._by_size, (direction, tensor.numel), record.index)

    def before(
        self, index: int, direction: Direction, shapes: Collection[tuple[int, ...]], sizes: Collection[int | None]
    ) -> int | None:
        """The nearest earlier record that gave something finite of one of these shapes, or else anything of one of
        these sizes."""
        exact = max((_last(self._by_shape.get((direction, shape)), index) for shape in shapes), default=-1)
        if exact >= 0:
            return exact
        alike = max((_last(self._by_size.get((direction, size)), index) for size in sizes), default=-1)
        return alike if alike >= 0 else None


class FirstWritten:
    """The first record that gave a tensor of some size."""

    def __init__(self) -> None:
        self._indices: dict[int | None, int] = {}

    def extend(self, records: Iterable[Record]) -> None:
        """More records, which stand behind the others."""
        for record in records:
            for tensor in record.outputs:
                self._indices.setdefault(tensor.numel, record.index)

    def is_before(self, index: int, size: int | None) -> bool:
        """Whether one stands before this index."""
        return self._indices.get(size, index) < index


def _add(places: dict[Hashable, list[int]], key: Hashable, index: int) -> None:
    known = places.setdefault(key, [])
    if not known or known[-1] != index:
        known.append(index)


def _last(places: list[int] | None, index: int) -> int:
    at = bisect_left(places, index) if places else 0
    found = places[at - 1] if places and at else -1
    return found if found >= index - NEAREST else -1
