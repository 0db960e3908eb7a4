"""Single questions to a dump, beside the analysis: its calls, its records, the rules in force."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstnan.dump.errors import UsageError
from firstnan.dump.options import Options, Progress
from firstnan.dump.ranges import format_ranges
from firstnan.operators import table
from firstnan.read.layout import dump_layout, path_layouts
from firstnan.read.layout.dump_layout import Layout
from firstnan.run import dispatch, rank_passes
from firstnan.run.engines import opening as engines
from firstnan.run.paths import Paths, as_paths, find, shown
from firstnan.run.pipeline import trace

if TYPE_CHECKING:
    from firstnan.rank.roster import Roster
    from firstnan.rank.surroundings.excerpt import Excerpt


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
    from firstnan.rank.surroundings.excerpt import excerpt
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
