"""Puts the records of one communication call together across ranks.

Rules (dump format, section 7.4), each tested under its name:

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
    Where the dump records no groups, records of one name are one call (section 14); marked ``BY_NAME``.
``named_groups_by_label``
    A group with a name but no ranks: its members are the ranks that use the name.
``different_counts_are_partial``
    A member with fewer calls: those that are there are matched, the rest is marked ``PARTIAL``.
``different_sizes_are_doubtful``
    From the first call whose dtype or size differs between members, that group's matches are ``DOUBTFUL``.

The work is one pass over the calls of each rank: linear in ranks x calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from firstnan.answer.model import MatchState
from firstnan.dump.groups import as_group
from firstnan.dump.ranges import unpacked
from firstnan.operators.communication import CallKey, group_id, role
from firstnan.rank.summary import CommFact, RankSummary
from firstnan.step.call_series import UNKNOWN_GROUP, Collective, GroupKey, Message, Series, Tally, series_of, totals

WORLD = "world"


class MatchedCall(Struct, frozen=True):
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
    series: Series | None = None
    """What the call was counted in; of a message, as its sender counts."""
    clean: tuple[int, ...] = ()
    """Members that made the call before anything was suspected on them; their records were not kept."""
    unseen: tuple[int, ...] = ()
    """Members that made the call where they were not looked at any more."""
    is_even: bool = True
    """All members made as many calls of this series: that it is the same call on each is no matter of counting."""

    @property
    def is_seen(self) -> bool:
        """The record of every member that made the call is there."""
        return not self.clean and not self.unseen

    @property
    def group(self) -> tuple[int, ...] | None:
        if self.is_p2p:
            return tuple(sorted(r for r in (self.sender, self.receiver) if r is not None))
        return self.key if isinstance(self.key, tuple) else None


class Matching(Struct, frozen=True):
    """All calls of one step."""

    calls: tuple[MatchedCall, ...]
    world: tuple[int, ...]
    """Every rank that the dump mentions: folders, groups, peers, and gaps below them."""
    of: Mapping[tuple[int, int], tuple[int, ...]]
    """(rank, record index) -> positions in ``calls``."""
    unmatched: int = 0
    """Receives from any source and calls without a usable peer."""
    groups_unknown: bool = False
    short: Mapping[int, str] = field(default_factory=dict)
    """Ranks that made fewer calls of a series than another member -> how many, of what."""

    def at(self, rank: int, index: int) -> tuple[MatchedCall, ...]:
        return tuple(self.calls[i] for i in self.of.get((rank, index), ()))


def world_of(summaries: Iterable[RankSummary], known_ranks: Iterable[int]) -> tuple[int, ...]:
    """All ranks of the run as far as the dump tells: world size itself is nowhere recorded.

    Gaps count as ranks unless there are more gaps than ranks: a run with folders 0, 1 and 3 has a rank 2, one
    with the folder 1 has a rank 0; folders 168, 170 and 171 are a selection, of which 169 is absent.
    """
    ranks = set(known_ranks)
    mentioned: set[int] = set()
    shared: dict[int, tuple[tuple[int, int], ...]] = {}  # thousands of ranks share them: each is opened once
    groups: dict[int, tuple[int, ...]] = {}
    for summary in summaries:
        ranks.add(summary.rank)
        shared[id(summary.mentioned)] = summary.mentioned
        for fact in summary.calls:
            if fact.call.group is not None:
                groups[id(fact.call.group)] = fact.call.group
            mentioned.update(r for r in (fact.call.peer, fact.call.root) if r is not None and r >= 0)
    mentioned.update(*map(unpacked, shared.values()), *groups.values())
    everyone = ranks | mentioned
    for first in (0, min(everyone, default=0)):
        if everyone and max(everyone) + 1 - first <= 2 * len(everyone):
            everyone |= set(range(first, max(everyone) + 1))
    return as_group(sorted(everyone))


def match(summaries: Mapping[int, RankSummary], world: tuple[int, ...]) -> Matching:
    """Matches the communication calls of one step that are kept; see the rules above."""
    world_id = group_id(world)
    tallies = {rank: Tally.of(summary, world, world_id) for rank, summary in summaries.items()}
    groups: dict[tuple[Collective, int | str], dict[int, CommFact]] = {}
    messages: dict[tuple[Message, int], dict[bool, tuple[int, CommFact]]] = {}
    labelled: dict[str, set[int]] = {}
    unmatched = 0
    unknown = False
    for rank in sorted(summaries):
        made = summaries[rank].made or {}
        unmatched += sum(n for key, n in made.items() if series_of(key, rank, world, world_id) is None)
        for counted in tallies[rank].made or ():
            if isinstance(counted, Collective) and isinstance(counted.key, str):
                labelled.setdefault(counted.key, set()).add(rank)
                unknown = unknown or counted.key == UNKNOWN_GROUP
        for series, nth, fact in _numbered(summaries[rank], world, world_id):
            if series is None:
                unmatched += summaries[rank].made is None
            elif isinstance(series, Message):
                sent = replace(series, sends=True)
                messages.setdefault((sent, nth), {})[series.sends] = (rank, fact)
            else:
                by_name = series.key == UNKNOWN_GROUP
                unknown = unknown or by_name
                groups.setdefault((series, fact.call.name if by_name else nth), {})[rank] = fact
                if isinstance(series.key, str):
                    labelled.setdefault(series.key, set()).add(rank)
    found = _collectives(groups, labelled, tallies) + _messages(messages, tallies)
    of: dict[tuple[int, int], tuple[int, ...]] = {}
    for position, matched in enumerate(found):
        for rank, fact in matched.members.items():
            at = (rank, fact.call.index)
            of[at] = (*of.get(at, ()), position)
    return Matching(tuple(found), world, of, unmatched, unknown, _short(tallies, labelled))


def _numbered(
    summary: RankSummary, world: tuple[int, ...], world_id: str
) -> Iterator[tuple[Series | None, int, CommFact]]:
    """The kept calls of one rank with their series and their number in it."""
    counts: dict[Series, int] = {}
    known: dict[CallKey, Series | None] = {}
    windows = list(reversed(summary.windows))
    for fact in summary.calls:
        while windows and fact.call.index >= windows[-1].start:
            counts = totals(windows.pop().before, summary.rank, world, world_id)
        key = CallKey.of(fact.call)
        if key not in known:
            known[key] = series_of(key, summary.rank, world, world_id)
        series = known[key]
        nth = 0
        if series is not None:
            nth = counts.get(series, 0)
            counts[series] = nth + 1
        yield series, nth, fact


def _collectives(
    groups: Mapping[tuple[Collective, int | str], dict[int, CommFact]],
    labelled: Mapping[str, set[int]],
    tallies: Mapping[int, Tally],
) -> list[MatchedCall]:
    found = []
    doubtful: set[Collective] = set()
    for (series, nth), members in groups.items():
        key, api = series.key, series.api
        everyone = key if isinstance(key, tuple) else tuple(sorted(labelled[key]))
        others = [r for r in everyone if r not in members]
        absent, clean, unseen = _without_record(others, series, nth, tallies)
        if role(api).same_size and not _same_size(members.values()):
            doubtful.add(series)
        if isinstance(nth, str):
            state = MatchState.BY_NAME
        elif series in doubtful:
            state = MatchState.DOUBTFUL
        else:
            state = MatchState.PARTIAL if absent else MatchState.MATCHED
        number = nth if isinstance(nth, int) else number_in(nth)
        even = _is_even(((rank, series) for rank in everyone), tallies)
        found.append(
            MatchedCall(
                api, key, number, members, absent, state, series=series, clean=clean, unseen=unseen, is_even=even
            )
        )
    return found


def _is_even(ends: Iterable[tuple[int, Series]], tallies: Mapping[int, Tally]) -> bool:
    """Whether all ranks of which it is known made as many calls."""
    known = ((tallies[rank].made, series) for rank, series in ends if rank in tallies)
    return len({made.get(series, 0) for made, series in known if made is not None}) <= 1


def _without_record(
    others: Iterable[int], series: Series, nth: int | str, tallies: Mapping[int, Tally]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Members of a call whose record is not kept: those that did not make it, made it while clean, and the rest."""
    absent: list[int] = []
    clean: list[int] = []
    unseen: list[int] = []
    for rank in others:
        tally = tallies.get(rank)
        if tally is None or isinstance(nth, str) or not tally.has(series, nth):
            absent.append(rank)
        elif tally.is_clean(series, nth):
            clean.append(rank)
        else:
            unseen.append(rank)
    return tuple(absent), tuple(clean), tuple(unseen)


