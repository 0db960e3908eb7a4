"""The map of one step's communication calls: on which ranks a result is that of the others.

It shows what :mod:`firstnan.agree.communication` compared, call by call: a place where digests differ counts as
differing only where a finding over the same members says so; elsewhere it is not comparable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from firstnan.agree.communication import are_checked, by_series, comparable_length, digests_of, merged
from firstnan.agree.odd import odd_ranks
from firstnan.agree.sources import Replica
from firstnan.agree.tally import Count
from firstnan.answer.views import CallMap, Cell, MapRow, join_names, merge_columns, pack_cells
from firstnan.read.fingerprints import UNUSABLE
from firstnan.step.call_series import Collective
from firstnan.step.order import places

MAX_COLUMNS = 4000
"""Most columns of a map; beyond that neighbouring places are put together."""


class _Call(Struct):
    """One call on all of its members."""

    api: str
    place: dict[int, int]
    """Rank -> where its record is, in the order of the file."""
    cells: dict[int, Cell]


def agreement_map(step: int, replicas: Mapping[int, Replica], differing: Collection[tuple[int, ...]]) -> CallMap | None:
    """The map of one step, None without calls; ``differing``: members of the findings about communication."""
    calls = list(_calls(replicas, differing))
    if not calls:
        return None
    columns = places([call.place for call in calls])
    width = max(columns) + 1
    rows = {rank: [Cell.NONE.value] * width for rank in sorted(replicas)}
    names: list[dict[str, None]] = [{} for _ in range(width)]
    for call, column in zip(calls, columns, strict=True):
        names[column][call.api] = None
        for rank, cell in call.cells.items():
            rows[rank][column] = cell.value
    together: dict[str, list[int]] = {}
    for rank, letters in rows.items():
        together.setdefault(pack_cells(letters), []).append(rank)
    whole = CallMap(
        step=step,
        columns=tuple(join_names(found) for found in names),
        rows=tuple(MapRow(tuple(ranks), cells) for cells, ranks in together.items()),
        calls=len(calls),
    )
    return merge_columns(whole, -(-width // MAX_COLUMNS))


def _calls(replicas: Mapping[int, Replica], differing: Collection[tuple[int, ...]]) -> Iterator[_Call]:
    for series, members in by_series(replicas, Count()).items():
        lines = {rank: merged(parts) if isinstance(series, Collective) else parts[0] for rank, parts in members.items()}
        length = comparable_length(series, members, replicas)
        checked = are_checked(lines, replicas)
        digests = {rank: digests_of(series, rank, one, checked=checked) for rank, one in lines.items()}
        is_found = tuple(sorted(members)) in differing
        api = series.api if isinstance(series, Collective) else "p2p"
        for at in range(max((one.count for one in lines.values()), default=0)):
            there = {rank: one.place(at) for rank, one in lines.items() if at < one.count}
            values = {rank: digests[rank][at] for rank in there if at < min(length, len(digests[rank]))}
            cells = dict.fromkeys(there, Cell.UNDECIDED)
            cells |= _cells({rank: value for rank, value in values.items() if value != UNUSABLE}, is_found=is_found)
            if is_found:
                cells |= {rank: Cell.DIFFERS for rank in there if at in lines[rank].inconsistent}
            yield _Call(api, there, cells)


def _cells(values: Mapping[int, int], *, is_found: bool) -> dict[int, Cell]:
    if len(values) < 2:
        return {}
    if len(set(values.values())) == 1:
        return dict.fromkeys(values, Cell.EQUAL)
    if not is_found:
        return {}
    odd = odd_ranks(values)
    return {rank: Cell.DIFFERS if odd is None or rank in odd else Cell.EQUAL for rank in values}
