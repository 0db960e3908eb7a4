r"""Where the records of a dump.json are, as long as it is laid out as MSProbe writes it.

``json.dump(indent=1)`` never puts a raw newline into a string, so that the beginnings of lines are structure: a line
of two blanks and a quote begins a record, ``\n   "output": `` stands once in each record but the gradients of
parameters. A file is read once, through one buffer that is cut at the beginnings of records; each part is a
:class:`Region`, and later looks read single regions again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from io import RawIOBase
from pathlib import Path

from msgspec import Struct

from firstnan.read.json import lenient
from firstnan.read.scan.search import Text, view
from firstnan.read.sources.files import Fault, reason
from firstnan.read.sources.places import open_file

RECORD = b'\n  "'
"""Begins a record."""
OUTPUT = b'\n   "output": '
"""The key under which a record's results stand."""
_OPENS, _EMPTY = b'": {', b'": {}'
BUFFER = 1 << 18
"""Bytes that are read at once: they and their shadow stay in the cache of a core while they are searched."""
LONGEST = 64 << 20
"""Bytes of the longest record that is read this way."""


class Doubt(Exception):  # noqa: N818  (no error: the file may be sound and is read in another way)
    """The file is not laid out as MSProbe writes it, or is not sure to be."""


class Region(Struct, frozen=True):
    """Some whole records of a file, one behind the other."""

    offset: int
    """Place in the file of the newline before its first record."""
    size: int
    first: int
    """Index of its first record."""


class Buffer:
    """The bytes that are looked at, and a view to search in them."""

    def __init__(self, size: int) -> None:
        self.data = bytearray(size)
        self.text: Text = view(self.data)
        self.window = memoryview(self.data)

    def grown(self) -> Buffer:
        """Twice as large, with the same content."""
        larger = Buffer(2 * len(self.data))
        larger.window[: len(self.data)] = self.window
        return larger

    def name(self, record: int) -> bytes:
        """The name of the record that begins at this place, as it is written."""
        start = record + len(RECORD)
        line = bytes(self.window[start : self.data.find(b"\n", start)])
        if not line.isascii():
            raise Doubt("bytes that MSProbe does not write")
        if line.endswith(_OPENS):
            return line[: -len(_OPENS)]
        if line.rstrip(b",").endswith(_EMPTY):
            return line.rstrip(b",")[: -len(_EMPTY)]
        raise Doubt("a record that holds no object")

    def full_name(self, record: int) -> str:
        """The name of the record that begins at this place."""
        written = self.name(record)
        name = lenient.sound(b'"' + written + b'"') if b"\\" in written else written.decode("ascii")
        if not isinstance(name, str):
            raise Doubt("a name that is no text")
        return name


