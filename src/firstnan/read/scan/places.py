"""Where the records of a file begin, by their names, in 16 bytes each."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable


class Places:
    """Looks up the place of a record by the bytes that it begins with."""

    def __init__(self, records: Iterable[tuple[bytes, int]]) -> None:
        hashes, places = array("q"), array("Q")
        for beginning, place in records:
            hashes.append(hash(beginning))
            places.append(place)
        order = sorted(range(len(hashes)), key=hashes.__getitem__)  # of equal ones the first comes first
        self._hashes = array("q", map(hashes.__getitem__, order))
        self._places = array("Q", map(places.__getitem__, order))

    def get(self, beginning: bytes) -> int | None:
        """Where the first record that begins so stands. It may be one whose name has the same hash."""
        at = bisect_left(self._hashes, hash(beginning))
        is_there = at < len(self._hashes) and self._hashes[at] == hash(beginning)
        return self._places[at] if is_there else None
