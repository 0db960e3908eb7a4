"""What a recorded communication call says about each of its two sides, and the state of the rank that follows."""

from __future__ import annotations

from firstnan.answer.model import RankState
from firstnan.operators.communication import CallKind, CommCall, Freshness, Root
from firstnan.rank.summary import Side


def recorded_sides(call: CommCall, sent: Side, received: Side, *, distrusted: bool) -> tuple[Side, Side]:
    """Both sides of a call, of which ``sent`` and ``received`` tell what the recorded tensors hold.

    ``distrusted``: the file is cut inside the record. What is not recorded, not finished or stale is unknown.
    """
    if sent is Side.NONE and call.kind is not CallKind.RECEIVE and call.rooted is not Root.SENDS:
        sent = Side.UNKNOWN  # it put something in that was not recorded (data_mode without inputs)
    if not call.finished or call.freshness is Freshness.WORTHLESS:
        received = Side.UNKNOWN if call.received else Side.NONE
    if distrusted and sent is not Side.BAD:
        sent = received = Side.UNKNOWN
    return sent, received


def rank_state(sent: Side, received: Side, *, receives_message: bool, stale: bool, bad_source: bool) -> RankState:
    """source: own input bad; propagated: only the result; a P2P result is what the sender sent.

    ``bad_source``: some member put in a bad value; ``stale``: the result may be older than the call.
    """
    if sent is Side.BAD:
        return RankState.SOURCE
    if received is Side.BAD:
        return RankState.PROPAGATED
    if receives_message:
        if bad_source:
            return RankState.PROPAGATED
        return RankState.NORMAL if received is Side.CLEAN else RankState.UNDECIDED
    if Side.UNKNOWN in (sent, received) or (stale and bad_source):
        return RankState.UNDECIDED
    return RankState.NORMAL
