"""From first live events to root causes: place, reason, evidence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from firstnan.analysis import mechanism
from firstnan.analysis.corruption import impossible_ranks, largest, result_bound
from firstnan.analysis.events import Event, EventKind, Origin
from firstnan.analysis.matching import MatchedCall, Matching
from firstnan.analysis.order import comes_after
from firstnan.analysis.propagation import Arrival, RankOutcome, Spread
from firstnan.analysis.summarize import RankSummary, Side
from firstnan.dump import Direction
from firstnan.numerics import limits, magnitude
from firstnan.ranges import format_ranges
from firstnan.report import Alternative, Confidence, Mechanism, MechanismKind, Note, NoteValue, RootCause, Where

_WHERE = {
    Origin.PARAMETER: Where.PARAMETER,
    Origin.INPUT_DATA: Where.INPUT_DATA,
    Origin.UNINITIALISED: Where.UNDUMPED_OPERATOR,
    Origin.BETWEEN_RECORDS: Where.UNDUMPED_OPERATOR,
    Origin.BEFORE_DUMP: Where.BEFORE_DUMP,
}
MAX_ALTERNATIVES = 8


def root_causes(
    step: int, summaries: Mapping[int, RankSummary], matching: Matching, spread: Spread, *, alone: bool = False
) -> tuple[RootCause, ...]:
    """Every independent cause of one step; their order does not depend on the order of ranks in folders.

    ``alone``: only one rank is looked at, on purpose: what it received is named where it came in.
    """
    if alone:
        return tuple(_alone(step, outcome, summaries) for outcome in spread.outcomes)
    own, corrupted = _corrupted(step, spread.of(Arrival.OWN), matching)
    causes = [_own(step, outcome, summaries) for outcome in own]
    causes += corrupted
    causes += _communication(step, spread.of(Arrival.COMMUNICATION))
    absent = spread.of(Arrival.MISSING)
    causes += _missing(step, _independent(absent, matching) if causes else absent)
    if not causes:
        causes += [
            _own(step, RankOutcome(rank, summary.saturated, Arrival.OWN), summaries)
            for rank, summary in summaries.items()
            if summary.saturated is not None
        ]
    return tuple(sorted(causes, key=lambda c: (c.exec_order is None, c.exec_order or 0, c.rank)))


def _alone(step: int, outcome: RankOutcome, summaries: Mapping[int, RankSummary]) -> RootCause:
    """The first anomalous record of one rank, its own or the one that brought the value from elsewhere."""
    cause = _own(step, outcome, summaries)
    if outcome.arrival is Arrival.OWN:
        return cause
    received = Mechanism(MechanismKind.UNKNOWN, Confidence.POSSIBLE, Note("why.received"))
    return replace(cause, where=Where.COMMUNICATION, mechanism=received)


def _corrupted(
    step: int, outcomes: tuple[RankOutcome, ...], matching: Matching
) -> tuple[list[RankOutcome], list[RootCause]]:
    """Takes out the births whose run-up begins at a communication result that is finite and impossible."""
    kept: list[RankOutcome] = []
    found: dict[int, tuple[MatchedCall, list[RankOutcome]]] = {}
    for outcome in outcomes:
        call = _impossible_call(outcome, matching)
        if call is None:
            kept.append(outcome)
        else:
            found.setdefault(id(call), (call, []))[1].append(outcome)
    return kept, [_corrupt_cause(step, call, reached) for call, reached in found.values()]


def _impossible_call(outcome: RankOutcome, matching: Matching) -> MatchedCall | None:
    for passed in outcome.event.run_up:
        for call in matching.at(outcome.rank, passed.exec_order):
            if outcome.rank in impossible_ranks(call):
                return call
    return None


def _corrupt_cause(step: int, call: MatchedCall, reached: list[RankOutcome]) -> RootCause:
    ranks = impossible_ranks(call)
    rank = ranks[0]
    fact = call.members[rank]
    bound = result_bound(call)
    note = Note("why.impossible_result", {"value": largest(fact.call.received), "bound": bound})
    if bound is None:
        note = Note("why.members_differ", {"ranks": format_ranges(ranks)})
    effect = reached[0]
    return RootCause(
        step=step,
        rank=rank,
        op_name=fact.call.name,
        exec_order=fact.call.index,
        direction=Direction.FORWARD,
        where=Where.COMMUNICATION,
        mechanism=Mechanism(MechanismKind.COMM_CORRUPTION, Confidence.CERTAIN, note),
        inputs=fact.call.sent,
        outputs=fact.call.received,
        ranks_also=tuple(r for r in ranks if r != rank),
        evidence=(Note("evidence.first_effect", {"rank": effect.rank, "op_name": effect.event.record.name.full}),),
        run_up=effect.event.run_up,
    )


def _own(step: int, outcome: RankOutcome, summaries: Mapping[int, RankSummary]) -> RootCause:
    event = outcome.event
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
        mechanism=mechanism.explain(event),
        inputs=event.record.inputs + event.record.parameters,
        outputs=event.record.outputs,
        module=event.module,
        evidence=_evidence(event),
        alternatives=_alternatives(step, outcome, summaries[outcome.rank]),
        run_up=event.run_up,
    )


def _is_partly_blind(event: Event) -> bool:
    """Some inputs are known to be clean and others have no statistics: the value may have come in through those."""
    states = [t.state.is_unknown for t in event.record.inputs if t.is_floating]
    return any(states) and not all(states)


def _evidence(event: Event) -> tuple[Note, ...]:
    notes = []
    if event.kind is EventKind.BIRTH:
        finite = [m for t in event.record.inputs if (m := magnitude(t.max, t.min)) is not None and math.isfinite(m)]
        if finite and not event.bad_inputs:
            notes.append(Note("evidence.inputs_finite", {"largest": max(finite)}))
        for tensor in event.bad_inputs:
            notes.append(Note("evidence.legal_input", {"slot": tensor.slot}))
    elif event.kind is EventKind.ENTRY:
        for tensor in event.bad_inputs[:4]:
            params = {"slot": tensor.slot, "max": _plain(tensor.max), "min": _plain(tensor.min)}
            notes.append(Note("evidence.input_bad", params))
        if event.writer is not None and event.origin is Origin.BETWEEN_RECORDS:
            between = {"before": event.writer.name.full, "after": event.record.name.full}
            notes.append(Note("evidence.between", between))
    if event.hidden:
        params = {"module": event.module or "", "ops": ", ".join(event.hidden)}
        notes.append(Note("evidence.hidden_operators", params))
    unknown = [t.slot for t in event.record.inputs if t.state.is_unknown and t.is_floating]
    if unknown and event.kind is EventKind.BIRTH:
        notes.append(Note("evidence.unknown_inputs", {"slots": ", ".join(unknown[:8])}))
    for tensor in event.bad_outputs[:4]:
        params = {"slot": tensor.slot, "max": _plain(tensor.max), "min": _plain(tensor.min), "dtype": tensor.dtype}
        notes.append(Note("evidence.output_bad", params))
    notes += _clean_outputs(event)
    if event.forward_twin is not None:
        notes.append(Note("evidence.forward_twin", {"op_name": event.forward_twin.name.full}))
    return tuple(notes)


def _clean_outputs(event: Event) -> list[Note]:
    """Which outputs are still finite: tells which of several results went bad."""
    clean = [t.slot for t in event.record.outputs if t not in event.bad_outputs and not t.state.is_bad]
    if not clean or not event.bad_outputs:
        return []
    return [Note("evidence.output_clean", {"slots": ", ".join(clean[:8])})]


def _plain(value: float | int | bool | None) -> float | int | bool | None:
    return value


def _alternatives(step: int, outcome: RankOutcome, summary: RankSummary) -> tuple[Alternative, ...]:
    found: list[Alternative] = []
    for event in summary.events:
        if event is outcome.event or len(found) == MAX_ALTERNATIVES:
            continue
        if event.index < outcome.event.index:
            reason = Note("reason.contained", {"closer": event.closer or ""})
        else:
            reason = Note("reason.later", {})
        found.append(Alternative(step, summary.rank, event.record.name.full, event.index, event.direction, reason))
    return tuple(found)


# -- communication -------------------------------------------------------------------------------------


def _communication(step: int, outcomes: tuple[RankOutcome, ...]) -> list[RootCause]:
    """One cause per call whose inputs are clean and whose result is not."""
    by_call: dict[int, list[RankOutcome]] = {}
    for outcome in outcomes:
        by_call.setdefault(id(outcome.call) if outcome.call else -outcome.rank - 1, []).append(outcome)
    return [_call_cause(step, members) for members in by_call.values()]


def _call_cause(step: int, members: list[RankOutcome]) -> RootCause:
    first = members[0]
    call, event = first.call, first.event
    ranks = tuple(sorted(o.rank for o in members))
    why = call_mechanism(call) if call else _unknown_call()
    return RootCause(
        step=step,
        rank=first.rank,
        op_name=event.record.name.full,
        exec_order=event.index,
        direction=event.direction,
        where=Where.COMMUNICATION,
        mechanism=why,
        inputs=event.record.inputs,
        outputs=event.record.outputs,
        module=event.module,
        ranks_also=tuple(r for r in ranks if r != first.rank),
        evidence=_evidence(event),
        alternatives=(),
    )


def _unknown_call() -> Mechanism:
    return Mechanism(MechanismKind.UNKNOWN, Confidence.POSSIBLE, Note("why.unmatched_call"))


def call_mechanism(call: MatchedCall) -> Mechanism:
    """Reduction overflow when the sum of the members' largest values is beyond the dtype, else corruption.

    Example: two members with 4e4 in float16: 8e4 > 65504.
    """
    facts = list(call.members.values())
    sent = [t for f in facts for t in f.call.sent]
    bound = reached_bound(call)
    limit = next((limits(t.dtype) for t in sent if limits(t.dtype)), None)
    if bound is not None and limit is not None and any(f.call.reduces for f in facts) and bound > limit.largest:
        params: dict[str, NoteValue] = {
            "bound": bound,
            "limit": limit.largest,
            "dtype": limit.name,
            "members": len(facts),
        }
        return Mechanism(MechanismKind.REDUCTION_OVERFLOW, Confidence.CERTAIN, Note("why.reduction_overflow", params))
    if bound is None:
        return Mechanism(MechanismKind.COMM_CORRUPTION, Confidence.POSSIBLE, Note("why.comm_corruption_blind"))
    bad = [r for r, f in call.members.items() if f.received is Side.BAD]
    sure = Confidence.LIKELY if call.absent else Confidence.CERTAIN
    note = Note("why.comm_corruption", {"ranks": format_ranges(bad), "bound": bound})
    return Mechanism(MechanismKind.COMM_CORRUPTION, sure, note)


def reached_bound(call: MatchedCall) -> float | None:
    """The largest value that can stand anywhere on the way to the result: the sum over the members, for MAX and MIN the
    largest of them (AVG sums first); None when an input is not known."""
    if not call.is_seen:
        return None
    if {f.call.reduce_op for f in call.members.values()} <= {"MAX", "MIN"}:
        return result_bound(call)
    total = 0.0
    for fact in call.members.values():
        values = [magnitude(t.max, t.min) for t in fact.call.sent]
        if any(v is None for v in values):
            return None
        total += max((v for v in values if v is not None), default=0.0)
    return total


# -- absent ranks --------------------------------------------------------------------------------------


def _missing(step: int, outcomes: tuple[RankOutcome, ...]) -> list[RootCause]:
    """absent_member_is_the_source: the ranks that every infected call can have got it from."""
    if not outcomes:
        return []
    overflowed = [o for o in outcomes if o.call and _reduction_overflows(o.call)]
    if overflowed:
        return _communication(step, tuple(overflowed))
    suspects: dict[int, list[RankOutcome]] = {}
    for outcome in outcomes:
        for rank in _narrow(outcome):
            suspects.setdefault(rank, []).append(outcome)
    causes: list[RootCause] = []
    explained: set[int] = set()
    for rank in sorted(suspects, key=lambda r: (-len(suspects[r]), r)):
        reached = [o for o in suspects[rank] if o.rank not in explained]
        if not reached:
            continue
        explained.update(o.rank for o in reached)
        causes.append(_missing_cause(step, rank, reached))
    return causes


def _independent(outcomes: tuple[RankOutcome, ...], matching: Matching) -> tuple[RankOutcome, ...]:
    """relay: those whose absent source was sent nothing bad before; one that was passes on what others made.

    Example: pipeline 0 -> 1 -> 2 with rank 1 absent: rank 0 sends it NaN, rank 2 receives NaN from it.
    """
    bad_sends = [c for c in matching.calls if c.absent and any(f.sent is Side.BAD for f in c.members.values())]
    return tuple(o for o in outcomes if o.call is not None and not _is_relayed(o, o.call, bad_sends, matching))


def _is_relayed(outcome: RankOutcome, call: MatchedCall, bad_sends: Sequence[MatchedCall], matching: Matching) -> bool:
    into = [c for c in bad_sends if c is not call and set(outcome.sources) & set(c.absent)]
    if not into:
        return False
    later = comes_after(matching, call)
    here = {(f.call.name, r): f.call.index for c in matching.calls for r, f in c.members.items()}
    name = call.members[outcome.rank].call.name
    return any(id(c) not in later and (c.is_p2p or not _is_later_in_the_same_code(c, name, here)) for c in into)


def _is_later_in_the_same_code(sending: MatchedCall, name: str, places: Mapping[tuple[str, int], int]) -> bool:
    """Ranks that run the same code make calls of the same names in the same order: on every sender the call of this
    name stands before the bad one."""
    before = [places.get((name, rank)) for rank, fact in sending.members.items() if fact.sent is Side.BAD]
    sent = [fact.call.index for fact in sending.members.values() if fact.sent is Side.BAD]
    return all(at is not None and at < index for at, index in zip(before, sent, strict=True))


def _reduction_overflows(call: MatchedCall) -> bool:
    return call_mechanism(call).kind is MechanismKind.REDUCTION_OVERFLOW


def _narrow(outcome: RankOutcome) -> tuple[int, ...]:
    """Lists of received tensors tell the sender by their place (all_gather, all_to_all)."""
    call = outcome.call
    if call is None or call.is_p2p or call.group is None:
        return outcome.sources
    fact = call.members.get(outcome.rank)
    order = fact.call.group if fact and fact.call.group else call.group
    if fact is None or len(fact.call.received) != len(order):
        return outcome.sources
    senders = [order[i] for i, t in enumerate(fact.call.received) if t.state.is_bad]
    return tuple(r for r in senders if r in outcome.sources) or outcome.sources


def _missing_cause(step: int, rank: int, reached: list[RankOutcome]) -> RootCause:
    first = reached[0]
    others = tuple(r for r in first.sources if r != rank)
    notes = [
        Note(
            "evidence.missing_rank",
            {
                "rank": rank,
                "op_name": first.call.members[first.rank].call.name if first.call else first.event.record.name.full,
                "receivers": format_ranges(o.rank for o in reached),
            },
        )
    ]
    if others:
        notes.append(Note("evidence.other_missing", {"ranks": format_ranges(others)}))
    backward = first.event.direction is Direction.BACKWARD
    return RootCause(
        step=step,
        rank=rank,
        op_name="",
        exec_order=None,
        direction=Direction.BACKWARD if backward else Direction.FORWARD,
        where=Where.MISSING_RANK,
        mechanism=Mechanism(MechanismKind.UNKNOWN, Confidence.POSSIBLE, Note("why.missing_rank", {"rank": rank})),
        evidence=tuple(notes),
    )
