"""From first live events to root causes: place, reason, evidence."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from firstnan.answer.model import Alternative, Confidence, Mechanism, MechanismKind, Note, RootCause, Where
from firstnan.causes.communication import communication_causes, corrupted, impossible_before
from firstnan.causes.evidence import evidence_of
from firstnan.causes.mechanisms import registry
from firstnan.causes.missing_rank import absent_causes, independent
from firstnan.dump.ranges import format_ranges
from firstnan.operators.table import Rulebook
from firstnan.rank.events import Event, EventKind, Origin
from firstnan.rank.module_dumps import inside_its_module
from firstnan.rank.summary import RankSummary
from firstnan.step.matching import Matching
from firstnan.step.origins import Arrival, RankOutcome, Spread

_WHERE = {
    Origin.PARAMETER: Where.PARAMETER,
    Origin.INPUT_DATA: Where.INPUT_DATA,
    Origin.UNINITIALISED: Where.UNDUMPED_OPERATOR,
    Origin.BETWEEN_RECORDS: Where.UNDUMPED_OPERATOR,
    Origin.BEFORE_DUMP: Where.BEFORE_DUMP,
}
MAX_ALTERNATIVES = 8


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
    if not causes:
        causes += [
            _own(step, RankOutcome(rank, summary.saturated, Arrival.OWN), summaries, book)
            for rank, summary in summaries.items()
            if summary.saturated is not None
        ]
    return tuple(sorted(causes, key=lambda c: (c.exec_order is None, c.exec_order or 0, c.rank)))


def _alone(step: int, outcome: RankOutcome, summaries: Mapping[int, RankSummary], book: Rulebook) -> RootCause:
    """The first anomalous record of one rank, its own or the one that brought the value from elsewhere."""
    cause = _own(step, outcome, summaries, book)
    if outcome.arrival is Arrival.OWN:
        return cause
    received = Mechanism(MechanismKind.UNKNOWN, Confidence.POSSIBLE, Note("why.received"))
    return replace(cause, where=Where.COMMUNICATION, mechanism=received)


def _own(step: int, outcome: RankOutcome, summaries: Mapping[int, RankSummary], book: Rulebook) -> RootCause:
    event = inside_its_module(outcome.event) if outcome.arrival is Arrival.OWN else outcome.event
    also = _holders(outcome, summaries)
    where = _WHERE[event.origin or Origin.BETWEEN_RECORDS]
    if event.kind is EventKind.BIRTH:
        where = Where.UNDUMPED_OPERATOR if _is_partly_blind(event) else Where.OPERATOR
    return RootCause(
        step=step,
        rank=outcome.rank,
        op_name=event.record.name.full,
        exec_order=event.index,
        direction=event.direction,
        where=where,
        mechanism=registry.explain(event, book),
        inputs=event.record.inputs + event.record.parameters,
        outputs=event.record.outputs,
        module=event.module,
        evidence=(*evidence_of(event), *_shared(also)),
        ranks_also=also,
        alternatives=_alternatives(step, outcome, summaries[outcome.rank]),
        run_up=event.run_up,
    )


def _holders(outcome: RankOutcome, summaries: Mapping[int, RankSummary]) -> tuple[int, ...]:
    """Ranks whose same record read the same bad parameter without passing it on: replicas whose batch does not use
    the bad row of an embedding."""
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


def _shared(ranks: tuple[int, ...]) -> tuple[Note, ...]:
    return (Note("evidence.parameter_elsewhere", {"ranks": format_ranges(ranks)}),) if ranks else ()


def _is_partly_blind(event: Event) -> bool:
    """Some inputs are known to be clean and others have no statistics: the value may have come in through those."""
    states = [t.state.is_unknown for t in event.record.inputs if t.is_floating]
    return any(states) and not all(states)


def _alternatives(step: int, outcome: RankOutcome, summary: RankSummary) -> tuple[Alternative, ...]:
    found = [
        Alternative(step, summary.rank, one.op_name, one.index, one.direction, Note(f"reason.{one.reason.value}"))
        for one in outcome.event.earlier
    ]
    for event in summary.events:
        if event is outcome.event or len(found) == MAX_ALTERNATIVES:
            continue
        if event.index < outcome.event.index:
            reason = Note("reason.contained", {"closer": event.closer or ""})
        else:
            reason = Note("reason.later", {})
        found.append(Alternative(step, summary.rank, event.record.name.full, event.index, event.direction, reason))
    return tuple(found)
