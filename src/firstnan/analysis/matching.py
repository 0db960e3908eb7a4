"""Puts the records of one communication call together across ranks.

Rules (format document, section 7.4), each tested under its name:

``nth_call_of_group_and_api``
    The n-th call of an API in a group on one member is the n-th on the others. Record numbers are per rank:
    ``all_reduce.5`` on rank 0 may be ``all_reduce.3`` on rank 2.
``world_group_is_no_group``
    A group that lists all ranks and no group argument are one group.
``group_order_does_not_matter``
    ``[1, 0]`` and ``[0, 1]`` have the same members and are one group.
``p2p_by_peers_and_tag``
    The n-th message from s to d with a tag is the n-th that d receives from s with it, whichever API either side used.
``batch_element_by_element``
    Each element of ``batch_isend_irecv`` is a message of its own.
``unknown_groups_by_name``
    Where the dump records no groups, records of one name are one call (mission text); marked ``BY_NAME``.
``named_groups_by_label``
    A group with a name but no ranks: its members are the ranks that use the name.
``different_counts_are_partial``
    A member with fewer calls: those that are there are matched, the rest is marked ``PARTIAL``.
``different_sizes_are_doubtful``
    From the first call whose dtype or size differs between members, that group's matches are ``DOUBTFUL``.

The work is one pass over the calls of each rank: linear in ranks x calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from firstnan.analysis.summarize import CommFact, RankSummary
from firstnan.collectives import CallKind, GroupKnowledge, group_id
from firstnan.report import MatchState

WORLD = "world"
SAME_SIZE = frozenset({"all_reduce", "reduce", "broadcast", "all_gather", "all_gather_into_tensor",
                       "reduce_scatter", "reduce_scatter_tensor", "gather"})  # fmt: skip
"""Families whose members all put in tensors of one size."""

GroupKey = tuple[int, ...] | str


@dataclass(frozen=True, slots=True)
class MatchedCall:
    """One communication call over its members."""

    api: str
    key: GroupKey
    """Sorted ranks, or a label where the ranks are not recorded."""
    nth: int
    members: Mapping[int, CommFact]
    """The members whose record is there."""
    absent: tuple[int, ...]
    """Members without such a record."""
    state: MatchState
    is_p2p: bool = False
    sender: int | None = None
    receiver: int | None = None

    @property
    def group(self) -> tuple[int, ...] | None:
        if self.is_p2p:
            return tuple(sorted(r for r in (self.sender, self.receiver) if r is not None))
        return self.key if isinstance(self.key, tuple) else None


@dataclass(frozen=True, slots=True)
class Matching:
    """All calls of one step."""

    calls: tuple[MatchedCall, ...]
    world: tuple[int, ...]
    """Every rank that the dump mentions: folders, groups, peers, and gaps below them."""
    of: Mapping[tuple[int, int], tuple[int, ...]]
    """(rank, record index) -> positions in ``calls``."""
    unmatched: int = 0
    """Receives from any source and calls without a usable peer."""
    groups_unknown: bool = False

    def at(self, rank: int, index: int) -> tuple[MatchedCall, ...]:
        return tuple(self.calls[i] for i in self.of.get((rank, index), ()))


def world_of(summaries: Iterable[RankSummary], known_ranks: Iterable[int]) -> tuple[int, ...]:
    """All ranks of the run as far as the dump tells: world size itself is nowhere recorded.

    Gaps count as ranks unless there are more gaps than ranks: a run with folders 0, 1 and 3 has a rank 2, one
    with the folder 1 has a rank 0; folders 168 to 171 are a selection.
    """
    ranks = set(known_ranks)
    mentioned: set[int] = set()
    for summary in summaries:
        ranks.add(summary.rank)
        for fact in summary.calls:
            mentioned.update(fact.call.group or ())
            mentioned.update(r for r in (fact.call.peer, fact.call.root) if r is not None and r >= 0)
    everyone = ranks | mentioned
    if everyone and max(everyone) + 1 <= 2 * len(everyone):
        everyone |= set(range(max(everyone) + 1))
    return tuple(sorted(everyone))


def match(summaries: Mapping[int, RankSummary], world: tuple[int, ...]) -> Matching:
    """Matches every communication call of one step; see the rules above."""
    groups: dict[tuple[GroupKey, str, int | str], dict[int, CommFact]] = {}
    messages: dict[tuple[int, int, int, str, int], dict[bool, tuple[int, CommFact]]] = {}
    labelled: dict[str, set[int]] = {}
    unmatched = 0
    unknown = False
    world_id = group_id(world)
    for rank in sorted(summaries):
        counts: dict[object, int] = {}
        for fact in summaries[rank].calls:
            call = fact.call
            if call.kind is CallKind.COLLECTIVE:
                key = _group_key(call.group, call.knowledge, call.group_label, world)
                if call.knowledge is GroupKnowledge.UNKNOWN:
                    unknown = True
                    groups.setdefault((key, call.api, call.name), {})[rank] = fact
                else:
                    nth = counts.get((key, call.api), 0)
                    counts[key, call.api] = nth + 1
                    groups.setdefault((key, call.api, nth), {})[rank] = fact
                if isinstance(key, str):
                    labelled.setdefault(key, set()).add(rank)
                continue
            if call.peer is None:
                unmatched += 1
                continue
            sends = call.kind is CallKind.SEND
            source, target = (rank, call.peer) if sends else (call.peer, rank)
            label = _p2p_label(call.group, call.group_label, world, world_id)
            direction = (source, target, call.tag, label)
            nth = counts.get((sends, direction), 0)
            counts[sends, direction] = nth + 1
            messages.setdefault((*direction, nth), {})[sends] = (rank, fact)
    found = _collectives(groups, labelled) + _messages(messages)
    of: dict[tuple[int, int], tuple[int, ...]] = {}
    for position, matched in enumerate(found):
        for rank, fact in matched.members.items():
            at = (rank, fact.call.index)
            of[at] = (*of.get(at, ()), position)
    return Matching(tuple(found), world, of, unmatched, unknown)


def _group_key(
    group: tuple[int, ...] | None, knowledge: GroupKnowledge, label: str | None, world: tuple[int, ...]
) -> GroupKey:
    if group is not None:
        return tuple(sorted(group))
    if knowledge is GroupKnowledge.DEFAULT:
        return world
    if knowledge is GroupKnowledge.NAMED and label:
        return f"group {label}"
    return "unknown group"


def _p2p_label(group: tuple[int, ...] | None, label: str | None, world: tuple[int, ...], world_id: str) -> str:
    if group is not None:
        return "" if tuple(sorted(group)) == world else group_id(group)
    return "" if label is None or label == world_id or "world" in label else label


def _collectives(
    groups: Mapping[tuple[GroupKey, str, int | str], dict[int, CommFact]], labelled: Mapping[str, set[int]]
) -> list[MatchedCall]:
    found = []
    doubtful: set[tuple[GroupKey, str]] = set()
    for (key, api, nth), members in groups.items():
        everyone = key if isinstance(key, tuple) else tuple(sorted(labelled[key]))
        absent = tuple(r for r in everyone if r not in members)
        if api in SAME_SIZE and not _same_size(members.values()):
            doubtful.add((key, api))
        if isinstance(nth, str):
            state = MatchState.BY_NAME
        elif (key, api) in doubtful:
            state = MatchState.DOUBTFUL
        else:
            state = MatchState.PARTIAL if absent else MatchState.MATCHED
        number = nth if isinstance(nth, int) else _number(nth)
        found.append(MatchedCall(api, key, number, members, absent, state))
    return found


def _number(name: str) -> int:
    digits = [part for part in name.replace("_", ".").split(".") if part.isdigit()]
    return int(digits[0]) if digits else 0


def _same_size(members: Iterable[CommFact]) -> bool:
    sizes = set()
    for fact in members:
        tensors = fact.call.sent or fact.call.received
        if len(tensors) == 1 and tensors[0].numel is not None and fact.call.sent:
            sizes.add((tensors[0].numel, tensors[0].dtype))
    return len(sizes) <= 1


def _messages(
    messages: Mapping[tuple[int, int, int, str, int], dict[bool, tuple[int, CommFact]]],
) -> list[MatchedCall]:
    found = []
    for (source, target, _tag, _label, nth), sides in messages.items():
        members = dict(sides.values())
        absent = tuple(r for r in (source, target) if r not in members)
        sizes = {f.call.sent[0].numel if f.call.sent else None for f in members.values() if f.call.sent}
        sizes |= {f.call.received[0].numel for f in members.values() if f.call.received}
        doubtful = len({s for s in sizes if s is not None}) > 1
        state = MatchState.DOUBTFUL if doubtful else MatchState.PARTIAL if absent else MatchState.MATCHED
        found.append(
            MatchedCall("p2p", (source, target), nth, members, absent, state, True, sender=source, receiver=target)
        )
    return found
