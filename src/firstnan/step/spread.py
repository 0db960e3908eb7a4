"""Happens-before over all ranks of one step: where bad values began, and how they spread.

Every rank has at most one event that matters, its first live one. It is its own (a birth or
an entry), or it was received; a rank whose first live event is its own is a root, since nothing bad reached it
before. Ranks are only compared through communication calls and record names, never by number or folder order.

Rules, each tested under its name:

``receiver_follows_sender``
    A P2P result is what the sender sent, whatever the receiver's (stale) record shows.
``absent_member_is_the_source``
    A bad result, all recorded inputs clean, a member without a record: ``missing_rank`` with its number;
    when that rank's modules show an event of its own (L0), that event.
``a_group_without_ranks_may_have_an_absent_member``
    Where the ranks of a group are not recorded, an absent rank of the run may be a member: a bad result of clean
    inputs is then no proof of corruption, and the trail leads to the absent rank.
``zero_dim_input_shows_the_result``
    In 8.1.x a 0-dim tensor's recorded input is its value after the call: not every bad input is a source there.
``unrecorded_communication``
    DDP, FSDP and DTensor leave no records: an entry at a record that is bad on another rank too, after that
    rank's own birth, came from there. Not in forward where a rank's calls are recorded: one of tensors before the
    entry, or one with that rank, and none that cannot be read: then the entry is a fault of its own.
``a_module_communicates_inside``
    Where modules alone are recorded, a module whose result is bad may have received it inside (tensor parallel): from
    a rank on which something was bad inside the same module.
``gradients_after_backward``
    What DDP, FSDP and ZeRO reduce leaves no record, whatever else a rank's recorded calls reduce: what clipping, norms
    and the optimizer read after backward came from a rank with an event of its own, where the same operator reads a bad
    value too.
``a_message_that_the_receiver_did_not_record``
    A bad message whose receiver has records and none of the receive (activation checkpointing can end the recording of
    operators early) explains an entry of its size.
``a_stage_behind_its_last_call``
    Where a rank's operators are not recorded any more, what its first module takes in came from the ranks that sent to
    it before, when one of them has an event of its own.
``gradients_of_a_cut_rank_tell_its_end``
    Up to 8.3 gradients of parameters stand before backward although they are those of its end: in a file that is cut
    in between they show that the cause stands behind the cut, where another rank received it from there.
``gradient_comes_back``
    A stage of a pipeline gets back the gradient of what it sent. Where that message has no record, a bad gradient that
    no record made comes from the stages that its activations went to, when a forward value of theirs is bad.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from firstnan.dump.records import Direction, RecordKind
from firstnan.operators.communication import CallKind, Freshness, GroupKnowledge, Root, role
from firstnan.rank.summary import CommFact, RankSummary, Side, module_name
from firstnan.rank.taint.events import Event, EventKind, Origin
from firstnan.step.arrivals import Arrival, RankOutcome, Spread
from firstnan.step.liveness import carries_bad, first_live, live_calls
from firstnan.step.matching import MatchedCall, Matching

LATENESS = 4
"""Rounds in which events that may come from elsewhere are settled, see :func:`_lateness`."""


def spread(summaries: Mapping[int, RankSummary], matching: Matching) -> Spread:
    """First live events of every rank, each with its arrival; in order of rank."""
    passing = live_calls(summaries, matching)
    first = {rank: first_live(summary, summaries, matching, passing) for rank, summary in summaries.items()}
    for rank, event in first.items():
        if event is not None and _stands_before_its_time(event, summaries[rank]) and _shows_in_calls(rank, matching):
            first[rank] = None
    own: dict[int, Event] = {}
    pending: list[tuple[int, Event]] = []
    outcomes: dict[int, RankOutcome] = {}
    gone = tuple(rank for rank in matching.world if rank not in summaries or not summaries[rank].records)
    for rank, event in sorted(first.items()):
        if event is None:
            continue
        outcome = _resolve(rank, event, matching, first, gone)
        if outcome is not None:
            outcomes[rank] = outcome
        elif can_be_foreign(event):
            pending.append((rank, event))
        else:
            own[rank] = event
    for rank, event in own.items():
        outcomes[rank] = RankOutcome(rank, event, Arrival.OWN)
    for lateness in range(LATENESS):
        made: dict[int, Event] = {}
        for rank, event in sorted(((r, e) for r, e in pending if _lateness(e) == lateness), key=lambda p: p[0]):
            sources = (
                _unreceived(rank, event, matching)
                or _returned(rank, event, first, summaries)
                or _behind_calls(rank, event, first, summaries)
                or _unrecorded(rank, event, first, summaries, matching)
                or _silent(rank, event, own, summaries)
            )
            sources = tuple(s for s in sources if not _comes_from(s, rank, outcomes))
            outcomes[rank] = RankOutcome(rank, event, Arrival.UNRECORDED if sources else Arrival.OWN, sources=sources)
            if not sources:
                made[rank] = event
        own |= made
    affected = _affected(matching, passing, first) | _from_absent(matching, outcomes.values())
    return Spread(tuple(outcomes[rank] for rank in sorted(outcomes)), passing, affected)


def _stands_before_its_time(event: Event, summary: RankSummary) -> bool:
    """gradients_of_a_cut_rank_tell_its_end: gradients of parameters in a file that ends before backward, whether its
    JSON is cut or was closed."""
    return event.record.name.kind is RecordKind.PARAMETERS_GRAD and summary.last_backward is None


def _shows_in_calls(rank: int, matching: Matching) -> bool:
    """Another rank received a bad value in a call that this one's file does not hold."""
    return any(
        rank in (*call.absent, *call.unseen) and any(fact.received is Side.BAD for fact in call.members.values())
        for call in matching.calls
    )


