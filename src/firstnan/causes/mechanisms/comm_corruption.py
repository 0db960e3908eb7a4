"""# corrupted communication

The result of a communication cannot come from its inputs.

## What proves it
Four bounds. Moved data (broadcast, gather, all_to_all) is nothing larger than what was put in; a sum is at most the
sum of the largest inputs; all members of all_reduce, broadcast and all_gather hold the same result; a message arrives
as it was sent. A non-finite or finite result that breaks one is *certain* when all members are there, *likely* when
one is absent, *possible* when inputs are not known.

## Example
An all_reduce that arrives damaged on one of four ranks (imitated).

## How to fix it
First a buffer that is reused or read before `wait()`; then the link and the devices of the ranks named.
"""

from __future__ import annotations

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import found
from firstnan.dump.ranges import format_ranges
from firstnan.operators.communication import Freshness, GroupKnowledge, may_be_stale
from firstnan.rank.summary import CommFact, Side
from firstnan.step.matching import MatchedCall


def comm_corruption(call: MatchedCall, bound: float | None) -> Mechanism:
    """The inputs of all members are finite, the result is not, and no sum explains it."""
    facts = list(call.members.values())
    if bound is None or len(facts) == 1:
        return found(MechanismKind.COMM_CORRUPTION, Confidence.POSSIBLE, "why.comm_corruption_blind")
    bad = [r for r, f in call.members.items() if f.received is Side.BAD]
    # How many ranks a group has that the dump does not list is nowhere recorded: one more may have put in the value,
    # unless another member got a good result.
    listed = call.is_p2p or all(f.call.knowledge is GroupKnowledge.RECORDED for f in facts)
    spared = any(f.received is Side.CLEAN and f.call.freshness is Freshness.FRESH for f in facts)
    sure = Confidence.CERTAIN if (listed or spared) and not call.absent else Confidence.LIKELY
    if not any(_is_confirmed(f) for f in facts if f.received is Side.BAD):
        sure = Confidence.POSSIBLE
    return found(MechanismKind.COMM_CORRUPTION, sure, "why.comm_corruption", ranks=format_ranges(bad), bound=bound)


def _is_confirmed(fact: CommFact) -> bool:
    """The result was taken when the call was over, or what was read next of its size is bad as well."""
    return not may_be_stale(fact.call) or any(tensor.state.is_bad for tensor in fact.read_next)
