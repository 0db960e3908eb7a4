"""What lies at the paths that a caller gives."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from firstnan.dump.errors import InputError, UsageError
from firstnan.dump.options import Options
from firstnan.dump.problems import ProblemKind
from firstnan.dump.ranges import format_ranges
from firstnan.rank.summary import RankSummary
from firstnan.read.layout.dump_layout import Layout
from firstnan.read.sources.remote_path import named
from firstnan.run import dispatch
from firstnan.run.engines.engine import Engines

Paths = str | Path | Sequence[str | Path]
"""A folder or an archive, or several that hold parts of one dump (one for each host or rank)."""


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
