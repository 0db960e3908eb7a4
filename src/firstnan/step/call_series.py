"""Series of calls: what is counted together on one rank and on its peers.

Rules are told in :mod:`matching`; here they become keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from firstnan.dump.groups import as_group
from firstnan.dump.problems import BLIND
from firstnan.operators.communication import CallKey, CallKind, GroupKnowledge, group_id
from firstnan.rank.summary import RankSummary

GroupKey = tuple[int, ...] | str
UNKNOWN_GROUP = "unknown group"
"""Key of all calls whose group this dump does not record."""


class Collective(Struct, frozen=True, array_like=True, tag=True):
    """Calls of one API in one group."""

    key: GroupKey
    api: str


class Message(Struct, frozen=True, array_like=True, tag=True):
    """Messages of one direction, seen from one of its two ends."""

    source: int
    target: int
    tag: int
    label: str
    sends: bool


Series = Collective | Message


def series_of(call: CallKey, rank: int, world: tuple[int, ...], world_id: str) -> Series | None:
    """The series of a call as it is counted on every member; None for messages without a usable peer."""
    if call.kind is CallKind.COLLECTIVE:
        return Collective(_group_key(call, world), call.api)
    if call.peer is None:
        return None
    sends = call.kind is CallKind.SEND
    source, target = (rank, call.peer) if sends else (call.peer, rank)
    return Message(source, target, call.tag, _label(call, world, world_id), sends)


def _group_key(call: CallKey, world: tuple[int, ...]) -> GroupKey:
    if call.group is not None:
        return _ordered(call.group)
    if call.knowledge is GroupKnowledge.DEFAULT:
        return world
    if call.knowledge is GroupKnowledge.NAMED and call.label:
        return f"group {call.label}"
    return UNKNOWN_GROUP


@lru_cache(maxsize=4096)
def _ordered(group: tuple[int, ...]) -> tuple[int, ...]:
    """The sorted ranks of a group: one object for all its members."""
    return as_group(sorted(group))


def _label(call: CallKey, world: tuple[int, ...], world_id: str) -> str:
    if call.group is not None:
        return "" if _ordered(call.group) == world else group_id(call.group)
    return "" if call.label is None or call.label == world_id or "world" in call.label else call.label


def totals(counts: Mapping[CallKey, int], rank: int, world: tuple[int, ...], world_id: str) -> dict[Series, int]:
    """Counts by key as counts by series: calls of the default group and of a group of all ranks are one series."""
    found: dict[Series, int] = {}
    for key, count in counts.items():
        series = series_of(key, rank, world, world_id)
        if series is not None:
            found[series] = found.get(series, 0) + count
    return found


class Tally(Struct, frozen=True):
    """How often one rank made the calls of each series."""

    made: Mapping[Series, int] | None
    """In the whole file; None: not counted, the calls that are kept are all there are."""
    before: Mapping[Series, int] | None
    """Before the records around the first suspect; None: nothing is suspected."""

    blind: bool = False
    """Some records have no statistics: what was not suspected is not clean for that."""

    @classmethod
    def of(cls, summary: RankSummary, world: tuple[int, ...], world_id: str) -> Tally:
        if summary.made is None:
            return cls(None, None)
        made = totals(summary.made, summary.rank, world, world_id)
        blind = not summary.judged or any(p.kind in BLIND for p in summary.problems)
        if summary.suspect is None:
            return cls(made, None, blind)
        first = [window for window in summary.windows if window.start <= summary.suspect]
        return cls(made, totals(first[-1].before if first else {}, summary.rank, world, world_id), blind)

    def has(self, series: Series, nth: int) -> bool:
        """The rank made the n-th call (from 0)."""
        return self.made is not None and self.made.get(series, 0) > nth

    def is_clean(self, series: Series, nth: int) -> bool:
        """The n-th call came before anything was suspected on the rank."""
        return not self.blind and (self.before is None or nth < self.before.get(series, 0))
