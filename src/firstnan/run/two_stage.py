"""Two stages without any engine: each host looks at its own ranks, and anywhere the parts become one report.

:func:`scan` is the first look of :func:`firstnan.analyze`, with all in it that the rest is likely to ask for.
:func:`merge` is the rest. What it asks beyond that (second looks, :mod:`firstnan.run.second_pass`; the same operator on
other ranks) is read from the files where these can be reached, and told as a problem of the rank where not; a scan that
is given the parts of the others (``others``) answers it beforehand.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from firstnan.agree import disagreements
from firstnan.answer.model import Report
from firstnan.dump.call_site import CallSite
from firstnan.dump.errors import InputError, UsageError
from firstnan.dump.folders import RankFolder
from firstnan.dump.names import parse_name
from firstnan.dump.options import Options, Progress
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.dump.records import Record, RecordKind
from firstnan.operators import table
from firstnan.operators.communication import CommCall
from firstnan.operators.table import Rulebook
from firstnan.rank.magnitudes import Magnitudes
from firstnan.rank.roster import Roster
from firstnan.rank.sharing import Sharing
from firstnan.rank.summary import RankSummary
from firstnan.read.callers import call_site
from firstnan.read.fingerprints import OperatorPrints, RankPrints
from firstnan.read.json.lenient import collector_off
from firstnan.read.layout.dump_layout import Layout, checked
from firstnan.read.layout.nodes import Listing, NodeListing, joined
from firstnan.read.sources.remote_path import absolute
from firstnan.run import dispatch, pipeline, rank_passes
from firstnan.run.dispatch import RankFiles
from firstnan.run.engines import opening as engines
from firstnan.run.engines.engine import Engines
from firstnan.run.parts import (
    Answered,
    Part,
    RankPart,
    Site,
    Stamp,
    calls_of,
    gradients_of,
    operators_of,
    packed_calls,
    packed_calls_by_name,
    packed_gradients,
    packed_operators,
    read,
    roster_of,
)
from firstnan.run.paths import Paths, as_paths, check_readable, shown
from firstnan.run.pipeline import Surveyed
from firstnan.run.second_pass import Question, with_known_calls

MAX_SITES = 4
"""Events of a rank whose call sites are kept; all but the first are consequences."""
MAX_GROWN = 16
"""Ranks of a host whose largest values are kept over the steps."""
MAX_CALLS = 64
"""A rank with at most so many calls keeps all of them."""
MAX_PATHS = 4
"""Paths of hosts that are named in the report."""

Place = tuple[int, int]
"""Step and rank."""


def scan(
    path: Paths, options: Options | None = None, progress: Progress | None = None, others: Sequence[Part] = ()
) -> Part:
    """Looks at the ranks below a path, as :func:`firstnan.analyze` does first.

    With ``others``, the parts of the other hosts, what merging will ask of these ranks is answered as well.

    Raises:
        InputError: no dump at the path.
        UsageError: a rules file cannot be read, or the others were made with other rules.
    """
    options = options or Options()
    book = table.load(options.rules)
    with engines.opened(options) as workers:
        found = dispatch.find(as_paths(path), options, workers, whole=False)
        several = len(found.found_steps) > 1
        work = partial(_scan_rank, book=book, excluded=options.exclude_ops, weights=several)
        seen = dispatch.at_each(found.folders, work, _lost, workers, progress)
        seen.sort(key=lambda one: (one.folder.step, one.folder.rank))
        if len(found.found_steps) >= pipeline.LEAST_STEPS:
            seen = _with_magnitudes(seen, RankFiles(found.folders, workers, book, options))
        part = Part(
            host=socket.gethostname(),
            path=shown(as_paths(path)),
            rules=table.render(book),
            excluded=options.exclude_ops,
            ranks=tuple(seen),
            layout=replace(found, folders=tuple(one.folder for one in seen)),
            asked=options.ranks,
            asked_steps=options.steps,
        )
        return _with_answers(part, others, options, workers) if others else part


def _scan_rank(folder: RankFolder, book: Rulebook, excluded: Collection[str], *, weights: bool) -> RankPart:
    """One rank's part; runs on a worker."""
    stamp = Stamp.of(folder.values)
    summary, counted, calls, roster = rank_passes.survey_all(folder, book, excluded, MAX_CALLS, weights=weights)
    operators = gradients = None
    if folder.dump_bytes <= disagreements.SMALL:
        operators, gradients = rank_passes.operators_and_gradients(folder)
    return RankPart(
        folder=replace(folder, path=absolute(folder.path)),
        summary=summary,
        stamp=stamp,
        made=None if summary.made is not None else counted.made,
        mentioned=() if summary.made is not None else counted.mentioned,
        weights=counted.weights,
        calls=packed_calls(calls),
        roster=packed_calls_by_name(roster),
        operators=packed_operators(operators),
        gradients=packed_gradients(gradients),
        sites=_sites(folder, summary),
        records={name: rank_passes.find(folder, name) for name in rank_passes.rejected_on(folder.rank, excluded)}
        or None,
    )


