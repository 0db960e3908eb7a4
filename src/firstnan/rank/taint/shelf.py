"""Values that were written and may still be read, the latest first."""

from __future__ import annotations

from collections.abc import Iterator

from firstnan.rank.taint.events import Value

SEARCH = 256
"""Most open values that are looked at for one read; keeps the work linear in the number of bad values."""


class Shelf:
    """Values in the order in which they were written. Those that were closed do not count, and are put away."""

    def __init__(self) -> None:
        self._values: list[Value] = []
        self._oldest = 0
        """Place of the first value that may be open."""
        self.left_out: int | None = None
        """Writer of the oldest open value that some search did not come to."""

    def put(self, value: Value) -> None:
        """One more value."""
        self._values.append(value)

    def latest(self) -> Iterator[Value]:
        """The open values, the latest first, at most SEARCH of them."""
        seen = closed = 0
        try:
            for value in reversed(self._values):
                if not value.is_open:
                    closed += 1
                    continue
                if seen == SEARCH:
                    self._leave_out()
                    return
                seen += 1
                yield value
        finally:
            if closed > SEARCH:
                self._values = [value for value in self._values if value.is_open]
                self._oldest = 0

    def open_ones(self) -> Iterator[Value]:
        """All that are open, in the order in which they were written."""
        return (value for value in self._values if value.is_open)

    def close(self) -> None:
        """Closes all of them."""
        for value in self._values:
            value.is_open = False
        self._values.clear()
        self._oldest = 0

    def _leave_out(self) -> None:
        while not self._values[self._oldest].is_open:
            self._oldest += 1
        writer = self._values[self._oldest].writer
        self.left_out = writer if self.left_out is None else min(self.left_out, writer)
