"""Fingerprints of one rank (:mod:`firstnan.read.fingerprints`) out of a dump.json laid out as MSProbe writes it.

The same ones as come of records that were read in full. A module is used for the first time in the record whose name
ends in ``.forward.0``; of calls that differ only in their values one is parsed and tells where the others' tensors are.
"""

from __future__ import annotations

import re
from zlib import crc32

from firstnan.dump.names import parse_name
from firstnan.dump.records import Direction, Record, RecordKind
from firstnan.operators.communication import CallKey, CallKind, Freshness, Root, calls, is_communication
from firstnan.read.fingerprints import UNUSABLE, PrintsBuilder, RankPrints, SeriesBuilder, gives_list, packed, stem_of
from firstnan.read.records.builder import RecordBuilder
from firstnan.read.scan.calls import ScannedCalls
from firstnan.read.scan.forms import read
from firstnan.read.scan.lines import text_of
from firstnan.read.scan.record_index import OUTPUT, RECORD, Buffer

_FIRST_USE = b'.forward.0": {'
_PARAMETERS = b'\n   "parameters": {\n'
_CALL = b"Distributed."
_MINT = b"Mint"
_BACKWARD = b".backward"
_DEVICE = RECORD + b"NPU."
_NUMBER = rb"(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
_TENSOR = re.compile(
    rb'\n    "([^"\\\n]+)": \{\n     "type": "[^"\n]*",\n     "dtype": "torch\.(float16|float32|bfloat16)",'
    rb'\n     "shape": \[([^\]]*)\],\n     "Max": '
    + _NUMBER
    + rb',\n     "Min": '
    + _NUMBER
    + rb',\n     "Mean": '
    + _NUMBER
    + rb',\n     "Norm": '
    + _NUMBER
    + rb',\n     "requires_grad": (?:true|false)(?:,\n     "md5": "(\w+)")?\n    \}'
)
_FIRST = re.compile(
    rb'"dtype": "torch\.b?float[0-9]+",\n     "shape": \[([^\]]*)(\],\n     "Max": -?[0-9][^,\n]*,'
    rb'\n     "Min": -?[0-9][^,\n]*,\n     "Mean": -?[0-9][^,\n]*,\n     "Norm": -?[0-9][^,\n]*,\n     )"requires_grad"'
)
_DTYPE = b'"dtype": '
_SHAPE, _GRAD = b'"shape": [', b'"requires_grad": '
_NAME_ENDS = b'.forward": {'
MOST_KINDS = 64
"""Kinds of calls that are told by their lines; further ones are parsed."""
KEPT = 512
"""Of so many first records those that are parsed are kept: a small dump is looked at whole."""


class _Kind:
    """Calls that differ only in number and values: their text, and where their tensors are."""

    __slots__ = (
        "before", "counts", "digests", "is_floating", "number", "places", "results", "sends", "sent", "series", "stem",
        "tail",
    )  # fmt: skip

    def __init__(
        self, number: int, stem: bytes, tail: bytes, results: int, series: SeriesBuilder, *, floats: bool, counts: bool
    ) -> None:
        self.number = number
        """Among the kinds of calls of the file."""
        self.stem = stem
        """From the newline before the name up to the number."""
        self.before = stem.index(_CALL)
        self.tail = tail
        """From behind the last statistic of the inputs to the shape of the first result."""
        self.results = results
        """Bytes of the tail before the results."""
        self.series = series
        self.places, self.digests, self.sent = series.places.append, series.received.append, series.sent.append
        self.sends = series.key.kind is CallKind.SEND
        self.is_floating = floats
        self.counts = counts
        """False: integers, or a result that says nothing."""