def _with_magnitudes(parts: Sequence[RankPart], files: RankFiles) -> list[RankPart]:
    """The parts with the largest values of the ranks on which a bad value may have begun."""
    begun = {one.folder.rank: None for one in parts for event in one.summary.events if event.is_live}
    chosen = list(begun)[:MAX_GROWN]
    steps = sorted({one.folder.step for one in parts})
    known = {(one.step, one.rank): one for rank in chosen for one in files.magnitudes(rank, steps)}
    return [replace(one, magnitudes=known.get((one.folder.step, one.folder.rank))) for one in parts]


def _lost(folder: RankFolder, reason: str) -> RankPart:
    return RankPart(folder, rank_passes.lost(folder, reason))


def _sites(folder: RankFolder, summary: RankSummary) -> dict[str, Site]:
    """Call sites of the events that can be the answer, and of the communication that large values came through."""
    possible = [event for event in summary.events if event.is_live or event.communications][:MAX_SITES]
    events = [*possible, *([] if summary.saturated is None else [summary.saturated])]
    calls = {fact.call.name for fact in summary.calls}
    names = dict.fromkeys(event.record.name.full for event in events)
    passed = (step.op_name for event in events for step in event.run_up)
    names.update(dict.fromkeys(name for name in passed if name in calls))
    found = {}
    for name in names:
        site = _site(folder, name)
        if site is not None:
            found[name] = site
    return found


def _site(folder: RankFolder, name: str) -> Site | None:
    sites, problems = call_site.read(folder, (name,))
    return Site(sites[name], tuple(problems)) if name in sites else None


def _with_answers(part: Part, others: Sequence[Part], options: Options, workers: Engines) -> Part:
    """The part with what putting it together with the others asks of its ranks."""
    desk = _Desk((part, *others), options, workers)
    own = {(one.folder.step, one.folder.rank): one for one in part.ranks}
    desk.conclude()
    return replace(part, ranks=tuple(desk.answered(place, one) for place, one in own.items()))


# -- the second stage ----------------------------------------------------------------------------------


def merge(files: Sequence[str | Path], options: Options | None = None) -> Report:
    """One report from the part files of all hosts: the one that a single run over all ranks gives.

    A file that cannot be used is a problem in the report. Of the options only those count that say how files are read
    again (``jobs``, ``engine``); the others were chosen when the parts were made.

    Raises:
        InputError: none of the files can be used, or no rank in them could be read.
        UsageError: no file, or parts that were made with different rules.
    """
    parts, problems = read_all([Path(file) for file in files])
    return put_together(parts, options, problems)


def read_all(files: Sequence[Path]) -> tuple[list[Part], list[Problem]]:
    """The parts in the files that can be used, and a problem for each that cannot.

    Raises:
        InputError: none of the files can be used.
        UsageError: no file.
    """
    if not files:
        raise UsageError("no part to merge", hint="give files that 'firstnan scan' wrote")
    parts: list[Part] = []
    failures: dict[Path, InputError] = {}
    sharing = Sharing()
    with collector_off():
        for file in files:
            try:
                parts.append(read(file, sharing))
            except InputError as error:
                failures[file] = error
    if not parts:
        raise next(iter(failures.values()))
    return parts, [_unusable(file, error) for file, error in failures.items()]


def _unusable(file: Path, error: InputError) -> Problem:
    detail = str(error).removeprefix(str(file)).lstrip(": ")
    return Problem(ProblemKind.UNREADABLE, file=str(file), detail=detail, judged=False)


def put_together(parts: Sequence[Part], options: Options | None = None, problems: Sequence[Problem] = ()) -> Report:
    """One report from parts; ``problems`` are told in it.

    Raises:
        InputError: no rank could be read.
        UsageError: the parts were made with different rules.
    """
    options = options or Options()
    with engines.opened(options) as workers:
        desk = _Desk(parts, options, workers)
        check_readable(desk.path, [part.summary for part in desk.kept.values()])
        return desk.conclude(problems)