def _affected(matching: Matching, live_calls: frozenset[int], first: Mapping[int, Event | None]) -> frozenset[int]:
    """Calls that hold a bad value which follows from a live event; garbage that is dropped before is none."""
    found = set(live_calls)
    for position, call in enumerate(matching.calls):
        for rank, fact in call.members.items():
            event = first.get(rank)
            if Side.BAD in (fact.sent, fact.received) and event is not None and event.index <= fact.call.index:
                found.add(position)
                break
    return frozenset(found)


def _from_absent(matching: Matching, outcomes: Iterable[RankOutcome]) -> frozenset[int]:
    """Calls through which the value came from a source that has no record of them (absent, or cut after its own
    event), though their result was not read again."""
    outcomes = tuple(outcomes)
    absent = {r for o in outcomes if o.arrival is Arrival.MISSING for r in o.sources}
    absent |= {o.rank for o in outcomes if o.arrival is Arrival.OWN}
    return frozenset(
        position
        for position, call in enumerate(matching.calls)
        if absent.intersection((*call.absent, *call.unseen))
        and any(f.received is Side.BAD for f in call.members.values())
    )


# -- where it came from --------------------------------------------------------------------------------


def _resolve(
    rank: int, event: Event, matching: Matching, first: Mapping[int, Event | None], gone: tuple[int, ...]
) -> RankOutcome | None:
    """The outcome of a received event, or of an entry that a stale receive explains; None for own events."""
    if event.kind is EventKind.RECEIVE:
        here = matching.at(rank, event.index)
        calls = [c for c in here if c.members[rank].received is Side.BAD] or list(here)  # a cut result is unknown
        if not calls:
            return RankOutcome(rank, event, Arrival.COMMUNICATION)
        return _received(rank, event, calls[0], first, gone)
    if event.kind is EventKind.BIRTH:
        for call in (c for index in event.pending for c in matching.at(rank, index)):
            sources = tuple(r for r, f in call.members.items() if r != rank and f.sent is Side.BAD)
            if sources:
                return RankOutcome(rank, event, Arrival.RECEIVED, call, sources)
    if event.kind is EventKind.ENTRY:
        aliased = _aliased(rank, event, matching, first)
        if aliased is not None:
            return aliased
        stale = [_stale(rank, event, c, first, gone) for index in event.pending for c in matching.at(rank, index)]
        known = [o for o in stale if o is not None]
        known.sort(key=lambda o: o.arrival is Arrival.MISSING)  # a sender that is known to be bad before an absent one
        if known:
            return known[0]
    return None


