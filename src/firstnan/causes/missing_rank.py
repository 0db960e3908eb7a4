"""Causes on ranks that cannot be read: absent, empty, or cut before the call that brought the value."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from firstnan.answer.model import Confidence, Mechanism, MechanismKind, Note, NoteValue, RootCause, Where
from firstnan.causes.communication import call_mechanism, communication_causes
from firstnan.dump.problems import ProblemKind
from firstnan.dump.ranges import format_ranges
from firstnan.rank.summary import RankSummary, Side
from firstnan.step.arrivals import RankOutcome
from firstnan.step.matching import MatchedCall, Matching
from firstnan.step.order import comes_after

_UNREAD = frozenset({ProblemKind.UNREADABLE, ProblemKind.MISSING_FILE, ProblemKind.WORKER_FAILED, ProblemKind.LIMIT})
"""Why nothing is known of a rank that may well hold something."""


def absent_causes(
    step: int, outcomes: tuple[RankOutcome, ...], summaries: Mapping[int, RankSummary], left_out: Collection[int]
) -> list[RootCause]:
    """absent_member_is_the_source: the ranks that every infected call can have got it from.

    ``left_out`` are ranks that were not asked for: they are not said to have no dump.
    """
    if not outcomes:
        return []
    overflowed = [o for o in outcomes if o.call and _reduction_overflows(o.call)]
    if overflowed:
        return communication_causes(step, tuple(overflowed))
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
        causes.append(_missing_cause(step, rank, reached, _what_is_there(rank, summaries.get(rank), left_out)))
    return causes


def independent(outcomes: tuple[RankOutcome, ...], matching: Matching) -> tuple[RankOutcome, ...]:
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


def _missing_cause(step: int, rank: int, reached: list[RankOutcome], there: Note) -> RootCause:
    first = reached[0]
    others = tuple(r for r in first.sources if r != rank)
    brought: dict[str, list[int]] = {}
    for outcome in reached:
        name = outcome.call.members[outcome.rank].call.name if outcome.call else outcome.event.record.name.full
        brought.setdefault(name, []).append(outcome.rank)
    receivers = format_ranges(o.rank for o in reached)
    notes = [there]
    for name, ranks in brought.items():
        params: dict[str, NoteValue] = {"rank": rank, "op_name": name, "receivers": format_ranges(ranks)}
        notes.append(Note("evidence.missing_rank", params))
    if others:
        notes.append(Note("evidence.other_missing", {"ranks": format_ranges(others)}))
    key = there.key.removeprefix("evidence.rank_")
    why = Note(f"why.missing_rank_{key}", {"rank": rank, "receivers": receivers})
    return RootCause(
        step=step,
        rank=rank,
        op_name="",
        exec_order=None,
        direction=first.event.direction,
        where=Where.MISSING_RANK,
        mechanism=Mechanism(MechanismKind.UNKNOWN, Confidence.POSSIBLE, why),
        evidence=tuple(notes),
    )


def _what_is_there(rank: int, there: RankSummary | None, left_out: Collection[int]) -> Note:
    """No dump, one that was not asked for or could not be read, an empty one, or one that ends before the call."""
    if there is None:
        return Note("evidence.rank_left_out" if rank in left_out else "evidence.rank_absent", {"rank": rank})
    failed = next((p for p in there.problems if p.kind in _UNREAD), None)
    if not there.records and failed is not None:
        return Note("evidence.rank_unreadable", {"rank": rank, "reason": failed.detail or failed.kind.value})
    if not there.records:
        return Note("evidence.rank_empty", {"rank": rank})
    return Note("evidence.rank_cut", {"rank": rank, "records": there.records, "last": there.last_record})