def rosters(parts: Sequence[Part]) -> list[Roster] | None:
    """All communication calls of every rank; None where a part is of a version that did not keep them.

    Raises:
        InputError: what a part holds of them is damaged.
    """
    ordered = _in_order(parts)
    _, kept = _joined(Path(_paths(ordered)), ordered)
    found = [roster_of(part) for _, part in sorted(kept.items())]
    return None if None in found else [one for one in found if one is not None]


class _Desk:
    """Implements :class:`firstnan.run.access.RankAccess` over parts, and over files where these can be reached."""

    def __init__(self, parts: Sequence[Part], options: Options, workers: Engines) -> None:
        parts = _in_order(parts)
        first = parts[0]
        for part in parts[1:]:
            if part.rules != first.rules or set(part.excluded) != set(first.excluded):
                raise UsageError(
                    f"the parts of {_origin(first)} and {_origin(part)} were made with different rules or --exclude-op",
                    hint="scan all hosts with the same --rules and --exclude-op",
                )
        self._parts = parts
        self._workers = workers
        self._book = table.parse(first.rules)
        self._options = replace(options, exclude_ops=first.excluded)
        self.path = _paths(parts)
        self.layout, self.kept = _joined(Path(self.path), parts)
        self._looks: dict[Place, list[Answered]] = {}
        """Second looks that were made at files."""
        self._records: dict[Place, dict[str, Record | None]] = {}
        self._sites_read: dict[Place, dict[str, Site]] = {}
        """Records and call sites that were read from files."""
        self._lacking: dict[Place, str] = {}
        """What would have been asked of ranks whose files cannot be reached."""

    def conclude(self, problems: Sequence[Problem] = ()) -> Report:
        """From the parts to the report."""
        known = sorted({*self.layout.found_ranks, *(rank for _, rank in self.kept)})
        asked = {
            rank for part in self._parts for rank in (part.layout.found_ranks if part.asked is None else part.asked)
        }
        surveyed = Surveyed(
            path=self.path,
            summaries=[part.summary for part in self.kept.values()],
            problems=[*self.layout.problems, *problems],
            known=known,
            left_out=sorted(set(known) - asked),
            excluded=self._options.exclude_ops,
            nowhere=dispatch.nowhere(
                self._options.exclude_ops,
                [(rank, part) for (_, rank), part in self.kept.items()],
                lambda part, name: (part.records or {}).get(name) is not None,
            ),
        )
        return pipeline.conclude(surveyed, self, self._book)

    def answered(self, place: Place, part: RankPart) -> RankPart:
        """A rank's part with all that was read from its files."""
        return replace(
            part,
            answered=tuple(self._looks.get(place, ())),
            records={**(part.records or {}), **self._records.get(place, {})} or None,
            sites={**(part.sites or {}), **self._sites_read.get(place, {})},
        )

    def problems(self) -> list[Problem]:
        """Questions that were left open although the answer stands."""
        return [
            Problem(ProblemKind.NOT_REACHED, *place, self.kept[place].folder.label, what)
            for place, what in sorted(self._lacking.items())
        ]

    def answers(self, questions: Collection[Question]) -> list[RankSummary]:
        found: list[RankSummary] = []
        left: list[Question] = []
        for question in questions:
            part = self.kept[question.summary.step, question.summary.rank]
            answer = _from_part(part, question)
            if answer is not None:
                found.append(answer)
            elif _is_reachable(part):
                left.append(question)
            else:
                found.append(self._unanswered(part, question))
        if left:
            folders = tuple(part.folder for part in self.kept.values())
            for question, summary in dispatch.again(folders, self._book, self._options, self._workers, left):
                found.append(summary)
                if not question.is_count:
                    looked = Answered.to(question, summary)
                    self._looks.setdefault((summary.step, summary.rank), []).append(looked)
        return found

    def _unanswered(self, part: RankPart, question: Question) -> RankSummary:
        summary = question.summary
        if question.disproved and not question.whole:
            self._lacking.setdefault((part.folder.step, part.folder.rank), "what it read behind a stale receive")
        elif not question.whole:
            what = "the weights that the step begins with" if question.weights else "its side of a call that is a cause"
            self._lacking.setdefault((part.folder.step, part.folder.rank), what)
        if not question.whole:
            return summary
        detail = f"records from index {summary.horizon} on"
        problem = Problem(ProblemKind.NOT_REACHED, summary.step, summary.rank, summary.label, detail, judged=False)
        return replace(summary, problems=(*summary.problems, problem))

    def call_sites(
        self, step: int, rank: int, names: Collection[str]
    ) -> tuple[Mapping[str, CallSite], tuple[Problem, ...]]:
        part = self.kept.get((step, rank))
        if part is None:
            return {}, ()
        known = dict(part.sites or {})
        for name in names:
            if name not in known and _is_reachable(part):
                site = _site(part.folder, name)
                if site is not None:
                    known[name] = self._sites_read.setdefault((step, rank), {})[name] = site
            elif name not in known:
                self._lacking.setdefault((step, rank), "where its record was called from")
        found = {name: known[name].site for name in names if name in known}
        return found, tuple(dict.fromkeys(p for name in found for p in known[name].problems))

    def record(self, step: int, rank: int, name: str) -> Record | None:
        part = self.kept.get((step, rank))
        if part is None:
            return None
        if part.records is not None and name in part.records:
            return part.records[name]
        if _is_reachable(part):
            found = rank_passes.find(part.folder, name)
            self._records.setdefault((step, rank), {})[name] = found
            return found
        known = (event.record for event in part.summary.events if event.record.name.full == name)
        found = next(known, None)
        if found is None:
            self._lacking.setdefault((step, rank), f"the record {name}, to compare it")
        return found

    def magnitudes(self, rank: int, steps: Sequence[int]) -> list[Magnitudes]:
        parts = [self.kept[step, rank] for step in steps if (step, rank) in self.kept]
        known = [part.magnitudes for part in parts if part.magnitudes is not None]
        left = [part for part in parts if part.magnitudes is None]
        for part in left:
            if not _is_reachable(part):
                self._lacking.setdefault((part.folder.step, rank), "its largest values, to tell how they grew")
        reached = self._reached(part for part in left if _is_reachable(part)).magnitudes(rank, steps)
        return sorted((*known, *reached), key=lambda one: one.step)

    def near_limit(self) -> list[int]:
        return self._reached(part for part in self.kept.values() if _is_reachable(part)).near_limit()

    # -- firstnan.agree.sources.Sources -----------------------------------------------------------------

    def calls(
        self, step: int, rank: int, prints: RankPrints, places: Collection[int]
    ) -> Mapping[int, tuple[CommCall, ...]]:
        part = self.kept.get((step, rank))
        if part is None:
            return {}
        if _is_reachable(part):
            return self._files(step, (rank,)).calls(step, rank, prints, places)
        known = calls_of(part)
        if known is None:
            self._lacking.setdefault((step, rank), "calls that other ranks saw with another result")
            return {}
        order = sorted({line.place(at) for line in prints.calls for at in range(line.count)})
        index_of = dict(zip(order, (index for index, _ in known.log), strict=False))
        wanted = {index_of[place]: place for place in places if place in index_of}
        found: dict[int, list[CommCall]] = {}
        for fact in known.facts:
            if fact.call.index in wanted:
                found.setdefault(wanted[fact.call.index], []).append(fact.call)
        return {place: tuple(calls) for place, calls in found.items()}

    def operators(self, step: int, ranks: Collection[int]) -> Mapping[int, OperatorPrints]:
        kept = {rank: found for rank in ranks if (found := self._known_operators(step, rank)) is not None}
        left = [rank for rank in ranks if rank not in kept]
        return {**kept, **self._files(step, left).operators(step, left)} if left else kept

    def _known_operators(self, step: int, rank: int) -> OperatorPrints | None:
        part = self.kept.get((step, rank))
        return None if part is None else operators_of(part)

    def records(self, step: int, rank: int, names: Collection[str]) -> Mapping[str, Record]:
        part = self.kept.get((step, rank))
        if part is None:
            return {}
        known: dict[str, Record | None] = dict(part.records or {})
        gradients = gradients_of(part)
        if gradients is not None:
            known |= {name: gradients.get(name) for name in names if _is_gradient(name)}
        left = [name for name in names if name not in known]
        if left and _is_reachable(part):
            found = self._files(step, (rank,)).records(step, rank, left)
            read = {name: found.get(name) for name in left}
            self._records.setdefault((step, rank), {}).update(read)
            known |= read
        elif left:
            self._lacking.setdefault((step, rank), f"records of ranks that differ, as {left[0]}")
        return {name: record for name in names if (record := known.get(name)) is not None}

    def _files(self, step: int, ranks: Collection[int]) -> RankFiles:
        """The ranks whose files can be reached."""
        parts = [part for rank in ranks if (part := self.kept.get((step, rank))) is not None and _is_reachable(part)]
        return self._reached(parts)

    def _reached(self, parts: Iterable[RankPart]) -> RankFiles:
        return RankFiles(tuple(part.folder for part in parts), self._workers, self._book, self._options)