def _received(
    rank: int, event: Event, call: MatchedCall, first: Mapping[int, Event | None], gone: tuple[int, ...]
) -> RankOutcome:
    sources = tuple(r for r, f in call.members.items() if r != rank and f.sent is Side.BAD)
    if sources:
        return RankOutcome(rank, event, Arrival.RECEIVED, call, sources)
    silent = tuple(r for r in (*call.absent, *call.unseen) if first.get(r) is not None)
    silent += tuple(r for r, f in call.members.items() if r != rank and f.sent is Side.UNKNOWN and first.get(r))
    if silent:
        return RankOutcome(rank, event, Arrival.RECEIVED, call, silent)
    if call.absent and not _spares_a_member(call, rank):
        return RankOutcome(rank, event, Arrival.MISSING, call, call.absent)
    if _is_lone(call):
        others = tuple(r for r, e in first.items() if r != rank and e is not None and e.kind is not EventKind.RECEIVE)
        if others:
            return RankOutcome(rank, event, Arrival.RECEIVED, call, others)
    if gone and not call.is_p2p and call.group is None and not _spares_a_member(call, rank):
        return RankOutcome(rank, event, Arrival.MISSING, call, gone)
    beyond = _rank_beyond(call)
    if beyond is not None:
        return RankOutcome(rank, event, Arrival.MISSING, call, (beyond,))
    return RankOutcome(rank, event, Arrival.COMMUNICATION, call)


def _aliased(rank: int, event: Event, matching: Matching, first: Mapping[int, Event | None]) -> RankOutcome | None:
    """zero_dim_input_shows_the_result: 8.1.x records a 0-dim tensor's input as it is after an in-place call (dump
    format, section 7.3), so that every member looks like a source; the one that made the value is.
    """
    for call in matching.at(rank, event.index):
        fact = call.members[rank]
        if not fact.call.in_place or any(t.shape != () for t in fact.call.sent):
            continue
        makers = tuple(
            r
            for r, f in call.members.items()
            if r != rank and f.sent is Side.BAD and (made := first.get(r)) is not None and made.index < f.call.index
        )
        if makers:
            return RankOutcome(rank, event, Arrival.RECEIVED, call, makers)
    return None


def _is_lone(call: MatchedCall) -> bool:
    """One member alone of a group whose ranks are not recorded: the others are there, and not seen."""
    return not call.is_p2p and call.group is None and len(call.members) == 1


def _rank_beyond(call: MatchedCall) -> int | None:
    """The world size is nowhere recorded: when a call of the default group is bad on every rank that is there, all
    their inputs are clean, and they are an odd number, the run had one rank more. Not where one member alone gets a
    result, nor where the results are a list with one tensor a member.

    Example: folders 0, 1, 2; all three receive NaN: rank 3 is absent.
    """
    facts = call.members.values()
    default = all(f.call.knowledge is GroupKnowledge.DEFAULT for f in facts)
    if call.is_p2p or not default or not call.is_seen or len(call.members) % 2 == 0:
        return None
    if role(call.api).root is Root.RECEIVES or any(len(f.call.received) == len(call.members) > 1 for f in facts):
        return None
    everywhere = all(f.received is not Side.CLEAN for f in facts)
    return max(call.members) + 1 if everywhere else None


def _spares_a_member(call: MatchedCall, rank: int) -> bool:
    """Everybody gets the same result, and another member's is clean: no member can have put in the bad value."""
    if not role(call.api).result.is_same:
        return False
    others = [f for r, f in call.members.items() if r != rank and f.call.freshness is Freshness.FRESH]
    return any(f.received is Side.CLEAN for f in others)


