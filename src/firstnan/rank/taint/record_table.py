"""Records of one rank by their index, with gaps where nothing was read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import overload

from firstnan.dump.records import Record
from firstnan.dump.values import BAD
from firstnan.dump.view import RankView


class Table(Sequence[Record]):
    """A sequence as long as the file, of which only some places are known.

    ``table[index]`` is the record with that index (``LookupError`` where it was not read); a slice holds the records
    that are known between two indices; iteration goes over the known ones, in order.
    """

    def __init__(self, records: Sequence[Record], end: int) -> None:
        self._records = tuple(records)
        self._places = [record.index for record in records]
        self._at = {record.index: record for record in records}
        self._end = end

    def __len__(self) -> int:
        return self._end

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def __bool__(self) -> bool:
        return bool(self._records)

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...

    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        if isinstance(index, slice):
            start, stop, _ = index.indices(self._end)
            return self._records[bisect_left(self._places, start) : bisect_left(self._places, stop)]
        return self._at[index + self._end if index < 0 else index]

    def get(self, index: int) -> Record | None:
        """The record with this index; None where it was not read."""
        return self._at.get(index)

    @cached_property
    def bad(self) -> Sequence[Record]:
        """The known records with a tensor that is bad, by its state or as it was recorded: few, as a rule."""
        return tuple(record for record in self._records if _is_bad(record))

    @property
    def has_end(self) -> bool:
        """The last record of the file is known."""
        return bool(self._places) and self._places[-1] == self._end - 1


def _is_bad(record: Record) -> bool:
    for tensors in (record.inputs, record.outputs, record.parameters):
        for tensor in tensors:
            if tensor.state in BAD:
                return True
            high, low = tensor.max, tensor.min  # x - x is NaN for a non-finite x
            if high is not None and low is not None and high - high == low - low == 0:
                continue
            if tensor.is_recorded_bad:
                return True
    return False


class Names(Mapping[str, Record]):
    """Records by name: those of a table, and any other one that is asked for."""

    def __init__(self, records: Sequence[Record], view: RankView) -> None:
        self._known: dict[str, Record | None] = {record.name.full: record for record in records}
        self._view = view

    def __getitem__(self, name: str) -> Record:
        if name not in self._known:
            self._known[name] = self._view.find(name)
        record = self._known[name]
        if record is None:
            raise KeyError(name)
        return record

    def __iter__(self) -> Iterator[str]:
        return (name for name, record in self._known.items() if record is not None)

    def __len__(self) -> int:
        return sum(record is not None for record in self._known.values())
