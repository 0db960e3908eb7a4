r"""Which records of a part of a dump.json must be parsed, told by their lines.

What may be bad stands in lines such as ``"Max": NaN`` or ``"Min": -Infinity``. Instead of searching for each of them,
a *shadow* of the text is searched: bytes are put into classes, so that ``Max`` and ``Min`` read alike, and so do all
beginnings of values that are no plain number: ``NaN``, ``Infinity``, ``null``, quotes and brackets. Whatever is found
is settled by parsing the record; only the -Inf of masks, of which there may be tens of thousands, is settled by its
lines.

Most parts hold nothing of this kind, which is told by counting: as many plain numbers behind ``Max`` and ``Min`` as
twice the tensors (:class:`Spelling`). That is one search through the text in place of one for each kind of value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from msgspec import Struct

from firstnan.dump.names import parse_name
from firstnan.dump.records import Direction, RecordName
from firstnan.dump.view import MaskRole, Watch
from firstnan.read.records.builder import RecordBuilder
from firstnan.read.scan.forms import read, sound
from firstnan.read.scan.record_index import OUTPUT, RECORD, Buffer, Doubt, records_in
from firstnan.read.scan.search import Text, translate, view

_NO_NUMBER, _NUMBER, _FOREIGN = b"Z", b"9", b"\0"


def _table() -> bytes:
    table = bytearray(_FOREIGN * 256)
    table[0x0A] = 0x0A
    table[0x20:0x7F] = bytes(range(0x20, 0x7F))
    # the last letter of Max and Min; beginnings of null, NaN, Infinity, "...", [...], {...}; a second blank
    for byte in b'xnNI"[{ ':
        table[byte] = _NO_NUMBER[0]
    # what numbers, true and false begin with, two bytes of them; the second letter of Max and Min is among these
    for byte in b"0123456789-.,trfeai":
        table[byte] = _NUMBER[0]
    return bytes(table)


SHADOW = _table()
"""Byte -> its class; bytes that MSProbe never writes have the class 0."""
UNUSUAL = b"M9ZZ:ZZ"
"""In the shadow: ``Max": `` or ``Min": `` before anything but a number, ``true`` or ``false``."""
NEGATIVE = b"M9ZZ:Z9Z"
"""In the shadow: ``Max": `` or ``Min": `` before ``-Infinity``."""
USUAL = b"M9ZZ:Z99"
"""In the shadow: ``Max": `` or ``Min": `` before a number, ``true`` or ``false``."""
_EXTREMES = b"M9ZZ:Z"
"""In the shadow: ``Max": `` or ``Min": ``."""
_NULL = b'"Max": n'
_PLACEHOLDER = b'_index": '
_MAX_NAN = b'"Max": N'
_MIN_NAN, _MIN_INF, _MIN_MINUS = b'"Min": N', b'"Min": I', b'"Min": -I'
_WORDS = (_MAX_NAN, b'"Max": I', _NULL, _MIN_NAN, _MIN_INF, b'"Min": n')
"""What ``UNUSUAL`` finds in a file as MSProbe writes it."""
_MINUS = (b'"Max": -I', _MIN_MINUS)
"""What ``NEGATIVE`` finds."""
_BAD_ENDS = b"Ny"
"""Last letters of NaN and Infinity."""
_DTYPE = b'"dtype": "'
_OUT, _NO_KWARGS = b'\n    "out": ', b'\n   "input_kwargs": {},'
_NAME = re.compile(rb'\n  "((?:([^"\\\n]*)\.)?[^".\\\n]*\.([^".\\\n]*))": \{\n')
"""The line that begins a record: its name, and what of it stands before and behind the number."""
_MASKED = re.compile(
    rb'"dtype": "(?:torch\.(?:float16|bfloat16|float32)|Float16|BFloat16|Float32)",\n {5,64}"shape": \[[^\]]*\],'
    rb'\n( {5,64})"Max": (-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?),\n\1"Min": -Infinity,\n'
)
"""A tensor with a mask's values, from its dtype to its Min. A float64's -Infinity may be an artefact (dump format,
section 13)."""
_INFINITE = (math.inf, -math.inf)
_MIN_LINE = len(b'Min": -Infinity,\n')


def text_of(buffer: Buffer, start: int, stop: int) -> bytes:
    """The text of the record that stands in ``[start, stop)``, from the quote before its name on."""
    return bytes(buffer.window[start + 3 : stop])


class Spelling(Struct, frozen=True):
    """How Max and Min of the tensors of a part are spelled, as far as counting tells.

    Not asked of the first part of a file, which is searched: it shows whether Max and Min stand in tensors alone, as
    this takes for granted.
    """

    others: int
    """Max and Min that are none of the following, or are absent."""
    negative: tuple[int, ...] = ()
    """Places of ``-Infinity``."""
    largest_nan: int = 0
    least_nan: int = 0

    @property
    def is_told(self) -> bool:
        """Nothing is left that has to be searched."""
        return not self.others

    @property
    def is_plain(self) -> bool:
        """All are numbers."""
        return not (self.others or self.negative or self.largest_nan or self.least_nan)


UNTOLD = Spelling(others=1)
"""Nothing was counted."""


class _Operator(Struct, frozen=True):
    """What the lines of one operator's records mean."""

    name: RecordName
    role: MaskRole
    may_saturate: bool