def _short(tallies: Mapping[int, Tally], labelled: Mapping[str, set[int]]) -> dict[int, str]:
    """different_counts_are_partial, for whole files: the first series of which a rank made fewer calls."""
    most: dict[Series, int] = {}
    for one in tallies.values():
        for series, count in (one.made or {}).items():
            both = replace(series, sends=True) if isinstance(series, Message) else series
            most[both] = max(most.get(both, 0), count)
    found: dict[int, str] = {}
    for series, count in most.items():
        for rank, end in _ends(series, labelled):
            tally = tallies.get(rank)
            have = count if tally is None or tally.made is None else tally.made.get(end, 0)
            if have < count and not (isinstance(series, Collective) and series.key == UNKNOWN_GROUP):
                what = "messages" if isinstance(series, Message) else f"calls of {series.api}"
                found.setdefault(rank, f"{have} of {count} {what}")
    return found


def _ends(series: Series, labelled: Mapping[str, set[int]]) -> list[tuple[int, Series]]:
    """The ranks that make the calls of a series, and the series as each of them counts it."""
    if isinstance(series, Message):
        return [(series.source, series), (series.target, replace(series, sends=False))]
    ranks = series.key if isinstance(series.key, tuple) else sorted(labelled.get(series.key, ()))
    return [(rank, series) for rank in ranks]


def number_in(name: str) -> int:
    """The first number in a record name; 0 without one."""
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
    messages: Mapping[tuple[Message, int], dict[bool, tuple[int, CommFact]]], tallies: Mapping[int, Tally]
) -> list[MatchedCall]:
    found = []
    for (series, nth), sides in messages.items():
        source, target = series.source, series.target
        members = dict(sides.values())
        absent: tuple[int, ...] = ()
        clean: tuple[int, ...] = ()
        unseen: tuple[int, ...] = ()
        for rank, end in _ends(series, {}):
            if rank not in members:
                absent, clean, unseen = _without_record((rank,), end, nth, tallies)
        sizes = {f.call.sent[0].numel if f.call.sent else None for f in members.values() if f.call.sent}
        sizes |= {f.call.received[0].numel for f in members.values() if f.call.received}
        doubtful = len({s for s in sizes if s is not None}) > 1
        state = MatchState.DOUBTFUL if doubtful else MatchState.PARTIAL if absent else MatchState.MATCHED
        found.append(
            MatchedCall(
                "p2p",
                (source, target),
                nth,
                members,
                absent,
                state,
                True,
                source,
                target,
                series,
                clean,
                unseen,
                _is_even(_ends(series, {}), tallies),
            )
        )
    return found
