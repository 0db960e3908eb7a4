"""What is known of each rank once the ranks are seen together: its first live event and where that came from."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from firstnan.rank.taint.events import Event
    from firstnan.step.matching import MatchedCall


class Arrival(Enum):
    """How a rank's first live bad value came to it."""

    OWN = "own"
    """Its own birth or entry: a root."""
    RECEIVED = "received"
    """Through a recorded communication call, from members whose input was bad."""
    UNRECORDED = "unrecorded"
    """Through communication that leaves no record."""
    MISSING = "missing"
    """From a member that has no record of the call."""
    COMMUNICATION = "communication"
    """The call itself: all inputs are clean."""


class SkipDoubt(Enum):
    """Why a step whose gradients overflowed is not taken for one that the loss scaler skipped."""

    NO_NEXT_STEP = "no_next_step"
    """It is the last one that was dumped."""
    GAP = "gap"
    """The next dump is not of the step after it."""
    THIN = "thin"
    """The next step shows too few of the weights."""
    CHANGED = "changed"
    """The next step begins with other weights: the update was made."""


class RankOutcome(Struct, frozen=True):
    """One rank's first live event and where it came from."""

    rank: int
    event: Event
    arrival: Arrival
    call: MatchedCall | None = None
    sources: tuple[int, ...] = ()
    """Ranks that it came from (absent ones for MISSING)."""


class Spread(Struct, frozen=True):
    """All first live events of one step."""

    outcomes: tuple[RankOutcome, ...]
    live_calls: frozenset[int]
    """Positions in ``Matching.calls`` of the calls whose bad value goes on."""
    affected: frozenset[int] = frozenset()
    """Positions of the calls that hold a bad value once a member's first live event has happened."""

    def of(self, arrival: Arrival) -> tuple[RankOutcome, ...]:
        return tuple(o for o in self.outcomes if o.arrival is arrival)
