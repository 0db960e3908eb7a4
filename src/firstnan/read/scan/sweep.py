"""One rank's dump.json, read once and parsed where it matters.

The same answers as :mod:`firstnan.read.records.full_reader` gives, for files laid out as MSProbe writes them; for all
others :class:`Doubt` is raised, and the caller reads the whole file. What is taken for granted of a file that is laid
out so, since a search for it would make every sound file take longer: records that hold nothing unusual are sound JSON,
no two records have the same name, a double holds the statistics (neither ``1e999`` nor an integer of 400 digits), and
behind the first part of the file nothing but tensors with a dtype has a Max or a Min.
No run of MSProbe writes such a file; where a record is parsed for any other reason, it is read as the full reader reads
it.
"""

from __future__ import annotations

import itertools
import re
from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence

from firstnan.dump.folders import RankFolder
from firstnan.dump.names import parse_name
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.dump.records import Direction, Record, RecordKind, RecordName
from firstnan.dump.view import FIRST_RECORDS, Overview, Watch
from firstnan.read.fingerprints import RankPrints
from firstnan.read.json import lenient
from firstnan.read.records.builder import (
    RecordBuilder,
    blank_detail,
    has_gradient,
    holds_inputs_only,
    settled_detail,
    some,
)
from firstnan.read.scan.calls import ScannedCalls
from firstnan.read.scan.fingerprints import PrintsReader
from firstnan.read.scan.forms import read, sound
from firstnan.read.scan.lines import UNTOLD, Sieve, text_of
from firstnan.read.scan.places import Places
from firstnan.read.scan.record_index import BUFFER, OUTPUT, RECORD, Buffer, Doubt, RecordFile, Region, records_in

_HEADER = re.compile(rb'\{\n(?: "\w+": [^\n]*,\n)* "data": \{(?=\n  ")')
_LONGEST_HEADER = 1 << 14
_END = b"\n }\n}"
_TASKS = ("statistics", "tensor")
"""Tasks whose records hold statistics."""
_GRADIENTS = (b".parameters_grad.", b'.parameters_grad": {')
"""Begin records of gradients of parameters: the last part of the name but a number (26.x), or the last."""
_BACKWARD = b".backward"
MAX_KEPT = 4096
"""Records that are kept for being asked for again."""
_FLOAT16 = (b'"dtype": "torch.float16"', b'"dtype": "Float16"', b'"dtype": "float16"')
_EXTREMES = (b'"Max": ', b'"Min": ')
MOST_SEARCHES = 16
"""Records that are searched in the file by their names; for more of them all names are looked at once."""
_FIRST_LOOK = 8
"""First records that are parsed to see that there are statistics."""


