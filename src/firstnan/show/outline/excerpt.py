"""The records of ``firstnan show`` as an outline."""

from __future__ import annotations

from firstnan.dump.records import Record
from firstnan.dump.values import ValueState
from firstnan.rank.surroundings.excerpt import Excerpt, Summary, summary
from firstnan.show.outline.causes import STATE_TONES, tensor_rows, tensor_table
from firstnan.show.outline.headline import ranks_words
from firstnan.show.outline.model import Block, Item, Outline, Section, Span, Table, Tone, data, sentence
from firstnan.show.reporter import Settings
from firstnan.words import number, text


def outline_excerpt(content: Excerpt, settings: Settings) -> Outline:
    """One row per record with the worst state of its inputs and outputs, then the asked record in full."""
    language = settings.language
    headline = sentence(
        "show.headline",
        language,
        Tone.STRONG,
        ranks=ranks_words((content.rank,), language),
        step=content.step,
        index=content.center,
        total=content.total,
    )
    names = ("record", "operator", "inputs", "outputs")
    header = ("", *(text(f"column.{name}", language) for name in names))
    rows = tuple(_row(record, content.center, settings) for record in content.records)
    listing = Section(
        text("section.records", language, label=content.label), (Table(header, rows, right=frozenset({1})),)
    )
    return Outline(headline, (listing, _detail(content.center_record, settings)))


def _row(record: Record, center: int, settings: Settings) -> tuple[Span, ...]:
    tone = Tone.STRONG if record.index == center else Tone.PLAIN
    return (
        Span(">" if record.index == center else " ", tone),
        Span(str(record.index), is_data=True),
        data(record.name.full, tone),
        _cell(summary((*record.inputs, *record.parameters)), settings),
        _cell(summary(record.outputs), settings),
    )


def _cell(side: Summary, settings: Settings) -> Span:
    """The magnitude where all is finite, else the state in words."""
    if side.state is None:
        return Span("-", Tone.FAINT)
    tone = STATE_TONES.get(side.state, Tone.BAD)
    if side.state is ValueState.FINITE and side.magnitude is not None:
        return Span(number(side.magnitude), tone, is_data=True)
    return Span(text(f"state.{side.state.value}", settings.language), tone)


def _detail(record: Record, settings: Settings) -> Section:
    language = settings.language
    blocks: list[Block] = []
    rows = (
        tensor_rows(record.inputs, "in", language)
        + tensor_rows(record.parameters, "in", language)
        + tensor_rows(record.outputs, "out", language)
    )
    if rows:
        blocks.append(tensor_table(rows, language))
    for scalar in record.scalars:
        value = "-" if scalar.value is None else str(scalar.value)
        colon = Span(text("label.colon", language))
        blocks.append(Item((data(scalar.slot), colon, data(value), Span(" "), data(f"({scalar.type})", Tone.FAINT))))
    title = text("section.record", language, index=record.index) + text("label.colon", language)
    return Section(title + data(record.name.full).text, tuple(blocks))
