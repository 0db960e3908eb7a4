"""dump.json of one rank as records (format document, sections 4 to 8, 12 and 14).

Features are detected, never versions. Whatever is wrong with the content becomes a
:class:`~firstnan.dump.Problem`; no content raises.
"""

from __future__ import annotations

from dataclasses import replace

from firstnan.dump import (
    Direction,
    FileKind,
    Problem,
    ProblemKind,
    RankDump,
    RankFolder,
    Record,
    RecordKind,
    TensorStat,
)
from firstnan.numerics import ValueState
from firstnan.readers import lenient_json
from firstnan.readers.files import Fault, read_bytes
from firstnan.readers.names import parse_name
from firstnan.readers.values import INFINITE, MAX_NESTING, Reader, flag_of


def read(folder: RankFolder) -> RankDump:
    """All records of one rank and step, in the order of the file. The file is read once.

    What cannot be read becomes a problem of the answer; nothing is raised for it.
    """
    with lenient_json.collector_off():
        return _read(folder)


def _read(folder: RankFolder) -> RankDump:
    data = read_bytes(folder.path / FileKind.DUMP.value)
    if isinstance(data, Fault):
        kind = ProblemKind.MISSING_FILE if data.missing else ProblemKind.UNREADABLE
        return RankDump(folder, (), (_problem(folder, kind, data.detail, judged=False),))
    size = len(data)
    parsed = lenient_json.loads(data)
    del data
    return _Building(folder, parsed, size).dump()


def _problem(folder: RankFolder, kind: ProblemKind, detail: str, *, judged: bool) -> Problem:
    return Problem(kind, folder.step, folder.rank, f"{folder.label}/{FileKind.DUMP.value}", detail, judged)


