"""Markdown for tickets, chat and agents: the same content as the console, text from dumps as code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstnan.answer.model import Report
from firstnan.show.outline.model import Block, Code, Field, Item, Line, Outline, Paragraph, Span, Table, Tone
from firstnan.show.outline.sections import outline
from firstnan.show.reporter import Settings
from firstnan.version import __version__
from firstnan.words import text

_SPECIAL = re.compile(r"([\\`*_<\[\]|~@$&])")
"""What could be read as markup in our own words; text from dumps never comes here, it is code."""
_BARE_NUMBER = re.compile(r"[-+]?[0-9][0-9.,e+-]*")


def render(report: Report, settings: Settings) -> str:
    """The report as GitHub-flavoured Markdown, ending with a line end."""
    content = outline(report, settings)
    made = [
        *_document(content),
        "---",
        _escape(text("markdown.footer", settings.language, version=__version__)),
    ]
    return "\n\n".join(made) + "\n"


def _document(content: Outline) -> Iterator[str]:
    yield f"# {_inline(content.headline, strong=False)}"
    for section in content.sections:
        if section.title:
            yield f"## {_escape(section.title)}"
        yield from _blocks(section.blocks)


def _blocks(blocks: tuple[Block, ...]) -> Iterator[str]:
    """Neighbouring list entries and fields stand in one list, everything else is a paragraph of its own."""
    entries: list[str] = []
    for block in blocks:
        if isinstance(block, (Item, Field)):
            entries.append(_entry(block))
            continue
        if isinstance(block, Code):
            entries.append("  " + _fenced(block.text).replace("\n", "\n  "))
            continue
        if entries:
            yield "\n".join(entries)
            entries = []
        yield _inline(block.line) if isinstance(block, Paragraph) else _table(block)
    if entries:
        yield "\n".join(entries)


def _entry(block: Item | Field) -> str:
    if isinstance(block, Field):
        if not block.label:
            return f"  - {_inline(block.line)}"
        return f"- **{_escape(block.label)}**: {_inline(block.line)}"
    mark = "-" if block.number is None else f"{block.number}."
    return f"{'  ' * block.depth}{mark} {_inline(block.line)}"


def _table(table: Table) -> str:
    rule = ["---:" if column in table.right else "---" for column in range(len(table.header))]
    rows = [[_escape(name) or " " for name in table.header], rule]
    rows += [[_cell(cell) for cell in row] for row in table.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(span: Span) -> str:
    """In a table, a bar ends the cell even inside code."""
    return _span(span).replace("|", "\\|") if span.is_data else _span(span)


def _inline(line: Line, *, strong: bool = True) -> str:
    made = "".join(_span(span) for span in line)
    is_answer = strong and bool(line) and all(span.tone is Tone.STRONG for span in line)
    return f"**{made}**" if is_answer and not made.startswith("`") else made


def _span(span: Span) -> str:
    if span.is_data and not _BARE_NUMBER.fullmatch(span.text):
        return code_span(span.text)
    return _escape(span.text)


def code_span(content: str) -> str:
    """Text as inline code, whatever backticks it holds.

    >>> code_span("a`b"), code_span("plain")
    ('`` a`b ``', '`plain`')
    """
    if not content.strip():
        return ""
    longest = max((len(run) for run in re.findall("`+", content)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{content}{pad}{fence}"


def _fenced(content: str) -> str:
    longest = max((len(run) for run in re.findall("`+", content)), default=0)
    fence = "`" * max(longest + 1, 3)
    return f"{fence}python\n{content}\n{fence}"


def _escape(content: str) -> str:
    return _SPECIAL.sub(r"\\\1", content)
