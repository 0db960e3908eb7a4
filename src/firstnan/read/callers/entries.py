r"""construct.json and stack.json of long dumps: single entries of a large object.

Laid out by ``json.dump(indent=1)``, a line of one blank and a quote begins an entry. The file is read through one
buffer, and only the entries in which something asked for stands are parsed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from firstnan.read.json import lenient
from firstnan.read.scan.record_index import Buffer, Doubt, RecordFile, Region
from firstnan.read.sources.files import Fault
from firstnan.read.sources.places import open_file

SMALL = 1 << 20
"""Bytes of a file that is better parsed whole."""
REGION = 1 << 16
"""Bytes that are parsed together."""
_ENTRY = b'\n "'


class EntryFile:
    """One object with many entries.

    Raises:
        Doubt: from every method, when the file is small, cannot be read, or is laid out in another way.
    """

    def __init__(self, path: Path, small: int = SMALL, first: bytes | None = None) -> None:
        """``first``: what is asked for first, looked for while the file is read to see where its entries are."""
        opened = open_file(path)
        if isinstance(opened, Fault):
            raise Doubt(opened.detail)
        opened.file.close()
        if opened.size <= small:
            raise Doubt("a small file")
        self._file = RecordFile(path, REGION, _ENTRY)
        self._hits: list[int] = []
        """The regions in which something was found first and last: what is asked for next mostly stands near one of
        them. Modules are entered before the calls inside, and what is asked for last ends the file."""
        for buffer, filled, offset in self._file.first_pass():
            start, end = 0, filled
            if offset == 0:
                start = buffer.data.find(_ENTRY, 0, filled)
                if start != 1 or buffer.data[0] != 0x7B:
                    raise Doubt("another beginning")
            if offset + filled == self._file.size:
                end = len(bytes(buffer.window[:filled]).rstrip(b"\n")) - 2
                if buffer.data[end : end + 2] != b"\n}":
                    raise Doubt("another end")
            if start < end:
                self._file.add(offset + start, end - start, 1)
                if first is not None and not self._hits and buffer.text.find(first, start, end) >= 0:
                    self._found(len(self._file.regions) - 1)

    def around(self, needles: Collection[bytes]) -> Iterator[dict[str, object]]:
        """Entries among which one of the needles stands, some at a time, until all needles were found."""
        left = set(needles)
        for buffer, region in self._parts():
            found = {needle for needle in left if buffer.text.find(needle, 0, region.size) >= 0}
            if found:
                self._found(region.first)
                yield _parsed(buffer, 0, region.size)
                left -= found
            if not left:
                return

    def entry(self, needle: bytes) -> dict[str, object] | None:
        """The entry in which the needle stands."""
        for buffer, region in self._parts():
            hit = buffer.text.find(needle, 0, region.size)
            if hit >= 0:
                self._found(region.first)
                return _parsed(buffer, *_bounds(buffer, region, hit))
        return None

    def _found(self, at: int) -> None:
        self._hits = [*self._hits[:1], at]

    def _parts(self) -> Iterator[tuple[Buffer, Region]]:
        """All regions, the nearest ones to those with a hit first."""
        return self._file.reread(self._file.regions[at] for at in _around(self._hits or [0], len(self._file.regions)))


def _around(centres: Collection[int], count: int) -> Iterator[int]:
    """All numbers below ``count``, from some of them outwards.

    >>> list(_around([4, 1], 6))
    [1, 4, 2, 0, 5, 3]
    """
    passed: set[int] = set()
    for distance in range(count):
        for centre in reversed([*centres]):
            for at in (centre + distance, centre - distance):
                if 0 <= at < count and at not in passed:
                    passed.add(at)
                    yield at


def beginning_of(name: str) -> bytes:
    """How an entry begins."""
    return b"\n " + lenient.quoted(name).encode("ascii") + b": "


def _bounds(buffer: Buffer, region: Region, hit: int) -> tuple[int, int]:
    begin = buffer.text.rfind(_ENTRY, 0, hit + len(_ENTRY))
    end = buffer.text.find(_ENTRY, begin + 1, region.size)
    return begin, region.size if end < 0 else end


def _parsed(buffer: Buffer, start: int, end: int) -> dict[str, object]:
    found = lenient.sound(b"{" + bytes(buffer.window[start:end]).rstrip(b",") + b"}")
    if not isinstance(found, dict):
        raise Doubt("entries of another form")
    return found
