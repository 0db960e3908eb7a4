"""A few records around the first bad value of a rank, in short form, for whoever looks at the report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from firstnan.answer.views import NearRecord, Surroundings
from firstnan.dump.records import Record
from firstnan.dump.values import Number, ValueState
from firstnan.rank.surroundings.excerpt import summary
from firstnan.rank.taint.events import Event

BEFORE = 40
"""Records kept before the first bad value of a rank with a root cause."""
AFTER = 15
"""Records kept after it."""
AROUND_OTHERS = 6
"""Records kept on both sides on ranks that the value only reached."""
MAX_RANKS = 64
"""Most ranks with surroundings; ranks of root causes come first."""

MOST_EVENTS = 3
"""Events of a rank whose surroundings are kept; later ones are consequences."""


def first_that_matter(events: Sequence[Event]) -> list[Event]:
    """Those events of a rank whose surroundings are kept."""
    return [event for event in events if event.is_live or event.communications][:MOST_EVENTS]


def near_records(records: Iterable[Record], module_of: Callable[[str], str | None]) -> tuple[NearRecord, ...]:
    """Consecutive records of one rank in short form; ``module_of`` gives the path of a record's innermost module.

    BEFORE and AFTER say how many of them are worth keeping on each side of the first bad value.
    """
    return tuple(near_record(record, module_of(record.name.full)) for record in records)


def near_record(record: Record, module: str | None) -> NearRecord:
    """One record in short form: what went in, the range of what came out."""
    inputs = (*record.inputs, *record.parameters)
    taken_in, given_out = summary(inputs), summary(record.outputs)
    floating = [tensor for tensor in record.outputs if tensor.is_floating]
    return NearRecord(
        exec_order=record.index,
        op_name=record.name.full,
        module=module,
        dtype=next((tensor.dtype for tensor in floating), ""),
        magnitude_in=taken_in.magnitude,
        max_out=_extreme((tensor.max for tensor in floating), max),
        min_out=_extreme((tensor.min for tensor in floating), min),
        state_in=taken_in.state or ValueState.EMPTY,
        state_out=given_out.state or ValueState.EMPTY,
    )


def ranks_shown(
    found: Iterable[tuple[int, Event]], first: Mapping[int, Sequence[Event]], roots: Collection[int]
) -> list[int]:
    """The ranks whose surroundings a report keeps, of those with an event that was found; ``first``: the events of each
    rank that may have some."""
    places = {rank: {event.index for event in first_that_matter(events)} for rank, events in first.items()}
    ordered = sorted(found, key=lambda one: (one[0] not in roots, one[0]))
    told = [rank for rank, event in ordered if event.index in places.get(rank, ())]
    return list(dict.fromkeys(told[:MAX_RANKS]))


def surroundings(
    step: int, found: Iterable[tuple[int, int, tuple[NearRecord, ...]]], root_ranks: Iterable[int]
) -> tuple[Surroundings, ...]:
    """What a report keeps: ``found`` holds rank, index of the first bad record and the records around it.

    Ranks of root causes come first and whole; the others are cut to AROUND_OTHERS records on both sides.
    """
    roots = frozenset(root_ranks)
    kept: list[Surroundings] = []
    for rank, index, records in sorted(found, key=lambda one: (one[0] not in roots, one[0])):
        if rank not in roots:
            records = tuple(r for r in records if abs(r.exec_order - index) <= AROUND_OTHERS)
        if records and len(kept) < MAX_RANKS:
            kept.append(Surroundings(step, rank, records))
    return tuple(kept)


def _extreme(values: Iterable[Number | None], choose: Callable[[Iterable[Number]], Number]) -> Number | None:
    known = [value for value in values if value is not None]
    nan = next((value for value in known if value != value), None)
    return nan if nan is not None else choose(known) if known else None
