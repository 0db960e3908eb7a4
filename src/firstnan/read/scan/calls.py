"""The communication records of a dump.json, told apart by what is not a statistic in them.

A rank makes the same few calls thousands of times. Of two records that differ only in shapes and statistics one is
parsed, and stands for the other (:class:`firstnan.dump.view.Calls`). Where they are is written down while the file is
read; which index one has is counted where it is asked for, and whether it holds a bad value from the first suspect on.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable

from firstnan.dump.records import Record
from firstnan.read.scan.record_index import RECORD, Buffer, Doubt, RecordFile, Region

_NAMED = b'.forward": {'
_DTYPE = b'"dtype": '
_LAST_KEY = b'"requires_grad": '
_NUMBERS = re.compile(rb'"(?:Max|Min|Mean|Norm)": [^\n]*')
_UNUSUAL = re.compile(rb'"M(?:ax|in)": +(?:NaN|-?Infinity|")')
_OPEN, _CLEAN, _BAD = 0, 1, 2
"""What is known of one record."""


class ScannedCalls:
    """Implements :class:`firstnan.dump.view.Calls`; filled while the file is read once."""

    def __init__(self, file: RecordFile, record_of: Callable[[int], Record]) -> None:
        self.likes: list[Record] = []
        self.kind_of = array("I")
        self._file = file
        self._record_of = record_of
        self._kinds: dict[object, int] = {}
        self.places = array("Q")
        """Where each begins in the file."""
        self._known = bytearray()
        """_CLEAN, _BAD or _OPEN; what is not there yet is open."""
        self._unusual: set[int] = set()
        """Kinds of which one may hold a bad value."""
        self._indices: dict[Region, array[int]] = {}
        """Of those in one region."""

    def add(self, place: int, kind: int) -> None:
        """One more record: where it begins in the file."""
        self.places.append(place)
        self.kind_of.append(kind)

    def kind(self, record: Record, taken: bytes) -> int:
        """The kind of a record that was parsed; ``taken`` is its text up to its results, from its name on."""
        key = _key(taken)
        found = self._kinds.get(key)
        if found is None:
            found = self._kinds[key] = len(self.likes)
            self.likes.append(record)
        return found

    def look(self, buffer: Buffer, offset: int, start: int, end: int) -> None:
        """Finds out which of the records in this part of the buffer may hold a bad value."""
        self._know()
        for at in range(bisect_left(self.places, offset + start), len(self.places)):
            kind = self.kind_of[at]
            if kind in self._unusual:
                continue  # the first one of each kind is asked for
            if _is_usual(buffer, self.places[at] - offset, end):
                self._known[at] = _CLEAN
            else:
                self._unusual.add(kind)

    def _know(self) -> None:
        self._known.extend(bytes(len(self.places) - len(self._known)))

    # -- Calls -----------------------------------------------------------------------------------------

    def before(self, index: int) -> int:
        if index <= 0 or not self.places:
            return 0
        if index >= self._file.records:
            return len(self.places)
        region = self._file.region_with(index)
        return self._first_in(region) + bisect_left(self._indices_in(region), index)

    def index(self, at: int) -> int:
        region = self._file.region_at(self.places[at])
        return self._indices_in(region)[at - self._first_in(region)]

    def is_bad(self, at: int) -> bool:
        self._know()
        if self._known[at] == _OPEN:
            self._known[at] = _BAD if self._looks_bad(at) else _CLEAN
        return self._known[at] == _BAD

    def name(self, at: int) -> str:
        region = self._file.region_at(self.places[at])
        return self._file.load(region).full_name(self.places[at] - region.offset)

    def record(self, at: int) -> Record:
        return self._record_of(self.index(at))

    def _looks_bad(self, at: int) -> bool:
        region = self._file.region_at(self.places[at])
        if _is_usual(self._file.load(region), self.places[at] - region.offset, region.size):
            return False
        record = self.record(at)
        return any(tensor.state.is_bad for tensor in (*record.inputs, *record.outputs))

    def _first_in(self, region: Region) -> int:
        return bisect_left(self.places, region.offset)

    def _indices_in(self, region: Region) -> array[int]:
        known = self._indices.get(region)
        if known is None:
            known = self._indices[region] = array("I")
            buffer = self._file.load(region)
            first, stop = self._first_in(region), bisect_left(self.places, region.offset + region.size)
            passed, index = 0, region.first
            for place in self.places[first:stop]:
                begin = place - region.offset
                index += buffer.text.count(RECORD, passed, begin)
                passed = begin
                known.append(index)
        return known


def _is_usual(buffer: Buffer, begin: int, end: int) -> bool:
    """Whether all extremes in the record that begins there are numbers."""
    stop = buffer.text.find(RECORD, begin + 1, end)
    return _UNUSUAL.search(buffer.data, begin, end if stop < 0 else stop) is None


def _key(taken: bytes) -> object:
    """The same for records of one API that differ in nothing but their number and their tensors' values.

    ``taken`` is a record up to its results, from its name on.
    """
    named = taken.find(_NAMED)
    stem = taken[:named].rstrip(b"0123456789")
    if named < 0 or len(stem) == named or not stem.endswith(b".") or b'"' in stem:
        raise Doubt("a communication record with another name")
    tensor = taken.find(_DTYPE, named)
    if tensor < 0:
        return stem, taken[named:]
    last = taken.rfind(_LAST_KEY)
    if last < tensor or taken.find(_DTYPE, tensor + 1, last) >= 0:
        return stem, _NUMBERS.sub(b"", taken[named:])
    return stem, taken[named:tensor], taken[last:]
