"""Communication calls that are causes themselves: overflow of a reduction, corruption.

Rules, each tested under its name:

``a_call_without_a_result_is_named``
    Where its result is not recorded, the call is the answer, and not the record that reads the result.
``uneven_series_prove_nothing``
    Where one member has fewer records of such calls than another, which calls belong together is not certain.
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from firstnan.answer.model import Alternative, Confidence, Mechanism, MechanismKind, Note, RootCause, Where
from firstnan.causes.evidence import evidence_of
from firstnan.causes.mechanisms.comm_corruption import comm_corruption
from firstnan.causes.mechanisms.reduction_overflow import reduction_overflow
from firstnan.causes.mechanisms.registry import explain, has
from firstnan.causes.mechanisms.traits import Trait
from firstnan.dump.ranges import format_ranges
from firstnan.dump.records import Direction
from firstnan.dump.values import limits, magnitude
from firstnan.operators.communication import Root, role
from firstnan.operators.table import Rulebook
from firstnan.step.arrivals import RankOutcome
from firstnan.step.corruption import impossible_ranks, largest, result_bound
from firstnan.step.matching import MatchedCall, Matching


def corrupted(
    step: int, outcomes: tuple[RankOutcome, ...], matching: Matching, book: Rulebook
) -> tuple[list[RankOutcome], list[RootCause]]:
    """Takes out the births that follow from a communication result that is finite and impossible.

    Example: all_reduce of 2 and 3 gives 1e37, whose square overflows: the communication is the cause. It gives 9, and
    adding 1 to that gives Inf: no value of the inputs makes that, so that the sum stays the cause, and the impossible
    result is told beside it (:func:`impossible_before`).
    """
    kept: list[RankOutcome] = []
    found: dict[int, tuple[MatchedCall, list[RankOutcome]]] = {}
    for outcome in outcomes:
        call = _impossible_call(outcome, matching)
        if call is None or not _explains(call, outcome, book):
            kept.append(outcome)
        else:
            found.setdefault(id(call), (call, []))[1].append(outcome)
    return kept, [_corrupt_cause(step, call, reached) for call, reached in found.values()]


def impossible_before(step: int, outcome: RankOutcome, matching: Matching) -> tuple[Alternative, ...]:
    """The impossible result on the way to a birth that it does not explain."""
    call = _impossible_call(outcome, matching)
    if call is None:
        return ()
    fact = call.members[outcome.rank]
    reason = Note("reason.impossible_result", {"value": largest(fact.call.received)})
    return (Alternative(step, outcome.rank, fact.call.name, fact.call.index, Direction.FORWARD, reason),)


def _explains(call: MatchedCall, outcome: RankOutcome, book: Rulebook) -> bool:
    """A wrong value explains what its size explains. One whose square leaves the dtype explains everything behind it:
    no variance, norm or product of it is finite."""
    received = call.members[outcome.rank].call.received
    value, limit = largest(received), next((limits(t.dtype) for t in received if limits(t.dtype)), None)
    if value is not None and limit is not None and value > math.sqrt(limit.largest):
        return True
    return has(explain(outcome.event, book).kind, Trait.TOO_LARGE)


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
        direction=_direction(call, rank),
        where=Where.COMMUNICATION,
        mechanism=Mechanism(MechanismKind.COMM_CORRUPTION, _surest(call), note),
        place_confidence=_surest(call),
        inputs=fact.call.sent,
        outputs=fact.call.received,
        ranks_also=tuple(r for r in ranks if r != rank),
        evidence=(Note("evidence.first_effect", {"rank": effect.rank, "op_name": effect.event.record.name.full}),),
        run_up=effect.event.run_up,
    )


def communication_causes(step: int, outcomes: tuple[RankOutcome, ...]) -> list[RootCause]:
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
    name, index, inputs, outputs = event.record.name.full, event.index, event.record.inputs, event.record.outputs
    module, evidence = event.module, evidence_of(event)
    fact = call.members.get(first.rank) if call else None
    if fact is not None and fact.call.index != event.index:  # a_call_without_a_result_is_named
        name, index, inputs, outputs = fact.call.name, fact.call.index, fact.call.sent, fact.call.received
        effect = Note("evidence.first_effect", {"rank": first.rank, "op_name": event.record.name.full})
        module, evidence = None, (effect,)
    return RootCause(
        step=step,
        rank=first.rank,
        op_name=name,
        exec_order=index,
        direction=_direction(call, first.rank) if call else event.direction,
        where=Where.COMMUNICATION,
        mechanism=why,
        place_confidence=why.confidence,
        inputs=inputs,
        outputs=outputs,
        module=module,
        ranks_also=tuple(r for r in ranks if r != first.rank),
        evidence=evidence,
        alternatives=(),
    )


def _direction(call: MatchedCall, rank: int) -> Direction:
    """The pass that the call stands in: records of communication are named ``forward`` in both."""
    fact = call.members[rank]
    return Direction.BACKWARD if fact.in_backward or fact.after_backward else Direction.FORWARD


def _unknown_call() -> Mechanism:
    return Mechanism(MechanismKind.UNKNOWN, Confidence.POSSIBLE, Note("why.unmatched_call"))


def call_mechanism(call: MatchedCall) -> Mechanism:
    """Reduction overflow when the sum of the members' largest values is beyond the dtype, else corruption."""
    bound = reached_bound(call)
    found = reduction_overflow(call, bound) or comm_corruption(call, bound)
    return replace(found, confidence=_surest(call)) if found.confidence is Confidence.CERTAIN else found


def _surest(call: MatchedCall) -> Confidence:
    """uneven_series_prove_nothing"""
    return Confidence.CERTAIN if call.is_even else Confidence.LIKELY


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
        if not values and not call.is_p2p and role(call.api).root is Root.NONE:
            return None  # it put in something that is not recorded
        if any(v is None or not math.isfinite(v) for v in values):
            return None  # what is infinite when it goes in does not overflow on the way
        total += max((v for v in values if v is not None), default=0.0)
    return total
