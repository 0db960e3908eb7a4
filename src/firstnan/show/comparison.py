"""A comparison of two dumps as text, JSON or one HTML page."""

from __future__ import annotations

import math
from html import escape

import msgspec

from firstnan.answer.comparison import SCHEMA, Comparison, Difference, RankComparison
from firstnan.dump.ranges import format_ranges
from firstnan.show.console import render_outline
from firstnan.show.html.static import of_outline
from firstnan.show.json import dumps
from firstnan.show.json import number as strict
from firstnan.show.outline.model import (
    Block,
    Item,
    Outline,
    Paragraph,
    Section,
    Span,
    Table,
    Tone,
    data,
    plain,
    sentence,
)
from firstnan.show.reporter import Format, Settings
from firstnan.version import __version__
from firstnan.words import number, text

FORMS = (Format.TEXT, Format.JSON, Format.HTML)
_MOST_RANKS = 32


def render(found: Comparison, form: Format, settings: Settings) -> str:
    """The comparison in one form, ending with a line end."""
    if form is Format.JSON:
        return dumps(to_dict(found))
    content = outline(found, settings)
    return _page(content, settings) if form is Format.HTML else render_outline(content, settings)


def to_dict(found: Comparison) -> dict[str, object]:
    """Strict JSON values, schema ``firstnan.comparison/1``."""
    made = {"differs": found.differs, "complete": found.complete, **msgspec.to_builtins(found, str_keys=True)}
    tool = {"name": "firstnan", "version": __version__}
    return {"schema": SCHEMA, "tool": tool, **{name: _plain(value) for name, value in made.items()}}


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return strict(value) if isinstance(value, (int, float)) else value


def outline(found: Comparison, settings: Settings) -> Outline:
    """The first difference, then every rank, then what was not compared."""
    language = settings.language
    first = next((one for one in found.ranks if one.first is not None), None)
    if first is not None and first.first is not None:
        key = "compare.began" if first.first.begins_here else "compare.taken"
        step = first.step_b
        headline = sentence(key, language, Tone.STRONG, op=first.first.op_name, rank=first.rank, step=step)
        sections = [Section("", _detail(first.first, settings))]
    else:
        key = "compare.records" if found.differs else "compare.same" if found.complete else "compare.incomplete"
        headline = sentence(key, language, Tone.STRONG, records=sum(one.matched for one in found.ranks))
        sections = []
    sections += [_ranks(found, settings), _basis(found, settings), _gaps(found, settings)]
    return Outline(headline, tuple(section for section in sections if section.blocks))


def _detail(found: Difference, settings: Settings) -> tuple[Block, ...]:
    language = settings.language
    plain_number = math.isfinite(found.difference) and found.statistic != "argument"
    key = "compare.numbers" if plain_number else f"compare.{found.statistic}"
    line = sentence(
        key,
        language,
        slot=found.slot,
        statistic=found.statistic,
        a="-" if found.value_a is None else found.value_a,
        b="-" if found.value_b is None else found.value_b,
        difference=_percent(found.difference),
        allowed=_percent(found.allowed),
    )
    place = sentence("compare.place", language, a=found.index_a, b=found.index_b)
    return Paragraph(line), Paragraph(place)


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %"


def _ranks(found: Comparison, settings: Settings) -> Section:
    language = settings.language
    names = ("rank", "step", "matched", "only_a", "only_b", "differing", "first")
    header = tuple(text(f"compare.column.{name}", language) for name in names)
    shown = found.ranks if settings.verbose else found.ranks[:_MOST_RANKS]
    rows = tuple(_row(one, settings) for one in shown)
    blocks: list[Block] = [Table(header, rows, right=frozenset({0, 2, 3, 4, 5}))]
    if len(found.ranks) > len(shown):
        blocks.append(Item(sentence("compare.more", language, count=len(found.ranks) - len(shown))))
    for key, pick in (("compare.names_a", "only_a"), ("compare.names_b", "only_b")):
        listed = list(dict.fromkeys(name for one in found.ranks for name in getattr(one, pick)))
        if listed:
            blocks.append(Item(sentence(key, language, names=", ".join(listed[:8]))))
    return Section(text("compare.section.ranks", language), tuple(blocks))


def _row(one: RankComparison, settings: Settings) -> tuple[Span, ...]:
    step = str(one.step_a) if one.step_a == one.step_b else f"{one.step_a} / {one.step_b}"
    counts = (one.matched, one.count_only_a, one.count_only_b, one.differing)
    cells = (Span(number(count), is_data=True) for count in counts)
    if one.first is None:
        last = Span(text("compare.none", settings.language), Tone.GOOD)
    else:
        last = data(one.first.op_name, Tone.BAD if one.first.begins_here else Tone.WARN)
    return (Span(str(one.rank), is_data=True), Span(step, is_data=True), *cells, last)


def _basis(found: Comparison, settings: Settings) -> Section:
    language = settings.language
    listed = ", ".join(f"{dtype} {_percent(limit)}" for dtype, limit in found.tolerances.items())
    lines = [sentence("compare.tolerances", language, listed=listed)]
    if found.noise:
        lines.insert(0, sentence("compare.noise", language, path=found.noise))
    return Section(text("compare.section.basis", language), tuple(Item(line) for line in lines))


def _gaps(found: Comparison, settings: Settings) -> Section:
    language = settings.language
    blocks: list[Block] = []
    for key, ranks in (("compare.ranks_a", found.ranks_only_a), ("compare.ranks_b", found.ranks_only_b)):
        if ranks:
            blocks.append(Item(sentence(key, language, listed=format_ranges(ranks))))
    for problem in found.problems:
        if not problem.judged:
            blocks.append(Item((data(f"{problem.file}: {problem.detail}", limit=200),)))
    return Section(text("compare.section.gaps", language), tuple(blocks))


def _page(content: Outline, settings: Settings) -> str:
    title = escape(plain(content.headline))
    style = "body{font:16px/1.5 system-ui,sans-serif;margin:2em;color-scheme:light dark}table{border-collapse:collapse}"
    return (
        f'<!doctype html>\n<html lang="{settings.language.value}">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n{of_outline(content)}\n</body>\n</html>\n"
    )
