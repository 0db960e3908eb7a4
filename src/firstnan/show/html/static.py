"""The answer as static HTML for notebooks: no script, no style sheet of its own page, everything escaped."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from firstnan.answer.model import Report
from firstnan.dump.language import Language
from firstnan.show.outline.model import Block, Code, Field, Item, Line, Outline, Paragraph, Section, Table, Tone
from firstnan.show.outline.sections import outline
from firstnan.show.reporter import Settings
from firstnan.words import default_language

_MONO = "font-family: ui-monospace, Consolas, monospace; font-size: 0.95em; unicode-bidi: isolate"
_TONES = {
    Tone.PLAIN: "",
    Tone.STRONG: "font-weight: 600",
    Tone.FAINT: "opacity: 0.7",
    Tone.GOOD: "",
    Tone.WARN: "",
    Tone.BAD: "font-weight: 600",
}
"""Weight instead of colour: the notebook's own colours are not known."""


def fragment(report: Report, language: Language | None = None) -> str:
    """One ``div`` with the text report's content; in the language of the locale unless one is given."""
    return of_outline(outline(report, Settings(language=language or default_language())))


def of_outline(content: Outline) -> str:
    """Any outline as one ``div``."""
    parts = [f'<p style="font-size: 1.15em; font-weight: 600">{_line(content.headline)}</p>']
    for section in content.sections:
        parts += _section(section)
    return f'<div style="max-width: 70em; line-height: 1.45">{"".join(parts)}</div>'


def _section(section: Section) -> Iterator[str]:
    if section.title:
        yield f'<p style="margin: 0.9em 0 0.2em; font-weight: 600">{escape(section.title)}</p>'
    for block in section.blocks:
        yield _block(block)


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return f'<p style="margin: 0.2em 0">{_line(block.line)}</p>'
    if isinstance(block, Item):
        mark = "" if block.depth else "- " if block.number is None else f"{block.number}. "
        return f'<div style="margin-left: {1 + block.depth * 1.2:.1f}em">{mark}{_line(block.line)}</div>'
    if isinstance(block, Field):
        label = f'<span style="opacity: 0.7; display: inline-block; min-width: 7em">{escape(block.label)}</span>'
        return f'<div style="margin-left: 1em">{label} {_line(block.line)}</div>'
    if isinstance(block, Code):
        return f'<pre style="margin: 0.2em 0 0.2em 8.5em; white-space: pre-wrap">{escape(block.text)}</pre>'
    return _table(block)


def _table(table: Table) -> str:
    def cell(tag: str, content: str, column: int) -> str:
        side = "right" if column in table.right else "left"
        return f'<{tag} style="text-align: {side}; padding: 0 0.8em 0 0">{content}</{tag}>'

    head = "".join(cell("th", escape(name), at) for at, name in enumerate(table.header))
    rows = "".join(
        f"<tr>{''.join(cell('td', _line((part,)), at) for at, part in enumerate(row))}</tr>" for row in table.rows
    )
    return f'<table style="margin-left: 1em"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _line(line: Line) -> str:
    made = []
    for span in line:
        style = "; ".join(part for part in (_MONO if span.is_data else "", _TONES[span.tone]) if part)
        tag = "bdi" if span.is_data else "span"
        made.append(f'<{tag} style="{style}">{escape(span.text)}</{tag}>' if style else escape(span.text))
    return "".join(made)
