"""The map of the communication calls of one step that were looked at: ranks down, places in causal order across."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from firstnan.answer.model import CollectiveReport, RankState
from firstnan.answer.views import WORST_LAST, CallMap, Cell, MapRow, join_names, merge_columns, pack_cells
from firstnan.causes.step_answer import StepAnswer
from firstnan.rank.summary import CommFact, RankSummary, Side
from firstnan.step.matching import MatchedCall
from firstnan.step.order import members_of, places

MAX_COLUMNS = 4000
"""Most columns of a map; beyond that neighbouring places are put together."""

StateOf = Callable[[CommFact, MatchedCall, int, bool], RankState]
"""A member's part, its call, its rank, whether any member's input is bad -> its state at that call."""

_CELLS = {
    RankState.SOURCE: Cell.SOURCE,
    RankState.PROPAGATED: Cell.PROPAGATED,
    RankState.NORMAL: Cell.NORMAL,
    RankState.UNDECIDED: Cell.UNDECIDED,
}


def call_map(
    answer: StepAnswer,
    state_of: StateOf,
    affected: Collection[int],
    listed: Sequence[tuple[int, CollectiveReport]] = (),
) -> CallMap | None:
    """The map of one step; None when no communication was looked at.

    ``affected`` are positions in ``Matching.calls`` of the calls that hold a bad value which matters: in any other
    call a bad value is contained. ``listed`` are the entries of ``Report.collectives``, in order, each with its
    position; the map shows the same states as they do.
    """
    calls = answer.matching.calls
    if not calls:
        return None
    place_of = places(members_of(answer.matching))
    width = max(place_of) + 1
    rows = {rank: bytearray(width) for rank in answer.matching.world}
    names: list[dict[str, None]] = [{} for _ in range(width)]
    told = dict(listed)
    for position, call in enumerate(calls):
        place = place_of[position]
        cells = _cells(call, state_of, position in affected)
        if position in told:
            cells |= _told(told[position], call)
        for rank, cell in cells.items():
            row = rows.setdefault(rank, bytearray(width))
            row[place] = max(row[place], WORST_LAST.index(cell.value))
        names[place].update(dict.fromkeys(_names(call)))
    together: dict[str, list[int]] = {}
    for rank in sorted(rows):
        together.setdefault(pack_cells(WORST_LAST[number] for number in rows[rank]), []).append(rank)
    whole = CallMap(
        step=answer.step,
        columns=tuple(join_names(found) for found in names),
        rows=tuple(MapRow(tuple(ranks), cells) for cells, ranks in together.items()),
        listed=tuple(place_of[position] for position, _ in listed),
        calls=len(calls),
        complete=_is_complete(answer.summaries.values()),
    )
    return merge_columns(whole, -(-width // MAX_COLUMNS))


def _is_complete(summaries: Iterable[RankSummary]) -> bool:
    """Every call of every rank is there."""
    return all(s.made is not None and sum(s.made.values()) == len(s.calls) for s in summaries)


def _told(report: CollectiveReport, call: MatchedCall) -> dict[int, Cell]:
    """States as the report lists them; an absent member is among its undecided ranks."""
    ranks = (
        (Cell.SOURCE, report.source_ranks),
        (Cell.PROPAGATED, report.propagated_ranks),
        (Cell.NORMAL, report.normal_ranks),
        (Cell.UNDECIDED, report.undecided_ranks),
    )
    absent = frozenset(call.absent)
    return {rank: cell for cell, found in ranks for rank in found if rank not in absent}


def _cells(call: MatchedCall, state_of: StateOf, is_affected: bool) -> dict[int, Cell]:
    bad_source = any(fact.sent is Side.BAD for fact in call.members.values())
    cells = dict.fromkeys(call.absent, Cell.MISSING)
    cells |= dict.fromkeys(call.clean, Cell.NORMAL)
    cells |= dict.fromkeys(call.unseen, Cell.UNDECIDED)
    for rank, fact in call.members.items():
        cell = _CELLS[state_of(fact, call, rank, bad_source)]
        contained = not is_affected and cell in (Cell.SOURCE, Cell.PROPAGATED)
        cells[rank] = Cell.CONTAINED if contained else cell
    return cells


def _names(call: MatchedCall) -> list[str]:
    if not call.is_p2p:
        return [call.api]
    parts = (fact.call.name.split(".") for fact in call.members.values())
    return [name[1] if len(name) > 1 else name[0] for name in parts]
