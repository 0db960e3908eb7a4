"""Lines and tables of the outline as JSON for the page's scripts.

A line is a list of spans; a span is a string of ours in a plain tone, or ``[text, tone, 1 for data]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firstnan.show.outline.model import Block, Code, Field, Item, Line, Paragraph, Section, Span, Table, Tone

Json = object


def span(part: Span) -> Json:
    """One span.

    >>> span(Span("rank ")), span(Span("5", Tone.BAD, is_data=True))
    ('rank ', ['5', 'bad', 1])
    """
    if part.tone is Tone.PLAIN and not part.is_data:
        return part.text
    return [part.text, part.tone.value, int(part.is_data)]


def line(parts: Line) -> list[Json]:
    """A line of spans."""
    return [span(part) for part in parts]


def table(made: Table) -> dict[str, Json]:
    """A table: head, rows of spans, columns that stand to the right."""
    return {
        "head": list(made.header),
        "rows": [[span(cell) for cell in row] for row in made.rows],
        "right": sorted(made.right),
    }


def block(made: Block) -> dict[str, Json]:
    """A block by its kind: ``text``, ``item``, ``field``, ``code`` or ``table``."""
    if isinstance(made, Paragraph):
        return {"text": line(made.line)}
    if isinstance(made, Item):
        return {"item": line(made.line), "depth": made.depth, "number": made.number}
    if isinstance(made, Field):
        return {"field": made.label, "line": line(made.line)}
    if isinstance(made, Code):
        return {"code": made.text}
    return {"table": table(made)}


def blocks(made: Iterable[Block]) -> list[Json]:
    """All blocks in order."""
    return [block(one) for one in made]


def section(made: Section | None) -> list[Json]:
    """The blocks of a section; none when it is not there."""
    return [] if made is None else blocks(made.blocks)


def grid(head: Sequence[str], rows: Iterable[Sequence[Span]], right: Iterable[int] = ()) -> Table:
    """A table from its parts."""
    return Table(tuple(head), tuple(tuple(row) for row in rows), frozenset(right))