class ScannedDump:
    """Implements :class:`firstnan.dump.view.RankView` for a file laid out as MSProbe writes it.

    Raises:
        Doubt: the file is laid out in another way. From every method, since parts of the file are read again.
    """

    def __init__(self, folder: RankFolder, watch: Watch, buffer: int = BUFFER) -> None:
        self._folder = folder
        self._file = RecordFile(folder.values, buffer)
        self._watch = watch
        self._sieve = Sieve(watch)
        self._suspect: int | None = None
        self._nonfinite: list[int] = []
        """Non-finite tensors of each region, from the first suspect on."""
        self._saturated: int | None = None
        self._unfinished: list[tuple[int, RecordName]] = []
        self._has_apis = False
        self._has_float16 = False
        self._builder = RecordBuilder()
        self._known: dict[int, Record] = {}
        """Records that were parsed, by index."""
        self._begins: tuple[Region, array[int]] | None = None
        """Of the region that was looked at last."""
        self._checked: Region | None = None
        """The region whose shadow the sieve holds."""
        self._searches = 0
        self._kinds: dict[bytes, bool] = {}
        """Beginning of a name -> whether a record has it."""
        self._places: Places | None = None
        """Of all records, once many were searched by name."""
        self._calls = ScannedCalls(self._file, self._record)
        self._prints = PrintsReader(folder.rank, self._calls, self._known)
        self._overview = self._first_pass()

    @property
    def overview(self) -> Overview:
        return self._overview

    # -- the first pass ----------------------------------------------------------------------------------

    def _first_pass(self) -> Overview:
        has_header = False
        last: tuple[Buffer, int] | None = None
        for buffer, filled, offset in self._file.first_pass():
            start, end = 0, filled
            if not has_header:
                start = _header(buffer, filled)
                has_header = True
            if offset + filled == self._file.size:
                end = _without_tail(buffer, start, filled)
            if start < end:
                self._region(buffer, start, end, offset)
                last = buffer, buffer.text.rfind(RECORD, start, end)
        if last is None:
            raise Doubt("no records")
        name = parse_name(last[0].full_name(last[1]))  # while its buffer holds it
        suspect = self._watch.late if self._suspect is None else self._suspect
        return Overview(
            folder=self._folder,
            records=self._file.records,
            end=self._file.records,
            bytes_read=self._file.size,
            problems=tuple(self._problems()),
            judged=True,
            has_apis=self._has_apis,
            last=name,
            suspect=suspect,
            saturated=self._saturated,
            nonfinite=self._watch.passed + sum(self._nonfinite),
        )

    def _region(self, buffer: Buffer, start: int, end: int, offset: int) -> None:
        """Takes account of some records; what is suspected first and what is unfinished is remembered."""
        first, text = self._file.records, buffer.text
        count = text.count(RECORD, start, end)
        if first == 0:
            self._look_at_first(buffer, start, end)
        if first < FIRST_RECORDS:
            self._look_for_float16(buffer, start, end)
        if not self._has_apis:
            names = (parse_name(buffer.full_name(begin)) for begin, _ in records_in(text, start, end))
            self._has_apis = any(name.kind is RecordKind.API for name in names)
        without = count - text.count(OUTPUT, start, end)
        for mark in _GRADIENTS:  # a file has those of one version
            without -= text.count(mark, start, end) if without else 0
        is_finished = not without
        if not is_finished:
            self._without_output(buffer, start, end)
        self._prints.region(buffer, start, end, offset, first, finished=is_finished)
        self._sieve.check(buffer, start, end)
        spelling = self._sieve.spelling(buffer, start, end) if first else UNTOLD
        if not spelling.is_told:
            self._sieve.missing(buffer, start, end)
        if self._has_float16 and self._saturated is None:
            self._saturated = self._sieve.saturated(buffer, start, end, first)
        rest, bad = start, start
        if self._suspect is None:
            found = self._sieve.suspect(buffer, start, end, first, spelling)
            rest = bad = end
            if found is not None:
                rest, self._suspect = found
                bad = text.rfind(RECORD, start, rest)
        if self._suspect is not None:
            self._calls.look(buffer, offset, start, end)
        if not spelling.is_told:
            self._sieve.absent(buffer, rest, end)
        known = spelling if bad == start else UNTOLD
        self._nonfinite.append(self._sieve.nonfinite(buffer, bad, end, known) if bad < end else 0)
        self._file.add(offset + start, end - start, count)

    def _look_at_first(self, buffer: Buffer, start: int, end: int) -> None:
        """Parses the first records.

        Raises:
            Doubt: they are not sound, or hold nothing that can be judged.
        """
        is_judged = False
        for number, (begin, stop) in enumerate(records_in(buffer.text, start, end)):
            if number >= _FIRST_LOOK and is_judged:
                return
            buffer.name(begin)
            record = self._known[number] = read(self._builder, text_of(buffer, begin, stop), number)
            tensors = len(record.inputs) + len(record.outputs) + len(record.parameters)
            if any(buffer.text.count(key, begin, stop) < tensors for key in _EXTREMES):
                raise Doubt("tensors without Max or Min")
            is_judged = is_judged or record.is_judged
        if not is_judged:
            raise Doubt("no statistics among the first records")

    def _look_for_float16(self, buffer: Buffer, start: int, end: int) -> None:
        """Whether saturated results are searched in the file (:data:`firstnan.dump.view.FIRST_RECORDS`)."""
        left = FIRST_RECORDS - self._file.records
        stop = next(
            (stop for number, (_, stop) in enumerate(records_in(buffer.text, start, end), 1) if number == left), end
        )
        for mark in _FLOAT16:
            self._has_float16 = self._has_float16 or buffer.text.find(mark, start, stop) >= 0

    def _without_output(self, buffer: Buffer, start: int, end: int) -> None:
        """Gradients of parameters have no output; other records without one are unfinished."""
        text = buffer.text
        index = self._file.records
        for begin, stop in records_in(text, start, end):
            found = text.count(OUTPUT, begin, stop)
            name = parse_name(buffer.full_name(begin))
            if name.kind is RecordKind.PARAMETERS_GRAD:
                if found:
                    raise Doubt("gradients of parameters with an output")
            elif not found:
                if "output" in sound(text_of(buffer, begin, stop))[1]:
                    raise Doubt("an output that does not stand on a line of its own")
                self._unfinished.append((index, name))
            elif found > 1:
                raise Doubt("a record with two outputs")
            index += 1

    def _problems(self) -> Iterator[Problem]:
        builder = self._sieve.builder
        builder.settle(self._file.records)
        for names in (builder.blank, builder.settled):
            names[:] = dict.fromkeys(names)  # a record may have been looked at for two reasons
        if builder.blank:
            yield self._problem(ProblemKind.PARTLY_NO_STATISTICS, blank_detail(builder, self._file.records), False)
        if builder.settled:
            yield self._problem(ProblemKind.SETTLED_OPERANDS, settled_detail(builder, self._file.records), True)
        if self._unfinished:
            names = [name.full for _, name in self._unfinished]
            if holds_inputs_only([name for _, name in self._unfinished], self._file.records):
                yield self._problem(ProblemKind.INPUTS_ONLY, some(names), False)
            else:
                yield self._problem(ProblemKind.UNFINISHED_RECORDS, some(names), self._went_on())

    def _problem(self, kind: ProblemKind, detail: str, judged: bool) -> Problem:
        file = f"{self._folder.label}/{self._folder.file.value}"
        return Problem(kind, self._folder.step, self._folder.rank, file, detail, judged)

    def _went_on(self) -> bool:
        """Whether the run went on behind the last record without output (see ``_unfinished`` of the full reader)."""
        if has_gradient([name for _, name in self._unfinished], self._names(0)):
            return False
        if self._unfinished[-1][0] == self._file.records - 1:
            return False
        modules = [index for index, name in self._unfinished if name.kind is RecordKind.MODULE]
        if not modules:
            return True
        return any(name.direction is Direction.BACKWARD for name in self._names(modules[-1] + 1))

    def _names(self, start: int) -> Iterator[RecordName]:
        for buffer, region in self._file.parts(start):
            for index, (begin, _) in enumerate(records_in(buffer.text, 0, region.size), region.first):
                if index >= start:
                    yield parse_name(buffer.full_name(begin))

    # -- later looks -------------------------------------------------------------------------------------

    def records(self, start: int, stop: int) -> Sequence[Record]:
        start, stop = max(start, 0), min(stop, self._file.records)
        known = self._known
        wanted = range(start, stop)
        missing: Sequence[int] = [index for index in wanted if index not in known]
        if missing and len(known) > MAX_KEPT:
            known.clear()
            missing = wanted
        first = stop = 0
        for index in missing:
            if not first <= index < stop:
                buffer, region, begins = self._at(index)
                first, stop = region.first, region.first + len(begins)
            at = index - first
            end = begins[at + 1] if index + 1 < stop else region.size
            known[index] = read(self._builder, text_of(buffer, begins[at], end), index)
        return [known[index] for index in wanted]

    def _at(self, index: int) -> tuple[Buffer, Region, array[int]]:
        """The region that holds a record, and where its records begin in the buffer."""
        region = self._file.region_with(index)
        buffer = self._file.load(region)
        if self._begins is None or self._begins[0] != region:
            self._begins = region, array("I", (begin for begin, _ in records_in(buffer.text, 0, region.size)))
        return buffer, region, self._begins[1]

    def _checked_at(self, index: int) -> tuple[Buffer, Region, array[int]]:
        """The same, once the sieve has made its shadow."""
        buffer, region, begins = self._at(index)
        if self._checked != region:
            self._sieve.check(buffer, 0, region.size)
            self._checked = region
        return buffer, region, begins

    def suspect(self, start: int) -> int | None:
        start = max(start, 0)
        while start < self._file.records:
            buffer, region, begins = self._checked_at(start)
            found = self._sieve.suspect(buffer, begins[start - region.first], region.size, start)
            if found is not None:
                return found[1]
            start = region.first + len(begins)
        return None

    def find(self, name: str) -> Record | None:
        needle = _needle(name)
        if not self._holds(needle[: needle.find(b".") + 1]):
            return None
        self._searches += 1
        parts = self._file.parts()
        if self._searches > MOST_SEARCHES:
            if self._places is None:
                self._places = Places(self._beginnings())
            place = self._places.get(needle)
            if place is None:
                return None
            region = self._file.region_at(place)
            parts = itertools.chain([(self._file.load(region), region)], parts)
        for buffer, region in parts:
            begin = buffer.text.find(needle, 0, region.size)
            if begin >= 0:
                return _found(buffer, begin, region.size, region.first + buffer.text.count(RECORD, 0, begin))
        return None

    def _holds(self, kind: bytes) -> bool:
        """Whether any record's name begins so: level L1 records no modules, whatever construct.json lists."""
        known = self._kinds.get(kind)
        if known is None:
            parts = self._file.parts()
            known = self._kinds[kind] = any(buffer.text.find(kind, 0, region.size) >= 0 for buffer, region in parts)
        return known

    def _beginnings(self) -> Iterator[tuple[bytes, int]]:
        for buffer, region in self._file.parts():
            for begin, stop in records_in(buffer.text, 0, region.size):
                opened = buffer.data.find(b"{", begin, stop) + 1
                yield bytes(buffer.window[begin:opened]), region.offset + begin

    def calls(self) -> ScannedCalls:
        return self._calls

    def prints(self) -> RankPrints:
        """What must be equal on its replicas."""
        return self._prints.finish()

    def _record(self, index: int) -> Record:
        return self.records(index, index + 1)[0]

    def nonfinite_from(self, start: int) -> int:
        regions = self._file.regions
        place = next((at for at, region in enumerate(regions) if region.first >= start), len(regions))
        count = sum(self._nonfinite[place:])
        stop = regions[place].first if place < len(regions) else self._file.records
        if start >= stop:
            return count
        buffer, region, begins = self._checked_at(start)
        return count + self._sieve.nonfinite(buffer, begins[start - region.first], region.size)

    def passes(self) -> tuple[int | None, int | None]:
        first = next((i for part in self._file.parts() if (i := _backward(*part, last=False)) is not None), None)
        if first is None:
            return None, None
        parts = self._file.parts_backwards()
        return first, next((i for part in parts if (i := _backward(*part, last=True)) is not None), None)


