"""The work on one rank, as a worker does it: a file in, a small summary out."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeVar, Union

from msgspec.structs import replace

from firstnan.dump.folders import FileKind, RankFolder
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.dump.records import Record, RecordKind
from firstnan.operators import table
from firstnan.operators.communication import CommCall, calls
from firstnan.operators.table import Rulebook
from firstnan.rank.summary import RankSummary
from firstnan.rank.survey import look
from firstnan.rank.suspects import Lookout
from firstnan.read import guard_file
from firstnan.read.callers.construct import Callers
from firstnan.read.fingerprints import OperatorPrints
from firstnan.read.json.lenient import collector_off
from firstnan.read.scan.record_index import Doubt
from firstnan.read.scan.sweep import ScannedDump, find_record, find_records, records_at
from firstnan.run import second_pass
from firstnan.run.second_pass import AllCalls, Question

if TYPE_CHECKING:
    from firstnan.rank.in_memory import WholeDump
    from firstnan.rank.magnitudes import Magnitudes
    from firstnan.rank.roster import Roster

SMALL = 1 << 20
"""Bytes of a file that is soon read twice."""
View = Union[ScannedDump, "WholeDump"]

T = TypeVar("T")


def survey(
    folder: RankFolder, book: Rulebook, excluded: Collection[str], *, shown: Collection[tuple[int, int]]
) -> RankSummary:
    """The first look at a rank.

    ``shown``: steps and ranks around whose events the report shows the records, if anything. For others a second look
    at a small file costs less than keeping them for every rank.
    """
    if folder.file is FileKind.SAVED:
        return _saved(folder)
    nearby = (folder.step, folder.rank) in shown or folder.dump_bytes > SMALL
    return _look(folder, book, excluded, whole=False, nearby=nearby, prints=True)


def survey_all(
    folder: RankFolder, book: Rulebook, excluded: Collection[str], most_calls: int, *, weights: bool
) -> tuple[RankSummary, RankSummary, AllCalls | None, Roster]:
    """The first look at a rank, the same with its calls counted (and its weights, where asked for), all its calls
    judged where they are few, and all of them by name."""
    from firstnan.rank.roster import read_roster  # neither is needed where the files can be read again
    from firstnan.rank.weights import first_weights

    if folder.file is FileKind.SAVED:
        summary = _saved(folder)
        return summary, summary, None, lost_roster(folder, "")
    callers = Callers(folder)

    def use(view: View, watch: Lookout) -> tuple[RankSummary, RankSummary, AllCalls | None, Roster]:
        summary = replace(look(view, watch, callers), prints=view.prints())
        # What is wrong with construct.json matters where it was asked for.
        summary = _with_guard(folder, _with(summary, _of_callers(summary, callers)))
        if not summary.records:
            return summary, summary, None, lost_roster(folder, "")
        counted = second_pass.count(view, summary) if summary.made is None else summary
        counted = replace(counted, weights=first_weights(view, book)) if weights else counted
        few = second_pass.all_calls(view, watch, callers, summary, most_calls)
        return summary, counted, few, read_roster(view)

    return _read(folder, book, excluded, use)


def again_at(asked: tuple[RankFolder, Question], book: Rulebook, excluded: Collection[str]) -> RankSummary:
    """A second look at a rank."""
    folder, question = asked
    if folder.file is FileKind.SAVED:
        return question.summary  # the first look saw all that was saved
    wanted = question.wanted
    if question.whole or question.disproved or question.nearby:
        return _look(folder, book, excluded, whole=question.whole, disproved=question.disproved)
    if question.weights:
        from firstnan.rank.weights import first_weights  # few runs need it

        return _read(
            folder, book, excluded, lambda view, _: replace(question.summary, weights=first_weights(view, book))
        )
    if wanted is None:
        return _read(folder, book, excluded, lambda view, _: second_pass.count(view, question.summary))
    callers = Callers(folder)
    return _read(
        folder,
        book,
        excluded,
        lambda view, watch: second_pass.with_calls(view, watch, callers, question.summary, wanted),
    )


def magnitudes_of(folder: RankFolder, book: Rulebook) -> Magnitudes:
    """The largest value of every module, weight and gradient of a rank."""
    from firstnan.rank.magnitudes import magnitudes  # few runs need it

    return _read(folder, book, (), lambda view, _: magnitudes(view))


def roster(folder: RankFolder, book: Rulebook) -> Roster:
    """All communication calls of a rank."""
    from firstnan.rank.roster import read_roster  # few commands list them

    return _read(folder, book, (), lambda view, _: read_roster(view))


def lost_roster(folder: RankFolder, reason: str) -> Roster:  # noqa: ARG001  (the report of the run tells the reason)
    """What is kept of the calls of a rank that could not be read."""
    from firstnan.rank.roster import Roster

    return Roster(folder.step, folder.rank)


def lost(folder: RankFolder, reason: str) -> RankSummary:
    """What is kept of a rank on which the first look failed."""
    problem = failure(folder, reason)
    return RankSummary(folder.step, folder.rank, folder.label, problems=(problem,), judged=False)


def not_again(summary: RankSummary, reason: str) -> RankSummary:
    """The summary of a rank on which a second look failed."""
    problem = _failure(summary.step, summary.rank, summary.label, reason)
    return replace(summary, problems=(*summary.problems, problem))


def failure(folder: RankFolder, reason: str) -> Problem:
    """What is told of work on a rank that failed."""
    return _failure(folder.step, folder.rank, folder.label, reason)


def _failure(step: int, rank: int, label: str, reason: str) -> Problem:
    return Problem(ProblemKind.WORKER_FAILED, step, rank, label, reason, judged=False)


def find(folder: RankFolder, name: str) -> Record | None:
    """One record of a rank by its name; its index may not be known (-1)."""
    if folder.file is FileKind.DUMP:
        try:
            return find_record(folder, name)
        except Doubt:
            pass  # it is looked for in all of the file
    from firstnan.read.records import full_reader

    return next((r for r in full_reader.read(folder).records if r.name.full == name), None)


def _saved(folder: RankFolder) -> RankSummary:
    from firstnan.rank import saved_values  # few dumps need it
    from firstnan.read.records import full_reader

    return saved_values.summary_of(full_reader.read(folder))


def calls_at(
    folder: RankFolder, places: Collection[int], regions: Sequence[tuple[int, int, int]]
) -> dict[int, tuple[CommCall, ...]]:
    """The communication calls of some records, by their places (:class:`firstnan.read.fingerprints.RankPrints`)."""
    if regions:
        try:
            found = records_at(folder, places, regions)
        except Doubt:  # the file is not what it was
            return {}
        return {place: calls(record, folder.rank) for place, record in found.items()}
    view = _whole(folder, Lookout(table.load(None), folder.rank))
    known = view.overview.groups_recorded
    return {
        place: calls(record, folder.rank, groups_recorded=known)
        for place in places
        for record in view.records(place, place + 1)
    }


def operators(folder: RankFolder) -> OperatorPrints:
    """Fingerprints of all operators of a rank."""
    from firstnan.agree.operators import fingerprints
    from firstnan.read.records import full_reader

    with collector_off():
        return fingerprints(full_reader.read(folder).records)


def operators_and_gradients(folder: RankFolder) -> tuple[OperatorPrints, dict[str, Record]]:
    """Fingerprints of all operators, and the records of the gradients of parameters, in one pass."""
    from firstnan.agree.operators import fingerprints
    from firstnan.read.records import full_reader

    with collector_off():
        records = full_reader.read(folder).records
        gradients = {r.name.full: r for r in records if r.name.kind is RecordKind.PARAMETERS_GRAD}
        return fingerprints(records), gradients


def find_all(folder: RankFolder, names: Collection[str]) -> dict[str, Record]:
    """Some records of a rank by their names."""
    try:
        return find_records(folder, names)
    except Doubt:
        from firstnan.read.records import full_reader

        return {r.name.full: r for r in full_reader.read(folder).records if r.name.full in names}


def _look(
    folder: RankFolder,
    book: Rulebook,
    excluded: Collection[str],
    *,
    whole: bool,
    disproved: frozenset[int] = frozenset(),
    nearby: bool = True,
    prints: bool = False,
) -> RankSummary:
    callers = Callers(folder)

    def use(view: View, watch: Lookout) -> RankSummary:
        summary = look(view, watch, callers, whole=whole, disproved=disproved, nearby=nearby)
        return replace(summary, prints=view.prints()) if prints else summary

    summary = _read(folder, book, excluded, use)
    return _with_guard(folder, _with(summary, _of_callers(summary, callers)))


def _of_callers(summary: RankSummary, callers: Callers) -> list[Problem]:
    """What is wrong with construct.json; that some names were not searched matters where a value matters: a record
    without a caller proves less than one inside a module."""
    matters = any(event.is_live or event.communications for event in summary.events)
    return [problem for problem in callers.problems if matters or problem.kind is not ProblemKind.LIMIT]


def _with_guard(folder: RankFolder, summary: RankSummary) -> RankSummary:
    guard, problems = guard_file.read(folder)
    return _with(replace(summary, guard=guard) if guard is not None else summary, problems)


def _with(summary: RankSummary, problems: Collection[Problem]) -> RankSummary:
    return replace(summary, problems=(*summary.problems, *problems))


def _read(
    folder: RankFolder,
    book: Rulebook,
    excluded: Collection[str],
    use: Callable[[View, Lookout], T],
) -> T:
    """Reads a rank's dump.json as cheaply as its form allows: where it matters, or else in full."""
    with collector_off():
        found = _used(folder, book, excluded, use)
    gc.collect(0)  # what was made of this rank refers to itself in circles, and the collector may rest outside too
    return found


