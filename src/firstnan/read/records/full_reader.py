"""dump.json of one rank as records (dump format, sections 4 to 8, 12 and 14).

Features are detected, never versions. Whatever is wrong with the content becomes a
:class:`~firstnan.dump.problems.Problem`; no content raises.
"""

from __future__ import annotations

from msgspec.structs import replace

from firstnan.dump.folders import FileKind, RankFolder
from firstnan.dump.names import parse_saved
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.dump.records import Direction, Record, RecordKind, TensorStat
from firstnan.dump.values import INFINITE, ValueState
from firstnan.dump.view import RankDump
from firstnan.read.json import lenient
from firstnan.read.records.builder import (
    RecordBuilder,
    blank_detail,
    has_gradient,
    holds_inputs_only,
    settled_detail,
    some,
)
from firstnan.read.records.values import MAX_NESTING
from firstnan.read.sources.files import Fault
from firstnan.read.sources.places import read_bytes


def read(folder: RankFolder) -> RankDump:
    """All records of one rank and step, in the order of the file. The file is read once.

    What cannot be read becomes a problem of the answer; nothing is raised for it.
    """
    try:
        with lenient.collector_off():
            return _read(folder)
    except MemoryError:
        problem = _problem(folder, ProblemKind.UNREADABLE, "its records do not fit into memory", judged=False)
        return RankDump(folder, (), (problem,))


def _read(folder: RankFolder) -> RankDump:
    data = read_bytes(folder.values)
    if isinstance(data, Fault):
        kind = ProblemKind.MISSING_FILE if data.missing else ProblemKind.UNREADABLE
        return RankDump(folder, (), (_problem(folder, kind, data.detail, judged=False),))
    size = len(data)
    parsed = lenient.loads(data)
    del data
    return _Building(folder, parsed, size).dump()


def _problem(folder: RankFolder, kind: ProblemKind, detail: str, *, judged: bool) -> Problem:
    return Problem(kind, folder.step, folder.rank, f"{folder.label}/{folder.file.value}", detail, judged)


_OPEN_AROUND_RECORDS = 2
"""Containers around a record: ``data``, and the one that holds it. More are open where a cut goes through a record."""


