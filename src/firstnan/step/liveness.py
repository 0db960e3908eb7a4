"""Which calls and events matter: bad values that go on somewhere, and garbage that does not.

Rules, each tested under its name:

``contained_garbage_is_no_source``
    NaN in unwritten slots may travel through a collective and be dropped on every member: nothing live.
``a_call_that_did_not_return_drops_nothing``
    Where a rank put a bad value into a call of which no result is recorded, the value was on its way.
``garbage_beside_a_fault_is_no_source``
    ... also where another member passes a live value through the same call that it had before: what goes on there is
    its own.
``sure_links_beat_guesses``
    An event whose value goes on only by a guessed link gives way to a birth with clean inputs whose value goes on by
    sure ones.
``a_guess_explains_nothing_before_it``
    What stands before the record that a guessed link leads to is not made by the value that is guessed to go there.
``in_flight_beats_set_aside``
    Where the run ended, what some operator may have taken in once more gives way to what certainly was on its way: a
    value of which every reader has a finite result to one that nobody read, and both to one that reached something.
``a_trial_gives_way``
    What looks like a trial on uninitialised memory is the first only where nothing else matters.
"""

from __future__ import annotations

from collections.abc import Mapping

from firstnan.dump.records import Direction
from firstnan.dump.values import ValueState
from firstnan.rank.summary import CommFact, RankSummary, Side
from firstnan.rank.taint.events import LIVE_ENDINGS, Ending, Event, EventKind, Origin
from firstnan.step.matching import MatchedCall, Matching


def live_calls(summaries: Mapping[int, RankSummary], matching: Matching) -> frozenset[int]:
    """contained_garbage_is_no_source: positions of affected calls whose value goes on somewhere."""
    live: set[int] = set()
    before: dict[int, set[int]] = {}
    for position, call in enumerate(matching.calls):
        bad = {rank: f for rank, f in call.members.items() if Side.BAD in (f.sent, f.received)}
        if not bad:
            continue
        if any(f.after_backward or f.onward & LIVE_ENDINGS or _did_not_return(f) for f in bad.values()):
            live.add(position)
        if any(summaries[rank].outlasts(fact) for rank, fact in call.members.items()):
            live.add(position)
        if call.is_p2p and call.receiver in call.absent:
            live.add(position)
        for rank, fact in bad.items():
            for index in fact.next_calls:
                for after in matching.of.get((rank, index), ()):
                    before.setdefault(after, set()).add(position)
    for rank, summary in summaries.items():
        for event in summary.events:
            for index in event.pending:
                for position in matching.of.get((rank, index), ()):
                    if not carries_bad(matching.calls[position], rank):
                        continue
                    if event.is_live:
                        live.add(position)
                    for onto in event.communications:
                        for after in matching.of.get((rank, onto), ()):
                            before.setdefault(after, set()).add(position)
    queue = list(live)
    while queue:
        for position in before.get(queue.pop(), ()):
            if position not in live:
                live.add(position)
                queue.append(position)
    return frozenset(live)


def carries_bad(call: MatchedCall, rank: int) -> bool:
    """Another member put in a bad value."""
    return any(f.sent is Side.BAD for r, f in call.members.items() if r != rank)


def is_live(event: Event, rank: int, matching: Matching, live_calls: frozenset[int]) -> bool:
    """Live by its own endings, or by a call that goes on."""
    if event.is_live:
        return True
    return any(p in live_calls for index in event.communications for p in matching.of.get((rank, index), ()))


def first_live(
    summary: RankSummary, summaries: Mapping[int, RankSummary], matching: Matching, live_calls: frozenset[int]
) -> Event | None:
    """A rank's first event that matters; sure_links_beat_guesses, in_flight_beats_set_aside."""
    first, most = None, _LEAST
    for event in summary.events:
        unmatched = any((summary.rank, index) not in matching.of for index in event.communications)
        matters = unmatched or (
            is_live(event, summary.rank, matching, live_calls)
            and _goes_on_by_itself(event, summary.rank, summaries, matching)
        )
        evidence = _evidence(event)
        begins = first is None or first.is_trial or _begins_here(event) or _stands_before_the_guess(event, first)
        if matters and begins and evidence > most:
            first, most = event, evidence
            if evidence == _MOST or event.kind is EventKind.RECEIVE:
                break
    return None if first is None else _first_use(first, summary)