class _Building:
    """One rank's dump on its way from JSON to records."""

    def __init__(self, folder: RankFolder, parsed: lenient_json.Parsed, size: int) -> None:
        self.folder = folder
        self.parsed = parsed
        self.size = size
        self.reader = Reader()
        self.whole = False
        """``data`` was closed before the text ended."""
        self.records: list[Record] = []
        self.problems: list[Problem] = []
        self.blank: list[str] = []
        """Names of records with tensors that could not be judged."""
        self.seen = 0
        """Floating tensors that could be judged."""
        self.wide: list[int] = []
        """Places in ``records`` with an infinite float64 tensor."""
        self.odd: list[str] = []
        """Names of records with parts of no known form."""
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
            detail = f"{cut.why} at byte {cut.offset} of {self.size}, {len(self.records)} records before it"
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
        last = -1 if self.whole else len(data) - 1
        for index, (name, raw) in enumerate(data.items()):
            if isinstance(raw, dict):
                self._record(name, raw, index, distrusted=index == last)
                data[name] = None  # gives the memory back while the rest is read
            else:
                self.skipped.append(name)

    def _record(self, full: str, raw: dict[str, object], index: int, *, distrusted: bool) -> None:
        name = parse_name(full)
        reader = self.reader
        reader.start(communication=name.prefix.endswith("Distributed"))
        flagged: bool | None = None
        parameters: list[TensorStat] = []
        inputs: list[TensorStat] = []
        positional = n_kwargs = 0
        kwargs: tuple[str, ...] = ()
        has_output = True
        if name.kind is RecordKind.PARAMETERS_GRAD:
            outputs = reader.named(raw, "grad")
            n_outputs = len(raw)
            peers, groups = [], []
        else:
            get = raw.get
            value = get("input")
            if value is not None:
                inputs, positional = reader.top(value, "input")
            value = get("input_args")
            if value is not None:
                more, count = reader.top(value, "input_args")
                inputs = inputs + more if inputs else more
                positional = count or positional
            value = get("input_kwargs")
            if value:
                more, n_kwargs = reader.top(value, "input_kwargs")
                inputs = inputs + more
                if type(value) is dict:
                    kwargs = tuple(value)
                else:
                    reader.odd += 1
            value = get("parameters")
            if value is not None:
                parameters = reader.named(value, "parameters")
            peers, groups = reader.peers, reader.groups
            if "is_nan" in raw:
                flagged = flag_of(raw["is_nan"])
                if flagged is not None:  # it covers what the call produced, not what went in
                    reader.blank = 0
                    reader.default = ValueState.NON_FINITE if flagged else ValueState.FINITE
            has_output = "output" in raw
            reader.peers, reader.groups = [], []  # those among outputs only repeat the arguments
            outputs, n_outputs = reader.top(get("output"), "output")
        if reader.blank and not distrusted:
            self.blank.append(full)
        if reader.odd:
            self.odd.append(full)
        self.seen += reader.seen
        if reader.wide:
            self.wide.append(len(self.records))
        self.records.append(
            Record(
                name, index, tuple(inputs), tuple(outputs), tuple(parameters),
                tuple(reader.scalars), tuple(groups), tuple(peers),
                (positional, n_kwargs, n_outputs), kwargs, has_output, distrusted,
                raw.get("is_recompute") is True, flagged,
            )
        )  # fmt: skip

    def _conclude(self) -> None:
        """What only the whole file tells."""
        if self.wide and self.reader.narrowed:
            self._narrow()
        if self.skipped:
            self.problem(ProblemKind.BAD_CONTENT, f"{_some(self.skipped)} hold no object", judged=False)
        if self.odd:
            self.problem(ProblemKind.BAD_CONTENT, f"{_some(self.odd)} hold parts of unknown form", judged=False)
        if self.reader.deep:
            self.problem(ProblemKind.LIMIT, f"{self.reader.deep} values nested deeper than {MAX_NESTING}", judged=False)
        if self.blank:
            causes = sorted(self.reader.absences, key=lambda why: -self.reader.absences[why])
            detail = f"{', '.join(why.value for why in causes)}: {_some(self.blank)} of {len(self.records)}"
            kind = ProblemKind.PARTLY_NO_STATISTICS if self.seen else ProblemKind.NO_STATISTICS
            self.problem(kind, detail, judged=False)
        self._unfinished()

    def _narrow(self) -> None:
        """float64 beyond the float32 range was written as Infinity (format document, section 13)."""
        for place in self.wide:
            record = self.records[place]
            self.records[place] = replace(
                record,
                inputs=tuple(map(_narrowed, record.inputs)),
                outputs=tuple(map(_narrowed, record.outputs)),
                parameters=tuple(map(_narrowed, record.parameters)),
            )
        names = [self.records[place].name.full for place in self.wide]
        self.problem(ProblemKind.NARROWED_FLOAT64, f"infinite float64 in {_some(names)}", judged=False)

    def _unfinished(self) -> None:
        """Records without output; whether something went unseen depends on what comes behind them.

        A run that died leaves its last record unfinished, or a module (written when it is entered) with
        nothing but its own forward records behind it. A call whose exception was caught is followed by
        other work, and nothing of it is lost.
        """
        open_records = [r for r in self.records if not r.has_output and not r.distrusted]
        if not open_records:
            return
        last = open_records[-1]
        modules = [r for r in open_records if r.name.kind is RecordKind.MODULE]
        went_on = last is not self.records[-1]
        if went_on and modules:
            behind = self.records[-1:0:-1]
            went_on = any(r.name.direction is Direction.BACKWARD for r in behind if r.index > modules[-1].index)
        names = [r.name.full for r in open_records]
        self.problem(ProblemKind.UNFINISHED_RECORDS, _some(names), judged=went_on)


def _narrowed(stat: TensorStat) -> TensorStat:
    if stat.dtype == "float64" and stat.state in INFINITE:
        return replace(stat, state=ValueState.UNKNOWN)
    return stat


def _some(names: list[str]) -> str:
    """How many, and an example: ``3 records (first: Tensor.add.0.forward)``."""
    return f"{len(names)} record{'s' if len(names) != 1 else ''} (first: {names[0]})"
