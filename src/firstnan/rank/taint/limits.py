"""Which limits of the analysis of one rank were reached where they could change its answer.

Rules, each tested under its name:

``a_limit_is_told_where_it_matters``
    What a limit left out stands before the first value that matters on the rank, or could matter itself. On a rank on
    which nothing matters a writer that was not searched changes nothing: its reader does not matter either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum

from firstnan.rank.taint.def_use import Flow
from firstnan.rank.taint.endings import MAX_NEXT_CALLS, PENDING_CALLS, Outcome, left_out
from firstnan.rank.taint.events import Event, EventKind, Origin


class Limit(Enum):
    """What was limited, in the words of docs/limits.md."""

    EVENTS = "bad values on one rank that go on and are followed to their end"
    """:data:`endings.MAX_EVENTS`."""
    CALLS = "communication calls that one value is followed into"
    """:data:`endings.MAX_NEXT_CALLS`."""
    LINKS = "writers of the very same values that one read is linked to"
    """:data:`def_use.LINKS`."""
    SEARCH = "earlier values among which the writer of one read is searched"
    """:data:`shelf.SEARCH`."""
    PENDING = "earlier receives whose result may be stale"
    """:data:`endings.PENDING_CALLS`."""
    MEMORY = "records whose output is unfilled memory"
    """:data:`suspects.MAX_GARBAGE`."""
    ILLEGAL = "-Inf values that are no masks and are known again after a cast"
    """:data:`legality.MAX_ILLEGAL`."""
    TRIAL = "records behind the first message in which a trial on garbage is recognised"
    """:data:`islands.MAX_BEHIND`."""
    BLANKS = "records on the way back to one without statistics that a clean input may come from"
    """:data:`firstnan.rank.surroundings.blind_spots.MAX_STEPS`."""


def reached(
    flow: Flow,
    found: Mapping[int, Outcome],
    events: Sequence[Event],
    *,
    lost_memory: bool,
    cut: Collection[int] = (),
) -> Iterator[Limit]:
    """a_limit_is_told_where_it_matters; ``lost_memory``: some records with unfilled memory were not kept; ``cut``:
    indices of events for which records without statistics were not looked for to the end."""
    first = next((event for event in events if event.is_live or event.communications), None)
    if left_out(flow, found, events):
        yield Limit.EVENTS
    if any(len(event.communications) >= MAX_NEXT_CALLS and not event.is_live for event in events):
        yield Limit.CALLS
    if first is None:
        if flow.legality.forgot and "mask_from_outside" in flow.legality.suppressed:
            yield Limit.ILLEGAL
        return
    if flow.unlinked is not None and flow.unlinked < first.index:
        yield Limit.LINKS
    if flow.unsearched is not None and flow.unsearched < first.index:
        yield Limit.SEARCH
    if flow.untold_trial is not None and first.index < flow.untold_trial:
        yield Limit.TRIAL
    if first.index in cut:
        yield Limit.BLANKS
    unknown = first.kind is EventKind.ENTRY and first.origin in (Origin.BETWEEN_RECORDS, Origin.BEFORE_DUMP)
    if unknown and len(first.pending) == PENDING_CALLS:
        yield Limit.PENDING
    if lost_memory and unknown:
        yield Limit.MEMORY
