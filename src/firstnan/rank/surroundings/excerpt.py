"""A few records around one place, to check an answer by eye (``firstnan show``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from firstnan.dump.errors import UsageError
from firstnan.dump.printable import show
from firstnan.dump.records import Record, TensorStat
from firstnan.dump.values import ValueState, magnitude
from firstnan.dump.view import RankDump

_MOST_NAMES = 5
_WORST_FIRST = (
    ValueState.NAN,
    ValueState.BOTH_INF,
    ValueState.NON_FINITE,
    ValueState.POS_INF,
    ValueState.NEG_INF,
    ValueState.UNKNOWN,
    ValueState.FINITE,
    ValueState.EMPTY,
)


class Excerpt(Struct, frozen=True):
    """Records of one rank in execution order, one of them in the centre."""

    step: int
    rank: int
    label: str
    """Path of the rank folder, for people."""
    center: int
    """Index (``Record.index``) of the record that was asked for."""
    records: tuple[Record, ...]
    total: int = 0
    """How many records the rank has."""

    @property
    def center_record(self) -> Record:
        """The record that was asked for."""
        return next(record for record in self.records if record.index == self.center)


class Summary(Struct, frozen=True):
    """The tensors of one side of a record taken together."""

    state: ValueState | None
    """The worst state; None when there is no tensor."""
    magnitude: float | None
    """Largest absolute value of the finite ones; None when there is none."""


def summary(tensors: Iterable[TensorStat]) -> Summary:
    """The worst state and the largest finite magnitude of some tensors."""
    kept = list(tensors)
    states = {tensor.state for tensor in kept}
    sizes = [magnitude(tensor.max, tensor.min) for tensor in kept if tensor.state is ValueState.FINITE]
    return Summary(
        state=next((state for state in _WORST_FIRST if state in states), None),
        magnitude=max((size for size in sizes if size is not None), default=None),
    )


def excerpt(dump: RankDump, op: str | None = None, at: int | None = None, around: int = 5) -> Excerpt:
    """Up to ``around`` records on both sides of one record.

    The record is named by ``op`` (its full name), by ``at`` (its index), or else it is the first one with a
    non-finite value, or the first one of all.

    Raises:
        UsageError: no such record, or the rank has none.
    """
    records = dump.records
    who = f"rank {dump.folder.rank}, step {dump.folder.step}"
    if not records:
        raise UsageError(f"{who} has no records")
    if op is not None:
        position = _by_name(records, op, who)
    elif at is not None:
        position = _by_index(records, at, who)
    else:
        position = next((place for place, record in enumerate(records) if _has_bad(record)), 0)
    first, last = max(position - around, 0), position + around + 1
    return Excerpt(
        step=dump.folder.step,
        rank=dump.folder.rank,
        label=dump.folder.label,
        center=records[position].index,
        records=tuple(records[first:last]),
        total=len(records),
    )


def _by_name(records: Sequence[Record], op: str, who: str) -> int:
    for position, record in enumerate(records):
        if record.name.full == op:
            return position
    part = op.lower()
    near = [record.name.full for record in records if part in record.name.full.lower()]
    hint = f"names with it: {', '.join(show(name) for name in near[:_MOST_NAMES])}" if near else ""
    if len(near) > _MOST_NAMES:
        hint += f" and {len(near) - _MOST_NAMES} more"
    raise UsageError(f"{who} has no record '{show(op)}'", hint=hint)


def _by_index(records: Sequence[Record], at: int, who: str) -> int:
    for position, record in enumerate(records):
        if record.index == at:
            return position
    raise UsageError(f"{who} has no record {at}", hint=f"records are counted from 0 to {records[-1].index}")


def _has_bad(record: Record) -> bool:
    return any(tensor.state.is_bad for tensor in (*record.inputs, *record.outputs, *record.parameters))
