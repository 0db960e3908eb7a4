"""Equal values of all ranks become one: names, shapes, groups, sets of ranks.

Ranks make the same calls in the same groups, and there are thousands of them: what each would keep for itself grows
with the square of their number, since a group of all ranks stands in every one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from firstnan.answer.views import NearRecord
from firstnan.dump.records import GroupRef, Record, TensorStat
from firstnan.operators.communication import CallKey, CommCall
from firstnan.rank.summary import CallWindow, CommFact, RankSummary
from firstnan.rank.taint.events import Event
from firstnan.read.fingerprints import CallPrints, RankPrints

T = TypeVar("T")


class Sharing:
    """What was seen so far; one for all summaries that are held together."""

    def __init__(self) -> None:
        self._known: dict[object, Any] = {}

    def summary(self, summary: RankSummary) -> RankSummary:
        """The same summary, in which equal parts of earlier ones stand."""
        return replace(
            summary,
            last_record=self._one(summary.last_record),
            last_operator=self._one(summary.last_operator),
            calls=tuple(map(self._fact, summary.calls)),
            events=tuple(map(self._event, summary.events)),
            bad_inputs={self._one(name): index for name, index in summary.bad_inputs.items()},
            windows=tuple(CallWindow(one.start, self._counts(one.before)) for one in summary.windows),
            made=None if summary.made is None else self._counts(summary.made),
            mentioned=self._one(summary.mentioned),
            prints=self._prints(summary.prints),
        )

    def _counts(self, counts: Mapping[CallKey, int]) -> dict[CallKey, int]:
        return {self._key(key): count for key, count in counts.items()}

    def _key(self, key: CallKey) -> CallKey:
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = key._replace(api=self._one(key.api), group=self._one(key.group))
        return cast("CallKey", known)

    def _fact(self, fact: CommFact) -> CommFact:
        read_next = tuple(map(self._tensor, fact.read_next))
        return replace(fact, call=self._call(fact.call), onward=self._one(fact.onward), read_next=read_next)

    def _call(self, call: CommCall) -> CommCall:
        return replace(
            call,
            name=self._one(call.name),
            api=self._one(call.api),
            group=self._one(call.group),
            group_label=self._one(call.group_label),
            sent=tuple(map(self._tensor, call.sent)),
            received=tuple(map(self._tensor, call.received)),
        )

    def _event(self, event: Event) -> Event:
        return replace(event, record=self._record(event.record), nearby=tuple(map(self._near, event.nearby)))

    def _record(self, record: Record) -> Record:
        return replace(
            record,
            name=self._one(record.name),
            inputs=tuple(map(self._tensor, record.inputs)),
            outputs=tuple(map(self._tensor, record.outputs)),
            groups=tuple(map(self._group, record.groups)),
        )

    def _group(self, group: GroupRef) -> GroupRef:
        return replace(group, ranks=self._one(group.ranks))

    def _near(self, record: NearRecord) -> NearRecord:
        name, module, dtype = self._one(record.op_name), self._one(record.module), self._one(record.dtype)
        return replace(record, op_name=name, module=module, dtype=dtype)

    def _tensor(self, stat: TensorStat) -> TensorStat:
        slot, dtype, shape = self._one(stat.slot), self._one(stat.dtype), self._one(stat.shape)
        if slot is stat.slot and dtype is stat.dtype and shape is stat.shape:
            return stat  # of a form that was seen before
        return replace(stat, slot=slot, dtype=dtype, shape=shape)

    def _prints(self, prints: RankPrints) -> RankPrints:
        parameters = prints.parameters
        parameters = replace(parameters, names=self._one(parameters.names), forms=self._one(parameters.forms))
        return replace(prints, parameters=parameters, calls=tuple(map(self._series, prints.calls)))

    def _series(self, series: CallPrints) -> CallPrints:
        return replace(series, stem=self._one(series.stem), key=self._key(series.key))

    def _one(self, value: T) -> T:
        return cast("T", self._known.setdefault(value, value))
