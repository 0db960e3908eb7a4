"""A rank whose records are all in memory, looked at the way a rank on disk is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from firstnan.dump.records import Direction, Record, RecordKind
from firstnan.dump.view import FIRST_RECORDS, Overview, RankDump, Watch
from firstnan.operators.communication import is_communication
from firstnan.read.fingerprints import RankPrints, of_records


class WholeDump:
    """Implements :class:`firstnan.dump.view.RankView` over a :class:`firstnan.dump.view.RankDump`."""

    def __init__(self, dump: RankDump, watch: Watch) -> None:
        self._records = dump.records
        self._places = [record.index for record in dump.records]
        self._watch = watch
        self._by_name: dict[str, Record] = {}
        suspect = self.suspect(0)
        self._overview = Overview(
            folder=dump.folder,
            records=len(dump.records),
            end=self._places[-1] + 1 if self._places else 0,
            bytes_read=dump.bytes_read,
            problems=dump.problems,
            truncated=dump.truncated,
            judged=any(record.is_judged for record in dump.records),
            has_apis=any(r.name.kind is RecordKind.API for r in dump.records),
            groups_recorded=_groups_recorded(dump),
            last=dump.records[-1].name if dump.records else None,
            suspect=watch.late if suspect is None else suspect,
            saturated=self._saturated(),
            nonfinite=self.nonfinite_from(0),
        )

    def _saturated(self) -> int | None:
        first = self.records(0, FIRST_RECORDS)
        if not any(t.dtype == "float16" for r in first for t in (*r.inputs, *r.outputs, *r.parameters)):
            return None
        return next((record.index for record in self._records if self._watch.is_saturated(record)), None)

    @property
    def overview(self) -> Overview:
        return self._overview

    def prints(self) -> RankPrints:
        """What must be equal on its replicas."""
        over = self._overview
        return of_records(self._records, over.folder.rank, groups_recorded=over.groups_recorded)

    def records(self, start: int, stop: int) -> Sequence[Record]:
        return self._records[bisect_left(self._places, start) : bisect_left(self._places, stop)]

    def suspect(self, start: int) -> int | None:
        begin = bisect_left(self._places, start)
        return next((r.index for r in self._records[begin:] if self._watch.is_suspect(r)), None)

    def find(self, name: str) -> Record | None:
        if not self._by_name:
            self._by_name = {record.name.full: record for record in self._records}
        return self._by_name.get(name)

    def calls(self) -> KnownCalls:
        return KnownCalls([record for record in self._records if is_communication(record)])

    def nonfinite_from(self, start: int) -> int:
        return sum(record.nonfinite for record in self._records[bisect_left(self._places, start) :])

    def passes(self) -> tuple[int | None, int | None]:
        backward = [
            r.index
            for r in self._records
            if r.name.direction is Direction.BACKWARD and r.name.kind is not RecordKind.PARAMETERS_GRAD
        ]
        return (backward[0], backward[-1]) if backward else (None, None)


class KnownCalls:
    """Implements :class:`firstnan.dump.view.Calls` over records; each is a kind of its own."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.likes = records
        self.kind_of = range(len(records))

    def before(self, index: int) -> int:
        return bisect_left(self.likes, index, key=lambda record: record.index)

    def index(self, at: int) -> int:
        return self.likes[at].index

    def is_bad(self, at: int) -> bool:
        record = self.likes[at]
        return any(tensor.state.is_bad for tensor in (*record.inputs, *record.outputs))

    def name(self, at: int) -> str:
        return self.likes[at].name.full

    def record(self, at: int) -> Record:
        return self.likes[at]


def _groups_recorded(dump: RankDump) -> bool:
    """1.0.x writes null for groups and names no framework; hand-made formats have no direction in names."""
    communication = [r for r in dump.records if is_communication(r)]
    if any(r.groups for r in communication):
        return True
    hand_made = any(not r.name.full.endswith((".forward", ".backward")) for r in communication)
    return dump.framework is not None and not hand_made
