"""Finding bytes in a buffer, fast: the one place that knows StringZilla, and does without it.

StringZilla searches with the processor's vector instructions, 10 GB/s and more, where ``bytes.find`` reaches 1 GB/s.
Nothing else differs: without it the same answers come, later.
"""

from __future__ import annotations

from typing import Protocol

try:
    import stringzilla  # type: ignore[import-not-found]
except ImportError:  # the single-file build on a machine that has Python and nothing else
    HAS_STRINGZILLA = False
else:
    HAS_STRINGZILLA = True
_HAS_TARGET = HAS_STRINGZILLA and "out (" in (stringzilla.Str.translate.__doc__ or "")
"""Later versions translate into another buffer; they take ``out`` and say so, earlier ones fail with a SystemError."""


class Text(Protocol):
    """A view of a buffer whose content may change: every call sees what is there now."""

    def find(self, needle: bytes, start: int, end: int) -> int:
        """First place of the needle in ``[start, end)``; -1: there is none."""
        ...

    def rfind(self, needle: bytes, start: int, end: int) -> int:
        """Last place of the needle in ``[start, end)``; -1: there is none."""
        ...

    def count(self, needle: bytes, start: int, end: int) -> int:
        """How often the needle stands in ``[start, end)``, not counting overlaps."""
        ...


def view(buffer: bytearray) -> Text:
    """The buffer as a text that can be searched; the buffer cannot be resized while the view lives."""
    if HAS_STRINGZILLA:
        text: Text = stringzilla.Str(buffer)
        return text
    return buffer


def translate(source: bytearray, end: int, table: bytes, target: bytearray) -> None:
    """Writes the first ``end`` bytes of a buffer to another one, each replaced by its entry in a table of 256."""
    if _HAS_TARGET:
        stringzilla.Str(source).translate(table, start=0, end=end, out=memoryview(target)[:end])
        return
    memoryview(target)[:end] = memoryview(source)[:end]
    if HAS_STRINGZILLA:
        stringzilla.Str(target).translate(table, start=0, end=end, inplace=True)
    else:
        target[:end] = target[:end].translate(table)