def find_record(folder: RankFolder, name: str) -> Record | None:
    """One record of a file that is read no further than to it; which index it has is not found out, it is -1.

    Raises:
        Doubt: the file is not laid out as MSProbe writes it.
    """
    needle = _needle(name)
    file = RecordFile(folder.values, BUFFER // 4)
    for buffer, filled, offset in file.first_pass():
        start = _header(buffer, filled) if offset == 0 else 0
        end = _without_tail(buffer, start, filled) if offset + filled == file.size else filled
        begin = buffer.text.find(needle, start, end)
        if begin >= 0:
            return _found(buffer, begin, end, -1)
    return None


def find_records(folder: RankFolder, names: Collection[str]) -> dict[str, Record]:
    """Some records of a file that is read no further than to the last of them, with their indices.

    Raises:
        Doubt: the file is not laid out as MSProbe writes it.
    """
    needles = {name: _needle(name) for name in names}
    found: dict[str, Record] = {}
    file = RecordFile(folder.values, BUFFER)
    index = 0
    for buffer, filled, offset in file.first_pass():
        start = _header(buffer, filled) if offset == 0 else 0
        end = _without_tail(buffer, start, filled) if offset + filled == file.size else filled
        for name in needles.keys() - found.keys():
            begin = buffer.text.find(needles[name], start, end)
            if begin >= 0:
                found[name] = _found(buffer, begin, end, index + buffer.text.count(RECORD, start, begin))
        if len(found) == len(needles):
            break
        index += buffer.text.count(RECORD, start, end)
    return found


def records_at(
    folder: RankFolder, places: Collection[int], regions: Sequence[tuple[int, int, int]]
) -> dict[int, Record]:
    """Records by their places in the file, with their indices (:attr:`firstnan.read.fingerprints.RankPrints.regions`).

    Raises:
        Doubt: the file is not what it was.
    """
    file = RecordFile(folder.values, BUFFER)
    held: dict[Region, list[int]] = {}
    starts = [offset for offset, _, _ in regions]
    for place in sorted(places):
        at = bisect_right(starts, place) - 1
        if at < 0:
            raise Doubt("a record before the first one")
        held.setdefault(Region(*regions[at]), []).append(place)
    found: dict[int, Record] = {}
    for buffer, region in file.reread(held):
        for place in held[region]:
            begin = place - region.offset
            if buffer.data[begin : begin + len(RECORD)] != RECORD:
                raise Doubt("no record at this place")
            index = region.first + buffer.text.count(RECORD, 0, begin)
            found[place] = _found(buffer, begin, region.size, index)
    return found


def _needle(name: str) -> bytes:
    return RECORD[:-1] + lenient.quoted(name).encode("ascii") + b": {"


def _found(buffer: Buffer, begin: int, end: int, index: int) -> Record:
    stop = buffer.text.find(RECORD, begin + 1, end)
    return read(RecordBuilder(), text_of(buffer, begin, end if stop < 0 else stop), index)


def _header(buffer: Buffer, filled: int) -> int:
    """Where the first record begins.

    Raises:
        Doubt: the file does not begin as MSProbe's do, or holds no statistics.
    """
    begins = buffer.data[: min(filled, _LONGEST_HEADER)]
    match = _HEADER.match(begins + RECORD if len(begins) == filled else begins)
    if match is None or match.end() > filled:
        raise Doubt("another header")
    found = lenient.sound(match[0] + b"}}")
    if not isinstance(found, dict) or found.get("task") not in _TASKS or not isinstance(found.get("framework"), str):
        raise Doubt("another task, or a version that does not record groups")
    return match.end()


def _without_tail(buffer: Buffer, start: int, filled: int) -> int:
    """Where the last record ends.

    Raises:
        Doubt: the file does not end as MSProbe's do: cut, or something stands behind the records.
    """
    end = len(bytes(buffer.window[:filled]).rstrip(b"\n"))
    tail = end - len(_END)
    if tail <= start or buffer.data[tail:end] != _END or buffer.data[tail - 1] != 0x7D:
        raise Doubt("another end")
    if buffer.text.find(b'\n "', start, end) >= 0 or buffer.text.find(b"\n }", start, tail) >= 0:
        raise Doubt("something behind the records")
    return tail


def _backward(buffer: Buffer, region: Region, *, last: bool) -> int | None:
    """Index of the first or last backward record of a region."""
    text = buffer.text
    start, end = 0, region.size
    while True:
        hit = text.rfind(_BACKWARD, start, end) if last else text.find(_BACKWARD, start, end)
        if hit < 0:
            return None
        begin = text.rfind(b"\n", 0, hit)
        if buffer.data[begin : begin + len(RECORD)] == RECORD:
            name = parse_name(buffer.full_name(begin))
            if name.direction is Direction.BACKWARD and name.kind is not RecordKind.PARAMETERS_GRAD:
                return region.first + text.count(RECORD, 0, begin)
        if last:
            end = hit
        else:
            start = hit + 1
