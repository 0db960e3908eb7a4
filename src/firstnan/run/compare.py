"""Two dumps of one program, rank by rank: the whole of ``firstnan compare``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from firstnan.answer.comparison import Comparison, RankComparison
from firstnan.dump.errors import InputError, UsageError
from firstnan.dump.folders import RankFolder
from firstnan.dump.options import Options
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.dump.ranges import format_ranges
from firstnan.rank import comparing
from firstnan.read.layout import dump_layout, path_layouts
from firstnan.read.layout.dump_layout import Layout
from firstnan.run.engines import opening as engines
from firstnan.run.engines.engine import Failed

_Key = tuple[int, int]


class _Work(Struct, frozen=True):
    """One rank in all dumps."""

    a: RankFolder
    b: RankFolder
    noise: RankFolder | None


class _Done(Struct, frozen=True):
    comparison: RankComparison
    problems: tuple[Problem, ...]


def compare(
    a: str | Path, b: str | Path, noise: str | Path | None = None, options: Options | None = None
) -> Comparison:
    """Holds dump ``b`` against dump ``a``, rank by rank and record by record.

    Steps belong together by number; where each dump holds one step, these two do. ``noise`` is a third dump of the same
    program, as healthy as ``a``: what these two differ by counts as no difference.

    Raises:
        InputError: nothing readable at one of the paths.
        UsageError: the dumps have no step or no rank in common.
    """
    options = options or Options()
    found = [_found(Path(path), options) for path in (a, b, *(() if noise is None else (noise,)))]
    first, second = _by_key(found[0]), _by_key(found[1])
    steps = _steps(found[0], found[1])
    third = _by_key(found[2]) if noise is not None else {}
    other = dict(zip(found[0].steps, found[2].steps, strict=False)) if noise is not None else {}
    work = [
        _Work(first[step_a, rank], second[step_b, rank], third.get((other.get(step_a, step_a), rank)))
        for step_a, step_b in steps
        for rank in sorted({r for s, r in first if s == step_a} & {r for s, r in second if s == step_b})
    ]
    if not work:
        raise UsageError("the two dumps have no rank in common", hint=_ranks(found))
    done = list(_compared(work, options))
    ranks_a, ranks_b = {rank for _, rank in first}, {rank for _, rank in second}
    problems = [problem for layout in found for problem in layout.problems]
    return Comparison(
        path_a=str(a),
        path_b=str(b),
        noise="" if noise is None else str(noise),
        tolerances=comparing.TOLERANCES,
        ranks=tuple(comparing.order([one.comparison for one in done])),
        ranks_only_a=tuple(sorted(ranks_a - ranks_b)),
        ranks_only_b=tuple(sorted(ranks_b - ranks_a)),
        problems=(*problems, *(problem for one in done for problem in one.problems)),
    )


def _found(path: Path, options: Options) -> Layout:
    return dump_layout.checked(path_layouts.survey((path,), options.steps, options.ranks), options.steps, options.ranks)


def _by_key(layout: Layout) -> Mapping[_Key, RankFolder]:
    return {(folder.step, folder.rank): folder for folder in layout.folders}


def _steps(a: Layout, b: Layout) -> list[tuple[int, int]]:
    common = sorted(set(a.steps) & set(b.steps))
    if common:
        return [(step, step) for step in common]
    if len(a.steps) == len(b.steps) == 1:
        return [(a.steps[0], b.steps[0])]
    raise UsageError(
        f"the dumps have no step in common: {format_ranges(a.steps)} and {format_ranges(b.steps)}",
        hint="give two step folders to compare steps of different number",
    )


def _ranks(found: Sequence[Layout]) -> str:
    return f"ranks that are there: {format_ranges(found[0].found_ranks)} and {format_ranges(found[1].found_ranks)}"


def _compared(work: Sequence[_Work], options: Options) -> list[_Done]:
    engine = engines.local(options.jobs, len(work), sum(one.a.dump_bytes + one.b.dump_bytes for one in work))
    made = []
    for position, result in engine.map(_compare_rank, work):
        if isinstance(result, Failed):
            one = work[position]
            raise InputError(f"rank {one.a.rank} could not be compared: {result.reason}")
        made.append((position, result))
    return [result for _, result in sorted(made, key=lambda pair: pair[0])]


def _compare_rank(work: _Work) -> _Done:
    from firstnan.read.records import full_reader

    a, b = full_reader.read(work.a), full_reader.read(work.b)
    noise = None if work.noise is None else full_reader.read(work.noise)
    place = (work.a.step, work.b.step, work.a.rank)
    found = comparing.compare(a.records, b.records, None if noise is None else noise.records, place)
    problems = [*a.problems, *b.problems, *(() if noise is None else noise.problems)]
    quiet = (ProblemKind.UNFINISHED_RECORDS,)  # what has no result has nothing to compare
    return _Done(found, tuple(problem for problem in problems if problem.kind not in quiet))