class _Building:
    """One rank's dump on its way from JSON to records."""

    def __init__(self, folder: RankFolder, parsed: lenient.Parsed, size: int) -> None:
        self.folder = folder
        self.parsed = parsed
        self.size = size
        self.builder = RecordBuilder()
        self.saved = folder.file is FileKind.SAVED
        self.whole = False
        """``data`` was closed before the text ended."""
        self.records: list[Record] = []
        self.problems: list[Problem] = []
        self.skipped: list[str] = []
        """Names whose value is no record."""

    def problem(self, kind: ProblemKind, detail: str, *, judged: bool) -> None:
        self.problems.append(_problem(self.folder, kind, detail, judged=judged))

    def dump(self) -> RankDump:
        top = self.parsed.value
        cut = self.parsed.cut
        for note in self.parsed.notes:
            self.problem(ProblemKind.BAD_CONTENT, note.detail, judged=not note.lossy)
        if self.parsed.fault is not None:
            self.problem(ProblemKind.UNREADABLE, self.parsed.fault, judged=False)
            return self._result({})
        if not isinstance(top, dict):
            self.problem(ProblemKind.UNREADABLE, f"holds a {type(top).__name__}, not an object", judged=False)
            return self._result({})
        data = top.get("data")
        if isinstance(data, dict):
            self.whole = cut is None or cut.depth < 2 or next(reversed(top)) != "data"
            self._records(data)
        elif cut is None:
            what = "no 'data'" if "data" not in top else f"'data' is a {type(data).__name__}, not an object"
            self.problem(ProblemKind.UNREADABLE, what, judged=False)
            return self._result(top)
        if cut is not None:
            what = "cut" if cut.offset == self.size else f"{cut.why}: cut"
            detail = f"{what} at byte {cut.offset} after {len(self.records)} complete records"
            self.problem(ProblemKind.TRUNCATED, detail, judged=self.whole and bool(self.records))
        elif not self.records and not self.skipped:
            self._no_records(top)
        self._conclude()
        return self._result(top)

    def _no_records(self, top: dict[str, object]) -> None:
        if top.get("task") == "structure":
            self.problem(ProblemKind.NO_STATISTICS, "task structure writes names only", judged=False)
        else:
            self.problem(ProblemKind.NO_RECORDS, "'data' is empty", judged=False)

    def _result(self, top: dict[str, object]) -> RankDump:
        def text(key: str) -> str | None:
            value = top.get(key)
            return value if isinstance(value, str) else None

        return RankDump(
            self.folder,
            tuple(self.records),
            tuple(self.problems),
            text("task"),
            text("level"),
            text("framework"),
            self.parsed.cut is not None and not self.whole,
            self.size,
        )

    def _records(self, data: dict[str, object]) -> None:
        cut = self.parsed.cut
        last = -1 if self.whole or cut is None or cut.depth <= _OPEN_AROUND_RECORDS else len(data) - 1
        for index, (name, raw) in enumerate(data.items()):
            if self.saved:
                self._save(name, raw, index)
            elif isinstance(raw, dict):
                self.records.append(self.builder.build(name, raw, index, distrusted=index == last))
                data[name] = None  # gives the memory back while the rest is read
            else:
                self.skipped.append(name)

    def _save(self, name: str, raw: object, index: int) -> None:
        """A saved value stands in a record as what it takes in; the gradient of one that has none is null."""
        if raw is not None:
            record = self.builder.build(name, {"input_args": [raw]}, index)
            self.records.append(replace(record, name=parse_saved(name)))

    def _conclude(self) -> None:
        """What only the whole file tells."""
        builder = self.builder
        if builder.wide and builder.reader.narrowed:
            self._narrow()
        if self.skipped:
            self.problem(ProblemKind.BAD_CONTENT, f"{some(self.skipped)} hold no object", judged=False)
        if builder.odd:
            self.problem(ProblemKind.BAD_CONTENT, f"{some(builder.odd)} hold parts of unknown form", judged=False)
        if builder.reader.deep:
            detail = f"{builder.reader.deep} values nested deeper than {MAX_NESTING}"
            self.problem(ProblemKind.LIMIT, detail, judged=False)
        builder.settle(len(self.records))
        if builder.blank:
            kind = ProblemKind.PARTLY_NO_STATISTICS if builder.seen else ProblemKind.NO_STATISTICS
            self.problem(kind, blank_detail(builder, len(self.records)), judged=False)
        if builder.settled and builder.seen:
            self.problem(ProblemKind.SETTLED_OPERANDS, settled_detail(builder, len(self.records)), judged=True)
        if self.saved:
            self.problem(ProblemKind.SAVED_VALUES, f"{len(self.records)} values", judged=False)
        else:
            self._unfinished()

    def _narrow(self) -> None:
        """float64 beyond the float32 range was written as Infinity (dump format, section 13)."""
        wide = frozenset(self.builder.wide)
        for place, record in enumerate(self.records):
            if record.index in wide:
                self.records[place] = replace(
                    record,
                    inputs=tuple(map(_narrowed, record.inputs)),
                    outputs=tuple(map(_narrowed, record.outputs)),
                    parameters=tuple(map(_narrowed, record.parameters)),
                )
        names = [record.name.full for record in self.records if record.index in wide]
        self.problem(ProblemKind.NARROWED_FLOAT64, f"infinite float64 in {some(names)}", judged=False)

    def _unfinished(self) -> None:
        """Records without output; whether something went unseen depends on what comes behind them.

        A run that died leaves its last record unfinished, or a module (written when it is entered) with
        nothing but its own forward records behind it. A call whose exception was caught is followed by
        other work, and nothing of it is lost; one that has a gradient gave a result that was not recorded.
        """
        open_records = [r for r in self.records if not r.has_output and not r.distrusted]
        if not open_records:
            return
        if holds_inputs_only([r.name for r in open_records], len(self.records)):
            self.problem(ProblemKind.INPUTS_ONLY, some([r.name.full for r in open_records]), judged=False)
            return
        last = open_records[-1]
        modules = [r for r in open_records if r.name.kind is RecordKind.MODULE]
        went_on = last is not self.records[-1]
        if went_on and modules:
            behind = self.records[-1:0:-1]
            went_on = any(r.name.direction is Direction.BACKWARD for r in behind if r.index > modules[-1].index)
        names = [r.name.full for r in open_records]
        returned = has_gradient([r.name for r in open_records], (r.name for r in self.records))
        self.problem(ProblemKind.UNFINISHED_RECORDS, some(names), judged=went_on and not returned)


def _narrowed(stat: TensorStat) -> TensorStat:
    if stat.dtype == "float64" and stat.state in INFINITE:
        return replace(stat, state=ValueState.UNKNOWN)
    return stat