def _in_order(parts: Sequence[Part]) -> Sequence[Part]:
    """The parts as they are given; where two of them hold other dumps of one rank, the ones written last come first,
    so that the answer does not depend on the order of arguments."""
    stamps: dict[Place, set[Stamp | None]] = {}
    for part in parts:
        for one in part.ranks:
            stamps.setdefault((one.folder.step, one.folder.rank), set()).add(one.stamp)
    if all(len(found) == 1 for found in stamps.values()):
        return parts

    def age(part: Part) -> tuple[int, str, str]:
        latest = max((one.stamp.modified for one in part.ranks if one.stamp is not None), default=0)
        return -latest, part.path, part.host

    return sorted(parts, key=age)


def _paths(parts: Iterable[Part]) -> str:
    names = list(dict.fromkeys(part.path for part in parts))
    more = len(names) - MAX_PATHS
    return ", ".join([*names[:MAX_PATHS], *([f"{more} more"] if more > 0 else [])])


def _origin(part: Part) -> str:
    return f"{part.host}:{part.path}"


def _joined(path: Path, parts: Sequence[Part]) -> tuple[Layout, dict[Place, RankPart]]:
    """The whole dump, and every rank of it once.

    Of parts of one rank the one that was written last counts, unless only another one could read it. Where both looked
    at the very same file (same label, size and time), what either of them holds is kept; another file is told as a
    second dump.

    Raises:
        InputError: the parts hold no rank.
    """
    by_rank: dict[Place, list[tuple[int, RankPart]]] = {}
    for number, part in enumerate(parts):
        for one in part.ranks:
            by_rank.setdefault((one.folder.step, one.folder.rank), []).append((number, one))
    usable = {place: [one for one in found if not _is_failed(one[1])] or found for place, found in by_rank.items()}
    listings = []
    by_part: dict[int, list[RankPart]] = {}
    for number, one in itertools.chain.from_iterable(usable.values()):
        by_part.setdefault(number, []).append(one)
    for number, part in enumerate(parts):
        held = by_part.get(number, [])
        there = replace(part.layout, folders=tuple(replace(one.folder, nodes=()) for one in held))
        marks = tuple(f"{one.stamp.size} {one.stamp.modified}" if one.stamp else f"{number}" for one in held)
        listings.append(NodeListing(str(number), _origin(part), Listing(there, marks)))
    steps = None if any(part.asked_steps is None for part in parts) else [s for p in parts for s in p.asked_steps or ()]
    ranks_asked = None if any(part.asked is None for part in parts) else [r for p in parts for r in p.asked or ()]
    layout = checked(joined(path, listings), steps, ranks_asked)
    kept = {}
    for folder in layout.folders:
        place = (folder.step, folder.rank)
        kept[place] = _united([one for number, one in usable[place] if str(number) in folder.nodes])
    return layout, kept


