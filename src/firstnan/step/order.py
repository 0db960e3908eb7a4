"""Order of communication calls over all ranks: record order within a rank, a call at once on all its members.

For showing calls and how a value spread. It does not tell who was first: :mod:`firstnan.step.liveness` gives each rank
its first event that matters, :mod:`firstnan.step.spread` whether that is its own or was received.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from firstnan.step.matching import MatchedCall, Matching

Members = Mapping[int, int]
"""The members of a call: rank -> index of the call's record in its file."""


def members_of(matching: Matching) -> list[Members]:
    """The members of each call of ``Matching.calls`` whose record is there."""
    return [{rank: fact.call.index for rank, fact in call.members.items()} for call in matching.calls]


def successors(calls: Sequence[Members]) -> list[list[int]]:
    """For every call the calls that come next on one of its members."""
    after: list[list[int]] = [[] for _ in calls]
    by_rank: dict[int, list[tuple[int, int]]] = {}
    for position, call in enumerate(calls):
        for rank, index in call.items():
            by_rank.setdefault(rank, []).append((index, position))
    for entries in by_rank.values():
        entries.sort()
        for (at, one), (then, other) in itertools.pairwise(entries):
            if at != then:
                after[one].append(other)
    return after


def causal_order(calls: Sequence[Members]) -> Mapping[int, int]:
    """Position of a call -> its number in an order that respects every rank's record order.

    Calls that no run can make in their order (two ranks that disagree about it) go by their records.
    """
    after = successors(calls)
    waiting = [0] * len(after)
    for following in after:
        for position in following:
            waiting[position] += 1
    entries = sorted((max(call.values(), default=0), position) for position, call in enumerate(calls))
    free = [entry for entry in entries if waiting[entry[1]] == 0]
    rest = iter(entries)
    order: dict[int, int] = {}
    while len(order) < len(calls):
        _, position = heapq.heappop(free) if free else next(rest)
        if position in order:
            continue
        order[position] = len(order)
        for other in after[position]:
            waiting[other] -= 1
            if waiting[other] == 0:
                heapq.heappush(free, (max(calls[other].values(), default=0), other))
    return order


def places(calls: Sequence[Members]) -> tuple[int, ...]:
    """Place of each call on a map: one after the latest earlier call of any of its members.

    ``calls_of_disjoint_groups_share_a_place``: ranks 0,1 and ranks 2,3 each call all_reduce, then all four do: places
    0, 0, 1. The elements of one ``batch_isend_irecv`` do not wait for each other.
    """
    order = causal_order(calls)
    found = [0] * len(calls)
    clocks: dict[int, tuple[int, int, int]] = {}  # rank -> last record, next free place before it, and after it
    for position in order:
        members = calls[position]
        place = max((_free_place(clocks.get(rank), index) for rank, index in members.items()), default=0)
        found[position] = place
        for rank, index in members.items():
            known = clocks.get(rank)
            after = known[2] if known is not None and known[0] == index else 0
            clocks[rank] = (index, _free_place(known, index), max(place + 1, after))
    return tuple(found)


def _free_place(clock: tuple[int, int, int] | None, index: int) -> int:
    if clock is None:
        return 0
    record, before, after = clock
    return before if record == index else after


def first_behind(matching: Matching, rank: int, index: int | None) -> Mapping[int, int]:
    """Rank -> index of its first call that certainly comes after a record: a call of the record's own rank behind it,
    or one that follows from such a call."""
    after = successors(members_of(matching))
    queue = [
        position
        for position, call in enumerate(matching.calls)
        if index is not None and rank in call.members and call.members[rank].call.index >= index
    ]
    seen = set(queue)
    found: dict[int, int] = {}
    while queue:
        position = queue.pop()
        for member, fact in matching.calls[position].members.items():
            found[member] = min(found.get(member, fact.call.index), fact.call.index)
        new = [other for other in after[position] if other not in seen]
        seen.update(new)
        queue += new
    return found


def times_of(matching: Matching, records: Sequence[tuple[int, int | None]]) -> list[float]:
    """For each record (rank and index) a number that grows with whatever follows from it: behind the place of its
    rank's last call before it in a causal order of all calls; a call stands right before its own place."""
    order = causal_order(members_of(matching))
    calls: dict[int, list[tuple[int, int]]] = {rank: [] for rank, _ in records}
    for position, call in enumerate(matching.calls):
        for rank, fact in call.members.items():
            if rank in calls:
                calls[rank].append((fact.call.index, order[position]))
    for entries in calls.values():
        entries.sort()
    found = []
    for rank, index in records:
        entries = calls[rank]
        end = bisect_left(entries, (index + 1, -1)) if index is not None else 0
        at, time = entries[end - 1] if end else (-1, -1)
        found.append(time - 0.5 if end and at == index else time)
    return found


def comes_after(matching: Matching, call: MatchedCall) -> set[int]:
    """Ids of the calls that certainly come after this one: on its members, and wherever those go on."""
    after = successors(members_of(matching))
    start = next((p for p, one in enumerate(matching.calls) if one is call), None)
    seen: set[int] = set()
    queue = [] if start is None else [start]
    while queue:
        for position in after[queue.pop()]:
            if position not in seen:
                seen.add(position)
                queue.append(position)
    return {id(matching.calls[p]) for p in seen}
