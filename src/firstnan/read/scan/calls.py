"""The communication records of a dump.json, told apart by what is not a statistic in them.

A rank makes the same few calls thousands of times. Of two records that differ only in shapes and statistics one is
parsed, and stands for the other (``Passed.like``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstnan.dump.records import Record
from firstnan.dump.view import Passed
from firstnan.read.records.builder import RecordBuilder
from firstnan.read.scan.lines import build, parse
from firstnan.read.scan.record_index import OUTPUT, RECORD, Buffer, Doubt

_CALL = b"Distributed."
_MINT = RECORD + b"Mint"
_NAMED = b'.forward": {'
_DTYPE = b'"dtype": '
_LAST_KEY = b'"requires_grad": '
_NUMBERS = re.compile(rb'"(?:Max|Min|Mean|Norm)": [^\n]*')
_UNUSUAL = re.compile(rb'"M(?:ax|in)": +(?:NaN|-?Infinity|")')
MAX_KNOWN = 10_000
"""Calls that are kept apart; more are forgotten and parsed again."""


class CallReader:
    """Goes through the regions of one file, in order."""

    def __init__(self) -> None:
        self._known: dict[object, Record] = {}
        self._builder = RecordBuilder()
        self._built: Record | None = None
        self._current: tuple[Buffer, int, int, int] | None = None

    def calls(self, buffer: Buffer, known: int, end: int, index: int) -> Iterator[Passed]:
        """The communication records in a part of the buffer; its first record has this index."""
        text, data, window, kinds = buffer.text, buffer.data, buffer.window, self._known
        hit = text.find(_CALL, known, end)
        while hit >= 0:
            begin = hit - len(RECORD)
            if data[begin:hit] != RECORD:
                begin = hit - len(_MINT)
                if data[begin:hit] != _MINT:
                    hit = text.find(_CALL, hit + 1, end)
                    continue
            stop = text.find(RECORD, hit, end)
            if stop < 0:
                stop = end
            index += text.count(RECORD, known, begin)
            known = begin
            output = text.find(OUTPUT, hit, stop)
            key = _key(bytes(window[begin + len(RECORD) : stop if output < 0 else output]))
            like = kinds.get(key)
            if like is None:
                like = self._new(key, build(self._builder, *parse(buffer, begin, stop), index))
            self._current = buffer, begin, stop, index
            yield Passed(index, like, self._is_bad, self._full_name, self._record)
            hit = text.find(_CALL, stop, end)

    def _new(self, key: object, record: Record) -> Record:
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[key] = record
        return record

    def _full_name(self) -> str:
        buffer, begin, _, _ = self._at()
        return buffer.full_name(begin)

    def _record(self) -> Record:
        buffer, begin, stop, index = self._at()
        if self._built is None or self._built.index != index:
            self._built = self._builder.build(*parse(buffer, begin, stop), index)
        return self._built

    def _at(self) -> tuple[Buffer, int, int, int]:
        if self._current is None:
            raise LookupError("no record was passed yet")
        return self._current

    def _is_bad(self) -> bool:
        buffer, begin, stop, _ = self._at()
        if _UNUSUAL.search(buffer.data, begin, stop) is None:
            return False
        record = self._record()
        return any(tensor.state.is_bad for tensor in (*record.inputs, *record.outputs))


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
