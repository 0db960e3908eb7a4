"""The summary of a rank of which only saved values are there (``debugger.save``, level debug).

Rules, each tested under its name:

``between_two_saved_values``
    The first bad value, and the last finite one before it: what made it stands between them.
``gradients_come_back``
    Gradients are apart, and come in the reverse order; they count where no value of forward is bad.
``a_saved_mask_is_absorbed``
    A -Inf beside finite elements is a mask where everything that was saved after it is finite.
"""

from __future__ import annotations

from collections.abc import Sequence

from firstnan.answer.accounts import Fate
from firstnan.answer.model import SymptomKind
from firstnan.dump.records import Direction, Record, TensorStat
from firstnan.dump.values import ValueState
from firstnan.dump.view import RankDump
from firstnan.rank.summary import RankSummary, SymptomFact
from firstnan.rank.taint.events import Ending, Event, EventKind, Origin, Tally


def summary_of(dump: RankDump) -> RankSummary:
    """What is kept of the rank: the first bad value, as an entry between two records."""
    forward = [record for record in dump.records if record.name.direction is Direction.FORWARD]
    backward = [record for record in reversed(dump.records) if record.name.direction is Direction.BACKWARD]
    event = _first_bad(forward, Ending.OUTPUT) or _first_bad(backward, Ending.GRADIENT)
    gradient = next((record for record in backward if _bad(record)), None)
    symptoms = [] if gradient is None else [SymptomFact(SymptomKind.GRADIENT, gradient.name.full, gradient.index)]
    last = dump.records[-1].name.full if dump.records else ""
    return RankSummary(
        step=dump.folder.step,
        rank=dump.folder.rank,
        label=dump.folder.label,
        records=len(dump.records),
        bytes_read=dump.bytes_read,
        problems=dump.problems,
        truncated=dump.truncated,
        judged=any(record.is_judged for record in dump.records),
        has_apis=False,
        last_record=last,
        events=(event,) if event else (),
        tallies=_tallies(dump.records, event),
        bad_inputs=_places(forward, backward, event),
        symptoms=tuple(symptoms),
        suspect=event.index if event else None,
        made={},
    )


def _places(forward: Sequence[Record], backward: Sequence[Record], event: Event | None) -> dict[str, int]:
    """Names of the bad values -> index; of gradients mirrored at the event, so that later ones have a larger one."""
    places = {record.name.full: record.index for record in forward if _bad(record)}
    at = 0 if event is None else event.index
    return places | {record.name.full: 2 * at - record.index for record in backward if _bad(record)}


def _tallies(records: Sequence[Record], event: Event | None) -> tuple[Tally, ...]:
    """All follow from the first one; without one they are masks."""
    bad = [record for record in records if record.nonfinite]
    fate, rule = (Fate.RULE, "a_saved_mask_is_absorbed") if event is None else (Fate.CAUSE, "")
    count = sum(record.nonfinite for record in bad)
    return (Tally(fate, count, rule, bad[0].name.full),) if bad else ()


def _first_bad(records: Sequence[Record], ending: Ending) -> Event | None:
    """between_two_saved_values; the records stand in the order in which they came into being."""
    for place, record in enumerate(records):
        bad = _bad(record)
        if not bad or _is_absorbed(bad, records[place + 1 :]):
            continue
        before = [one for one in records[:place] if not _bad(one) and one.is_judged]
        return Event(
            kind=EventKind.ENTRY,
            record=record,
            bad_inputs=bad,
            bad_outputs=(),
            endings=frozenset({ending}),
            origin=Origin.BETWEEN_RECORDS if before else Origin.BEFORE_DUMP,
            writer=before[-1] if before else None,
            opens_pass=not place,
        )
    return None


def _bad(record: Record) -> tuple[TensorStat, ...]:
    return tuple(tensor for tensor in record.inputs if tensor.state.is_bad)


def _is_absorbed(bad: Sequence[TensorStat], after: Sequence[Record]) -> bool:
    """a_saved_mask_is_absorbed."""
    masks = all(t.state is ValueState.NEG_INF and isinstance(t.max, float) and t.max > float("-inf") for t in bad)
    forward = all(record.name.direction is Direction.FORWARD for record in after)
    return masks and forward and bool(after) and not any(_bad(record) for record in after)
