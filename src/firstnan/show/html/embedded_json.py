"""The report's JSON inside the page: whole where it is of ordinary size, else without its longest lists."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from firstnan.answer.model import CollectiveReport, Report
from firstnan.dump.language import Language
from firstnan.show.json import dumps, to_dict

BUDGET = 400_000
"""Most bytes of JSON that a page carries."""
_NAME = 48
"""Bytes of a record name in a list, about."""


class Embedded(Struct, frozen=True):
    """JSON text for the page."""

    text: str
    calls: int
    """How many entries of ``Report.collectives`` it holds."""
    shortened: bool
    """True: lists were cut, so that it is not the whole report."""


_CUTS: tuple[Callable[[Report], Report], ...] = (
    lambda report: replace(report, call_map=None, agreement_map=None),
    lambda report: replace(report, surroundings=report.surroundings[:1]),
    lambda report: replace(report, input=replace(report.input, problems=report.input.problems[:50])),
    lambda report: replace(report, contained=report.contained[:20], propagation=report.propagation[:50]),
    lambda report: replace(report, root_causes=report.root_causes[:4]),
    lambda report: replace(report, surroundings=(), collectives=(), propagation=()),
)
"""What goes, one after the other, until the rest fits."""


def embedded(report: Report, language: Language, budget: int = BUDGET) -> Embedded:
    """The JSON to show and copy; ``null`` when even the shortest form is beyond the budget."""
    kept = replace(report, collectives=_affordable(report, budget))
    shortened = len(kept.collectives) < len(report.collectives)
    for cut in (None, *_CUTS):
        if cut is not None:
            kept, shortened = cut(kept), True
        text = dumps(to_dict(kept, language))
        if len(text.encode("utf-8")) <= budget:
            return Embedded(text, len(kept.collectives), shortened)
    return Embedded("null\n", 0, True)


def _affordable(report: Report, budget: int) -> tuple[CollectiveReport, ...]:
    """The first calls whose lists of ranks and names take at most half of the budget."""
    left = budget // 2
    for number, call in enumerate(report.collectives):
        left -= sum(len(name) + _NAME for name in call.ops.values()) + _NAME * len(call.group or ())
        if left < 0:
            return report.collectives[:number]
    return report.collectives
