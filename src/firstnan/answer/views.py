"""Parts of a report that are there to be looked at: the map of all calls, the records around the first bad values.

They explain the answer and never decide it; a report without them is whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from itertools import groupby

from msgspec import Struct, field

from firstnan.dump.values import Statistic, ValueState


class Cell(Enum):
    """One rank at one place of the call map; the value is its letter. The worst stands last.

    A new kind stands here at its rank of severity, is given in ``report/call_map.py``, and is drawn by a line of
    ``CELLS`` in ``show/html/assets/page/data.js``, a colour in ``theme.css`` and words ``html.cell.*``.
    """

    NONE = "."
    """The rank takes part in no call there."""
    EQUAL = "e"
    """Its result is that of the other members (map of equal results)."""
    NORMAL = "n"
    """Input and result are clean."""
    CONTAINED = "c"
    """A non-finite value that no later record takes in."""
    UNDECIDED = "u"
    """No statistics, not finished, a stale asynchronous result, or not looked at."""
    MISSING = "m"
    """A member of the call without such a record: no dump, or cut before it."""
    DIFFERS = "d"
    """Its result is not that of most members (map of equal results)."""
    PROPAGATED = "p"
    """Its input is clean, its result is non-finite."""
    SOURCE = "s"
    """Its own input is non-finite."""


WORST_LAST = "".join(cell.value for cell in Cell)
"""Letters of cells, the one that wins when several stand for one last."""

_RUN = re.compile(r"([a-z.])(\d*)")


class MapRow(Struct, frozen=True):
    """Ranks with the same cells."""

    ranks: tuple[int, ...]
    cells: str
    """Letters of :class:`Cell`, one per column, each with its number of repetitions: ``n12p3s``."""


class CallMap(Struct, frozen=True):
    """The communication calls of one step that were looked at: ranks down, places in causal order across.

    A call stands one place after the latest earlier call of any of its members, so that calls that do not depend on
    each other share a place and a value can only spread to the right.
    """

    step: int
    columns: tuple[str, ...]
    """What is called there: ``all_reduce``, or several APIs."""
    rows: tuple[MapRow, ...]
    listed: tuple[int, ...] = ()
    """Column of each entry of ``Report.collectives``, in their order."""
    calls: int = 0
    """How many calls the map holds."""
    places_per_column: int = 1
    """Neighbouring places that were put together into one column; the worst cell of them is shown."""
    complete: bool = True
    """False: calls before anything was suspected, or long after, are not on the map."""


class NearRecord(Struct, frozen=True, gc=False):
    """One record close to the first bad value of its rank."""

    exec_order: int
    op_name: str
    module: str | None
    """Path of the innermost module around the record."""
    dtype: str
    """Of the largest output; empty when not told."""
    magnitude_in: Statistic | None
    """Largest absolute value among the finite floating inputs."""
    max_out: Statistic | None = field(name="Max")
    """Largest Max of the floating outputs; NaN when one of them holds NaN."""
    min_out: Statistic | None = field(name="Min")
    """Smallest Min of the floating outputs; NaN when one of them holds NaN."""
    state_in: ValueState
    """The worst of the inputs and parameters."""
    state_out: ValueState
    """The worst of the outputs."""


class Surroundings(Struct, frozen=True):
    """Consecutive records of one rank around its first bad value, in record order."""

    step: int
    rank: int
    records: tuple[NearRecord, ...]


def pack_cells(letters: Iterable[str]) -> str:
    """Cells of a row in short form.

    >>> pack_cells("nnnpss.")
    'n3ps2.'
    """
    runs = ((letter, sum(1 for _ in run)) for letter, run in groupby(letters))
    return "".join(letter if count == 1 else f"{letter}{count}" for letter, count in runs)


def unpack_cells(cells: str) -> str:
    """One letter per column.

    >>> unpack_cells("n3ps2.")
    'nnnpss.'
    """
    return "".join(letter * int(count or 1) for letter, count in _RUN.findall(cells))


def worst(letters: str) -> str:
    """The letter that stands for several.

    >>> worst("nnpn."), worst("..")
    ('p', '.')
    """
    return max(letters, key=WORST_LAST.index, default=Cell.NONE.value)


def merge_columns(whole: CallMap, by: int) -> CallMap:
    """The map with every ``by`` neighbouring columns put together; rows that became equal stand together.

    >>> whole = CallMap(0, ("send", "all_reduce", "send"), (MapRow((0,), "nps"), MapRow((1,), "n2s")), (1,), 3)
    >>> merged = merge_columns(whole, 2)
    >>> merged.columns, [row.cells for row in merged.rows], merged.listed, merged.places_per_column
    (('send, all_reduce', 'send'), ['ps', 'ns'], (0,), 2)
    """
    if by <= 1:
        return whole
    rows: dict[str, list[int]] = {}
    for row in whole.rows:
        letters = unpack_cells(row.cells)
        made = pack_cells(worst(letters[at : at + by]) for at in range(0, len(letters), by))
        rows.setdefault(made, []).extend(row.ranks)
    return CallMap(
        step=whole.step,
        columns=tuple(join_names(whole.columns[at : at + by]) for at in range(0, len(whole.columns), by)),
        rows=tuple(MapRow(tuple(sorted(ranks)), cells) for cells, ranks in rows.items()),
        listed=tuple(column // by for column in whole.listed),
        calls=whole.calls,
        places_per_column=whole.places_per_column * by,
        complete=whole.complete,
    )


def join_names(names: Iterable[str], most: int = 3) -> str:
    """Different names once each, in order of appearance.

    >>> join_names(["send", "recv", "send", "all_reduce", "broadcast"])
    'send, recv, all_reduce ...'
    """
    different = list(dict.fromkeys(part for name in names for part in name.removesuffix(" ...").split(", ")))
    return ", ".join(different[:most]) + (" ..." if len(different) > most else "")
