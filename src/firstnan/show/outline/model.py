"""The content of a report, in the reader's words, before any layout: what the text and Markdown reporters share.

Text from a dump stands in spans of its own (:attr:`Span.is_data`), already printable and shortened; a reporter
escapes it for its markup and never takes it for markup.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct

from firstnan.answer.model import Note, NoteValue
from firstnan.dump.language import Language
from firstnan.dump.printable import show
from firstnan.words import pieces


class Tone(Enum):
    """What a span is, for colour; nothing may depend on colour alone."""

    PLAIN = "plain"
    """Ordinary text."""
    STRONG = "strong"
    """The answer itself."""
    FAINT = "faint"
    """Context."""
    GOOD = "good"
    """Finite, normal, clean."""
    WARN = "warn"
    """Unknown, undecided, incomplete; received from elsewhere."""
    BAD = "bad"
    """Non-finite; a source."""


class Span(Struct, frozen=True):
    """A run of text on one line."""

    text: str
    tone: Tone = Tone.PLAIN
    is_data: bool = False
    """True: text from the dump, or a value."""


Line = tuple[Span, ...]


class Paragraph(Struct, frozen=True):
    """Running text."""

    line: Line


class Item(Struct, frozen=True):
    """A list entry, ``depth`` levels deep; numbered when ``number`` is given."""

    line: Line
    depth: int = 0
    number: int | None = None


class Field(Struct, frozen=True):
    """A labelled value."""

    label: str
    line: Line


class Code(Struct, frozen=True):
    """A source line."""

    text: str
    is_command: bool = False
    """To be pasted into a shell: on one line, however long."""


class Table(Struct, frozen=True):
    """Rows under a header; numbers stand to the right."""

    header: tuple[str, ...]
    rows: tuple[tuple[Span, ...], ...]
    right: frozenset[int] = frozenset()
    """Columns that are aligned to the right."""


Block = Paragraph | Item | Field | Code | Table


class Section(Struct, frozen=True):
    """A titled part."""

    title: str
    blocks: tuple[Block, ...]


class Outline(Struct, frozen=True):
    """The answer in one sentence, then the parts."""

    headline: Line
    sections: tuple[Section, ...]


def data(text: str, tone: Tone = Tone.PLAIN, limit: int = 96) -> Span:
    """A span of text from the dump, made harmless."""
    return Span(show(text, limit), tone, is_data=True)


def sentence(
    note: Note | str, language: Language, tone: Tone = Tone.PLAIN, data_tone: Tone | None = None, **params: NoteValue
) -> Line:
    """A message as a line; values take ``data_tone`` where it is given."""
    return tuple(
        Span(piece.text, data_tone if piece.is_data and data_tone is not None else tone, piece.is_data)
        for piece in pieces(note, language, **params)
    )


def plain(line: Iterable[Span]) -> str:
    """The text of a line alone."""
    return "".join(span.text for span in line)
