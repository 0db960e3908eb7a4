"""Records of one rank by their index, with gaps where nothing was read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
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
        self._records: list[Record] = []
        self._places: list[int] = []
        self._at: dict[int, Record] = {}
        self.by_name: dict[str, Record] = {}
        """Those that are known."""
        self.bad: list[Record] = []
        """The known ones with a tensor that is bad, by its state or as it was recorded: few, as a rule."""
        self._bad_at: set[int] = set()
        self._end = end
        self.extend(records)

    def extend(self, records: Sequence[Record]) -> None:
        """More records, which stand behind those that are known."""
        places = [record.index for record in records]
        self._records += records
        self._places += places
        self._at.update(zip(places, records, strict=True))
        self.by_name.update((record.name.full, record) for record in records)
        bad = [record for record in records if _is_bad(record)]
        self.bad += bad
        self._bad_at.update(record.index for record in bad)

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

    def is_bad(self, index: int) -> bool:
        """The record with this index is among the :attr:`bad` ones."""
        return index in self._bad_at

    @property
    def last(self) -> int:
        """Index of the last one that is known; -1 where none is."""
        return self._places[-1] if self._places else -1

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
    """Records by name: those of a table, and any other one that is asked for.

    Its length and iteration are those of the table.
    """

    def __init__(self, records: Table, view: RankView) -> None:
        self._known = records.by_name
        self._others: dict[str, Record | None] = {}
        self._view = view

    def __getitem__(self, name: str) -> Record:
        record = self._known.get(name)
        if record is None:
            if name not in self._others:
                self._others[name] = self._view.find(name)
            record = self._others[name]
        if record is None:
            raise KeyError(name)
        return record

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
