"""``firstnan replay``: analyse, choose the records that decide, run them again in a child process, put it together."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from firstnan.agree.communication import CALL_NAME
from firstnan.answer.model import Report, RootCause
from firstnan.answer.replay import Collect, NotRun, ReplayedRecord, ReplaySummary, ReplayVerdict
from firstnan.causes import advice
from firstnan.causes.replayed import with_replays
from firstnan.dump.errors import OutputError, UsageError
from firstnan.dump.folders import RankFolder
from firstnan.dump.names import parse_name
from firstnan.dump.options import Options, Progress
from firstnan.dump.records import Direction, RecordKind
from firstnan.operators import table
from firstnan.read.records import full_reader
from firstnan.replaying import process
from firstnan.replaying.job import Job, Task
from firstnan.report import call_sites
from firstnan.run import pipeline, rank_passes
from firstnan.run.dispatch import RankFiles
from firstnan.run.engines import opening as engines
from firstnan.run.paths import Paths, as_paths, find

BUDGET = 600.0
"""Seconds in which all records of ranks are run, unless another budget is given."""
INSTALL = 'pip install "firstnan[replay]"'


class ReplayRequest(Struct, frozen=True):
    """Which records to run again; as it stands, those of the root causes."""

    rank: int | None = None
    op_name: str | None = None
    """This record alone."""
    everything: bool = False
    """Every record of the rank, or of all ranks."""
    budget: float | None = None
    """Seconds; None: no limit for single records, :data:`BUDGET` for all of them."""


def replay(
    path: Paths, request: ReplayRequest | None = None, options: Options | None = None, progress: Progress | None = None
) -> Report:
    """The report of the analysis, with records run again on the CPU.

    Where the analysis finds no cause, every record is run: what is finite and wrong shows in no statistics.

    Raises:
        InputError: nothing readable at the path.
        UsageError: torch is not installed, or the rank or record is not there.
    """
    check_torch()
    options, request = options or Options(), request or ReplayRequest()
    report = pipeline.analyze(path, options, progress)
    folders = _folders(path, options)
    everything = request.everything or (request.op_name is None and not _causes_with_record(report))
    disagreeing = () if request.op_name is not None else tuple(_disagreeing(report, folders, request.rank))
    tasks = _tasks(report, folders, request, disagreeing, everything=everything)
    budget = request.budget if request.budget is not None else BUDGET if everything else None
    answers = _run(tasks, folders, budget)
    return _put_together(report, tasks, answers, folders, options, told=disagreeing, asked=request.op_name)


def write_repro(path: Paths, report: Report, request: ReplayRequest, folder: Path) -> Path:
    """Write the repro of the record that was asked for, or of the first cause that was run, into a new folder.

    Raises:
        UsageError: the folder is there and not empty, or the record cannot be run.
        OutputError: it cannot be written.
    """
    chosen = _repro_of(report, request)
    if chosen is None:
        raise UsageError("there is no record to write a repro of: none could be run again")
    job = Job(_places(_folders(path, Options())), (chosen,))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"'{folder}' is there already and not an empty folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        refusal = process.write_repro(job, folder)
    except OSError as error:
        raise OutputError(f"the repro could not be written to '{folder}': {error.strerror or error}") from error
    if refusal is not None:
        raise UsageError(f"no repro of {chosen.op_name}: {refusal}")
    return folder / "repro.py"


def _folders(path: Paths, options: Options) -> tuple[RankFolder, ...]:
    with engines.opened(options) as workers:
        return find(as_paths(path), options, workers).folders


def _places(folders: Iterable[RankFolder]) -> dict[tuple[int, int], Path]:
    return {(f.step, f.rank): f.path.absolute() for f in folders}


def check_torch() -> None:
    """Look whether torch is there, without loading it.

    Raises:
        UsageError: it is not.
    """
    absent = [name for name in ("torch", "numpy") if importlib.util.find_spec(name) is None]
    if absent:
        raise UsageError(f"replay needs {' and '.join(absent)}, which is not installed here", hint=INSTALL)


def _causes_with_record(report: Report) -> list[RootCause]:
    return [cause for cause in report.root_causes if cause.op_name and cause.exec_order is not None]


def _tasks(
    report: Report,
    folders: Sequence[RankFolder],
    request: ReplayRequest,
    disagreeing: Sequence[Task],
    *,
    everything: bool,
) -> tuple[Task, ...]:
    if request.op_name is not None:
        return (_named(report, folders, request),)
    if everything:
        ranks = [f for f in folders if request.rank is None or f.rank == request.rank]
        if not ranks:
            raise UsageError(f"no rank {request.rank} here")
        every = (one for folder in ranks for one in _every_record(folder))
        return tuple(dict.fromkeys((*disagreeing, *every)))  # those first, should the time be up
    wanted = dict.fromkeys(one for cause in _causes_with_record(report) for one in _deciding(cause))
    wanted |= dict.fromkeys(disagreeing)
    there = {(f.step, f.rank) for f in folders}
    return tuple(one for one in wanted if (one.step, one.rank) in there)


def _named(report: Report, folders: Sequence[RankFolder], request: ReplayRequest) -> Task:
    """The record with the name that was asked for, in the first bad step or the first that has it."""
    ranks = [f for f in folders if request.rank is None or f.rank == request.rank]
    if request.rank is None and len({f.rank for f in ranks}) > 1:
        raise UsageError("a record is asked for, and there are several ranks", hint="say which one with --rank")
    for folder in sorted(ranks, key=lambda f: (f.step != report.step, f.step)):
        record = rank_passes.find(folder, request.op_name or "")
        if record is not None:
            return Task(folder.step, folder.rank, record.name.full, record.index)
    raise UsageError(f"no record {request.op_name} of {'any rank' if request.rank is None else f'rank {request.rank}'}")


def _every_record(folder: RankFolder) -> Iterator[Task]:
    """Every record of an operator or of communication; modules repeat those inside them."""
    for record in full_reader.read(folder).records:
        if record.name.kind is RecordKind.API:
            yield Task(folder.step, folder.rank, record.name.full, record.index)


def _deciding(cause: RootCause) -> Iterator[Task]:
    """The records that decide about a cause: itself, those on the way to it, its alternatives."""
    for passed in cause.run_up:
        yield Task(cause.step, cause.rank, passed.op_name, passed.exec_order)
    yield Task(cause.step, cause.rank, cause.op_name, cause.exec_order or 0)
    for other in cause.alternatives:
        if other.op_name and other.exec_order is not None:
            yield Task(other.step, other.rank, other.op_name, other.exec_order)


def _disagreeing(report: Report, folders: Iterable[RankFolder], wanted: int | None) -> Iterator[Task]:
    """The record of each disagreement, on the ranks that stand out and on some that do not.

    A call may have another name on another rank; its evidence tells.
    """
    there = {(folder.step, folder.rank): folder for folder in folders if wanted in (None, folder.rank)}
    for found in report.disagreements:
        if found.op_name is None:
            continue
        names = {note.params["rank"]: str(note.params["op_name"]) for note in found.evidence if note.key == CALL_NAME}
        odd = found.odd_ranks or ()
        for rank in [*odd, *(rank for rank in found.ranks if rank not in odd)][:MOST_RANKS]:
            folder = there.get((found.step, rank))
            name = names.get(rank, found.op_name)
            record = None if folder is None else rank_passes.find_all(folder, (name,)).get(name)
            if record is not None:
                yield Task(found.step, rank, name, record.index)


MOST_RANKS = 4
"""Ranks of one disagreement on which its record is run."""


def _run(tasks: Sequence[Task], folders: Iterable[RankFolder], budget: float | None) -> list[ReplayedRecord]:
    return [
        ReplayedRecord(one.step, one.rank, one.op_name, one.exec_order, answer)
        for one, answer in process.run(Job(_places(folders), tuple(tasks)), budget)
    ]


def _put_together(
    report: Report,
    tasks: Sequence[Task],
    answers: Sequence[ReplayedRecord],
    folders: tuple[RankFolder, ...],
    options: Options,
    *,
    told: Sequence[Task],
    asked: str | None,
) -> Report:
    with engines.opened(options) as workers:
        files = RankFiles(folders, workers, table.load(options.rules), options)
        before = report.root_causes
        judged = with_replays(report, answers, files.record)
        sites = call_sites.add(judged, files.call_sites)
    causes = tuple(
        cause if cause in before else replace(with_site, advice=advice.advice(with_site, operators=True))
        for cause, with_site in zip(judged.root_causes, sites.root_causes, strict=True)
    )
    return pipeline.with_problems(
        replace(judged, root_causes=causes, replayed=_summary(judged, tasks, answers, told, asked)), files.problems()
    )


def _summary(
    report: Report,
    tasks: Sequence[Task],
    answers: Sequence[ReplayedRecord],
    disagreeing: Sequence[Task],
    asked: str | None,
) -> ReplaySummary:
    named = {(cause.step, cause.rank, cause.op_name) for cause in report.root_causes}
    named |= {(one.step, one.rank, one.op_name) for one in disagreeing}
    told = [
        one
        for one in answers
        if one.replay.verdict.blames_device or one.op_name == asked or (one.step, one.rank, one.op_name) in named
    ]
    verdicts = Counter(one.replay.verdict for one in answers)
    reasons = Counter(one.replay.reason for one in answers if one.replay.reason is not None)
    lacking = [one for one in answers if one.replay.reason is NotRun.NO_TENSORS]
    ran = any(one.replay.verdict is not ReplayVerdict.NOT_RUN for one in answers)
    wanted = [one for one in lacking if one in told] or ([] if ran else lacking)
    return ReplaySummary(
        records=len(answers),
        verdicts=dict(verdicts),
        not_run=dict(reasons),
        left_out=len(tasks) - len(answers),
        told=tuple(told),
        collect=_collect(report, wanted),
    )


MOST_COLLECTED = 16
"""Records that one configuration lists."""


def _collect(report: Report, lacking: Sequence[ReplayedRecord]) -> tuple[Collect, ...]:
    """One configuration for each step: the records and ranks whose tensors are wanted."""
    made: list[Collect] = []
    for step in sorted({one.step for one in lacking}):
        names: dict[str, None] = {}
        ranks: set[int] = set()
        for one in [one for one in lacking if one.step == step][:MOST_COLLECTED]:
            ranks.add(one.rank)
            members = next(
                (c.ops for c in report.collectives if c.step == step and c.ops.get(one.rank) == one.op_name), {}
            )
            ranks.update(members)
            for name in (one.op_name, *members.values()):
                names.update(dict.fromkeys(_with_forward(name)))
        made.append(Collect.of(step, sorted(ranks), names))
    return tuple(made)


def _with_forward(name: str) -> Iterator[str]:
    """A backward record is run from the arguments of its forward record."""
    parsed = parse_name(name)
    if parsed.kind is RecordKind.API and parsed.direction is Direction.BACKWARD:
        yield f"{name.removesuffix('backward')}forward"
    yield name


def _repro_of(report: Report, request: ReplayRequest) -> Task | None:
    """The record that was asked for, else the first cause that was run again, device faults before others."""
    told = report.replayed.told if report.replayed is not None else ()
    run = [one for one in told if one.replay.verdict is not ReplayVerdict.NOT_RUN]
    if request.op_name is not None:
        run = [one for one in run if one.op_name == request.op_name]
    run = [one for one in run if not parse_name(one.op_name).prefix.endswith("Distributed")]
    order = sorted(run, key=lambda one: not one.replay.verdict.blames_device)
    return Task(order[0].step, order[0].rank, order[0].op_name, order[0].exec_order) if order else None
