"""Second looks: what the ranks are asked once more when the first look at each of them does not decide.

Rules, each tested under its name:

``calls_are_counted_where_something_is_suspected``
    A long dump on which nothing is suspected is not searched for its calls, unless another rank of the step needs them
    for matching, or the ranks do not end with the same operator (one was stopped early).
``members_of_a_call_that_is_a_cause``
    A bad result of clean inputs: the records of all members are needed to tell an overflow of the sum from corruption.
``an_old_record_explains_its_reader``
    A bad value that no record wrote, on a rank that received before from one whose input was bad: where the record of
    the receive is asynchronous, it shows the buffer from before, and so nothing was suspected there.
``a_stale_result_is_disproved``
    The recorded result of an asynchronous call or an irecv may be what the buffer held before. Where the next reader
    shows what was sent, or the sender's calls are not all recorded, the rank is looked at again without that result.
``only_the_answer_shows_what_stands_around``
    The records around an event are kept for the ranks that a report can show, the first ones, and read again for the
    others that it does show, the ranks of causes.
``dropped_means_look_at_the_rest``
    What was suspected on a rank entered a communication and was dropped there by everybody: the rest of the rank, which
    was not looked at, may hold what matters.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from firstnan.causes.step_answer import StepAnswer
from firstnan.dump.view import RankView
from firstnan.operators.communication import CallKey, group_id, may_be_stale
from firstnan.operators.table import Rulebook
from firstnan.rank.summary import CallWindow, CommFact, ParentsOf, RankSummary, Side
from firstnan.rank.suspects import Lookout
from firstnan.rank.window import CallLog
from firstnan.run.one_step import judge
from firstnan.step.arrivals import Arrival
from firstnan.step.call_series import Message, Series, series_of
from firstnan.step.corruption import is_disproved, is_mask_of_another
from firstnan.step.matching import MatchedCall

if TYPE_CHECKING:
    from firstnan.rank.taint.events import Event

MOST_RECEIVES = 64
"""Earlier receives of one rank that are asked for, the first ones."""


ROUNDS = 3
"""Results that are left out can show others that are stale; so often they are looked for."""


class Wanted(Struct, frozen=True):
    """Calls of one rank whose records are wanted: series and number (from 0) in it."""

    world: tuple[int, ...]
    calls: frozenset[tuple[Series, int]]


class Question(Struct, frozen=True):
    """What one rank is asked again."""

    summary: RankSummary
    whole: bool = False
    """Look at all its records."""
    wanted: Wanted | None = None
    """Show these calls."""
    weights: bool = False
    """Show the weights that the step begins with."""
    disproved: frozenset[int] = frozenset()
    """Look again without the results of these receives, which are known to be stale."""
    nearby: bool = False
    """Tell what stands around its events. With none of the five: count the calls."""

    @property
    def is_count(self) -> bool:
        return not (self.whole or self.wanted or self.weights or self.disproved or self.nearby)


Ask = Callable[[Collection[Question]], Iterable[RankSummary]]
"""Questions to ranks -> their summaries, with the answers in them."""


def answer(
    step: int,
    summaries: Mapping[int, RankSummary],
    known: Collection[int],
    book: Rulebook,
    ask: Ask,
    *,
    alone: bool,
    left_out: Collection[int] = (),
) -> StepAnswer:
    """Root causes of one step (:func:`firstnan.run.one_step.judge`), with second looks where these are needed."""
    have = dict(summaries)

    def judged(questions: Collection[Question]) -> StepAnswer:
        have.update((summary.rank, summary) for summary in (ask(questions) if questions else ()))
        return judge(step, have, known, book, alone=alone, left_out=left_out)

    found = judged(_uncounted(have))
    questions: list[Question] = []
    for _ in range(ROUNDS):
        wanted = itertools.chain(_members_of_causes(found), _earlier_receives(found), _senders_of_stale(found))
        questions = _asked_for(found, wanted)
        if questions:
            found = judged(questions)
        questions = _disproved(found)
        if not questions:
            break
        found = judged(questions)
    limits = ["rounds in which stale results are left out"] if questions else []
    questions = _dropped(found)
    found = judged(questions) if questions else found
    return replace(found, limits=(*limits, *_limits(found)))


def _limits(found: StepAnswer) -> Iterator[str]:
    """What was not asked for, since it was too much, where it could change the answer."""
    if any(len(calls) > MOST_RECEIVES for _, calls in _receives_before(found)):
        yield "earlier receives of one rank that are looked at for a bad value that no record wrote"


def with_nearby(found: StepAnswer, ask: Ask) -> StepAnswer:
    """The answer that a report shows, with the records around the events of the ranks that it shows."""
    from firstnan.rank.surroundings import neighbours  # a healthy run does not need it

    events = {rank: summary.events for rank, summary in found.summaries.items()}
    places = [(outcome.rank, outcome.event) for outcome in found.spread.outcomes]
    shown = neighbours.ranks_shown(places, events, {cause.rank for cause in found.causes})
    questions = [
        Question(found.summaries[rank], nearby=True, disproved=found.summaries[rank].disproved)
        for rank in shown
        if not any(event.nearby for event in events[rank])
    ]
    if not questions:
        return found
    told = {(one.rank, event.index): event.nearby for one in ask(questions) for event in one.events if event.nearby}
    outcomes = tuple(
        replace(one, event=replace(one.event, nearby=told.get((one.rank, one.event.index), one.event.nearby)))
        for one in found.spread.outcomes
    )
    return replace(found, spread=replace(found.spread, outcomes=outcomes))


def count(view: RankView, summary: RankSummary) -> RankSummary:
    """The summary with all calls of the rank counted."""
    log = CallLog(view)
    return replace(summary, made=log.made(), mentioned=log.ranks)


def with_calls(
    view: RankView, watch: Lookout, parents_of: ParentsOf, summary: RankSummary, wanted: Wanted
) -> RankSummary:
    """The summary with the wanted calls added to those that are kept."""
    log = CallLog(view)
    places = _places(log, summary.rank, wanted)
    windows = [CallWindow(index, log.before(index)) for index in places]
    return _shown(summary, _facts(view, watch, parents_of, summary, places), windows)


class AllCalls(Struct, frozen=True):
    """All calls of a rank that made few: what a second look at any of them would show."""

    log: tuple[tuple[int, tuple[CallKey, ...]], ...]
    """Index and series of every communication record, in order."""
    facts: tuple[CommFact, ...]
    """All of them, judged."""


def all_calls(
    view: RankView, watch: Lookout, parents_of: ParentsOf, summary: RankSummary, most: int
) -> AllCalls | None:
    """All calls of a rank, for whoever cannot read its file later; None when there are more than ``most``."""
    log = tuple(CallLog(view))
    if len(log) > most:
        return None
    return AllCalls(log, _facts(view, watch, parents_of, summary, [index for index, _ in log]))


def with_known_calls(summary: RankSummary, known: AllCalls, wanted: Wanted) -> RankSummary:
    """What :func:`with_calls` gives, without the file."""
    places = _places(known.log, summary.rank, wanted)
    facts = [fact for fact in known.facts if fact.call.index in places]
    windows = []
    for place in places:
        before = Counter(key for index, keys in known.log if index < place for key in keys)
        windows.append(CallWindow(place, dict(before)))
    return _shown(summary, facts, windows)


def _places(log: Iterable[tuple[int, tuple[CallKey, ...]]], rank: int, wanted: Wanted) -> list[int]:
    """Indices of the records that hold a wanted call."""
    world_id = group_id(wanted.world)
    places: dict[int, None] = {}
    counts: dict[Series, int] = {}
    for index, keys in log:
        for key in keys:
            series = series_of(key, rank, wanted.world, world_id)
            if series is None:
                continue
            nth = counts.get(series, 0)
            counts[series] = nth + 1
            if (series, nth) in wanted.calls:
                places[index] = None
    return list(places)


def _facts(
    view: RankView, watch: Lookout, parents_of: ParentsOf, summary: RankSummary, places: Iterable[int]
) -> tuple[CommFact, ...]:
    from firstnan.rank.summarize import facts_of, flow_of
    from firstnan.rank.taint.endings import outcomes

    records = [record for index in places for record in view.records(index, index + 1)]
    flow = flow_of(view, watch, parents_of, records, summary.horizon)
    return tuple(facts_of(flow, outcomes(flow, truncated=summary.truncated)))


def _shown(summary: RankSummary, facts: Iterable[CommFact], windows: Iterable[CallWindow]) -> RankSummary:
    facts = tuple(facts)
    late = [fact.call.index for fact in facts if may_be_stale(fact.call)]
    return replace(
        summary,
        calls=tuple(sorted((*summary.calls, *facts), key=lambda fact: fact.call.index)),
        events=tuple(_with_receives(event, late) for event in summary.events),
        windows=tuple(sorted((*summary.windows, *windows), key=lambda window: window.start)),
    )


def _with_receives(event: Event, late: Iterable[int]) -> Event:
    """The event with receives that came before it and whose recorded results may be stale."""
    from firstnan.rank.taint.events import EventKind  # a healthy run does not need it

    if event.kind is not EventKind.ENTRY:
        return event
    pending = {*event.pending, *(index for index in late if index < event.index)}
    return replace(event, pending=tuple(sorted(pending, reverse=True)))  # the latest first


def _uncounted(summaries: Mapping[int, RankSummary]) -> list[Question]:
    """calls_are_counted_where_something_is_suspected."""
    there = [summary for summary in summaries.values() if summary.records]
    suspected = any(summary.suspect is not None for summary in there)
    if not suspected and len({summary.last_operator for summary in there}) <= 1:
        return []
    return [Question(summary) for summary in there if summary.made is None]


def _asked_for(found: StepAnswer, calls: Iterable[tuple[int, MatchedCall]]) -> list[Question]:
    """One question to each rank that shall show its side of some calls."""
    wanted: dict[int, set[tuple[Series, int]]] = {}
    for rank, call in calls:
        series = call.series
        if isinstance(series, Message):
            series = replace(series, sends=rank == call.sender)
        if series is not None:
            wanted.setdefault(rank, set()).add((series, call.nth))
    return [
        Question(found.summaries[rank], wanted=Wanted(found.matching.world, frozenset(which)))
        for rank, which in wanted.items()
    ]


def _members_of_causes(found: StepAnswer) -> Iterator[tuple[int, MatchedCall]]:
    """members_of_a_call_that_is_a_cause, and of the calls that a large value passed before it overflowed."""
    calls: dict[int, MatchedCall] = {}
    for outcome in found.spread.outcomes:
        if outcome.arrival in (Arrival.COMMUNICATION, Arrival.MISSING) and outcome.call is not None:
            calls[id(outcome.call)] = outcome.call
        for passed in outcome.event.run_up if outcome.arrival is Arrival.OWN else ():
            for call in found.matching.at(outcome.rank, passed.exec_order):
                calls[id(call)] = call
    for call in calls.values():
        for rank in (*call.clean, *call.unseen):
            yield rank, call


def _earlier_receives(found: StepAnswer) -> Iterator[tuple[int, MatchedCall]]:
    """an_old_record_explains_its_reader."""
    for rank, calls in _receives_before(found):
        yield from ((rank, call) for call in calls[:MOST_RECEIVES])


def _receives_before(found: StepAnswer) -> Iterator[tuple[int, list[MatchedCall]]]:
    """Ranks with a bad value that no record wrote, and the calls through which they received one unseen: the first
    MOST_RECEIVES and one more, where there is one."""
    own = found.spread.of(Arrival.OWN)
    if not own:
        return
    from firstnan.step.spread import can_be_foreign  # a healthy run does not need it

    unexplained = [outcome.rank for outcome in own if can_be_foreign(outcome.event)]
    passed = [
        (call, frozenset(call.clean))
        for call in (found.matching.calls if unexplained else ())
        if call.clean and any(fact.sent is Side.BAD for fact in call.members.values())
    ]
    for rank in unexplained:
        received = (call for call, clean in passed if rank in clean and not (call.is_p2p and call.receiver != rank))
        yield rank, list(itertools.islice(received, MOST_RECEIVES + 1))


def _maybe_stale(found: StepAnswer) -> Iterator[tuple[int, MatchedCall]]:
    """Calls with a bad result on a rank that may be what the buffer held before."""
    for rank, summary in found.summaries.items():
        for fact in summary.calls:
            if fact.received is Side.BAD and may_be_stale(fact.call) and fact.call.index not in summary.disproved:
                yield from ((rank, c) for c in found.matching.at(rank, fact.call.index) if c.members[rank] is fact)


def _senders_of_stale(found: StepAnswer) -> Iterator[tuple[int, MatchedCall]]:
    """a_stale_result_is_disproved: what was sent, where nothing was suspected."""
    for _, call in _maybe_stale(found):
        yield from ((member, call) for member in call.clean)


def _disproved(found: StepAnswer) -> list[Question]:
    """a_stale_result_is_disproved; and a mask that another rank made, which comes from outside."""
    stale: dict[int, set[int]] = {}
    for rank, call in _maybe_stale(found):
        if is_disproved(call, rank, found.summaries):
            stale.setdefault(rank, set()).add(call.members[rank].call.index)
    for outcome in found.spread.of(Arrival.COMMUNICATION):
        if outcome.call is not None and is_mask_of_another(outcome.call, outcome.rank):
            stale.setdefault(outcome.rank, set()).add(outcome.call.members[outcome.rank].call.index)
    return [
        Question(found.summaries[rank], disproved=found.summaries[rank].disproved | indices)
        for rank, indices in stale.items()
    ]


def _dropped(found: StepAnswer) -> list[Question]:
    """dropped_means_look_at_the_rest."""
    reached = {outcome.rank for outcome in found.spread.outcomes}
    return [
        Question(summary, whole=True, disproved=summary.disproved)
        for rank, summary in found.summaries.items()
        if summary.suspect is not None and summary.horizon is not None and rank not in reached
    ]
