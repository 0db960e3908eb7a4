"""Parameters by ranks: which ranks hold the same numbers, as a small table of letters."""

from __future__ import annotations

from firstnan.agree.odd import MAJORITY_OF
from firstnan.answer.model import Disagreement, DisagreementKind
from firstnan.dump.printable import show
from firstnan.dump.ranges import format_ranges
from firstnan.show.html.blocks import Json

MAX_ROWS = 12
MAX_COLUMNS = 12
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def build(found: Disagreement) -> dict[str, Json] | None:
    """The table; ranks that hold the same everywhere share a column. None for records, of which all numbers are shown.

    A letter stands for one value of its row, A for that of most ranks; the row tells whether those are a majority.
    """
    if found.kind is not DisagreementKind.PARAMETER or not found.held:
        return None
    shown = found.held[:MAX_ROWS]
    number = {
        (at, rank): place for at, one in enumerate(shown) for place, ranks in enumerate(one.groups) for rank in ranks
    }
    together: dict[tuple[int | None, ...], list[int]] = {}
    for rank in found.ranks:
        together.setdefault(tuple(number.get((at, rank)) for at in range(len(shown))), []).append(rank)
    columns = sorted(together.items(), key=lambda one: one[1])
    return {
        "columns": [format_ranges(ranks) for _, ranks in columns[:MAX_COLUMNS]],
        "rows": [
            {
                "name": show(one.name, 160),
                "cells": [_letter(held[at]) for held, _ in columns[:MAX_COLUMNS]],
                "majority": _has_majority(one.groups),
            }
            for at, one in enumerate(shown)
        ],
        "more": found.count - len(shown),
        "more_ranks": sum(len(ranks) for _, ranks in columns[MAX_COLUMNS:]),
    }


def _letter(place: int | None) -> str:
    return "" if place is None else LETTERS[min(place, len(LETTERS) - 1)]


def _has_majority(groups: tuple[tuple[int, ...], ...]) -> bool:
    of = sum(map(len, groups))
    return of >= MAJORITY_OF and 2 * len(groups[0]) > of