def _is_failed(part: RankPart) -> bool:
    failed = (ProblemKind.WORKER_FAILED, ProblemKind.UNREADABLE)
    return not part.summary.records and any(problem.kind in failed for problem in part.summary.problems)


def _united(same: Sequence[RankPart]) -> RankPart:
    """What several scans of one file hold."""
    sites = {name: site for one in reversed(same) for name, site in (one.sites or {}).items()}
    records = {name: record for one in reversed(same) for name, record in (one.records or {}).items()}
    answered = tuple(look for one in same for look in one.answered)
    return replace(same[0], sites=sites, records=records or None, answered=answered)


def _from_part(part: RankPart, question: Question) -> RankSummary | None:
    """The answer that the part holds."""
    if question.is_count:
        return None if part.made is None else replace(question.summary, made=part.made, mentioned=part.mentioned)
    if question.weights and part.weights is not None:
        return replace(question.summary, weights=part.weights)
    calls = None if question.wanted is None else calls_of(part)
    if question.wanted is not None and calls is not None:
        return with_known_calls(question.summary, calls, question.wanted)
    return next((look.summary for look in part.answered if look.answers(question)), None)


def _is_gradient(name: str) -> bool:
    return parse_name(name).kind is RecordKind.PARAMETERS_GRAD


def _is_reachable(part: RankPart) -> bool:
    """The very file that was scanned is there."""
    path = part.folder.path
    return part.stamp is not None and path.is_absolute() and Stamp.of(part.folder.values) == part.stamp
