"""Who stands out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

MAJORITY_OF = 3
"""So many members are needed for one of them to stand out."""


def odd_ranks(values: Mapping[int, Hashable]) -> tuple[int, ...] | None:
    """The ranks whose value is not that of the majority; None: there is no majority, or there are only two.

    >>> odd_ranks({0: "a", 1: "a", 2: "b", 3: "a"})
    (2,)
    >>> odd_ranks({0: "a", 1: "b"}) is None
    True
    """
    top, count = Counter(values.values()).most_common(1)[0]
    if len(values) < MAJORITY_OF or 2 * count <= len(values) or count == len(values):
        return None
    return tuple(sorted(rank for rank, value in values.items() if value != top))


def groups(values: Mapping[int, Hashable]) -> tuple[tuple[int, ...], ...]:
    """Ranks that hold the same, most ranks first, then the lowest one first.

    >>> groups({0: "a", 1: "b", 2: "b", 3: "c"})
    ((1, 2), (0,), (3,))
    """
    found: dict[Hashable, list[int]] = {}
    for rank in sorted(values):
        found.setdefault(values[rank], []).append(rank)
    return tuple(sorted(map(tuple, found.values()), key=lambda ranks: (-len(ranks), ranks)))
