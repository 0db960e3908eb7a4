r"""Which records of a part of a dump.json must be parsed, told by their lines.

What may be bad stands in lines such as ``"Max": NaN`` or ``"Min": -Infinity``. Instead of searching for each of them,
a *shadow* of the text is searched: bytes are put into classes, so that ``Max`` and ``Min`` read alike, and so do all
beginnings of values that are no plain number: ``NaN``, ``Infinity``, ``null``, quotes and brackets. Whatever is found
is settled by parsing the record; only the -Inf of masks, of which there may be tens of thousands, is settled by its
lines.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from firstnan.dump.names import parse_name
from firstnan.dump.records import Direction, RecordName
from firstnan.dump.view import MaskRole, Watch
from firstnan.read.records.builder import RecordBuilder
from firstnan.read.scan.forms import read, sound
from firstnan.read.scan.record_index import OUTPUT, RECORD, Buffer, Doubt, records_in
from firstnan.read.scan.search import Text, translate, view

_NO_NUMBER, _EXTREME, _FOREIGN = b"Z", b"Y", b"\0"


def _table() -> bytes:
    table = bytearray(_FOREIGN * 256)
    table[0x0A] = 0x0A
    table[0x20:0x7F] = bytes(range(0x20, 0x7F))
    # the last letter of Max and Min; beginnings of null, NaN, Infinity, "...", [...], {...}; a second blank
    for byte in b'xnNI"[{ ':
        table[byte] = _NO_NUMBER[0]
    for byte in b"ai":
        table[byte] = _EXTREME[0]
    return bytes(table)


SHADOW = _table()
"""Byte -> its class; bytes that MSProbe never writes have the class 0."""
UNUSUAL = b"MYZZ:ZZ"
"""In the shadow: ``Max": `` or ``Min": `` before anything but a number, ``true`` or ``false``."""
NEGATIVE = b"MYZZ:Z-Z"
"""In the shadow: ``Max": `` or ``Min": `` before ``-Infinity``."""
_EXTREMES = b"MYZZ:Z"
"""In the shadow: ``Max": `` or ``Min": ``."""
_NULL = b'"Max": n'
_PLACEHOLDER = b'_index": '
_MIN_NAN, _MIN_INF, _MIN_MINUS = b'"Min": N', b'"Min": I', b'"Min": -I'
_WORDS = (b'"Max": N', b'"Max": I', _NULL, _MIN_NAN, _MIN_INF, b'"Min": n')
"""What ``UNUSUAL`` finds in a file as MSProbe writes it."""
_MINUS = (b'"Max": -I', _MIN_MINUS)
"""What ``NEGATIVE`` finds."""
_BAD_ENDS = b"Ny"
"""Last letters of NaN and Infinity."""
_MINUS_INFINITY = b"-Infinity,\n"
_DTYPE = b'"dtype": "'
_KEYS = {indent: b" " * indent + b'"Max": ' for indent in range(5, 64)}
_NARROW = frozenset({b"torch.float16", b"torch.bfloat16", b"torch.float32", b"Float16", b"BFloat16", b"Float32"})
"""dtypes whose -Infinity is one; a float64's may be an artefact (dump format, section 13)."""