def _stale(
    rank: int, event: Event, call: MatchedCall, first: Mapping[int, Event | None], gone: tuple[int, ...]
) -> RankOutcome | None:
    """receiver_follows_sender: the entry's value is what an earlier, possibly stale receive brought."""
    fact = call.members[rank]
    if not _same_size(fact, event):
        return None
    if call.is_p2p:
        if call.receiver != rank:
            return None
        sender = call.members.get(call.sender if call.sender is not None else -1)
        if sender is None and call.clean:
            return None
        if sender is None:
            known = call.sender is not None and first.get(call.sender) is not None
            arrival = Arrival.RECEIVED if known else Arrival.MISSING
            return RankOutcome(rank, event, arrival, call, (*call.absent, *call.unseen))
        if sender.sent is Side.BAD:
            return RankOutcome(rank, event, Arrival.RECEIVED, call, (call.sender or 0,))
        return None
    sources = tuple(r for r, f in call.members.items() if r != rank and f.sent is Side.BAD)
    if sources:
        return RankOutcome(rank, event, Arrival.RECEIVED, call, sources)
    others = tuple(r for r, f in call.members.items() if r != rank and f.received is Side.BAD)
    if not others and not call.absent:
        return None
    outcome = _received(rank, event, call, first, gone)
    return outcome if others or outcome.arrival is not Arrival.COMMUNICATION else None


def _same_size(fact: CommFact, event: Event) -> bool:
    sizes = {t.numel for t in fact.call.received}
    return not sizes or None in sizes or any(t.numel in sizes or t.numel is None for t in event.bad_inputs)


def _comes_from(rank: int, source: int, outcomes: Mapping[int, RankOutcome]) -> bool:
    """Whether a rank's value came, over any number of hops, from ``source``: then it cannot explain that one's."""
    seen: set[int] = set()
    queue = [rank]
    while queue:
        outcome = outcomes.get(queue.pop())
        for before in outcome.sources if outcome else ():
            if before == source:
                return True
            if before not in seen:
                seen.add(before)
                queue.append(before)
    return False


def _lateness(event: Event) -> int:
    """Births explain entries; entries in the middle of a pass those at its beginning, forward those in backward. What
    began inside a module that took in clean values did not open the pass."""
    if event.kind is EventKind.BIRTH:
        return 0
    if event.around is None and (event.opens_pass or event.origin is Origin.BEFORE_DUMP):
        return LATENESS - 1
    return 2 if event.direction is Direction.BACKWARD else 1


def can_be_foreign(event: Event) -> bool:
    """Whether the value can have come from another rank without a record: entries that nothing explains, births
    whose inputs were not all recorded, and modules, which may communicate inside."""
    if event.kind is EventKind.ENTRY:
        return event.origin in (Origin.BETWEEN_RECORDS, Origin.BEFORE_DUMP)
    unknown = any(t.state.is_unknown and t.is_floating for t in event.record.inputs)
    return unknown or event.record.name.kind is RecordKind.MODULE


def _returned(
    rank: int, event: Event, first: Mapping[int, Event | None], summaries: Mapping[int, RankSummary]
) -> tuple[int, ...]:
    """gradient_comes_back: ranks down the pipeline with a bad forward value."""
    if event.kind is not EventKind.ENTRY or event.direction is not Direction.BACKWARD:
        return ()
    reached, queue = {rank}, [rank]
    while queue:
        at = queue.pop()
        made = (summaries[at].made or {}) if at in summaries else {}
        new = {key.peer for key in made if key.kind is CallKind.SEND and key.peer is not None} - reached
        reached |= new
        queue += new
    bad = ((other, first.get(other)) for other in sorted(reached - {rank}))
    return tuple(other for other, value in bad if value is not None and value.direction is Direction.FORWARD)


def _unreceived(rank: int, event: Event, matching: Matching) -> tuple[int, ...]:
    """a_message_that_the_receiver_did_not_record."""
    if event.kind is not EventKind.ENTRY:
        return ()
    sizes = {t.numel for t in event.bad_inputs}
    found = set()
    for call in matching.calls:
        if not call.is_p2p or call.receiver != rank or rank not in call.absent:
            continue
        for sender, fact in call.members.items():
            if fact.sent is Side.BAD and any(t.state.is_bad and t.numel in sizes for t in fact.call.sent):
                found.add(sender)
    return tuple(sorted(found))


