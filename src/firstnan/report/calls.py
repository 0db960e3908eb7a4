"""Step 1 for people: affected calls with the state of each member, and how the value spread."""

from __future__ import annotations

from collections.abc import Sequence

from firstnan.answer.model import CollectiveReport, Hop, RankState
from firstnan.causes.step_answer import StepAnswer
from firstnan.operators.communication import Freshness
from firstnan.rank.sides import rank_state
from firstnan.rank.summary import CommFact, Side
from firstnan.step.arrivals import Arrival
from firstnan.step.every_call import api_of
from firstnan.step.matching import MatchedCall
from firstnan.step.order import causal_order, comes_after, members_of

MAX_EARLIER = 16
"""Affected calls before the root's own that are checked for order."""
MAX_ENTRIES = 50_000
"""Members that the listed calls may have together: keeps a report of a thousand ranks readable."""
UNRECORDED = "unrecorded"
"""``Hop.via`` of communication that left no record (DDP, FSDP, DTensor)."""
MAX_COLLECTIVES = 500
"""Affected calls that a report lists; the first ones in causal order."""


def listed(answer: StepAnswer, positions: Sequence[int]) -> list[tuple[int, CollectiveReport]]:
    """The first of these calls, as many as a report holds, each with its position in ``Matching.calls``."""
    found: list[tuple[int, CollectiveReport]] = []
    entries = 0
    for position in positions[:MAX_COLLECTIVES]:
        report = _collective(answer, answer.matching.calls[position])
        found.append((position, report))
        entries += report.total_ranks
        if entries >= MAX_ENTRIES:
            break
    return found


def in_order(answer: StepAnswer) -> list[int]:
    """Positions of all affected calls that matter, the causally first one first."""
    live = affected_calls(answer)
    order = causal_order(members_of(answer.matching)) if live else {}
    return _first_of_a_root(answer, sorted(live, key=lambda p: order[p]))


def affected_calls(answer: StepAnswer) -> frozenset[int]:
    """Positions of the calls that hold a bad value which matters."""
    return answer.spread.affected | _origins(answer)


def _first_of_a_root(answer: StepAnswer, positions: list[int]) -> list[int]:
    """Calls that nothing orders may come in any order: the one into which a root's own value went comes first."""
    roots = {o.rank: o.event.index for o in answer.spread.of(Arrival.OWN)}
    calls = answer.matching.calls
    for position in positions:
        sent = [(r, f) for r, f in calls[position].members.items() if f.sent is Side.BAD and r in roots]
        if any(fact.call.index >= roots[rank] for rank, fact in sent):
            earlier = positions[: positions.index(position)]
            if len(earlier) > MAX_EARLIER or any(
                id(calls[position]) in comes_after(answer.matching, calls[p]) for p in earlier
            ):
                return positions
            return [position, *(p for p in positions if p != position)]
    return positions


def _origins(answer: StepAnswer) -> set[int]:
    """Calls that are a cause themselves."""
    found: set[int] = set()
    for outcome in answer.spread.outcomes:
        if outcome.arrival in (Arrival.COMMUNICATION, Arrival.MISSING) and outcome.call is not None:
            index = outcome.call.members[outcome.rank].call.index
            found |= {
                p for p in answer.matching.of.get((outcome.rank, index), ())
                if answer.matching.calls[p] is outcome.call
            }  # fmt: skip
    return found


def _collective(answer: StepAnswer, call: MatchedCall) -> CollectiveReport:
    states: dict[RankState, list[int]] = {state: [] for state in RankState}
    bad_source = any(f.sent is Side.BAD for f in call.members.values())
    foreign = (Arrival.RECEIVED, Arrival.MISSING)
    reached = {o.rank for o in answer.spread.outcomes if o.call is call and o.arrival in foreign}
    reached |= _aliased_members(answer, call)
    for rank, fact in sorted(call.members.items()):
        state = state_of(fact, call, rank, bad_source)
        if rank in reached and state in (RankState.UNDECIDED, RankState.SOURCE):
            state = RankState.PROPAGATED  # a stale record, or an input that shows the result
        states[state].append(rank)
    states[RankState.NORMAL] += call.clean
    undecided = {*states[RankState.UNDECIDED], *call.absent, *call.unseen}
    ops = {rank: fact.call.name for rank, fact in sorted(call.members.items())}
    return CollectiveReport(
        op=api_of(ops) if call.is_p2p else call.api,
        step=answer.step,
        group=call.group,
        call=call.nth,
        ops=ops,
        source_ranks=tuple(states[RankState.SOURCE]),
        propagated_ranks=tuple(states[RankState.PROPAGATED]),
        normal_ranks=tuple(sorted(states[RankState.NORMAL])),
        undecided_ranks=tuple(sorted(undecided)),
        match=call.state,
    )


def _aliased_members(answer: StepAnswer, call: MatchedCall) -> set[int]:
    """zero_dim_input_shows_the_result (:mod:`firstnan.step.spread`): members with a bad 0-dim input of an in-place
    call, though nothing bad had happened on them before, while it had on another member."""
    first = {o.rank: o.event.index for o in answer.spread.outcomes}
    sent = {r: f.call for r, f in call.members.items() if f.sent is Side.BAD}
    if not all(c.in_place and all(t.shape == () for t in c.sent) for c in sent.values()):
        return set()
    made = {r for r, c in sent.items() if first.get(r, c.index) < c.index}
    return set(sent) - made if made else set()


def state_of(fact: CommFact, call: MatchedCall, rank: int, bad_source: bool) -> RankState:
    """The state of one member, see :func:`rank_state`."""
    return rank_state(
        fact.sent,
        fact.received,
        receives_message=call.is_p2p and call.receiver == rank,
        stale=fact.call.freshness is not Freshness.FRESH,
        bad_source=bad_source,
    )


def hops(answer: StepAnswer) -> tuple[Hop, ...]:
    """How each rank got its first bad value, in causal order; ranks that got it through one call stand together.

    Of several senders the one that was reached first is named.
    """
    roots = [o.rank for o in answer.spread.outcomes if o.arrival not in (Arrival.RECEIVED, Arrival.UNRECORDED)]
    roots += [r for o in answer.spread.of(Arrival.MISSING) for r in o.sources]
    reached = {rank: place for place, rank in enumerate(dict.fromkeys(roots))}
    followers = [o for o in answer.spread.outcomes if o.arrival in (Arrival.RECEIVED, Arrival.UNRECORDED) and o.sources]
    order = causal_order(members_of(answer.matching)) if followers else {}
    places = {id(call): order.get(position, 0) for position, call in enumerate(answer.matching.calls)} if order else {}
    followers.sort(key=lambda o: (o.call is None, places.get(id(o.call), 0), o.rank))
    together: dict[tuple[int, int], Hop] = {}
    for outcome in followers:
        source = min(outcome.sources, key=lambda r: (reached.get(r, len(reached)), r))
        call = outcome.call
        if call is not None:
            from_op = call.members[source].call.name if source in call.members else ""
            to_op, via = call.members[outcome.rank].call.name, call.api
        else:
            from_op, to_op, via = "", outcome.event.record.name.full, UNRECORDED
        key = (id(call), source)
        before = together.get(key)
        to_ranks = (*(before.to_ranks if before else ()), outcome.rank)
        to_ops = {**(before.to_ops if before else {}), outcome.rank: to_op}
        together[key] = Hop(answer.step, source, from_op, to_ranks, to_ops, via)
        reached.setdefault(outcome.rank, len(reached))
    return tuple(together.values())
