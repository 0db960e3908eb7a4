"""The map of calls as the page draws it: all calls where the report holds them, else the affected ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firstnan.answer.model import CollectiveReport, Report
from firstnan.answer.views import WORST_LAST, CallMap, Cell, MapRow, merge_columns, pack_cells
from firstnan.dump.printable import show
from firstnan.dump.ranges import format_ranges
from firstnan.show.html.blocks import Json

MAX_NAME = 60
"""Most characters of the name of a column."""
BUDGET = 300_000
"""Most characters of cells and column names; beyond that, columns of the map are put together."""


def shown_map(report: Report) -> tuple[CallMap, int] | None:
    """The map to draw, and how many columns of it were put together to one for its size; None without any call."""
    whole = report.call_map or _affected_map(
        report.collectives, (*report.input.ranks, *report.input.missing_ranks), frozenset(report.input.missing_ranks)
    )
    return None if whole is None else fitting(whole)


def fitting(whole: CallMap) -> tuple[CallMap, int]:
    """A map of a size for the page, and how many columns of it were put together to one for that."""
    size = sum(len(row.cells) for row in whole.rows) + sum(min(len(name), MAX_NAME) + 3 for name in whole.columns)
    by = -(-size // BUDGET)
    return merge_columns(whole, by), by


def build(shown: CallMap, by: int, *, affected_only: bool) -> dict[str, Json]:
    """The map as JSON values."""
    return {
        "step": shown.step,
        "letters": WORST_LAST,
        "columns": [show(name, MAX_NAME) for name in shown.columns],
        "rows": [[format_ranges(row.ranks), row.cells] for row in shown.rows],
        "calls": shown.calls,
        "merged": shown.places_per_column,
        "shrunk": by,
        "affected_only": affected_only,
        "complete": shown.complete,
    }


def _affected_map(calls: Sequence[CollectiveReport], known: Iterable[int], absent: frozenset[int]) -> CallMap | None:
    """A map whose columns are the affected calls, in the order of the report."""
    if not calls:
        return None
    ranks = sorted({*known, *_members(calls)})
    width = len(calls)
    rows = {rank: [Cell.NONE.value] * width for rank in ranks}
    for at, call in enumerate(calls):
        for cell, found in (
            (Cell.SOURCE, call.source_ranks),
            (Cell.PROPAGATED, call.propagated_ranks),
            (Cell.NORMAL, call.normal_ranks),
            (Cell.UNDECIDED, call.undecided_ranks),
        ):
            for rank in found:
                rows[rank][at] = Cell.MISSING.value if cell is Cell.UNDECIDED and rank in absent else cell.value
    together: dict[str, list[int]] = {}
    for rank in ranks:
        together.setdefault(pack_cells(rows[rank]), []).append(rank)
    return CallMap(
        step=calls[0].step,
        columns=tuple(call.op for call in calls),
        rows=tuple(MapRow(tuple(found), cells) for cells, found in together.items()),
        listed=tuple(range(width)),
        calls=width,
    )


def _members(calls: Iterable[CollectiveReport]) -> set[int]:
    return {
        rank
        for call in calls
        for ranks in (call.source_ranks, call.propagated_ranks, call.normal_ranks, call.undecided_ranks)
        for rank in ranks
    }
