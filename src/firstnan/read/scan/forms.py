"""Records of one form, built without a parser.

A run makes the same calls thousands of times, on thousands of ranks, and their records differ in statistics alone. The
second record of a form is parsed twice: as it is, and with marks in place of its statistics, which tell where each of
them goes. Of the next ones the rest of the text is compared, and their numbers are put in these places.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from firstnan.dump.names import parse_name
from firstnan.dump.records import Record, RecordKind, RecordName, TensorStat
from firstnan.dump.values import Number, ValueState, judge
from firstnan.read.json import lenient
from firstnan.read.records.builder import RecordBuilder
from firstnan.read.scan.record_index import Doubt

MOST_BYTES = 4 << 20
"""Of text that is kept to tell forms apart; when it is full, all are forgotten."""
MOST_NAMES = 8192
MOST_SEEN = 1 << 14
MOST_STATISTICS = 1 << 13
"""Statistics that are kept: a module's record repeats those of the records inside it."""
_LONGEST = 256
"""Bytes of statistics that are kept."""
_MAX = b'"Max": '
_NUMBER = rb"(-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|NaN|-?Infinity|true|false|null)"
_STATISTICS = re.compile(
    _NUMBER + rb',\n +"Min": ' + _NUMBER + rb',\n +"Mean": ' + _NUMBER + rb',\n +"Norm": ' + _NUMBER + rb"(?=[,\n])"
)
_NORM = b'"Norm": '
_COMMA = 0x2C
_MARKS = b'%d.5,\n"Min": %d.5,\n"Mean": %d.5,\n"Norm": %d.5'
_WORDS: dict[bytes, Number | None] = {b"true": True, b"false": False, b"null": None}
_OPENS = b'": {\n'

_Statistics = tuple["Number | None", "Number | None", "Number | None", "Number | None", ValueState]
"""And what Max and Min say."""


class _Place(NamedTuple):
    """A tensor of a form."""

    at: int
    """Which of the text's statistics are its own (-1: it has none)."""
    slot: str
    dtype: str
    shape: tuple[int, ...] | None
    usual: ValueState
    """Finite or empty."""
    requires_grad: bool | None
    stat: TensorStat
    """As it is, where it has no statistics; without a checksum."""


_Key = tuple["bytes | str | bool", ...]


def read(builder: RecordBuilder, text: bytes, index: int) -> Record:
    """The record with this text, which begins with the quote before its name.

    Raises:
        Doubt: that is not one sound record, or only the reading of the whole file could settle what is in it.
    """
    opened = text.find(_OPENS)
    written = text[1:opened]
    expected = _KNOWN.last.get(written) if opened > 0 else None
    if expected is not None:
        name, form = expected
        found = form.statistics_in(text, opened)
        made = form.filled(name, index, found) if found is not None else None
        if made is not None:
            return made
    if opened < 0 or b"\\" in written or b'"' in written or not written.isascii():
        return parsed(builder, text, index)
    name = _KNOWN.name(written)
    first, *rest = text[opened:].split(_MAX)
    pieces = [first]
    statistics: list[_Statistics] = []
    for part in rest:
        end = part.find(b"\n", part.find(_NORM))
        if part[end - 1 : end] == b",":
            end -= 1
        known = _KNOWN.statistics_at(part, 0, end, _MAX + part[:end])
        if known is None:
            return parsed(builder, text, index)
        statistics.append(known)
        pieces.append(part[end:])
    key: _Key = (name.prefix, name.kind is RecordKind.PARAMETERS_GRAD, *pieces)
    if key not in _KNOWN.forms:
        return _learnt(builder, text, index, key) if _KNOWN.was_seen(key) else parsed(builder, text, index)
    form = _KNOWN.forms[key]
    _KNOWN.expect(written, name, form)
    made = form.filled(name, index, statistics)
    return parsed(builder, text, index) if made is None else made


def parsed(builder: RecordBuilder, text: bytes, index: int) -> Record:
    """The same, by the parser."""
    made = builder.build(*sound(text), index)
    if builder.odd or builder.wide or builder.reader.deep or made.flagged is not None:
        raise Doubt("values that need the whole file")
    return made


def sound(text: bytes) -> tuple[str, dict[str, object]]:
    """Name and value of the record with this text.

    Raises:
        Doubt: that is not one sound record.
    """
    found = lenient.sound(b"{" + text.rstrip(b",") + b"}")
    if isinstance(found, dict) and len(found) == 1:
        ((full, raw),) = found.items()
        if isinstance(raw, dict):
            return full, raw
    raise Doubt("a record of another form")


