"""Order of communication calls over all ranks: record order within a rank, a call at once on all its members.

For showing calls and how a value spread. It does not tell who was first: :mod:`firstnan.step.liveness` gives each rank
its first event that matters, :mod:`firstnan.step.spread` whether that is its own or was received.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping

from firstnan.step.matching import MatchedCall, Matching


def successors(matching: Matching) -> list[list[int]]:
    """For every call the calls that come next on one of its members."""
    after: list[list[int]] = [[] for _ in matching.calls]
    by_rank: dict[int, list[tuple[int, int]]] = {}
    for position, call in enumerate(matching.calls):
        for rank, fact in call.members.items():
            by_rank.setdefault(rank, []).append((fact.call.index, position))
    for entries in by_rank.values():
        entries.sort()
        for (at, one), (then, other) in itertools.pairwise(entries):
            if at != then:
                after[one].append(other)
    return after


def causal_order(matching: Matching) -> Mapping[int, int]:
    """Position in ``Matching.calls`` -> place in an order that respects every rank's record order."""
    after = successors(matching)
    waiting = [0] * len(after)
    for following in after:
        for position in following:
            waiting[position] += 1
    key = [max((f.call.index for f in c.members.values()), default=0) for c in matching.calls]
    heap = [(key[p], p) for p in range(len(waiting)) if waiting[p] == 0]
    heapq.heapify(heap)
    order: dict[int, int] = {}
    rest = set(range(len(waiting)))
    while rest:
        # calls that do not fit together leave the heap empty: go on with the earliest of the rest
        position = heapq.heappop(heap)[1] if heap else min(rest, key=lambda p: (key[p], p))
        if position not in rest:
            continue
        rest.discard(position)
        order[position] = len(order)
        for other in after[position]:
            waiting[other] -= 1
            if waiting[other] == 0:
                heapq.heappush(heap, (key[other], other))
    return order


def first_behind(matching: Matching, rank: int, index: int | None) -> Mapping[int, int]:
    """Rank -> index of its first call that certainly comes after a record: a call of the record's own rank behind it,
    or one that follows from such a call."""
    after = successors(matching)
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


def comes_after(matching: Matching, call: MatchedCall) -> set[int]:
    """Ids of the calls that certainly come after this one: on its members, and wherever those go on."""
    after = successors(matching)
    start = next((p for p, one in enumerate(matching.calls) if one is call), None)
    seen: set[int] = set()
    queue = [] if start is None else [start]
    while queue:
        for position in after[queue.pop()]:
            if position not in seen:
                seen.add(position)
                queue.append(position)
    return {id(matching.calls[p]) for p in seen}
