"""From first live events to root causes: place, reason, evidence.

Rules, each tested under its name:

``causes_stand_in_causal_order``
    What a call carries on stands before what begins behind that call on another rank, whatever the numbers of their
    records.
``a_parameter_is_one_cause``
    A parameter that is bad on several ranks, replicated or gathered from one bad shard, is told once, with the ranks.
``every_clean_birth_is_a_cause``
    A rank may hold a second fault behind its first, or behind what reached it from another rank.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from firstnan.answer.model import Alternative, Confidence, Mechanism, MechanismKind, Note, RootCause, Where
from firstnan.causes.communication import communication_causes, corrupted, impossible_before
from firstnan.causes.evidence import evidence_of
from firstnan.causes.mechanisms import registry
from firstnan.causes.mechanisms.traits import Trait
from firstnan.causes.missing_rank import absent_causes, independent
from firstnan.dump.ranges import format_ranges
from firstnan.dump.records import Direction, RecordKind
from firstnan.dump.values import ValueState
from firstnan.operators.communication import is_communication
from firstnan.operators.table import Rulebook
from firstnan.rank.summary import RankSummary
from firstnan.rank.surroundings.blind_spots import at_its_blind_writer
from firstnan.rank.surroundings.jumps import at_its_jump
from firstnan.rank.taint.events import LIVE_ENDINGS, Ending, Event, EventKind, Origin
from firstnan.rank.taint.module_dumps import inside_its_module
from firstnan.step.arrivals import Arrival, RankOutcome, Spread
from firstnan.step.liveness import is_own_birth
from firstnan.step.matching import Matching
from firstnan.step.order import first_behind, times_of

_WHERE = {
    Origin.PARAMETER: Where.PARAMETER,
    Origin.INPUT_DATA: Where.INPUT_DATA,
    Origin.UNINITIALISED: Where.UNDUMPED_OPERATOR,
    Origin.BETWEEN_RECORDS: Where.UNDUMPED_OPERATOR,
    Origin.BEFORE_DUMP: Where.BEFORE_DUMP,
}
MAX_ALTERNATIVES = 8
MOST_ORDERED = 16
"""More causes are ordered by the calls before them, which costs less; what no call orders then stands by its calls and
not by its index."""


def root_causes(
    step: int,
    summaries: Mapping[int, RankSummary],
    matching: Matching,
    spread: Spread,
    book: Rulebook,
    *,
    alone: bool = False,
    left_out: Collection[int] = (),
) -> tuple[RootCause, ...]:
    """Every independent cause of one step; their order does not depend on the order of ranks in folders.

    ``book``: what is known about operators. ``left_out``: ranks that were not asked for.
    ``alone``: only one rank is looked at, on purpose: what it received is named where it came in.
    """
    if alone:
        return tuple(_alone(step, outcome, summaries, book) for outcome in spread.outcomes)
    own, causes = corrupted(step, spread.of(Arrival.OWN), matching, book)
    for outcome in own:
        cause = _own(step, outcome, summaries, book)
        beside = impossible_before(step, outcome, matching)
        causes.append(replace(cause, alternatives=(*beside, *cause.alternatives)[:MAX_ALTERNATIVES]))
    causes += communication_causes(step, spread.of(Arrival.COMMUNICATION))
    absent = spread.of(Arrival.MISSING)
    causes += absent_causes(step, independent(absent, matching) if causes else absent, summaries, left_out)
    causes += _further(step, spread, summaries, book)
    causes = _told_once(causes)
    if not causes:
        causes += [
            _own(step, RankOutcome(rank, summary.saturated, Arrival.OWN), summaries, book)
            for rank, summary in summaries.items()
            if summary.saturated is not None
        ]
    return tuple(_in_causal_order(causes, matching))


def _in_causal_order(causes: list[RootCause], matching: Matching) -> list[RootCause]:
    """causes_stand_in_causal_order; of what no call orders, the smaller index first."""
    left = sorted(causes, key=lambda c: (c.exec_order is None, c.exec_order or 0, c.rank))
    if len(left) < 2:
        return left
    if len(left) > MOST_ORDERED:
        times = times_of(matching, [(cause.rank, cause.exec_order) for cause in left])
        return [
            left[at] for at in sorted(range(len(left)), key=lambda at: (left[at].exec_order is None, times[at], at))
        ]
    behind = [first_behind(matching, cause.rank, cause.exec_order) for cause in left]

    def follows(one: int, other: int) -> bool:
        at, before = left[one], behind[other].get(left[one].rank)
        return at.exec_order is not None and before is not None and before < at.exec_order

    order: list[int] = []
    while len(order) < len(left):
        rest = [at for at in range(len(left)) if at not in order]
        free = (at for at in rest if not any(follows(at, other) for other in rest if other != at))
        order.append(next(free, rest[0]))
    return [left[at] for at in order]


def _told_once(causes: Sequence[RootCause]) -> list[RootCause]:
    """a_parameter_is_one_cause: the same record of several ranks reads the same bad parameter."""
    kept: dict[tuple[str, frozenset[int]], RootCause] = {}
    others = []
    for cause in causes:
        if cause.where is not Where.PARAMETER or not cause.ranks_also:
            others.append(cause)
            continue
        place = cause.op_name, frozenset((cause.rank, *cause.ranks_also))
        if place not in kept or cause.rank < kept[place].rank:
            kept[place] = cause
    return [*others, *kept.values()]


def _further(step: int, spread: Spread, summaries: Mapping[int, RankSummary], book: Rulebook) -> list[RootCause]:
    """every_clean_birth_is_a_cause: forward births behind the first event of a rank, where this one is its own or came
    from elsewhere, whose inputs are finite, whose value matters and whose mechanism the numbers show.

    The same operator of the same module is told once: it meets the same numbers in every micro-batch. Of bad weights
    the first is told, where no weight is a cause already: one update makes many of them bad.
    """
    found: list[RootCause] = []
    for outcome in spread.outcomes:
        if Ending.SATURATED in outcome.event.endings:
            continue  # what it was swallowed to is finite, and may be what the next one divides by
        known = {_code(outcome.event)}
        may_be_weight = not any(map(_is_weight, (one.event for one in spread.outcomes)))
        for event in summaries[outcome.rank].events:
            later = event.index > outcome.event.index and event.direction is Direction.FORWARD
            is_own = is_own_birth(event) or (may_be_weight and _is_weight(event) and not _has_arrived(event, outcome))
            if not later or not event.is_live or not event.goes_on or not is_own or _code(event) in known:
                continue
            cause = _own(step, RankOutcome(outcome.rank, event, Arrival.OWN), summaries, book)
            if cause.mechanism.kind is MechanismKind.UNKNOWN or cause.mechanism.confidence is Confidence.POSSIBLE:
                continue
            known.add(_code(event))
            found.append(cause)
            may_be_weight = may_be_weight and not _is_weight(event)
    return found


def _is_weight(event: Event) -> bool:
    return event.kind is EventKind.ENTRY and event.origin is Origin.PARAMETER and event.guess is None


def _has_arrived(event: Event, outcome: RankOutcome) -> bool:
    """What the rank received before can be the weight: of its shape, or one flat vector that holds it (weights that a
    server sends)."""
    if outcome.arrival is Arrival.OWN or outcome.event.kind is not EventKind.RECEIVE:
        return False
    return any(
        one.shape == weight.shape or (len(one.shape or ()) == 1 and (one.numel or 0) >= (weight.numel or 0))
        for one in outcome.event.bad_outputs
        for weight in event.bad_inputs
    )


def _code(event: Event) -> tuple[str, str | None]:
    """Operator and module of an event: where it stands in the program."""
    return event.record.name.api or event.record.name.path, event.module


def _alone(step: int, outcome: RankOutcome, summaries: Mapping[int, RankSummary], book: Rulebook) -> RootCause:
    """The first anomalous record of one rank, its own or the one that brought the value from elsewhere."""
    cause = _own(step, outcome, summaries, book)
    if outcome.arrival is Arrival.OWN:
        return cause
    received = Mechanism(MechanismKind.UNKNOWN, Confidence.POSSIBLE, Note("why.received"))
    return replace(cause, where=Where.COMMUNICATION, mechanism=received)


def _own(step: int, outcome: RankOutcome, summaries: Mapping[int, RankSummary], book: Rulebook) -> RootCause:
    event = outcome.event
    if outcome.arrival is Arrival.OWN:
        event = at_its_jump(inside_its_module(at_its_blind_writer(event)))
    also = _holders(outcome, summaries)
    where = _WHERE[event.origin or Origin.BETWEEN_RECORDS]
    if event.kind is EventKind.BIRTH:
        where = Where.UNDUMPED_OPERATOR if _is_partly_blind(event) and not event.is_blind else Where.OPERATOR
        if event.is_blind and is_communication(event.record):
            where = Where.COMMUNICATION
    mechanism = _no_surer(registry.explain(event, book), event)
    return RootCause(
        step=step,
        rank=outcome.rank,
        op_name=event.record.name.full,
        exec_order=event.index,
        direction=event.direction,
        where=where,
        place_confidence=_place_confidence(event, mechanism),
        mechanism=mechanism,
        inputs=event.record.inputs + event.record.parameters,
        outputs=event.record.outputs,
        module=event.module,
        evidence=(*_shown_by(event, outcome.event), *evidence_of(event), *_shared(event, also, summaries)),
        ranks_also=also,
        alternatives=_alternatives(step, outcome, summaries[outcome.rank]),
        run_up=event.run_up,
    )


def _place_confidence(event: Event, mechanism: Mechanism) -> Confidence:
    """How sure the place is: no surer than the weakest link on the value's way. What was absurd when it came in has its
    cause further back."""
    if event.guess is not None or event.endings & LIVE_ENDINGS == {Ending.CUT}:
        return Confidence.POSSIBLE
    if event.kind is EventKind.BIRTH:
        if event.direction is Direction.BACKWARD and event.forward_twin is None and event.jump is None:
            return Confidence.POSSIBLE  # what its forward call saved is not in the dump
        taken = [tensor for tensor in event.record.inputs if tensor.is_floating]
        is_seen = bool(taken) and not any(tensor.state.is_unknown for tensor in taken)
        if event.blind is not None and not is_seen:
            return Confidence.POSSIBLE
        is_call = event.record.name.kind is RecordKind.API
        entered = mechanism.kind is MechanismKind.LARGE_VALUE_PROPAGATION
        is_proven = is_seen and is_call and event.blind is None and event.jump is None and not entered
        is_proven = is_proven and not _is_made_zero(event, mechanism)
        return Confidence.CERTAIN if is_proven else Confidence.LIKELY
    is_read = event.origin in (Origin.PARAMETER, Origin.INPUT_DATA) or event.writer is not None
    return Confidence.LIKELY if is_read and event.blind is None else Confidence.POSSIBLE


def _no_surer(mechanism: Mechanism, event: Event) -> Mechanism:
    """A cause that hangs on a guess is possible at most; one behind a record without statistics, or whose value was
    only on its way when the run ended, is likely at most, whatever the numbers prove of the record itself."""
    if event.guess is not None:
        return replace(mechanism, confidence=Confidence.POSSIBLE)
    is_open = event.blind is not None or event.endings & LIVE_ENDINGS == {Ending.CUT} or _is_made_zero(event, mechanism)
    if is_open and mechanism.confidence is Confidence.CERTAIN:
        return replace(mechanism, confidence=Confidence.LIKELY)
    return mechanism


def _is_made_zero(event: Event, mechanism: Mechanism) -> bool:
    """A zero is the cause, and a bad value was swallowed on its way."""
    return event.swallowed is not None and registry.has(mechanism.kind, Trait.ZERO)


def _shown_by(event: Event, shown: Event) -> tuple[Note, ...]:
    """Which record shows what one without a recorded result gave."""
    if not event.is_blind:
        return ()
    tensor = (*shown.bad_inputs, *shown.bad_outputs)[0]
    params = {"op_name": shown.record.name.full, "slot": tensor.slot, "max": tensor.max, "min": tensor.min}
    return (Note("evidence.no_result", {**params, "state": tensor.state.value}),)


def _holders(outcome: RankOutcome, summaries: Mapping[int, RankSummary]) -> tuple[int, ...]:
    """Ranks whose same record reads the same bad parameter; it may stay there: replicas whose batch does not use the
    bad row of an embedding."""
    event = outcome.event
    if event.origin is not Origin.PARAMETER:
        return ()
    name = event.record.name.full
    return tuple(
        rank
        for rank, summary in sorted(summaries.items())
        if rank != outcome.rank
        and any(e.record.name.full == name and e.origin is Origin.PARAMETER for e in summary.events)
    )


def _shared(event: Event, ranks: tuple[int, ...], summaries: Mapping[int, RankSummary]) -> tuple[Note, ...]:
    """The ranks on which the parameter is bad too; that it stayed without effect is said where that was seen.

    Where all ranks read it bad, one shard may have been gathered on all of them (ZeRO-3).
    """
    unharmed = tuple(rank for rank in ranks if _stays_there(event.record.name.full, summaries[rank]))
    others = tuple(rank for rank in ranks if rank not in unharmed)
    everywhere = len(others) + 1 == sum(summary.records > 0 for summary in summaries.values())
    too = "evidence.parameter_everywhere" if everywhere else "evidence.parameter_bad_too"
    notes = (("evidence.parameter_elsewhere", unharmed), (too, others))
    return tuple(Note(key, {"ranks": format_ranges(which)}) for key, which in notes if which)


def _stays_there(name: str, summary: RankSummary) -> bool:
    """The record's results are recorded and finite, and nothing that reads the parameter goes on anywhere."""
    readers = [event for event in summary.events if event.origin is Origin.PARAMETER]
    here = [event for event in readers if event.record.name.full == name]
    given = [tensor for event in here for tensor in event.record.outputs if tensor.is_floating]
    finite = bool(given) and all(tensor.state is ValueState.FINITE for tensor in given)
    return finite and not any(event.is_live or event.communications for event in readers)


