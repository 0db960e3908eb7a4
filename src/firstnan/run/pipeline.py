"""The whole program in one screen: path in, report out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstnan.answer.model import Note, Report
from firstnan.dump.errors import InputError, UsageError
from firstnan.dump.options import Options, Progress
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.dump.ranges import format_ranges
from firstnan.operators import table
from firstnan.operators.table import Rulebook
from firstnan.rank.sharing import Sharing
from firstnan.rank.summary import RankSummary
from firstnan.read.layout import dump_layout, path_layouts
from firstnan.read.layout.dump_layout import Layout
from firstnan.read.sources.remote_path import named
from firstnan.report import assemble
from firstnan.run import dispatch, engines, rank_passes
from firstnan.run.engine import Engines
from firstnan.run.second_pass import Ask, answer

if TYPE_CHECKING:
    from firstnan.agree.sources import Sources
    from firstnan.causes.peers import Lookup as RecordLookup
    from firstnan.rank.excerpt import Excerpt
    from firstnan.rank.roster import Roster
    from firstnan.report.call_sites import Lookup as SiteLookup
    from firstnan.run.growth import Lookup as GrowthLookup


Paths = str | Path | Sequence[str | Path]
"""A folder or an archive, or several that hold parts of one dump (one for each host or rank)."""


def analyze(path: Paths, options: Options | None = None, progress: Progress | None = None) -> Report:
    """Both steps over every step and rank below ``path``.

    Raises:
        InputError: nothing readable at one of the paths.
        UsageError: an option names a step or rank that is not there, or a rules file that cannot be read.
    """
    return _analyze(as_paths(path), options or Options(), progress, alone=False)


def trace(path: Paths, rank: int, options: Options | None = None, progress: Progress | None = None) -> Report:
    """Step 2 alone: the first anomalous operator on one rank, whatever reached it from elsewhere.

    Raises:
        InputError: nothing readable at the path.
        UsageError: the rank is not there.
    """
    return _analyze(as_paths(path), replace(options or Options(), ranks=(rank,)), progress, alone=True)


def as_paths(path: Paths) -> tuple[Path, ...]:
    """The paths one by one.

    Raises:
        UsageError: there is none.
    """
    found = (Path(path),) if isinstance(path, (str, Path)) else tuple(Path(one) for one in path)
    if not found:
        raise UsageError("no path to analyse", hint="give the folder that holds step*/rank*/dump.json")
    return found


def shown(paths: Sequence[Path]) -> str:
    """The paths for people."""
    return ", ".join(map(named, paths))


def rosters(path: Paths, options: Options | None = None, progress: Progress | None = None) -> list[Roster]:
    """All communication calls of every rank; :class:`~firstnan.step.every_call.EveryCall` puts them together.

    Raises:
        InputError: nothing readable at the path.
        UsageError: an option names a step or rank that is not there, or a rules file that cannot be read.
    """
    options = options or Options()
    book = table.load(options.rules)
    with engines.opened(options) as workers:
        folders = find(as_paths(path), options, workers).folders
        found = dispatch.at_each(
            folders, partial(rank_passes.roster, book=book), rank_passes.lost_roster, workers, progress
        )
    return sorted(found, key=lambda one: (one.step, one.rank))


def _analyze(paths: tuple[Path, ...], options: Options, progress: Progress | None, *, alone: bool) -> Report:
    book = table.load(options.rules)
    with engines.opened(options) as workers:
        found = find(paths, options, workers)
        survey = partial(rank_passes.survey, book=book, excluded=options.exclude_ops)
        summaries = dispatch.at_each(found.folders, survey, rank_passes.lost, workers, progress, Sharing().summary)
        check_readable(shown(paths), summaries)
        known = sorted({*found.found_ranks, *found.beside, *(s.rank for s in summaries)})
        failed: list[Problem] = []
        report = conclude(
            path=shown(paths),
            book=book,
            summaries=summaries,
            problems=found.problems,
            known=known,
            left_out=sorted(set(known) - set(options.ranks)) if options.ranks else found.beside,
            ask=partial(dispatch.answers, found.folders, book, options, workers),
            sites=partial(dispatch.call_sites, found.folders, workers),
            record=partial(dispatch.record, found.folders, workers, failed),
            sources=dispatch.RankFiles(found.folders, workers),
            grown=partial(dispatch.magnitudes, found.folders, book, workers),
            near_limit=partial(dispatch.near_limit, found.folders, workers),
            alone=alone,
            excluded=options.exclude_ops,
            nowhere=dispatch.nowhere(
                options.exclude_ops, [(f.rank, f) for f in found.folders], partial(dispatch.has, engines=workers)
            ),
        )
    return with_problems(report, failed)


def with_problems(report: Report, problems: Iterable[Problem]) -> Report:
    """The report with problems that came up while it was made."""
    return replace(report, input=replace(report.input, problems=(*report.input.problems, *problems)))


def _named(key: str, names: Sequence[str]) -> tuple[Note, ...]:
    return (Note(key, {"names": ", ".join(names)}),) if names else ()


def conclude(
    *,
    path: str,
    book: Rulebook,
    summaries: Iterable[RankSummary],
    problems: Sequence[Problem],
    known: Sequence[int],
    left_out: Sequence[int],
    ask: Ask,
    sites: SiteLookup,
    record: RecordLookup,
    sources: Sources,
    grown: GrowthLookup | None = None,
    near_limit: Callable[[], Sequence[int]] | None = None,
    alone: bool = False,
    excluded: Sequence[str] = (),
    nowhere: Sequence[str] = (),
) -> Report:
    """From the summaries of all ranks to the report.

    ``book`` is what is known about operators.
    ``problems`` are those of the folders, ``known`` the ranks with a folder, ``left_out`` those of them that were not
    asked for, ``excluded`` the answers that the user rejected, ``nowhere`` those of them that no rank has; ``ask``,
    ``sites``, ``record`` and ``sources`` are ways back to the ranks' files; so are ``grown`` and ``near_limit`` for the
    steps before the first bad one, None: they are not looked at.
    """
    by_step: dict[int, dict[int, RankSummary]] = {p.step: {} for p in problems if p.step is not None}
    for summary in sorted(summaries, key=lambda s: (s.step, s.rank)):
        by_step.setdefault(summary.step, {})[summary.rank] = summary
    answers = [
        answer(step, by_step[step], known, book, ask, alone=alone, left_out=left_out) for step in sorted(by_step)
    ]
    if any(answer.causes for answer in answers):
        from firstnan.run.skipped_steps import with_skips  # a healthy run does not need it

        answers = with_skips(answers, ask)
    report = assemble.report(path, answers, problems, known, left_out)
    own = (*_named("caveat.excluded", excluded), *_named("caveat.excluded_nowhere", nowhere))
    own = (*own, *_named("caveat.own_rules", book.added))
    report = _with_agreement(replace(report, caveats=(*report.caveats, *own)), by_step, sources)
    there = sorted({rank for found in by_step.values() for rank in found})
    steps = {rank: [step for step, found in by_step.items() if rank in found] for rank in there}
    if not report.root_causes:
        return _growing(report, steps, grown, near_limit)
    from firstnan.causes import advice, peers
    from firstnan.report import call_sites  # a healthy run does not need them

    report = call_sites.add(report, sites)
    report = peers.add(report, there, record, book)
    if grown is not None and len(by_step) >= LEAST_STEPS:
        from firstnan.run import growth

        report = growth.add(report, steps, grown)
    return advice.add(report, {s.rank for found in by_step.values() for s in found.values() if s.has_apis})


LEAST_STEPS = 3
"""Steps without which nothing can be said to grow from step to step."""


def _growing(
    report: Report,
    steps: Mapping[int, Collection[int]],
    grown: GrowthLookup | None,
    near_limit: Callable[[], Sequence[int]] | None,
) -> Report:
    """A report without causes: several steps may still grow towards a limit."""
    if grown is None or near_limit is None or max(map(len, steps.values()), default=0) < LEAST_STEPS:
        return report
    ranks = near_limit()
    if not ranks:
        return report
    from firstnan.run import growth

    return growth.near_limit(report, steps, ranks, grown)


def _with_agreement(report: Report, by_step: Mapping[int, Mapping[int, RankSummary]], sources: Sources) -> Report:
    """The report with ranks that must hold the same numbers and do not."""
    if all(len(summaries) < 2 for summaries in by_step.values()):
        return report
    from firstnan.agree import compare
    from firstnan.agree.tables import Names

    known = Names()
    steps = {
        step: {s.rank: compare.replica_of(s, known) for s in summaries.values() if s.records}
        for step, summaries in by_step.items()
    }
    found = compare.compare(steps, sources)
    places = [cause.exec_order for cause in report.root_causes if cause.exec_order is not None]
    step = report.step
    kept = [one for one in found.disagreements if step is None or not compare.after_a_nan(one, step, places)]
    return replace(
        report,
        disagreements=tuple(kept),
        agreement=found.agreement,
        verdict_agreement=compare.verdict(kept, found.agreement),
    )


def find(paths: tuple[Path, ...], options: Options, workers: Engines) -> Layout:
    """The ranks and steps at the paths that are asked for.

    Raises:
        InputError: nothing readable at one of the paths.
        UsageError: a step or rank that is asked for is not there.
    """
    found = dispatch.find(paths, options, workers)
    _check_asked(shown(paths), found, options)
    return found


def _check_asked(path: str, found: Layout, options: Options) -> None:
    for what, asked, there in (
        ("step", options.steps, found.found_steps),
        ("rank", options.ranks, found.found_ranks),
    ):
        absent = sorted(set(asked or ()) - set(there))
        if absent:
            seen = format_ranges(there) or "none"
            raise UsageError(f"no {what} {format_ranges(absent)} at {path}", hint=f"{what}s that are there: {seen}")


def check_readable(path: str, summaries: Collection[RankSummary]) -> None:
    """Nothing readable is an error; readable files without records are an answer (unknown).

    Raises:
        InputError: no rank could be read.
    """
    unread = {ProblemKind.UNREADABLE, ProblemKind.MISSING_FILE}
    if summaries and all(any(p.kind in unread and not p.judged for p in s.problems) for s in summaries):
        first = next(p for p in next(iter(summaries)).problems if p.kind in unread)
        raise InputError(
            f"no rank at {path} could be read: {first.file}: {first.detail or first.kind.value}",
            hint="check permissions, and that these are dump.json files written by MSProbe",
        )


def only_rank(path: Paths, options: Options | None = None) -> int:
    """The rank of a path that holds one rank: a rank folder, or a dump of a single process.

    Raises:
        InputError: nothing readable at the path.
        UsageError: there are several ranks.
    """
    if options is not None and options.node_local:
        with engines.opened(options) as workers:
            ranks = dispatch.find(as_paths(path), replace(options, steps=None, ranks=None), workers).found_ranks
    else:
        ranks = _found(path).found_ranks
    if len(ranks) != 1:
        raise UsageError(
            f"{shown(as_paths(path))} holds the ranks {format_ranges(ranks)}", hint="say which one with --rank"
        )
    return ranks[0]


def _found(path: Paths, steps: Collection[int] | None = None, ranks: Collection[int] | None = None) -> Layout:
    return dump_layout.checked(path_layouts.survey(as_paths(path), steps, ranks), steps, ranks)


def show(
    path: Paths,
    rank: int,
    *,
    step: int | None = None,
    op: str | None = None,
    at: int | None = None,
    around: int = 5,
) -> Excerpt:
    """The records of one rank around a place: a record name, an index, or else the rank's first anomaly.

    Raises:
        InputError: nothing readable at the path.
        UsageError: the rank, step, record or index is not there.
    """
    if op is None and at is None:
        step, at = _first_anomaly(path, rank, step)
    found = _found(path, None if step is None else (step,), (rank,))
    if not found.folders:
        seen = format_ranges(found.found_ranks) or "none"
        raise UsageError(
            f"no readable dump of rank {rank} at {shown(as_paths(path))}", hint=f"ranks that are there: {seen}"
        )
    from firstnan.rank.excerpt import excerpt
    from firstnan.read.records import full_reader

    return excerpt(full_reader.read(found.folders[0]), op, at, around)


def _first_anomaly(path: Paths, rank: int, step: int | None) -> tuple[int | None, int | None]:
    """Step and index of a rank's first anomalous record; its index is None where there is none."""
    try:
        report = trace(path, rank, Options(steps=None if step is None else (step,), jobs=1))
    except UsageError:  # the rank or the step is not there: told with what is there
        return step, None
    cause = next((one for one in report.root_causes if rank in (one.rank, *one.ranks_also)), None)
    return (step, None) if cause is None or cause.exec_order is None else (cause.step, cause.exec_order)


def rules_text(path: Path | None) -> str:
    """The rules in force as a rules file.

    Raises:
        UsageError: the rules file cannot be read.
    """
    return table.default_text() if path is None else table.render(table.load(path))
