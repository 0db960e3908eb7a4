"""Trials of pipeline stages of which modules alone tell, and no backward.

``stages_run_other_modules``
    Where messages leave no record (L0) and no backward follows, nothing on a stage shows that its first call was a
    trial on uninitialised memory. Ranks that end in other modules, or record other numbers of them in a call, are
    stages: what such a rank took in bad, or absurdly large, in first calls and in no later one is open; where it did in
    later ones, these decide. Of ranks that run the same modules one with a single call more than others may be a stage
    too. All others are replicas and are not tried: a first batch that is bad stays one.
``a_stage_reads_no_batch``
    ... and where something began inside one of them, what another takes in came from there: a message looks like a
    batch where nothing keeps gradients.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from firstnan.dump.names import parse_name
from firstnan.dump.records import Direction, RecordKind
from firstnan.dump.values import magnitude
from firstnan.rank.summary import RankSummary
from firstnan.rank.taint.events import Ending, Event, EventKind, Origin
from firstnan.rank.taint.islands import ABSURD


def with_trials(summaries: Mapping[int, RankSummary]) -> Mapping[int, RankSummary]:
    """The summaries, with the events of first calls that look like trials made open ones."""
    inferring = {rank: summary for rank, summary in summaries.items() if _only_infers(summary)}
    calls = {rank: (parse_name(summary.last_record).call or 0) + 1 for rank, summary in inferring.items()}
    kinds = {(s.last_operator, *divmod(s.records, calls[rank])) for rank, s in inferring.items()}
    if len(kinds) <= 1:
        inferring = {rank: one for rank, one in inferring.items() if calls[rank] == min(calls.values()) + 1}
    found = {rank: _set_aside(summary) if rank in inferring else summary for rank, summary in summaries.items()}
    within = {rank for rank in inferring for e in found[rank].events if e.is_live and e.origin is not Origin.INPUT_DATA}
    return {rank: _fed(one) if within - {rank} and rank in inferring else one for rank, one in found.items()}


def _only_infers(summary: RankSummary) -> bool:
    """Modules alone, and no backward."""
    if summary.has_apis or summary.truncated or summary.last_backward is not None or not summary.last_record:
        return False
    last = parse_name(summary.last_record)
    return last.kind is RecordKind.MODULE and last.direction is Direction.FORWARD


def _set_aside(summary: RankSummary) -> RankSummary:
    if not parse_name(summary.last_record).call:
        return summary  # nothing ran again
    tried = [_is_of_a_trial(event) for event in summary.events]
    if not any(parse_name(name).call for name in summary.bad_inputs):
        events = [_open(e) if is_trial else e for e, is_trial in zip(summary.events, tried, strict=True)]
    elif any(e.is_live and not is_trial for e, is_trial in zip(summary.events, tried, strict=True)):
        events = [
            replace(e, is_trial=is_trial or e.is_trial) for e, is_trial in zip(summary.events, tried, strict=True)
        ]
    else:
        return summary
    return replace(summary, events=tuple(events))


def _is_of_a_trial(event: Event) -> bool:
    """In a first call, where it came in at the door or was made of absurd numbers; a weight is no garbage."""
    if event.record.name.call != 0:
        return False
    taken = [m for t in event.record.inputs if (m := magnitude(t.max, t.min)) is not None]
    came_in = event.kind is EventKind.ENTRY and event.opens_pass and event.origin is not Origin.PARAMETER
    return came_in or (event.kind is EventKind.BIRTH and any(size >= ABSURD for size in taken))


def _open(event: Event) -> Event:
    return replace(event, endings=frozenset({Ending.OPEN}), communications=(), is_trial=True)


def _fed(summary: RankSummary) -> RankSummary:
    """a_stage_reads_no_batch."""
    events = (
        replace(e, origin=Origin.BETWEEN_RECORDS, opens_pass=True) if e.origin is Origin.INPUT_DATA else e
        for e in summary.events
    )
    return replace(summary, events=tuple(events))