def _why_harmless(event: Event) -> Note:
    """Why an event that came before the cause is none."""
    if event.is_trial or Ending.ISLAND in event.endings:
        return Note("reason.trial")
    if event.closer:
        return Note("reason.contained", {"closer": event.closer})
    return Note("reason.unread" if event.endings == {Ending.UNREAD} else "reason.earlier_dropped")


def _is_partly_blind(event: Event) -> bool:
    """Some inputs are known to be clean and others have no statistics: the value may have come in through those."""
    states = [t.state.is_unknown for t in event.record.inputs if t.is_floating]
    return any(states) and not all(states)


def _alternatives(step: int, outcome: RankOutcome, summary: RankSummary) -> tuple[Alternative, ...]:
    found = [
        Alternative(step, summary.rank, one.op_name, one.index, one.direction, Note(f"reason.{one.reason.value}"))
        for one in outcome.event.earlier
    ]
    guess = outcome.event.guess
    if guess is not None:
        reason = Note("reason.guess", {"op_name": outcome.event.record.name.full})
        found.insert(0, Alternative(step, summary.rank, guess.op_name, guess.index, outcome.event.direction, reason))
    blind = outcome.event.blind
    if blind is not None:
        is_named = at_its_blind_writer(outcome.event) is not outcome.event
        other = outcome.event.record if is_named else blind.record
        reason = Note("reason.reads_blind" if is_named else "reason.blind")
        found.insert(0, Alternative(step, summary.rank, other.name.full, other.index, other.name.direction, reason))
    swallowed = outcome.event.swallowed
    if swallowed is not None:
        reason = Note("reason.swallowed")
        name = swallowed.name
        found.insert(0, Alternative(step, summary.rank, name.full, swallowed.index, name.direction, reason))
    for event in summary.events:
        if event is outcome.event or len(found) == MAX_ALTERNATIVES:
            continue
        reason = _why_harmless(event) if event.index < outcome.event.index else Note("reason.later")
        found.append(Alternative(step, summary.rank, event.record.name.full, event.index, event.direction, reason))
    return tuple(found)