def _behind_calls(
    rank: int, event: Event, first: Mapping[int, Event | None], summaries: Mapping[int, RankSummary]
) -> tuple[int, ...]:
    """a_stage_behind_its_last_call."""
    summary = summaries[rank]
    name = event.record.name
    forward_entry = event.kind is EventKind.ENTRY and name.direction is Direction.FORWARD
    if not forward_entry or name.kind is not RecordKind.MODULE or module_name(name) != summary.first_module:
        return ()
    if summary.last_api is None or event.index <= summary.last_api:
        return ()
    senders = {key.peer for key in summary.made or () if key.kind is CallKind.RECEIVE}
    return tuple(sorted(other for other in senders if other is not None and first.get(other) is not None))


def _silent(rank: int, event: Event, own: Mapping[int, Event], summaries: Mapping[int, RankSummary]) -> tuple[int, ...]:
    """A rank whose dump holds no communication at all received its entry from the ranks with an event of their own."""
    if event.kind is not EventKind.ENTRY or summaries[rank].communicates:
        return ()
    return tuple(sorted(other for other in own if other != rank))


def _unrecorded(
    rank: int,
    event: Event,
    first: Mapping[int, Event | None],
    summaries: Mapping[int, RankSummary],
    matching: Matching,
) -> tuple[int, ...]:
    """unrecorded_communication: ranks on which the same record is bad too, after their own first event."""
    name = event.record.name.full
    operator = f"{event.record.name.prefix}.{event.record.name.api}."
    module = event.record.name.kind is RecordKind.MODULE
    found = []
    recorded: frozenset[int] = frozenset()
    before = [fact for fact in summaries[rank].calls if fact.call.index < event.index]
    is_whole = rank not in matching.short and all(_is_readable(rank, fact, matching) for fact in before)
    if event.direction is Direction.FORWARD and not event.after_backward and is_whole:
        if any(_moves_tensors(fact) for fact in before):
            return ()
        recorded = _partners(rank, matching)
    for other, other_event in first.items():
        if other == rank or other_event is None or other in recorded:
            continue
        if can_be_foreign(other_event) and other_event.opens_pass and not event.opens_pass:
            continue  # what opens a pass came in from elsewhere itself
        if module and event.kind is EventKind.BIRTH and _is_inside(other_event, event):
            found.append(other)
            continue
        bad = summaries[other].bad_inputs
        at = bad.get(name)
        if at is None and event.after_backward:
            at = next((at for read, at in bad.items() if read.startswith(operator)), None)
        if at is None or at < other_event.index:
            continue
        if at > other_event.index or (module and event.kind is EventKind.BIRTH):
            found.append(other)
    return tuple(sorted(found))


def _is_inside(event: Event, module: Event) -> bool:
    """A module's result is bad on one rank, and on another something inside the same module was before."""
    inner, outer = event.record.name, module.record.name
    return inner.direction is outer.direction and bool(outer.path) and (event.module or "").startswith(f"{outer.path}.")


def _partners(rank: int, matching: Matching) -> frozenset[int]:
    """Ranks that a rank exchanges tensors with by recorded calls."""
    found: set[int] = set()
    for call in matching.calls:
        fact = call.members.get(rank)
        if fact is not None and _moves_tensors(fact):
            found.update(call.members)
    return frozenset(found)


def _is_readable(rank: int, fact: CommFact, matching: Matching) -> bool:
    """Both of its sides are known, and nobody put in a bad value that its result does not show: nothing can have come
    in through it unseen."""
    has_result = bool(fact.call.received) or fact.call.kind is CallKind.SEND
    if not has_result or Side.UNKNOWN in (fact.sent, fact.received):
        return False
    return not any(carries_bad(call, rank) for call in matching.at(rank, fact.call.index))


def _moves_tensors(fact: CommFact) -> bool:
    """A scalar (a norm, a flag) tells nothing of how activations travel."""
    return any((t.numel or 0) > 1 and t.is_floating for t in (*fact.call.sent, *fact.call.received))
