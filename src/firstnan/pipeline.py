"""The whole program in one screen: path in, report out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from firstnan import engines, rulebook
from firstnan.analysis import assemble, callsites
from firstnan.analysis.judge import judge, with_skips
from firstnan.analysis.summarize import RankSummary, summarize
from firstnan.dump import CallSite, Problem, RankFolder
from firstnan.errors import UsageError
from firstnan.excerpt import Excerpt, excerpt
from firstnan.options import Options, Progress, ProgressEvent
from firstnan.ranges import format_ranges
from firstnan.readers import callsite, layout, msprobe
from firstnan.report import Report
from firstnan.rulebook import Rulebook


def analyze(path: str | Path, options: Options | None = None, progress: Progress | None = None) -> Report:
    """Both steps over every step and rank below ``path``.

    Raises:
        InputError: nothing readable at the path.
        UsageError: an option names a step or rank that is not there, or a rules file that cannot be read.
    """
    options = options or Options()
    book = rulebook.load(options.rules)
    found = layout.find(Path(path), options.steps, options.ranks)
    summaries = _read_ranks(found.folders, book, options, progress)
    steps = sorted({s.step for s in summaries} | {p.step for p in found.problems if p.step is not None})
    known = {s.rank for s in summaries} | {p.rank for p in found.problems if p.rank is not None}
    answers = [judge(step, {s.rank: s for s in summaries if s.step == step}, known) for step in steps]
    report = assemble.report(str(path), with_skips(answers), found.problems, sorted(known))
    return callsites.add(report, partial(_callsites, found.folders))


def trace(path: str | Path, rank: int, options: Options | None = None) -> Report:
    """Step 2 alone: the first anomalous operator on one rank, whatever reached it from elsewhere.

    Raises:
        InputError: nothing readable at the path.
        UsageError: the rank is not there.
    """
    return analyze(path, replace(options or Options(), ranks=(rank,)))


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
    return excerpt(msprobe.read(found.folders[0]), op, at, around)


def rules_text(path: Path | None) -> str:
    """The rules in force as a rules file.

    Raises:
        UsageError: the rules file cannot be read.
    """
    return rulebook.default_text() if path is None else rulebook.render(rulebook.load(path))


def read_rank(folder: RankFolder, book: Rulebook, excluded: Collection[str]) -> RankSummary:
    """One rank's file to one rank's summary; runs on a worker."""
    dump = msprobe.read(folder)
    parents, problems = callsite.parents(folder)
    names = frozenset(name for rank, name in map(_excluded, excluded) if rank in (None, folder.rank))
    summary = summarize(dump, parents, book, names)
    return replace(summary, problems=(*summary.problems, *problems))


def _read_ranks(
    folders: tuple[RankFolder, ...], book: Rulebook, options: Options, progress: Progress | None
) -> list[RankSummary]:
    total = sum(f.dump_bytes for f in folders)
    order = sorted(folders, key=lambda f: -f.dump_bytes)
    engine = engines.local(options.jobs, len(order), total)
    done, summaries = 0, []
    for position, summary in engine.map(partial(read_rank, book=book, excluded=options.exclude_ops), order):
        summaries.append(summary)
        done += order[position].dump_bytes
        if progress is not None:
            progress(ProgressEvent(len(summaries), len(order), done, total))
    return sorted(summaries, key=lambda s: (s.step, s.rank))


def _excluded(text: str) -> tuple[int | None, str]:
    """``rank:op`` or ``op``."""
    rank, colon, name = text.partition(":")
    return (int(rank), name) if colon and rank.isdigit() else (None, text)


def _callsites(
    folders: tuple[RankFolder, ...], step: int, rank: int, names: Collection[str]
) -> tuple[Mapping[str, CallSite], tuple[Problem, ...]]:
    folder = next((f for f in folders if (f.step, f.rank) == (step, rank)), None)
    return callsite.read(folder, names) if folder else ({}, ())