class _Form:
    """What records that differ in their names' numbers and in statistics have in common."""

    __slots__ = ("pieces", "sides", "some")

    def __init__(self, some: Record, sides: Sequence[Sequence[_Place]], pieces: Sequence[bytes]) -> None:
        self.some = some
        """One of them."""
        self.pieces = pieces
        """The text behind the name, without the statistics."""
        self.sides = sides
        """Inputs, outputs, parameters."""

    def statistics_in(self, text: bytes, at: int) -> list[_Statistics] | None:
        """The statistics of a record whose text from this place on is of this form; None: it is not."""
        found = []
        known = _KNOWN.statistics
        *before, behind = self.pieces
        for piece in before:
            if not text.startswith(piece, at):
                return None
            at += len(piece)
            end = text.find(b"\n", text.find(_NORM, at))
            if text[end - 1] == _COMMA:
                end -= 1
            lines = text[at:end]
            one = known.get(lines)
            if one is None:
                one = _KNOWN.statistics_at(text, at + len(_MAX), end, lines) if lines.startswith(_MAX) else None
                if one is None:
                    return None
            found.append(one)
            at = end
        return found if len(text) == at + len(behind) and text.endswith(behind) else None

    def filled(self, name: RecordName, index: int, found: Sequence[_Statistics]) -> Record | None:
        """The record with these statistics; None where they need a closer look."""
        sides = []
        for places in self.sides:
            tensors = []
            for at, slot, dtype, shape, usual, requires_grad, stat in places:
                if at < 0:
                    tensors.append(stat)
                    continue
                high, low, mean, norm, state = found[at]
                if high is None or low is None:
                    return None
                if state is ValueState.FINITE:
                    state = usual
                elif usual is ValueState.EMPTY or dtype in ("", "float64") or not stat.is_floating:
                    return None
                tensors.append(TensorStat(slot, dtype, shape, high, low, mean, norm, state, requires_grad))
            sides.append(tuple(tensors))
        inputs, outputs, parameters = sides
        some = self.some
        return Record(
            name, index, inputs, outputs, parameters, some.scalars, some.groups, some.peers, some.arity, some.kwargs,
            some.has_output, False, some.recompute,
        )  # fmt: skip


class _Known:
    """The forms and names that this process has seen."""

    def __init__(self) -> None:
        self.forms: dict[_Key, _Form] = {}
        self.statistics: dict[bytes, _Statistics] = {}
        """By their lines, from Max to the value of Norm."""
        self.last: dict[bytes, tuple[RecordName, _Form]] = {}
        """The form that a record of a name had last: on the next rank it mostly has the same."""
        self._names: dict[bytes, RecordName] = {}
        self._bytes = 0
        self._seen: set[int] = set()
        """Hashes of keys that were asked for once."""

    def was_seen(self, key: _Key) -> bool:
        """Whether a form is asked for not for the first time."""
        mark = hash(key)
        if mark in self._seen:
            return True
        if len(self._seen) >= MOST_SEEN:
            self._seen.clear()
        self._seen.add(mark)
        return False

    def name(self, written: bytes) -> RecordName:
        """A name, taken apart."""
        name = self._names.get(written)
        if name is None:
            if len(self._names) >= MOST_NAMES:
                self._names.clear()
            name = self._names[written] = parse_name(written.decode("ascii"))
        return name

    def statistics_at(self, text: bytes, start: int, end: int, lines: bytes) -> _Statistics | None:
        """The statistics whose values stand in ``[start, end)``; ``lines``: the same, from the key of Max on."""
        found = self.statistics.get(lines)
        if found is not None:
            return found
        match = _STATISTICS.match(text, start)
        if match is None or match.end() != end:
            return None
        high, low, mean, norm = map(_value, match.groups())
        found = high, low, mean, norm, judge(high, low)
        if len(lines) <= _LONGEST:
            if len(self.statistics) >= MOST_STATISTICS:
                self.statistics.clear()
            self.statistics[lines] = found
        return found

    def expect(self, written: bytes, name: RecordName, form: _Form) -> None:
        """What the next record of this name will be like."""
        if len(self.last) >= MOST_NAMES:
            self.last.clear()
        self.last[written] = name, form

    def add(self, key: _Key, form: _Form) -> None:
        """One more form."""
        self._bytes += sum(len(part) for part in key if isinstance(part, bytes))
        if self._bytes > MOST_BYTES:
            self.forms.clear()
            self.last.clear()
            self._bytes = 0
        self.forms[key] = form


_KNOWN = _Known()


def _learnt(builder: RecordBuilder, text: bytes, index: int, key: _Key) -> Record:
    """The record, by the parser; its form is remembered where its statistics are all that the next ones can differ
    in."""
    unjudged = len(builder.blank) + len(builder.settled)
    made = parsed(builder, text, index)
    if len(builder.blank) + len(builder.settled) == unjudged and not any(stat.checksum for stat in _tensors(made)):
        form = _form(text, [part for part in key if isinstance(part, bytes)])
        if form is not None:
            _KNOWN.add(key, form)
    return made


def _form(text: bytes, pieces: Sequence[bytes]) -> _Form | None:
    """None: marks in place of the statistics do not come out one by one."""
    first, *rest = text.split(_MAX)
    marked = [first]
    for number, part in enumerate(rest):
        match = _STATISTICS.match(part)
        if match is None:
            return None
        marked.append(_MARKS % tuple(range(4 * number, 4 * number + 4)) + part[match.end() :])
    some = parsed(RecordBuilder(), _MAX.join(marked), 0)
    places = {(4 * n + 0.5, 4 * n + 1.5, 4 * n + 2.5, 4 * n + 3.5): n for n in range(len(rest))}
    sides = [
        [_place(stat, places.pop((stat.max, stat.min, stat.mean, stat.norm), -1)) for stat in side]  # type: ignore[arg-type]
        for side in (some.inputs, some.outputs, some.parameters)
    ]
    strange = any(one.at < 0 and not (one.stat.max is one.stat.min is None) for side in sides for one in side)
    return None if places or strange else _Form(some, sides, pieces)


def _place(stat: TensorStat, at: int) -> _Place:
    return _Place(at, stat.slot, stat.dtype, stat.shape, stat.state, stat.requires_grad, stat)


def _tensors(record: Record) -> tuple[TensorStat, ...]:
    return (*record.inputs, *record.outputs, *record.parameters)


def _value(written: bytes) -> Number | None:
    if written in _WORDS:
        return _WORDS[written]
    return int(written) if written.lstrip(b"-").isdigit() else float(written)
