"""The communication records of a dump.json, told apart by what is not a statistic in them.

A rank makes the same few calls thousands of times. Of two records that differ only in shapes and statistics one is
parsed, and stands for the other (``Passed.like``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from firstnan.dump import Passed, Record
from firstnan.readers.record_builder import RecordBuilder
from firstnan.readers.record_index import OUTPUT, RECORD, Buffer, Doubt, Region
from firstnan.readers.scan_values import build, parse

_CALL = b"Distributed."
_PREFIXES = (RECORD, RECORD + b"Mint")
_DTYPE = b'"dtype": '
_LAST_KEY = b'"requires_grad": '
_NUMBERS = re.compile(rb'"(?:Max|Min|Mean|Norm)": [^\n]*')
_UNUSUAL = re.compile(rb'"M(?:ax|in)": (?:NaN|-?Infinity|")')
MAX_KNOWN = 10_000
"""Calls that are kept apart; more are forgotten and parsed again."""


class CallReader:
    """Goes through the regions of one file, in order."""

    def __init__(self) -> None:
        self._known: dict[object, Record] = {}
        self._builder = RecordBuilder()

    def calls(self, buffer: Buffer, region: Region) -> Iterator[Passed]:
        """The communication records of a region."""
        text, end = buffer.text, region.size
        index, known = region.first, 0
        hit = text.find(_CALL, 0, end)
        while hit >= 0:
            begin = text.rfind(b"\n", 0, hit)
            if buffer.data[begin:hit] in _PREFIXES:
                stop = text.find(RECORD, hit, end)
                if stop < 0:
                    stop = end
                index += text.count(RECORD, known, begin)
                known = begin
                yield Passed(index, self._like(buffer, begin, stop, index), self._bad(buffer, begin, stop, index))
                hit = text.find(_CALL, stop, end)
            else:
                hit = text.find(_CALL, hit + 1, end)

    def _like(self, buffer: Buffer, begin: int, stop: int, index: int) -> Record:
        key = _key(buffer, begin, stop)
        record = self._known.get(key)
        if record is None:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            record = self._known[key] = build(self._builder, *parse(buffer, begin, stop), index)
        return record

    def _bad(self, buffer: Buffer, begin: int, stop: int, index: int) -> Callable[[], bool]:
        def is_bad() -> bool:
            if _UNUSUAL.search(buffer.data, begin, stop) is None:
                return False
            record = self._builder.build(*parse(buffer, begin, stop), index)
            return any(tensor.state.is_bad for tensor in (*record.inputs, *record.outputs))

        return is_bad


def _key(buffer: Buffer, begin: int, stop: int) -> object:
    """The same for records of one API that differ in nothing but their number and their tensors' values."""
    name = buffer.name(begin)
    head, _, direction = name.rpartition(b".")
    api, _, number = head.rpartition(b".")
    if not number.isdigit() or direction != b"forward":
        raise Doubt("a communication record with another name")
    text, data = buffer.text, buffer.window
    after = begin + len(RECORD) + len(name)
    output = text.find(OUTPUT, begin, stop)
    if output < 0:
        output = stop
    tensor = text.find(_DTYPE, after, output)
    if tensor < 0:
        return api, bytes(data[after:output])
    last = text.rfind(_LAST_KEY, tensor, output)
    if last < 0 or text.find(_DTYPE, tensor + 1, output) >= 0:
        return api, _NUMBERS.sub(b"", bytes(data[after:output]))
    return api, bytes(data[after:tensor]), bytes(data[last:output])
