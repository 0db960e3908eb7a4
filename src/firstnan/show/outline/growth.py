"""What grew from step to step, as a section."""

from __future__ import annotations

from firstnan.answer.growth import Growth
from firstnan.answer.model import Report
from firstnan.show.outline.model import Section, Span, Table, Tone, data
from firstnan.show.reporter import Settings
from firstnan.words import number, text


def growth_section(report: Report, settings: Settings) -> Section:
    """One row a value, one column a step; without blocks when nothing grew."""
    language, grown = settings.language, report.run_up_steps
    if not grown:
        return Section("", ())
    steps = sorted({value.step for growth in grown for value in growth.values})
    header = (text("column.what", language), text("column.value", language), *(str(step) for step in steps))
    rows = tuple(_row(growth, steps, settings) for growth in grown)
    right = frozenset(range(2, len(header)))
    return Section(text("section.growth", language, rank=grown[0].rank), (Table(header, rows, right=right),))


def _row(growth: Growth, steps: list[int], settings: Settings) -> tuple[Span, ...]:
    values = {value.step: value.largest for value in growth.values}
    cells = (
        Span("-", Tone.FAINT)
        if step not in values
        else Span(number(float(f"{values[step]:.3g}")), Tone.WARN if step >= growth.since else Tone.PLAIN, is_data=True)
        for step in steps
    )
    return (Span(text(f"growth.{growth.kind.value}", settings.language)), data(growth.name), *cells)
