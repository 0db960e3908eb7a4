"""An outline as lines of a given width: wrapping, indenting, columns. No colour, no escape codes, no dependency."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from firstnan.dump.printable import cells, char_cells
from firstnan.show.outline.model import Block, Code, Field, Item, Line, Outline, Paragraph, Span, Table, Tone

_INDENT = 2
_GAP = 2
_NARROWEST_COLUMN = 4
_NARROWEST_WRAP = 8
_TALLEST_HEADER = 4
_WIDEST_LABEL = 14
_WIDE = r"\u2e80-\u9fff\uac00-\ud7af\uff00-\uffef"
_WORD = re.compile(r"\s+|\S+")
_CLOSING = "\u3001\u3002\uff01\uff09\uff0c\uff1a\uff1b"
"""Chinese punctuation that must not begin a line."""


def lines(outline: Outline, width: int) -> Iterator[Line]:
    """Every line of the outline, at most ``width`` terminal columns wide.

    The first line or lines are the headline; sections follow under their titles, indented.
    """
    yield from wrap(outline.headline, width)
    for section in outline.sections:
        yield ()
        if section.title:
            yield from wrap((Span(section.title, Tone.STRONG),), width)
        indent = _INDENT if section.title else 0
        labels = [cells(block.label) for block in section.blocks if isinstance(block, Field)]
        label_width = min(max(labels, default=0), _WIDEST_LABEL)
        for block in section.blocks:
            for line in _block(block, width - indent, label_width):
                yield (Span(" " * indent), *line) if line and indent else line


def _block(block: Block, width: int, label_width: int) -> Iterator[Line]:
    if isinstance(block, Paragraph):
        yield from wrap(block.line, width)
    elif isinstance(block, Item):
        mark = "- " if block.number is None else f"{block.number}. "
        lead = "  " * block.depth
        if block.depth:
            mark = ""
        yield from _hanging(lead + mark, block.line, width)
    elif isinstance(block, Field):
        lead = block.label + " " * (max(label_width - cells(block.label), 0) + _GAP)
        yield from _hanging(lead, block.line, width, Tone.FAINT)
    elif isinstance(block, Code):
        if block.is_command:
            yield (Span(" " * (_GAP * 2)), Span(block.text, Tone.STRONG, is_data=True))
            return
        lead = " " * (label_width + _GAP * 2)
        yield from _hanging(lead, (Span(block.text, Tone.STRONG, is_data=True),), width)
    else:
        yield from _table(block, width)


def _hanging(lead: str, line: Line, width: int, tone: Tone = Tone.PLAIN) -> Iterator[Line]:
    blank = " " * cells(lead)
    for at, part in enumerate(wrap(line, width - len(blank))):
        yield (Span(blank if at else lead, tone), *part) if lead else part


def wrap(line: Line, width: int) -> Iterator[Line]:
    """The line broken at spaces and between Chinese characters; a longer word is cut where the line ends.

    >>> ["|".join(span.text for span in part) for part in wrap((Span("rank 2 began"), Span(" here")), 7)]
    ['rank 2', 'began', 'here']
    """
    width = max(width, _NARROWEST_WRAP)
    current: list[Span] = []
    used = 0
    for atom in _atoms(line):
        size = sum(cells(span.text) for span in atom)
        if atom[0].text.isspace():
            if used + size >= width:
                used = width  # the space that ends a line is not shown, the next word begins a new one
                continue
        elif used + size > width:
            if current:
                yield _trim(current)
                current, used = [], 0
            *full, atom = _cut(atom, width) if size > width else [atom]
            for part in full:
                yield tuple(part)
            size = sum(cells(span.text) for span in atom)
        current += atom
        used += size
    yield _trim(current)


def _atoms(line: Line) -> list[list[Span]]:
    """What must stay on one line: words across spans, a Chinese character with the punctuation after it, or a space."""
    atoms: list[list[Span]] = []
    before = " "
    for span in line:
        for word in _words(span.text):
            part = Span(word, span.tone, span.is_data)
            glued = word[0] in _CLOSING or (before.isascii() and word.isascii())
            if atoms and glued and not before.isspace() and not word.isspace():
                atoms[-1].append(part)
            else:
                atoms.append([part])
            before = word
    return atoms


def _cut(atom: list[Span], width: int) -> list[list[Span]]:
    """A word that is too long, in parts of at most ``width`` columns."""
    parts: list[list[Span]] = [[]]
    used = 0
    for span in atom:
        start = 0
        for at, char in enumerate(span.text):
            size = char_cells(char)
            if used + size > width:
                parts[-1].append(Span(span.text[start:at], span.tone, span.is_data))
                parts.append([])
                start, used = at, 0
            used += size
        parts[-1].append(Span(span.text[start:], span.tone, span.is_data))
    return parts


def _trim(spans: list[Span]) -> Line:
    """The spans of a line without blanks at its end, neighbours of one kind put together."""
    merged: list[Span] = []
    for span in spans:
        if merged and (merged[-1].tone, merged[-1].is_data) == (span.tone, span.is_data):
            merged[-1] = Span(merged[-1].text + span.text, span.tone, span.is_data)
        else:
            merged.append(span)
    while merged and not merged[-1].text.rstrip():
        merged.pop()
    if merged:
        last = merged[-1]
        merged[-1] = Span(last.text.rstrip(), last.tone, last.is_data)
    return tuple(merged)


def _table(table: Table, width: int) -> Iterator[Line]:
    header = tuple(Span(name, Tone.FAINT) for name in table.header)
    rows = (header, *table.rows)
    sizes = [[cells(cell.text) for cell in row] for row in table.rows]
    widths = column_widths([_header_sizes(table.header, sizes, width), *sizes], width)
    for row in rows:
        parts = [list(wrap((cell,), room)) for cell, room in zip(row, widths, strict=True)]
        for at in range(max(len(part) for part in parts)):
            yield _row([part[at] if at < len(part) else () for part in parts], widths, table.right)


def _header_sizes(names: Sequence[str], sizes: Sequence[Sequence[int]], width: int) -> list[int]:
    """The width that each name needs: names are broken into as few lines as let the table fit, but not inside words."""
    needed = [cells(name) for name in names]
    for height in range(2, _TALLEST_HEADER + 1):
        if sum(max(column) for column in zip(needed, *sizes, strict=True)) + _GAP * (len(names) - 1) <= width:
            break
        needed = [_narrowest(name, height) for name in names]
    return needed


def _narrowest(name: str, height: int) -> int:
    """The width at which a name takes at most ``height`` lines and no word is cut.

    >>> _narrowest("stayed finite (normal)", 2), _narrowest("stayed finite (normal)", 3)
    (13, 8)
    """
    size = cells(name)
    longest = max((sum(cells(span.text) for span in atom) for atom in _atoms((Span(name),))), default=0)
    fits = (at for at in range(max(longest, _NARROWEST_WRAP), size) if len(list(wrap((Span(name),), at))) <= height)
    return next(fits, size)


def _row(parts: Sequence[Line], widths: Sequence[int], right: frozenset[int]) -> Line:
    spans: list[Span] = []
    for column, (part, room) in enumerate(zip(parts, widths, strict=True)):
        padding = Span(" " * (room - sum(cells(span.text) for span in part)))
        spans += [Span(" " * _GAP)] if column else []
        spans += [padding, *part] if column in right else [*part, padding]
    return _trim(spans)


def column_widths(sizes: Sequence[Sequence[int]], width: int) -> list[int]:
    """The widths of columns from the sizes of their cells: the widest column gives way until the table fits.

    >>> column_widths([[4, 30, 3]], 24)
    [4, 13, 3]
    """
    widths = [max(max(column), 1) for column in zip(*sizes, strict=True)]
    room = width - _GAP * (len(widths) - 1)
    while sum(widths) > room:
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] <= _NARROWEST_COLUMN:
            break
        widths[widest] -= 1
    return widths


def _words(text: str) -> list[str]:
    """Runs of blanks, single wide characters, and runs of others."""
    return (_WORD if text.isascii() else _wide_word()).findall(text)


@cache
def _wide_word() -> re.Pattern[str]:
    """Its large ranges take long to compile, and most text has none of them."""
    return re.compile(rf"\s+|[{_WIDE}]|[^\s{_WIDE}]+")