def text_of(buffer: Buffer, start: int, stop: int) -> bytes:
    """The text of the record that stands in ``[start, stop)``, from the quote before its name on."""
    return bytes(buffer.window[start + 3 : stop])


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
        self._operators: dict[bytes, _Operator] = {}
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

    def suspect(self, buffer: Buffer, start: int, end: int, first: int) -> tuple[int, int] | None:
        """End and index of the first suspected record of a checked part; its first record has the index ``first``."""
        shadow, text = self._shadow_text, buffer.text
        unusual = shadow.find(UNUSUAL, start, end)
        negative = shadow.find(NEGATIVE, start, end)
        known, index = start, first
        while unusual >= 0 or negative >= 0:
            hit = negative if unusual < 0 or 0 <= negative < unusual else unusual
            begin = _begin(text, start, hit)
            stop = text.find(RECORD, hit, end)
            if stop < 0:
                stop = end
            if 0 <= unusual < stop or not self._is_mask(buffer, begin, negative, stop):
                index += text.count(RECORD, known, begin)
                known = begin
                if self.watch.is_suspect(read(self.builder, text_of(buffer, begin, stop), index)):
                    return stop, index
            if 0 <= unusual < stop:
                unusual = shadow.find(UNUSUAL, stop, end)
            if 0 <= negative < stop:
                negative = shadow.find(NEGATIVE, stop, end)
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
        """The operator of a record, without its number: ``Tensor.masked_fill..forward``."""
        head, _, last = name.rpartition(b".")
        rest, _, _ = head.rpartition(b".")
        key = rest + b"." + last
        known = self._operators.get(key)
        if known is None:
            parsed = parse_name(name.decode("ascii"))
            forward = parsed.direction is Direction.FORWARD and last == b"forward"
            role = self.watch.mask_role(parsed) if forward else MaskRole.OPEN
            known = self._operators[key] = _Operator(parsed, role, self.watch.may_saturate(parsed))
        return known

    def _is_mask(self, buffer: Buffer, begin: int, hit: int, stop: int) -> bool:
        """Settles a record whose only unusual lines are ``"Min": -Infinity``; False: it must be parsed."""
        name = buffer.name(begin)
        operator = self._operator(name)
        if operator.role is MaskRole.IGNORES:
            self.watch.ignored_mask(operator.name, name.decode("ascii"), self._least(buffer, begin, stop))
            return True
        if operator.role is MaskRole.OPEN or b"\\" in name:
            return False
        text = buffer.text
        output = text.find(OUTPUT, begin, stop)
        if text.find(b'\n    "out": ', begin, stop) >= 0:
            return False
        written: list[float] = []
        count = 0
        while 0 <= hit < stop:
            largest = _largest_beside(buffer, begin, hit)
            if largest is None:
                return False
            count += 1
            if 0 <= output < hit:
                written.append(largest)
            elif not self.watch.knows_mask(largest):
                return False
            hit = self._shadow_text.find(NEGATIVE, hit + 1, stop)
        if written and operator.role is MaskRole.PASSES and count == len(written):
            return False
        if written:
            self.watch.wrote_mask(operator.name, name.decode("ascii"), written, count)
        else:
            self.watch.read_mask(name.decode("ascii"), count)
        return True

    # -- how many ---------------------------------------------------------------------------------------

    def nonfinite(self, buffer: Buffer, start: int, end: int) -> int:
        """Tensors of a checked part whose Max or Min is not finite, told by their lines; where some are spelled in
        another way, its records are parsed."""
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


def _largest_beside(buffer: Buffer, begin: int, hit: int) -> float | None:
    """The finite Max of the tensor whose Min is the ``-Infinity`` at ``hit``; None when the lines are not as usual.

    >>> from firstnan.read.scan.record_index import Buffer
    >>> lines = b'\\n     "dtype": "torch.float16",\\n     "Max": 2.5,\\n     "Min": -Infinity,\\n'
    >>> made = Buffer(len(lines))
    >>> made.data[:] = lines
    >>> _largest_beside(made, 0, lines.index(b"Min"))
    2.5
    """
    data = buffer.data
    line = data.rfind(b"\n", begin, hit)
    indent = hit - line - 2
    key = _KEYS.get(indent)
    if key is None or data[hit + 1] != 0x69 or data[hit + 6 : hit + 6 + len(_MINUS_INFINITY)] != _MINUS_INFINITY:
        return None
    above = data.rfind(b"\n", begin, line)
    row = data[above + 1 : line]
    if above < 0 or not row.startswith(key) or row[-1] != 0x2C or data[line + 1 : hit] != key[: indent + 1]:
        return None
    typed = buffer.text.rfind(_DTYPE, begin, above) + len(_DTYPE)
    if typed < begin or bytes(data[typed : data.find(b'"', typed)]) not in _NARROW:
        return None
    try:
        largest = float(row[len(key) : -1])
    except ValueError:
        return None
    return largest if largest - largest == 0.0 else None
