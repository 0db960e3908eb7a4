"""Outcomes that nothing settles: kept only where nothing better explains the step.

``cut_before_it_was_read``
    A bad value in the last records of a cut file that nobody read: its ``where`` may stand behind the cut. It is a
    cause only when nothing else is, and no other rank received anything from it.
``a_trial_is_no_cause_beside_others``
    What looks like a trial on uninitialised memory is one only when nothing else is, on no rank.
``somebody_made_it``
    When every rank received its value from another one in a circle (groups that are not recorded were put together
    wrongly), the earliest receive is named: "clean" is never said over a value that goes on.
"""

from __future__ import annotations

from msgspec.structs import replace

from firstnan.rank.taint.events import LIVE_ENDINGS, Ending, Event
from firstnan.step.arrivals import Arrival, RankOutcome, Spread

_CAUSES = frozenset({Arrival.OWN, Arrival.COMMUNICATION, Arrival.MISSING})


def is_undecided(event: Event) -> bool:
    """Nothing but the cut makes the event count, or it looks like a trial."""
    if event.is_trial:
        return True
    return event.endings & LIVE_ENDINGS == {Ending.CUT} and not event.communications


def settle(spread: Spread) -> Spread:
    """The spread without undecided outcomes beside settled ones, and with a cause where there is only a circle."""
    if not spread.outcomes:
        return spread
    used = {source for outcome in spread.outcomes for source in outcome.sources}
    weak = {o.rank for o in spread.outcomes if o.arrival is Arrival.OWN and is_undecided(o.event)} - used
    settled = tuple(o for o in spread.outcomes if o.rank not in weak)
    if weak and any(o.arrival in _CAUSES for o in settled):
        return replace(spread, outcomes=settled)
    if any(o.arrival in _CAUSES for o in spread.outcomes):
        return spread
    first = min(spread.outcomes, key=lambda o: (o.event.index, o.rank))
    named = RankOutcome(first.rank, first.event, Arrival.COMMUNICATION, first.call)
    return replace(spread, outcomes=tuple(named if o is first else o for o in spread.outcomes))


def is_only_undecided(spread: Spread) -> bool:
    """No cause of the step is more than undecided."""
    causes = [o for o in spread.outcomes if o.arrival in _CAUSES]
    return bool(causes) and all(o.arrival is Arrival.OWN and is_undecided(o.event) for o in causes)