def _used(
    folder: RankFolder,
    book: Rulebook,
    excluded: Collection[str],
    use: Callable[[View, Lookout], T],
) -> T:
    watch = _watch(folder, book, excluded)
    try:
        return use(ScannedDump(folder, watch), watch)
    except Doubt:
        watch = _watch(folder, book, excluded)
    return use(_whole(folder, watch), watch)


def _whole(folder: RankFolder, watch: Lookout) -> WholeDump:
    from firstnan.rank.in_memory import WholeDump
    from firstnan.read.records import full_reader

    return WholeDump(full_reader.read(folder), watch)


def _watch(folder: RankFolder, book: Rulebook, excluded: Collection[str]) -> Lookout:
    return Lookout(book, folder.rank, frozenset(rejected_on(folder.rank, excluded)))


def rejected_on(rank: int, excluded: Collection[str]) -> list[str]:
    """The record names that rejected answers (``op`` or ``rank:op``) mean on a rank.

    >>> rejected_on(2, ["Torch.exp.0.forward", "2:Torch.log.0.forward", "3:Torch.div.0.forward"])
    ['Torch.exp.0.forward', 'Torch.log.0.forward']
    """
    return [name for only, name in map(_parse_rejected, excluded) if only in (None, rank)]


def _parse_rejected(text: str) -> tuple[int | None, str]:
    rank, colon, name = text.partition(":")
    return (int(rank), name) if colon and rank.isdigit() else (None, text)