class Sieve:
    """Goes through parts of one file, in order, for the watch."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.builder = RecordBuilder()
        """Has seen every record whose values could not all be judged by their lines."""
        self._own = RecordBuilder()
        self._operators: dict[tuple[bytes, bytes], _Operator] = {}
        self._shadow = bytearray()
        self._shadow_text: Text = self._shadow

    def check(self, buffer: Buffer, start: int, end: int) -> None:
        """Makes the shadow of a part.

        Raises:
            Doubt: it holds a byte that MSProbe never writes.
        """
        if len(self._shadow) < len(buffer.data):
            self._shadow = bytearray(len(buffer.data))
            self._shadow_text = view(self._shadow)
        translate(buffer.data, end, SHADOW, self._shadow)
        if self._shadow.find(_FOREIGN, start, end) >= 0:
            raise Doubt("bytes that MSProbe does not write")

    def spelling(self, buffer: Buffer, start: int, end: int) -> Spelling:
        """How Max and Min are spelled in a checked part; counts no further than it has to."""
        shadow, text = self._shadow_text, buffer.text
        others = 2 * text.count(_DTYPE, start, end) - shadow.count(USUAL, start, end)
        if not others:
            return Spelling(0)
        negative = self._negative(start, end)
        if others == len(negative):
            return Spelling(0, negative)
        largest, least = text.count(_MAX_NAN, start, end), text.count(_MIN_NAN, start, end)
        return Spelling(others - len(negative) - largest - least, negative, largest, least)

    def _negative(self, start: int, end: int) -> tuple[int, ...]:
        """Places of ``-Infinity`` in a checked part."""
        find = self._shadow_text.find
        places = []
        hit = find(NEGATIVE, start, end)
        while hit >= 0:
            places.append(hit)
            hit = find(NEGATIVE, hit + 1, end)
        return tuple(places)

    def suspect(
        self, buffer: Buffer, start: int, end: int, first: int, spelling: Spelling = UNTOLD
    ) -> tuple[int, int] | None:
        """End and index of the first suspected record of a checked part; its first record has the index ``first``."""
        if spelling.is_plain:
            return None
        shadow, text = self._shadow_text, buffer.text
        is_told = spelling.is_told
        has_words = not is_told or spelling.largest_nan or spelling.least_nan
        unusual = shadow.find(UNUSUAL, start, end) if has_words else -1
        places = spelling.negative if is_told else self._negative(start, end)
        known, index, at, count = start, first, 0, len(places)
        while unusual >= 0 or at < count:
            hit = unusual if at == count or 0 <= unusual < places[at] else places[at]
            begin = _begin(text, start, hit)
            stop = text.find(RECORD, hit, end)
            if stop < 0:
                stop = end
            passed = at
            while at < count and places[at] < stop:
                at += 1
            if 0 <= unusual < stop or not self._is_mask(buffer, begin, places[passed:at], stop):
                index += text.count(RECORD, known, begin)
                known = begin
                if self.watch.is_suspect(read(self.builder, text_of(buffer, begin, stop), index)):
                    return stop, index
            if 0 <= unusual < stop:
                unusual = shadow.find(UNUSUAL, stop, end)
        return None

    def absent(self, buffer: Buffer, start: int, end: int) -> None:
        """Takes account of records without statistics, where nothing is to be suspected any more."""
        text = buffer.text
        hit = text.find(_NULL, start, end)
        while hit >= 0:
            begin = _begin(text, start, hit)
            stop = text.find(RECORD, hit, end)
            if stop < 0:
                stop = end
            read(self.builder, text_of(buffer, begin, stop), 0)
            hit = text.find(_NULL, stop, end)

    def missing(self, buffer: Buffer, start: int, end: int) -> None:
        """Takes account of records some of whose tensors have no Max or no Min at all.

        Raises:
            Doubt: the writer left a number of a list in their place (dump format, section 5).
        """
        if self._has_extremes(buffer, start, end):
            return
        self._placeholders(buffer, start, end)
        for begin, stop in records_in(buffer.text, start, end):
            if not self._has_extremes(buffer, begin, stop):
                read(self.builder, text_of(buffer, begin, stop), 0)

    def _has_extremes(self, buffer: Buffer, start: int, end: int) -> bool:
        return self._shadow_text.count(_EXTREMES, start, end) == 2 * buffer.text.count(_DTYPE, start, end)

    def _placeholders(self, buffer: Buffer, start: int, end: int) -> None:
        """Looks for statistics that the writer left as a number of a list (dump format, section 5).

        Raises:
            Doubt: there are some.
        """
        hit = buffer.text.find(_PLACEHOLDER, start, end)
        while hit >= 0:
            value = hit + len(_PLACEHOLDER)
            if buffer.data[value : value + 1].isdigit():
                raise Doubt("placeholders in place of statistics")
            hit = buffer.text.find(_PLACEHOLDER, value, end)

    def saturated(self, buffer: Buffer, start: int, end: int, first: int) -> int | None:
        """Index of the first record with a saturated result."""
        text = buffer.text
        hit = text.find(b"65504", start, end)
        while hit >= 0:
            begin = _begin(text, start, hit)
            stop = text.find(RECORD, hit, end)
            if stop < 0:
                stop = end
            if self._operator(buffer.name(begin)).may_saturate:
                index = first + text.count(RECORD, start, begin)
                if self.watch.is_saturated(self._own.build(*sound(text_of(buffer, begin, stop)), index)):
                    return index
            hit = text.find(b"65504", stop, end)
        return None

    # -- masks -----------------------------------------------------------------------------------------

    def _operator(self, name: bytes) -> _Operator:
        """The operator of the record with this name."""
        head, _, last = name.rpartition(b".")
        return self._operator_of(head.rpartition(b".")[0], last, name)

    def _operator_of(self, stem: bytes, last: bytes, name: bytes) -> _Operator:
        """The same, by what stands before and behind the number as well: ``Tensor.masked_fill`` and ``forward``."""
        known = self._operators.get((stem, last))
        if known is None:
            parsed = parse_name(name.decode("ascii"))
            forward = parsed.direction is Direction.FORWARD and last == b"forward"
            role = self.watch.mask_role(parsed) if forward else MaskRole.OPEN
            known = self._operators[stem, last] = _Operator(parsed, role, self.watch.may_saturate(parsed))
        return known

    def _is_mask(self, buffer: Buffer, begin: int, places: Sequence[int], stop: int) -> bool:
        """Settles a record whose only unusual lines are ``"Min": -Infinity``, at these places; False: it must be
        parsed."""
        named = _NAME.match(buffer.data, begin, stop)
        if named is None:
            return False
        written_name, stem, last = named.groups()
        operator = self._operators.get((stem, last)) or self._operator_of(stem, last, written_name)
        if operator.role is MaskRole.OPEN:
            return False
        text, data, watch = buffer.text, buffer.data, self.watch
        name = written_name.decode("ascii")
        if operator.role is MaskRole.IGNORES:
            watch.ignored_mask(operator.name, name, self._least(buffer, begin, stop))
            return True
        output = text.find(OUTPUT, begin, stop)
        if not data.startswith(_NO_KWARGS, output - len(_NO_KWARGS)) and text.find(_OUT, begin, stop) >= 0:
            return False
        written: list[float] = []
        for hit in places:
            typed = data.rfind(_DTYPE, begin, hit)
            tensor = _MASKED.match(data, typed, stop) if typed >= 0 else None
            largest = float(tensor[2]) if tensor is not None and tensor.end() == hit + _MIN_LINE else math.inf
            if largest in _INFINITE:
                return False
            if 0 <= output < hit:
                written.append(largest)
            elif not watch.knows_mask(largest):
                return False
        if written and operator.role is MaskRole.PASSES and len(places) == len(written):
            return False
        if written:
            watch.wrote_mask(operator.name, name, written, len(places))
        else:
            watch.read_mask(name, len(places))
        return True

    # -- how many ---------------------------------------------------------------------------------------

    def nonfinite(self, buffer: Buffer, start: int, end: int, spelling: Spelling = UNTOLD) -> int:
        """Tensors of a checked part whose Max or Min is not finite, told by their lines; where some are spelled in
        another way, its records are parsed."""
        if spelling.is_told:
            return self._told(buffer, start, end, spelling)
        unusual = self._shadow_text.count(UNUSUAL, start, end)
        negative = self._shadow_text.count(NEGATIVE, start, end)
        if not unusual and not negative:
            return 0

        def count(lines: Sequence[bytes]) -> list[int]:
            return [buffer.text.count(line, start, end) for line in lines]

        words = count(_WORDS) if unusual else [0] * len(_WORDS)
        minus = count(_MINUS) if negative else [0] * len(_MINUS)
        if (sum(words), sum(minus)) != (unusual, negative):
            records = records_in(buffer.text, start, end)
            return sum(self._own.build(*sound(text_of(buffer, *place)), 0).nonfinite for place in records)
        largest_nan, largest_inf, _, least_nan, least_inf, _ = words
        alone = [line for line, there in ((_MIN_INF, least_inf), (_MIN_MINUS, minus[1])) if there]
        if least_nan != largest_nan:  # a NaN hides the number on both lines, as a rule
            alone.append(_MIN_NAN)
        largest = largest_nan + largest_inf + minus[0]
        return largest + sum(self._least(buffer, start, end, line, alone=True) for line in alone)

    def _told(self, buffer: Buffer, start: int, end: int, spelling: Spelling) -> int:
        """The same, where all was counted before."""
        largest = spelling.largest_nan
        alone = []
        if spelling.negative:
            largest += buffer.text.count(_MINUS[0], start, end)
            alone.append(_MIN_MINUS)
        if spelling.least_nan != spelling.largest_nan:
            alone.append(_MIN_NAN)
        return largest + sum(self._least(buffer, start, end, line, alone=True) for line in alone)

    def _least(self, buffer: Buffer, start: int, end: int, line: bytes = _MIN_MINUS, *, alone: bool = False) -> int:
        """Tensors with this Min; ``alone``: whose Max is a number."""
        data, text = buffer.data, buffer.text
        count = 0
        hit = text.find(line, start, end)
        while hit >= 0:
            above = data.rfind(b"\n", start, hit) - 2  # the last character of the value on the line above
            count += not alone or data[above] not in _BAD_ENDS
            hit = text.find(line, hit + 1, end)
        return count


def _begin(text: Text, start: int, hit: int) -> int:
    begin = text.rfind(RECORD, start, hit)
    if begin < 0:
        raise Doubt("a value outside of the records")
    return begin
