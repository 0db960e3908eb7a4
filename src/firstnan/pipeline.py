"""The whole program in one screen: path in, report out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from firstnan import engines, ranks, rulebook
from firstnan.analysis import assemble
from firstnan.analysis.again import Question, answer
from firstnan.analysis.judge import with_skips
from firstnan.analysis.summary import RankSummary
from firstnan.dump import CallSite, Problem, ProblemKind, RankFolder, Record
from firstnan.errors import InputError, UsageError
from firstnan.options import EngineKind, Options, Progress, ProgressEvent
from firstnan.ranges import format_ranges
from firstnan.readers import layout
from firstnan.report import Report
from firstnan.rulebook import Rulebook

if TYPE_CHECKING:
    from firstnan.excerpt import Excerpt


def analyze(path: str | Path, options: Options | None = None, progress: Progress | None = None) -> Report:
    """Both steps over every step and rank below ``path``.

    Raises:
        InputError: nothing readable at the path.
        UsageError: an option names a step or rank that is not there, or a rules file that cannot be read.
    """
    return _analyze(Path(path), options or Options(), progress, alone=False)


def trace(path: str | Path, rank: int, options: Options | None = None, progress: Progress | None = None) -> Report:
    """Step 2 alone: the first anomalous operator on one rank, whatever reached it from elsewhere.

    Raises:
        InputError: nothing readable at the path.
        UsageError: the rank is not there.
    """
    return _analyze(Path(path), replace(options or Options(), ranks=(rank,)), progress, alone=True)


def _analyze(path: Path, options: Options, progress: Progress | None, *, alone: bool) -> Report:
    if options.engine is EngineKind.RAY:
        raise UsageError("the ray engine is not part of this version", hint="leave out --engine: ranks are read here")
    book = rulebook.load(options.rules)
    found = layout.find(path, options.steps, options.ranks)
    _check_asked(path, found, options)
    summaries = _read_ranks(found.folders, book, options, progress)
    _check_readable(path, summaries)
    known = sorted({*found.found_ranks, *(s.rank for s in summaries)})
    left_out = sorted(set(known) - set(options.ranks)) if options.ranks else []
    by_step: dict[int, dict[int, RankSummary]] = {p.step: {} for p in found.problems if p.step is not None}
    for summary in summaries:
        by_step.setdefault(summary.step, {})[summary.rank] = summary
    ask = partial(_ask, found.folders, book, options)
    answers = [answer(step, by_step[step], known, ask, alone=alone) for step in sorted(by_step)]
    report = assemble.report(str(path), with_skips(answers), found.problems, known, left_out)
    return _explained(report, found.folders, sorted({s.rank for s in summaries})) if report.root_causes else report


def _explained(report: Report, folders: tuple[RankFolder, ...], there: list[int]) -> Report:
    """The report with the call sites of its causes, the same operators on other ranks, and advice."""
    from firstnan.analysis import advice, callsites, peers

    report = callsites.add(report, partial(_callsites, folders))
    report = peers.add(report, there, partial(_record, folders))
    return advice.add(report)


def _check_asked(path: Path, found: layout.Layout, options: Options) -> None:
    for what, asked, there in (
        ("step", options.steps, found.found_steps),
        ("rank", options.ranks, found.found_ranks),
    ):
        absent = sorted(set(asked or ()) - set(there))
        if absent:
            seen = format_ranges(there) or "none"
            raise UsageError(f"no {what} {format_ranges(absent)} at {path}", hint=f"{what}s that are there: {seen}")


def _check_readable(path: Path, summaries: Collection[RankSummary]) -> None:
    """Nothing readable is an error; readable files without records are an answer (unknown)."""
    unread = {ProblemKind.UNREADABLE, ProblemKind.MISSING_FILE}
    if summaries and all(any(p.kind in unread and not p.judged for p in s.problems) for s in summaries):
        first = next(p for p in next(iter(summaries)).problems if p.kind in unread)
        raise InputError(
            f"no rank at {path} could be read: {first.file}: {first.detail or first.kind.value}",
            hint="check permissions, and that these are dump.json files written by MSProbe",
        )


def only_rank(path: str | Path) -> int:
    """The rank of a path that holds one rank: a rank folder, or a dump of a single process.

    Raises:
        InputError: nothing readable at the path.
        UsageError: there are several ranks.
    """
    ranks = layout.find(Path(path)).found_ranks
    if len(ranks) != 1:
        raise UsageError(f"{path} holds the ranks {format_ranges(ranks)}", hint="say which one with --rank")
    return ranks[0]


def show(
    path: str | Path,
    rank: int,
    *,
    step: int | None = None,
    op: str | None = None,
    at: int | None = None,
    around: int = 5,
) -> Excerpt:
    """The records of one rank around a place: a record name, an index, or the first bad record.

    Raises:
        InputError: nothing readable at the path.
        UsageError: the rank, step, record or index is not there.
    """
    found = layout.find(Path(path), None if step is None else (step,), (rank,))
    if not found.folders:
        seen = format_ranges(found.found_ranks) or "none"
        raise UsageError(f"no readable dump of rank {rank} at {path}", hint=f"ranks that are there: {seen}")
    from firstnan.excerpt import excerpt
    from firstnan.readers import msprobe

    return excerpt(msprobe.read(found.folders[0]), op, at, around)


def rules_text(path: Path | None) -> str:
    """The rules in force as a rules file.

    Raises:
        UsageError: the rules file cannot be read.
    """
    return rulebook.default_text() if path is None else rulebook.render(rulebook.load(path))


def _read_ranks(
    folders: tuple[RankFolder, ...], book: Rulebook, options: Options, progress: Progress | None
) -> list[RankSummary]:
    total = sum(f.dump_bytes for f in folders)
    order = sorted(folders, key=lambda f: -f.dump_bytes)
    engine = engines.local(options.jobs, len(order), total)
    done, summaries = 0, []
    for position, summary in engine.map(partial(ranks.survey, book=book, excluded=options.exclude_ops), order):
        folder = order[position]
        summaries.append(ranks.lost(folder, summary.reason) if isinstance(summary, engines.Failed) else summary)
        done += folder.dump_bytes
        if progress is not None:
            progress(ProgressEvent(len(summaries), len(order), done, total))
    return sorted(summaries, key=lambda s: (s.step, s.rank))


def _ask(
    folders: tuple[RankFolder, ...], book: Rulebook, options: Options, questions: Collection[Question]
) -> list[RankSummary]:
    """Second looks at some ranks."""
    where = {(folder.step, folder.rank): folder for folder in folders}
    asked = [(where[q.summary.step, q.summary.rank], q) for q in questions]
    asked.sort(key=lambda one: -one[0].dump_bytes)
    engine = engines.local(options.jobs, len(asked), sum(folder.dump_bytes for folder, _ in asked))
    work = partial(ranks.again_at, book=book, excluded=options.exclude_ops)
    return [
        ranks.not_again(asked[position][1].summary, summary.reason) if isinstance(summary, engines.Failed) else summary
        for position, summary in engine.map(work, asked)
    ]


def _callsites(
    folders: tuple[RankFolder, ...], step: int, rank: int, names: Collection[str]
) -> tuple[Mapping[str, CallSite], tuple[Problem, ...]]:
    folder = next((f for f in folders if (f.step, f.rank) == (step, rank)), None)
    from firstnan.readers import callsite

    return callsite.read(folder, names) if folder else ({}, ())


def _record(folders: tuple[RankFolder, ...], step: int, rank: int, name: str) -> Record | None:
    folder = next((f for f in folders if (f.step, f.rank) == (step, rank)), None)
    if folder is None:
        return None
    return ranks.find(folder, name)