_LEAST, _MOST = (False, False, 0), (True, True, 2)


def _evidence(event: Event) -> tuple[bool, bool, int]:
    """Whether it is no trial and not of a second backward (:mod:`firstnan.rank.taint.gradients`), whether the way on is
    sure, and how much shows that the value went on at all."""
    is_first = not event.is_trial and not event.is_later
    strength = 2 if event.goes_on else 1 if event.endings & {Ending.UNREAD, Ending.BEYOND} else 0
    return is_first, event.guess is None, strength


def _stands_before_the_guess(event: Event, first: Event) -> bool:
    """a_guess_explains_nothing_before_it"""
    return first.guess is not None and event.kind is EventKind.ENTRY and event.index < first.guess.index


def _begins_here(event: Event) -> bool:
    """Nothing before it can have made it: a birth of its own, the batch, a weight."""
    return is_own_birth(event) or event.origin in (Origin.PARAMETER, Origin.INPUT_DATA)


def is_own_birth(event: Event) -> bool:
    """Clean, recorded inputs and a way on by sure links; in backward, a forward call that saved nothing bad."""
    twin = event.forward_twin
    saved = () if twin is None else (*twin.inputs, *twin.outputs)
    taken = [tensor for tensor in (*event.record.inputs, *saved) if tensor.is_floating]
    is_clean = bool(taken) and all(tensor.state is ValueState.FINITE for tensor in taken)
    known = event.direction is Direction.FORWARD or twin is not None
    return event.kind is EventKind.BIRTH and event.guess is None and is_clean and known


def _goes_on_by_itself(event: Event, rank: int, summaries: Mapping[int, RankSummary], matching: Matching) -> bool:
    """garbage_beside_a_fault_is_no_source: whether the event's value goes on somewhere, the values set aside that the
    other members of its calls had before."""
    if event.is_live:
        return True
    queue = [p for index in event.communications for p in matching.of.get((rank, index), ())]
    seen = set(queue)
    while queue:
        call = matching.calls[queue.pop()]
        if call.is_p2p and call.receiver in call.absent:
            return True
        for member, fact in call.members.items():
            if member != rank and _had_its_own(summaries[member], fact, rank, matching):
                continue
            readers = [e for e in summaries[member].events if fact.call.index in e.pending]  # of a stale result
            if any(reader.is_live for reader in readers):
                return True
            onto = [index for reader in readers for index in reader.communications]
            if Side.BAD in (fact.sent, fact.received):
                ends = fact.after_backward or fact.onward & LIVE_ENDINGS or _did_not_return(fact)
                if ends or summaries[member].outlasts(fact):
                    return True
                onto += fact.next_calls
            after = {p for index in onto for p in matching.of.get((member, index), ())} - seen
            seen |= after
            queue += after
    return False


def _did_not_return(fact: CommFact) -> bool:
    """a_call_that_did_not_return_drops_nothing."""
    return fact.sent is Side.BAD and not fact.call.finished


def _had_its_own(summary: RankSummary, fact: CommFact, rank: int, matching: Matching) -> bool:
    """A live value that the member had before the call, and not from ``rank``."""
    return any(
        event.is_live
        and event.index < fact.call.index
        and not (
            event.kind is EventKind.RECEIVE
            and any(rank in call.members for call in matching.at(summary.rank, event.index))
        )
        for event in summary.events
    )


def _first_use(event: Event, summary: RankSummary) -> Event:
    """A bad parameter's first consumer, also when that one dropped the bad elements (an embedding's row that the
    batch does not use, tied to the output layer's weight)."""
    if event.origin is not Origin.PARAMETER:
        return event
    shapes = {t.shape for t in event.bad_inputs}
    for earlier in summary.events:
        same = earlier.origin is Origin.PARAMETER and any(t.shape in shapes for t in earlier.bad_inputs)
        if same and earlier.direction is event.direction:
            return earlier
    return event
