"""Communication results that are finite and still impossible.

Bounds (docs/architecture.md, "Across ranks"), each tested under its name:

``moved_within_bounds``    broadcast, gather, all_to_all ... give nothing larger than the largest that was put in.
``sum_within_bounds``      SUM: no element is larger than the sum of the members' largest; AVG, MAX: than the largest.
``members_agree``          every member of all_reduce, broadcast and all_gather holds the same result.
``receiver_equals_sender`` a message arrives as it was sent.

What a record shows of an asynchronous receive may be what the buffer held before:

``reader_shows_what_was_sent``    the next record that reads a tensor of its size reads what the sender sent.
``a_mask_is_judged_where_it_was_made``    the -Inf that a member received is one that another put in, where it is a
mask (:mod:`firstnan.rank.taint.legality`).
``sides_that_differ_prove_nothing``    the sender's calls are not all recorded (activation checkpointing can end the
recording early), and what is read next of that size is finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from firstnan.answer.model import MatchState
from firstnan.dump.records import TensorStat
from firstnan.dump.values import ValueState, magnitude
from firstnan.operators.communication import Freshness, GroupKnowledge, Root, role
from firstnan.rank.summary import CommFact, RankSummary, Side
from firstnan.step.matching import MatchedCall

SLACK = 1.05
"""Rounding of a low-precision sum can exceed the exact bound by a little."""
TOLERANCE = 1e-2
"""Relative difference of Max or Min that is still the same tensor."""


def impossible_ranks(call: MatchedCall) -> tuple[int, ...]:
    """Members whose finite result their inputs cannot give; empty when nothing is proven."""
    if (
        call.absent
        or not call.is_seen
        or call.state is not MatchState.MATCHED
        or not all(_is_known(f) for f in call.members.values())
    ):
        return ()
    if call.is_p2p:
        return _differs_from_sender(call)
    bound = result_bound(call)
    if bound is not None:
        beyond = [r for r, f in call.members.items() if (largest(f.call.received) or 0.0) > bound * SLACK]
        alike = role(call.api).result.is_same  # elsewhere each may get a part of its own
        some = alike and len(beyond) < len(call.members)
        if beyond and (some or not _may_have_more_members(call)):
            return tuple(sorted(beyond))
    known = role(call.api)
    return _disagreeing(call) if known.result.is_same and known.root is Root.NONE else ()


def _may_have_more_members(call: MatchedCall) -> bool:
    """The default group is all ranks of the run, and how many there are is nowhere recorded."""
    return any(f.call.knowledge is not GroupKnowledge.RECORDED for f in call.members.values())


def result_bound(call: MatchedCall) -> float | None:
    """The largest absolute value that a member can get; None when an input is not known.

    Example: SUM over members with 2 and 3 gives at most 5, all_gather and broadcast of them at most 3.
    """
    facts = list(call.members.values())
    values = [largest(f.call.sent) for f in facts]
    if any(v is None for v in values):
        return None
    known = [v for v in values if v is not None]
    if not any(f.call.reduces for f in facts):
        return None if call.is_p2p else max(known)
    operators = {f.call.reduce_op for f in facts}
    return sum(known) if operators <= {None, "SUM"} else max(known) if operators <= {"AVG", "MAX", "MIN"} else None


def largest(tensors: Iterable[TensorStat]) -> float | None:
    """The largest absolute value; None when one is not known or not finite."""
    found = 0.0
    for tensor in tensors:
        value = magnitude(tensor.max, tensor.min)
        if value is None or not math.isfinite(value):
            return None
        found = max(found, value)
    return found


def is_disproved(call: MatchedCall, rank: int, summaries: Mapping[int, RankSummary]) -> bool:
    """reader_shows_what_was_sent, sides_that_differ_prove_nothing: a member's bad result that may be stale is no
    result of this call.

    Example: ``irecv`` shows the NaN of an unfilled buffer, the sender sent [-1.7, 1.9], and that is what is read next.
    """
    fact = call.members[rank]
    if any(other.sent is Side.BAD for other in call.members.values()):
        return False
    if call.is_p2p and call.sender in call.absent:
        sender = summaries.get(call.sender if call.sender is not None else -1)
        read_clean = bool(fact.read_next) and not any(tensor.state.is_bad for tensor in fact.read_next)
        return read_clean and sender is not None and sender.records > 0
    if call.absent or not call.is_seen:
        return False
    sent = [t for member, f in call.members.items() if member != rank or not call.is_p2p for t in f.call.sent]
    known = [(t.max, t.min) for t in sent if t.max is not None and t.min is not None]
    if not known or len(known) < len(sent) or any(f.call.reduces for f in call.members.values()):
        return False
    arrives = {*known, (max(high for high, _ in known), min(low for _, low in known))}
    return any((t.max, t.min) in arrives for t in fact.read_next)


def is_mask_of_another(call: MatchedCall, rank: int) -> bool:
    """a_mask_is_judged_where_it_was_made: all that is bad in a member's result is -Inf, and so is what others put in,
    legal there.

    Example: a stage sends logits with forbidden classes to the stage that computes the loss.
    """
    fact = call.members[rank]
    if any(f.sent is not Side.CLEAN or f.call.reduces for r, f in call.members.items() if r != rank):
        return False
    bad = [tensor for tensor in fact.call.received if tensor.state.is_bad]
    put_in = [t for r, f in call.members.items() if r != rank for t in f.call.sent if t.state is ValueState.NEG_INF]
    return bool(bad and put_in) and all(tensor.state is ValueState.NEG_INF for tensor in bad)


def _is_known(fact: CommFact) -> bool:
    fresh = fact.call.freshness is Freshness.FRESH and fact.call.finished
    return fresh and Side.BAD not in (fact.sent, fact.received) and Side.UNKNOWN not in (fact.sent, fact.received)


def _disagreeing(call: MatchedCall) -> tuple[int, ...]:
    """members_agree: the members that differ from what most of them hold."""
    results = {r: _extremes(f.call.received) for r, f in call.members.items() if f.call.received}
    if len(results) < 3:
        return ()  # of two that differ, neither is known to be right
    common = max(results.values(), key=lambda one: sum(_close(one, other) for other in results.values()))
    differing = tuple(sorted(r for r, value in results.items() if not _close(value, common)))
    return differing if len(differing) * 2 < len(results) else ()


def _differs_from_sender(call: MatchedCall) -> tuple[int, ...]:
    """receiver_equals_sender, for results taken after the message arrived."""
    sender = call.members.get(call.sender if call.sender is not None else -1)
    receiver = call.members.get(call.receiver if call.receiver is not None else -1)
    if sender is None or receiver is None or not sender.call.sent or not receiver.call.received:
        return ()
    same = _close(_extremes(sender.call.sent), _extremes(receiver.call.received))
    return () if same or call.receiver is None else (call.receiver,)


def _extremes(tensors: Iterable[TensorStat]) -> tuple[float, ...]:
    return tuple(float(v) for t in tensors for v in (t.max, t.min) if v is not None)


def _close(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    if len(one) != len(other):
        return False
    scale = max((abs(v) for v in (*one, *other)), default=0.0)
    return all(abs(a - b) <= TOLERANCE * scale for a, b in zip(one, other, strict=True))
