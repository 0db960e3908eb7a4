"""Every communication call of a run with its source, propagated and normal ranks, also where all are normal.

The analysis looks at the calls around what it suspects; this goes through all of them, one after the other, so that a
hundred thousand calls need no more memory than their names. Calls are matched as in :mod:`matching`; those that the
report lists are taken from it.

Rules, each tested under its name:

``affected_calls_come_first``
    The calls that the report lists, in its order; then all others, in an order that respects every rank's records.
``a_mask_is_normal_in_a_clean_run``
    -Inf beside finite values is legal when the analysis of the run found nothing; else, in a call that the report does
    not list, it is undecided.
``a_receiver_gets_what_was_sent``
    A receive whose record may be older than the message is normal when the sender's side is.
``mismatched_calls_end``
    Ranks that wait for each other go on, in the order of their records.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from firstnan.answer.model import CONTAINED_CALL, CollectiveReport, MatchState, Note, RankState, Report, Verdict
from firstnan.operators.communication import CallKey, group_id
from firstnan.rank.roster import Content, Roster
from firstnan.rank.sides import rank_state
from firstnan.rank.summary import Side
from firstnan.step.call_series import UNKNOWN_GROUP, Collective, Message, Series, series_of
from firstnan.step.matching import number_in

_BATCHED = "batch_isend_irecv"
_CallId = tuple[Series, int | str]
_Place = tuple[int, int]
"""Position in a roster, and element of its record."""


class EveryCall(Struct, frozen=True):
    """All calls of a run; each iteration goes through them anew."""

    report: Report
    rosters: Sequence[Roster]

    def __iter__(self) -> Iterator[CollectiveReport]:
        yield from self.report.collectives
        for step in sorted({roster.step for roster in self.rosters}):
            listed = defaultdict[tuple[object, ...], list[CollectiveReport]](list)
            for call in self.report.collectives:
                if call.step == step:
                    listed[call.group, call.call].append(call)
            for call in _Step(step, [r for r in self.rosters if r.step == step], self.report).calls():
                same = next((one for one in listed[call.group, call.call] if _is_same(one, call)), None)
                if same is None:
                    yield call
                else:
                    listed[call.group, call.call].remove(same)


def _is_same(listed: CollectiveReport, call: CollectiveReport) -> bool:
    """The report may not hold the records of all members. Both directions of a batch have the same names."""
    is_bad = bool(call.source_ranks or call.propagated_ranks or call.undecided_ranks)
    return listed.ops.items() <= call.ops.items() and (listed.op != _BATCHED or is_bad)


class _Step:
    """The walk through one step: every rank goes on until its next call waits for another member."""

    def __init__(self, step: int, rosters: Sequence[Roster], report: Report) -> None:
        self.step = step
        self.verdict = report.verdict
        is_cut = any(note.key == "caveat.listed_calls" for note in report.caveats)
        self.is_judged = report.verdict is Verdict.CLEAN or (report.verdict is Verdict.ANOMALY and not is_cut)
        """A bad value in a call that the report does not list was looked at, and does not matter."""
        self.rosters = {roster.rank: roster for roster in sorted(rosters, key=lambda one: one.rank)}
        mentioned = {rank for roster in rosters for rank in roster.mentioned}
        self.world = tuple(sorted({*self.rosters, *report.input.ranks, *report.input.missing_ranks, *mentioned}))
        self.world_id = group_id(self.world)
        self._series: dict[tuple[int, CallKey], Series | None] = {}
        self._made_by: dict[Series, list[int]] = {}
        """Series -> how many of its calls each member makes."""
        self.made = {rank: Counter[Series]() for rank in self.rosters}
        self.users: dict[str, set[int]] = {}
        """Label of a group without ranks -> the ranks that use it."""
        self.named: Counter[tuple[Series, str]] = Counter()
        """Calls of groups that are not recorded, by name -> ranks that make them."""
        for rank, roster in self.rosters.items():
            self._count(rank, roster)
        self.position = dict.fromkeys(self.rosters, 0)
        self.counts = {rank: Counter[Series]() for rank in self.rosters}
        self.waiting: dict[_CallId, dict[int, _Place]] = {}
        self.blocked: dict[int, set[_CallId]] = {rank: set() for rank in self.rosters}

    def series(self, rank: int, key: CallKey) -> Series | None:
        if (rank, key) not in self._series:
            self._series[rank, key] = series_of(key, rank, self.world, self.world_id)
        return self._series[rank, key]

    def _count(self, rank: int, roster: Roster) -> None:
        made = self.made[rank]
        for form, times in Counter(roster.form_of).items():
            for one in roster.forms[form]:
                series = self.series(rank, one.key)
                if series is None:
                    continue
                made[series] += times
                if isinstance(series, Collective) and isinstance(series.key, str):
                    self.users.setdefault(series.key, set()).add(rank)
        if UNKNOWN_GROUP in self.users:
            seen: set[tuple[Series, str]] = set()
            for form, name in zip(roster.form_of, roster.names, strict=True):
                for one in roster.forms[form]:
                    series = self.series(rank, one.key)
                    if isinstance(series, Collective) and series.key == UNKNOWN_GROUP:
                        seen.add((series, name))
            self.named.update(seen)

    def calls(self) -> Iterator[CollectiveReport]:
        ready = deque(self.rosters)
        while True:
            while ready:
                yield from self._advance(ready.popleft(), ready)
            stuck = [rank for rank, waits in self.blocked.items() if waits]
            if not stuck:
                return
            rank = min(stuck, key=lambda r: (self.rosters[r].places[self.position[r] - 1], r))
            self.blocked[rank].clear()  # mismatched_calls_end
            ready.append(rank)

    def _advance(self, rank: int, ready: deque[int]) -> Iterator[CollectiveReport]:
        """The rank goes on until a call of its waits for another member; gives the calls that are complete then."""
        roster, counts, waits = self.rosters[rank], self.counts[rank], self.blocked[rank]
        while self.position[rank] < len(roster.names) and not waits:
            at = self.position[rank]
            self.position[rank] += 1
            for element, form in enumerate(roster.forms[roster.form_of[at]]):
                series = self.series(rank, form.key)
                if series is None:
                    continue
                by_name = isinstance(series, Collective) and series.key == UNKNOWN_GROUP
                call = _both_ends(series), roster.names[at] if by_name else counts[series]
                counts[series] += 1
                members = self.waiting.setdefault(call, {})
                members[rank] = at, element
                if len(members) < self._expected(call):
                    if not (isinstance(series, Message) and series.sends):
                        waits.add(call)
                    continue
                del self.waiting[call]
                for other in members:
                    if call in self.blocked[other]:
                        self.blocked[other].discard(call)
                        if not self.blocked[other] and other != rank:
                            ready.append(other)
                yield self._put_together(call, members)

    def _expected(self, call: _CallId) -> int:
        """How many members make the call."""
        series, nth = call
        if isinstance(nth, str):
            return self.named[series, nth]
        made = self._made_by.get(series)
        if made is None:
            ends = _ends(series, self._members(series))
            made = self._made_by[series] = [self.made[rank][end] for rank, end in ends if rank in self.made]
        return sum(count > nth for count in made)

    def _members(self, series: Series) -> Sequence[int]:
        if isinstance(series, Message):
            return tuple(dict.fromkeys((series.source, series.target)))
        return series.key if isinstance(series.key, tuple) else sorted(self.users[series.key])

    def _put_together(self, call: _CallId, places: Mapping[int, _Place]) -> CollectiveReport:
        series, nth = call
        ops = {rank: self.rosters[rank].names[at] for rank, (at, _) in sorted(places.items())}
        held = {rank: self.rosters[rank].sides(*place) for rank, place in places.items()}
        put_in = {self._side(sent) for sent, _ in held.values()} - {Side.NONE}
        bad_source, all_sent_clean = Side.BAD in put_in, put_in == {Side.CLEAN}
        states: dict[RankState, list[int]] = {state: [] for state in RankState}
        for rank in ops:
            at, element = places[rank]
            form = self.rosters[rank].forms[self.rosters[rank].form_of[at]][element]
            sent, received = (self._side(content) for content in held[rank])
            receives = isinstance(series, Message) and series.target == rank
            state = rank_state(sent, received, receives_message=receives, stale=form.stale, bad_source=bad_source)
            if receives and form.stale and state is RankState.UNDECIDED and all_sent_clean:
                state = RankState.NORMAL  # a_receiver_gets_what_was_sent
            states[state].append(rank)
        members = self._members(series)
        absent = [rank for rank in members if rank not in places]
        is_bad = states[RankState.SOURCE] or states[RankState.PROPAGATED]
        group = series.key if isinstance(series, Collective) else members
        return CollectiveReport(
            op=series.api if isinstance(series, Collective) else api_of(ops),
            step=self.step,
            group=tuple(sorted(group)) if isinstance(group, tuple) else None,
            call=nth if isinstance(nth, int) else number_in(nth),
            ops=ops,
            source_ranks=tuple(states[RankState.SOURCE]),
            propagated_ranks=tuple(states[RankState.PROPAGATED]),
            normal_ranks=tuple(states[RankState.NORMAL]),
            undecided_ranks=tuple(sorted((*states[RankState.UNDECIDED], *absent))),
            match=MatchState.BY_NAME if isinstance(nth, str) else MatchState.PARTIAL if absent else MatchState.MATCHED,
            notes=(Note(CONTAINED_CALL),) if is_bad and self.is_judged else (),
        )

    def _side(self, content: Content) -> Side:
        """a_mask_is_normal_in_a_clean_run"""
        if content is Content.MASK:
            return Side.UNKNOWN if self.verdict is Verdict.ANOMALY else Side.CLEAN
        return _SIDE_OF[content]


_SIDE_OF = {content: Side(content.value) for content in Content if content is not Content.MASK}


def _both_ends(series: Series) -> Series:
    """The series as its sender counts it."""
    return replace(series, sends=True) if isinstance(series, Message) else series


def _ends(series: Series, members: Sequence[int]) -> Iterator[tuple[int, Series]]:
    """The members of a call, each with the series as that member counts it."""
    for rank in members:
        is_receiver = isinstance(series, Message) and rank != series.source
        yield rank, replace(series, sends=False) if is_receiver and isinstance(series, Message) else series


def api_of(ops: Mapping[int, str]) -> str:
    """The API that most members of a call name."""
    return Counter(name.split(".")[1] if "." in name else name for name in ops.values()).most_common(1)[0][0]
