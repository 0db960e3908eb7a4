"""Which ranks are held against each other, and what the communication between them says about that.

Sets of ranks are the recorded process groups, and *replicas*: ranks whose parameters are equal in at least nine of ten.
Ranks that exchange activations hold parts of one model; their parameters may be equal by chance, or by one seed.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from functools import lru_cache

from firstnan.agree.sources import Replica
from firstnan.agree.tables import Table, Value
from firstnan.operators.communication import CallKind, GroupKnowledge, Result, role
from firstnan.read.fingerprints import CallPrints

REPLICA = 0.9
"""Share of equal parameters from which on ranks are replicas."""
FEWEST = 3
"""Parameters on which that is decided at least."""
_PROBES = 16
"""Parameters by which replicas are looked for among many different ranks."""
_FULL = 32
"""So many different ranks are compared each with each."""


class Traffic(Enum):
    """What ranks of a set send each other in the forward pass."""

    NONE = "none"
    """They communicate, and no activations: data parallel."""
    TOKENS = "tokens"
    """Activations, by all_to_all alone: experts."""
    ACTIVATIONS = "activations"
    """Activations, by collectives: tensor or sequence parallel."""
    MESSAGES = "messages"
    """Activations, from one to another: pipeline or ring."""
    UNKNOWN = "unknown"
    """No communication between them is recorded."""


def group_of(series: CallPrints, world: Collection[int]) -> frozenset[int] | None:
    """The members of a collective series; None: not known, or messages."""
    key = series.key
    if key.kind is not CallKind.COLLECTIVE:
        return None
    if key.group is not None:
        return _members(key.group)
    return frozenset(world) if key.knowledge is GroupKnowledge.DEFAULT else None


@lru_cache(maxsize=256)
def _members(group: tuple[int, ...]) -> frozenset[int]:
    """One set for each group: all of its members ask for it."""
    return frozenset(group)


def groups(replicas: Mapping[int, Replica]) -> list[tuple[int, ...]]:
    """The recorded groups of at least two ranks that are there, each once."""
    found: dict[tuple[int, ...], None] = {}
    keys = {id(one.key): one for replica in replicas.values() for one in replica.prints.calls}  # ranks share them
    for series in keys.values():
        members = group_of(series, replicas)
        if members is not None:
            there = tuple(sorted(members & replicas.keys()))
            if len(there) > 1:
                found[there] = None
    return list(found)


_RANKED = (Traffic.UNKNOWN, Traffic.NONE, Traffic.TOKENS, Traffic.ACTIVATIONS, Traffic.MESSAGES)


def traffic(replicas: Mapping[int, Replica], ranks: Sequence[int]) -> Traffic:
    """What the ranks of one set send each other; the strongest kind counts."""
    inside = frozenset(ranks)
    found = Traffic.UNKNOWN
    for rank in ranks:
        for series in replicas[rank].prints.calls:
            here = _traffic(series, rank, inside, replicas)
            if _RANKED.index(here) > _RANKED.index(found):
                found = here
    return found


def _traffic(series: CallPrints, rank: int, inside: frozenset[int], world: Collection[int]) -> Traffic:
    members = group_of(series, world)
    if members is None:
        peer = series.key.peer
        is_inside = series.key.kind is not CallKind.COLLECTIVE and peer in inside and peer != rank
        return Traffic.MESSAGES if is_inside else Traffic.UNKNOWN
    if len(members & inside) < 2:
        return Traffic.UNKNOWN
    if role(series.key.api).result is Result.EXCHANGED:
        return Traffic.TOKENS
    return Traffic.ACTIVATIONS if series.activations and series.key.api != "broadcast" else Traffic.NONE


def replica_sets(replicas: Mapping[int, Replica]) -> list[tuple[int, ...]]:
    """Sets of ranks whose informative parameters are equal in at least REPLICA of them."""
    classes: dict[tuple[str, bytes], list[int]] = {}
    for rank in sorted(replicas):
        parameters = replicas[rank].prints.parameters
        if len(parameters):
            classes.setdefault((parameters.names, parameters.numbers), []).append(rank)
    heads = [replicas[ranks[0]].table for ranks in classes.values()]
    leader = list(range(len(heads)))

    def top(at: int) -> int:
        while leader[at] != at:
            at = leader[at]
        return at

    for one, other in _candidates(heads):
        if top(one) != top(other) and _is_replica(heads[one], heads[other]):
            leader[max(top(one), top(other))] = min(top(one), top(other))
    sets: dict[int, list[int]] = {}
    for at, ranks in enumerate(classes.values()):
        sets.setdefault(top(at), []).extend(ranks)
    return [tuple(sorted(ranks)) for ranks in sets.values() if len(ranks) > 1]


def _candidates(heads: Sequence[Table]) -> list[tuple[int, int]]:
    """Pairs that may be replicas: all of few; of many, those that share most of some probes."""
    if len(heads) <= _FULL:
        return list(itertools.combinations(range(len(heads)), 2))
    by_value: dict[tuple[str, Value | None], list[int]] = {}
    pairs = []
    for at, head in enumerate(heads):
        informative = [place for place in range(len(head)) if head.is_informative(place)]
        stride = max(len(informative) // _PROBES, 1)
        shared: Counter[int] = Counter()
        probes = informative[::stride][: _PROBES + 1]
        for place in probes:
            known = by_value.setdefault((head.names[place], head.value(place)), [])
            shared.update(known[-_FULL:])
            known.append(at)
        pairs += [(other, at) for other, count in shared.most_common(FEWEST) if 4 * count >= 3 * len(probes)]
    return pairs


def _is_replica(one: Table, other: Table) -> bool:
    equal = total = 0
    for at, name in enumerate(one.names):
        there = other.places.get(name)
        if there is None or one.forms[at] != other.forms[there] or not one.is_informative(at):
            continue
        own, their = one.value(at), other.value(there)
        if own is not None and their is not None:
            total += 1
            equal += own == their
    return total >= FEWEST and equal >= REPLICA * total