class RecordFile:
    """A dump.json and, once it was read, the regions of its records; or a file of the same kind with another marker.

    Raises:
        Doubt: from every method, when the file cannot be read or is not what it was.
    """

    def __init__(self, path: Path, buffer: int = BUFFER, marker: bytes = RECORD) -> None:
        self._path = path
        self._marker = marker
        self._buffer_size = buffer
        self._stamp: tuple[int, int] | None = None
        self.size = 0
        self.regions: list[Region] = []
        self._offsets: list[int] = []
        self._firsts: list[int] = []
        self._end = 0
        self._whole: Buffer | None = None
        """All of a file that fits into one buffer, as the first pass read it."""
        self._loaded: tuple[Region, Buffer] | None = None
        """The region that was read again last."""

    def first_pass(self) -> Iterator[tuple[Buffer, int, int]]:
        """Reads the file once: the buffer, the bytes in it that make up whole records, and their place in the file.

        The first part begins with the file's header; the last one ends with the file.
        """
        file = self._open()
        with file:
            buffer = Buffer(min(self._buffer_size, self.size + 1))
            offset = filled = 0
            while True:
                read = self._fill(file, buffer, filled, min(len(buffer.data), self.size - offset))
                filled += read
                is_last = offset + filled == self.size
                if not read and not is_last:
                    raise Doubt("the file became shorter")
                cut = filled if is_last else buffer.text.rfind(self._marker, 1, filled)
                if cut > 0:
                    yield buffer, cut, offset
                if is_last:
                    self._whole = buffer if offset == 0 else None
                    return
                if cut <= 0:
                    if len(buffer.data) >= LONGEST:
                        raise Doubt(f"a record of more than {LONGEST} bytes")
                    buffer = buffer.grown() if filled == len(buffer.data) else buffer
                    continue
                rest = filled - cut
                buffer.data[:rest] = buffer.data[cut:filled]
                offset += cut
                filled = rest

    def add(self, offset: int, size: int, records: int) -> None:
        """Remembers a region that was passed."""
        self.regions.append(Region(offset, size, self._end))
        self._offsets.append(offset)
        self._firsts.append(self._end)
        self._end += records

    @property
    def records(self) -> int:
        return self._end

    def region_with(self, index: int) -> Region:
        """The region that holds the record with this index."""
        return self.regions[bisect_right(self._firsts, index) - 1]

    def region_at(self, place: int) -> Region:
        """The region that holds this place of the file."""
        return self.regions[bisect_right(self._offsets, place) - 1]

    def load(self, region: Region) -> Buffer:
        """A region that was passed, at the beginning of a buffer that holds it until another one is loaded."""
        if self._loaded is None or self._loaded[0] != region:
            before, self._loaded = self._loaded, None
            parts = self.reread((region,), None if before is None else before[1])
            self._loaded = next((region, buffer) for buffer, _ in parts)
        return self._loaded[1]

    def parts(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[Buffer, Region]]:
        """The regions that hold records with ``start <= index < stop``, read again one after the other."""
        stop = self._end if stop is None else min(stop, self._end)
        if start >= stop:
            return
        begin = max(bisect_right(self._firsts, start) - 1, 0)
        yield from self.reread(region for region in self.regions[begin:] if region.first < stop)

    def parts_backwards(self) -> Iterator[tuple[Buffer, Region]]:
        """All regions, from the last to the first."""
        yield from self.reread(reversed(self.regions))

    def reread(self, regions: Iterable[Region], buffer: Buffer | None = None) -> Iterator[tuple[Buffer, Region]]:
        """Regions of this file, read one after the other; into this buffer, where it is large enough."""
        if self._whole is not None and len(self.regions) == 1:
            ((begin, size, _),) = ((one.offset, one.size, one.first) for one in self.regions)
            if self._loaded is None:
                self._whole.data[:size] = self._whole.data[begin : begin + size]
                self._loaded = self.regions[0], self._whole
            yield from ((self._whole, region) for region in regions)
            return
        file = self._open()
        with file:
            for region in regions:
                if buffer is None or len(buffer.data) < region.size:
                    buffer = Buffer(region.size)
                self._seek(file, region.offset)
                filled = 0
                while filled < region.size:
                    read = self._fill(file, buffer, filled, region.size)
                    if not read:
                        raise Doubt("the file became shorter")
                    filled += read
                yield buffer, region

    def _open(self) -> RawIOBase:
        opened = open_file(self._path)
        if isinstance(opened, Fault):
            raise Doubt(opened.detail)
        stamp = (opened.size, opened.modified)
        if self._stamp is None:
            self._stamp, self.size = stamp, opened.size
        elif stamp != self._stamp:
            opened.file.close()
            raise Doubt("the file was written to while it was read")
        return opened.file

    @staticmethod
    def _fill(file: RawIOBase, buffer: Buffer, start: int, end: int) -> int:
        try:
            return file.readinto(buffer.window[start:end]) or 0
        except OSError as error:
            raise Doubt(reason(error)) from error

    @staticmethod
    def _seek(file: RawIOBase, offset: int) -> None:
        try:
            file.seek(offset)
        except OSError as error:
            raise Doubt(reason(error)) from error


def records_in(text: Text, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Beginning and end of every record in ``[start, end)``; ``start`` is the beginning of one."""
    while start < end:
        stop = text.find(RECORD, start + 1, end)
        if stop < 0:
            stop = end
        yield start, stop
        start = stop