class PrintsReader:
    """Goes through the parts of one file, in order."""

    def __init__(self, rank: int, calls: ScannedCalls, known: dict[int, Record]) -> None:
        self._builder = PrintsBuilder(rank)
        self._calls = calls
        """Takes account of where they are."""
        self._known = known
        """Records that were parsed, by index; some are added."""
        self._regions: list[tuple[int, int, int]] = []
        self._records = RecordBuilder()
        self._kinds: list[_Kind] = []
        self._slow: set[int] = set()
        """Numbers of kinds that have to be read in full."""

    def finish(self) -> RankPrints:
        """The fingerprints of everything that was passed."""
        return self._builder.finish(self._regions)

    def region(self, buffer: Buffer, start: int, end: int, offset: int, first: int, *, finished: bool) -> None:
        """Takes account of the records in ``[start, end)``.

        The buffer begins at ``offset`` of the file; the first record has the index ``first``; ``finished``: none of
        them lacks its output.
        """
        builder = self._builder
        if first == 0:
            builder.on_device = buffer.text.find(_DEVICE, start, end) >= 0
        self._regions.append((offset + start, end - start, first))
        self._modules(buffer, start, end, first)
        backward = start if builder.backward else _first_backward(buffer, start, end)
        self._pass_calls(buffer, start, end, offset, backward, first, is_fast=finished)
        builder.backward = builder.backward or backward < end

    def _modules(self, buffer: Buffer, start: int, end: int, first: int) -> None:
        text = buffer.text
        known, index = start, first
        hit = text.find(_FIRST_USE, start, end)
        while hit >= 0:
            begin = text.rfind(RECORD, start, hit)
            stop = text.find(RECORD, hit, end)
            if stop < 0:
                stop = end
            listed = text.find(_PARAMETERS, hit, stop)
            if begin >= 0 and listed >= 0:
                index += text.count(RECORD, known, begin)
                known = begin
                if not self._lines(buffer, begin, listed, stop, index):
                    self._builder.module(self._built(buffer, begin, stop, index))
            hit = text.find(_FIRST_USE, stop, end)

    def _lines(self, buffer: Buffer, begin: int, listed: int, stop: int, index: int) -> bool:
        """The parameters of a module by their lines; False: it has to be parsed."""
        data = buffer.data
        name = buffer.name(begin)
        rows = list(_TENSOR.finditer(data, listed, stop))
        output = data.rfind(OUTPUT, begin, listed)
        if output < 0 or not name.endswith(b".forward.0") or b"\\" in name:
            return False
        if not rows or len(rows) != buffer.text.count(_DTYPE, listed, stop):
            return False
        taken = _FIRST.match(data, data.find(_DTYPE, begin, output))
        given = _FIRST.match(data, data.find(_DTYPE, output, listed))
        if taken is None or given is None:
            return False
        path = name[: -len(b".forward.0")].decode()
        sizes = _sizes(given[1])
        last = sizes.rpartition(",")[2]
        affine = bool(sizes) and _sizes(taken[1]) == sizes and all(_sizes(row[3]) == last for row in rows)
        digest = crc32(data[given.start(1) : given.end(2)])
        for row in rows:
            form = f"{row[2].decode()}[{_sizes(row[3])}]"
            checksum = None if row[8] is None else row[8].decode()
            numbers = packed([float(row[at]) for at in range(4, 8)])
            self._builder.parameter(f"{path}.{row[1].decode()}", index, form, numbers, checksum, digest, affine=affine)
        return True

    def _pass_calls(
        self, buffer: Buffer, start: int, end: int, offset: int, backward: int, index: int, *, is_fast: bool
    ) -> None:
        """The communication records in ``[start, end)``, of which the first record has this index."""
        find, data, window = buffer.text.find, buffer.data, buffer.window
        add_place, add_kind = self._calls.places.append, self._calls.kind_of.append
        kinds = self._kinds if is_fast else []
        hit, known = find(_CALL, start, end), start
        while hit >= 0:
            output = find(OUTPUT, hit, end) if kinds else -1
            for kind in kinds:
                begin, tail = hit - kind.before, output - kind.results
                if data.startswith(kind.tail, tail) and data.startswith(kind.stem, begin):
                    result = tail + len(kind.tail)
                    hit = find(_GRAD, result, end)
                    place = offset + begin
                    kind.places(place)
                    add_place(place)
                    add_kind(kind.number)
                    kind.digests(crc32(window[result:hit]) if kind.counts else UNUSABLE)
                    if kind.sends:
                        given = _FIRST.match(data, data.find(_DTYPE, begin, tail)) if kind.is_floating else None
                        kind.sent(UNUSABLE if given is None else crc32(data[given.start(1) : given.end(2)]))
                    if result < backward and kind.is_floating and data.find(b",", result, data.find(b"]", result)) > 0:
                        kind.series.activations += 1
                    if kind is not kinds[0]:
                        kinds.remove(kind)
                        kinds.insert(0, kind)
                    break
            else:
                begin = buffer.text.rfind(RECORD, start, hit)
                if begin < 0 or data[begin + len(RECORD) : hit] not in (b"", _MINT):
                    hit += 1
                else:
                    index += buffer.text.count(RECORD, known, begin)
                    known = begin
                    hit = self._parsed(buffer, begin, end, offset, backward, index)
            hit = find(_CALL, hit, end)

    def _built(self, buffer: Buffer, begin: int, stop: int, index: int) -> Record:
        record = self._known.get(index)
        if record is None:
            record = read(self._records, text_of(buffer, begin, stop), index)
            if index < KEPT:
                self._known[index] = record
        return record

    def _parsed(self, buffer: Buffer, begin: int, end: int, offset: int, backward: int, index: int) -> int:
        """A call that is read in full; the next ones of its kind may be told by their lines. Gives where to go on."""
        stop = buffer.text.find(RECORD, begin + 1, end)
        if stop < 0:
            stop = end
        builder = self._builder
        record = self._built(buffer, begin, stop, index)
        if not is_communication(record):
            return stop
        output = buffer.text.find(OUTPUT, begin, stop)
        taken = bytes(buffer.window[begin + len(RECORD) : stop if output < 0 else output])
        number = self._calls.kind(record, taken)
        self._calls.add(offset + begin, number)
        was, builder.backward = builder.backward, builder.backward or begin > backward
        builder.call(record, offset + begin)
        builder.backward = was
        if len(self._kinds) < MOST_KINDS and number not in self._slow:
            kind = self._kind(buffer, begin, stop, record, number)
            if kind is None:
                self._slow.add(number)
            else:
                self._kinds.insert(0, kind)
        return stop

    def _kind(self, buffer: Buffer, begin: int, stop: int, record: Record, number: int) -> _Kind | None:
        """None: calls like this one have to be read in full."""
        builder = self._builder
        found = calls(record, builder.rank)
        if len(found) != 1 or len(record.inputs) > 1 or not record.outputs:
            return None
        call = found[0]
        if gives_list(call.api) or (call.rooted is Root.SENDS and call.root == builder.rank):
            return None
        if call.received not in ((), record.outputs[:1]) or (call.kind is CallKind.SEND and call.sent != record.inputs):
            return None
        if any(tensor.checksum for tensor in (*record.inputs, *record.outputs)):
            return None
        data = buffer.data
        named = data.find(b"\n", begin + len(RECORD), stop)
        output = buffer.text.find(OUTPUT, named, stop)
        stem = bytes(buffer.window[begin:named]).removesuffix(_NAME_ENDS)
        shape, last = data.find(_SHAPE, output, stop), data.rfind(_GRAD, named, output)
        last = last if record.inputs else named  # nothing varies in front of the results
        if min(named, output, shape, last) < 0 or not stem.rstrip(b"0123456789").endswith(b"."):
            return None
        floats = record.outputs[0].is_floating
        return _Kind(
            number,
            stem.rstrip(b"0123456789"),
            bytes(buffer.window[last : shape + len(_SHAPE)]),
            output - last,
            builder.series(stem_of(record), CallKey.of(call)),
            floats=floats,
            counts=floats and bool(call.received) and call.finished and call.freshness is Freshness.FRESH,
        )


def _first_backward(buffer: Buffer, start: int, end: int) -> int:
    """Place of the first backward record in ``[start, end)``; ``end``: there is none."""
    hit = buffer.text.find(_BACKWARD, start, end)
    while hit >= 0:
        line = buffer.text.rfind(b"\n", start, hit)
        if line >= 0 and buffer.data[line : line + len(RECORD)] == RECORD:
            name = parse_name(buffer.full_name(line))
            if name.direction is Direction.BACKWARD and name.kind is not RecordKind.PARAMETERS_GRAD:
                return line
        hit = buffer.text.find(_BACKWARD, hit + 1, end)
    return end


def _sizes(lines: bytes) -> str:
    """``8,2`` for the lines of a shape."""
    return lines.translate(None, b" \n").decode()
