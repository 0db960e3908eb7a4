"""The map of all communication calls of one step: ranks down, places in causal order across."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from firstnan.analysis.judge import StepAnswer
from firstnan.analysis.matching import MatchedCall, Matching
from firstnan.analysis.propagation import causal_order
from firstnan.analysis.summarize import CommFact, Side
from firstnan.report import RankState
from firstnan.report_views import WORST_LAST, CallMap, Cell, MapRow, join_names, merge_columns, pack_cells

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


def call_map(answer: StepAnswer, state_of: StateOf, affected: Collection[int], listed: Sequence[int]) -> CallMap | None:
    """The map of one step; None when no communication is recorded.

    ``affected`` are positions in ``Matching.calls`` of the calls that hold a bad value which matters: in any other
    call a bad value is contained. ``listed`` are the positions of the entries of ``Report.collectives``, in order.
    """
    calls = answer.matching.calls
    if not calls:
        return None
    places = places_of(answer.matching)
    width = max(places) + 1
    rows = {rank: bytearray(width) for rank in answer.matching.world}
    names: list[dict[str, None]] = [{} for _ in range(width)]
    for position, call in enumerate(calls):
        place = places[position]
        for rank, cell in _cells(call, state_of, position in affected).items():
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
        listed=tuple(places[position] for position in listed),
        calls=len(calls),
    )
    return merge_columns(whole, -(-width // MAX_COLUMNS))


def places_of(matching: Matching) -> tuple[int, ...]:
    """Place of each call of ``Matching.calls``: one after the latest earlier call of any of its members.

    ``calls_of_disjoint_groups_share_a_place``: ranks 0,1 and ranks 2,3 each call all_reduce, then all four do: places
    0, 0, 1. The elements of one ``batch_isend_irecv`` do not wait for each other.
    """
    order = causal_order(matching)
    places = [0] * len(matching.calls)
    clocks: dict[int, tuple[int, int, int]] = {}  # rank -> last record, next free place before it, and after it
    for position in sorted(order, key=order.__getitem__):
        members = matching.calls[position].members
        place = max((_free_place(clocks.get(rank), fact.call.index) for rank, fact in members.items()), default=0)
        places[position] = place
        for rank, fact in members.items():
            free = _free_place(clocks.get(rank), fact.call.index)
            known = clocks.get(rank)
            after = known[2] if known is not None and known[0] == fact.call.index else 0
            clocks[rank] = (fact.call.index, free, max(place + 1, after))
    return tuple(places)


def _free_place(clock: tuple[int, int, int] | None, index: int) -> int:
    if clock is None:
        return 0
    record, before, after = clock
    return before if record == index else after


def _cells(call: MatchedCall, state_of: StateOf, is_affected: bool) -> Mapping[int, Cell]:
    bad_source = any(fact.sent is Side.BAD for fact in call.members.values())
    cells = dict.fromkeys(call.absent, Cell.MISSING)
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
