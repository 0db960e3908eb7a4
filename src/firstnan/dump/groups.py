"""Process groups as values: one object for each large group, whose hash is taken once.

A group of all ranks stands in the calls of every one of them, and calls are counted under it again and again: with a
hash that goes through all of its members each time, the work would grow with the square of the number of ranks.
"""

from __future__ import annotations

from collections.abc import Iterable

LARGE = 64
"""Members from which on a group is kept; smaller ones are hashed as fast."""
MOST_MEMBERS = 1 << 20
"""Of all groups that are kept."""


class _LargeGroup(tuple[int, ...]):
    """Equal to the tuple of its members, and found where that is looked for."""

    def __hash__(self) -> int:
        known: int | None = self.__dict__.get("hash")
        if known is None:
            known = self.__dict__["hash"] = super().__hash__()
        return known

    def __reduce__(self) -> tuple[object, tuple[tuple[int, ...]]]:
        return as_group, (tuple(self),)


class _Known:
    """The large groups of this process."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._members = 0

    def one(self, members: tuple[int, ...]) -> tuple[int, ...]:
        found = self._groups.get(members)
        if found is None:
            self._members += len(members)
            if self._members > MOST_MEMBERS:
                self._groups.clear()
                self._members = len(members)
            found = _LargeGroup(members)
            self._groups[found] = found
        return found


_KNOWN = _Known()


def as_group(ranks: Iterable[int]) -> tuple[int, ...]:
    """The ranks of a group, in their order.

    >>> as_group([2, 0])
    (2, 0)
    >>> as_group(range(1000)) is as_group(range(1000))
    True
    """
    members = tuple(ranks)
    return members if len(members) < LARGE else _KNOWN.one(members)
