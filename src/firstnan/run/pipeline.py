"""The whole program in one screen: find, read each rank, match, spread, causes, report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from firstnan.answer.model import Note, Report
from firstnan.dump.options import Options, Progress
from firstnan.dump.problems import Problem
from firstnan.operators import table
from firstnan.operators.table import Rulebook
from firstnan.rank.summary import RankSummary
from firstnan.read.json.lenient import collector_off
from firstnan.report import assemble, ruled_out
from firstnan.run import second_pass
from firstnan.run.access import RankAccess
from firstnan.run.dispatch import RankFiles
from firstnan.run.engines import opening as engines
from firstnan.run.paths import Paths, as_paths, check_readable, find, shown


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


def _analyze(paths: tuple[Path, ...], options: Options, progress: Progress | None, *, alone: bool) -> Report:
    book = table.load(options.rules)
    with collector_off(), engines.opened(options) as workers:  # summaries stay; each rank clears its own away
        dump = find(paths, options, workers)
        files = RankFiles(dump.folders, workers, book, options)
        summaries = files.survey(progress)
        check_readable(shown(paths), summaries)
        known = sorted({*dump.found_ranks, *dump.beside, *(s.rank for s in summaries)})
        left_out = sorted(set(known) - set(options.ranks)) if options.ranks else dump.beside
        if files.stopped:
            left_out = sorted({*left_out, *known} - {summary.rank for summary in summaries})
        nowhere = files.nowhere(options.exclude_ops)
        problems = (*dump.problems, *files.stopped)
        surveyed = Surveyed(
            shown(paths), summaries, problems, known, left_out, options.exclude_ops, nowhere, options.draws_equals
        )
        return conclude(surveyed, files, book, alone=alone)


class Surveyed(Struct, frozen=True):
    """What is known after the first pass over all ranks."""

    path: str
    summaries: Sequence[RankSummary]
    problems: Sequence[Problem]
    """Of the folders."""
    known: Sequence[int]
    """Ranks with a folder."""
    left_out: Sequence[int]
    """Those of them that were not asked for."""
    excluded: Sequence[str] = ()
    """Answers that the user rejected."""
    nowhere: Sequence[str] = ()
    """Those of them that no rank has."""
    draws_equals: bool = True
    """Whether the map of equal results is wanted."""

    def by_step(self) -> dict[int, dict[int, RankSummary]]:
        """Step -> rank -> summary, steps with nothing but problems included."""
        found: dict[int, dict[int, RankSummary]] = {p.step: {} for p in self.problems if p.step is not None}
        for summary in sorted(self.summaries, key=lambda s: (s.step, s.rank)):
            found.setdefault(summary.step, {})[summary.rank] = summary
        return dict(sorted(found.items()))


def conclude(surveyed: Surveyed, files: RankAccess, book: Rulebook, *, alone: bool = False) -> Report:
    """From the summaries of all ranks to the report. What a healthy run does not need is loaded only for others."""
    steps = surveyed.by_step()
    answers = [
        second_pass.answer(
            step, summaries, surveyed.known, book, files.answers, alone=alone, left_out=surveyed.left_out
        )
        for step, summaries in steps.items()
    ]
    if any(answer.causes for answer in answers):
        from firstnan.run.skipped_steps import with_skips

        answers = with_skips(answers, files.answers)
        bad = assemble.bad_step(answers)
        answers = [second_pass.with_nearby(one, files.answers) if one is bad else one for one in answers]
    report = assemble.report(surveyed.path, answers, surveyed.problems, surveyed.known, surveyed.left_out)
    report = ruled_out.add(report, set(surveyed.excluded) - set(surveyed.nowhere))
    report = replace(report, caveats=(*report.caveats, *_of_options(surveyed, book)))
    if any(len(ranks) > 1 for ranks in steps.values()):
        from firstnan.run import agreement

        report = agreement.add(report, steps, files, draws_equals=surveyed.draws_equals)
    if report.root_causes:
        from firstnan.causes import advice, peers
        from firstnan.report import call_sites

        report = call_sites.add(report, files.call_sites)
        report = peers.add(report, sorted({rank for ranks in steps.values() for rank in ranks}), files.record, book)
        with_apis = {one.rank for ranks in steps.values() for one in ranks.values() if one.has_apis}
        report = advice.add(_with_growth(report, steps, files), with_apis)
    else:
        report = _with_growth(report, steps, files)
    return with_problems(report, files.problems())


LEAST_STEPS = 3
"""Steps without which nothing can be said to grow from step to step."""


def _with_growth(report: Report, steps: Mapping[int, Mapping[int, RankSummary]], files: RankAccess) -> Report:
    if len(steps) < LEAST_STEPS:
        return report
    from firstnan.run import growth

    return growth.add(report, steps, files)


def _of_options(surveyed: Surveyed, book: Rulebook) -> list[Note]:
    """What the user asked for that bears on the answer."""
    told = {
        "caveat.excluded": surveyed.excluded,
        "caveat.excluded_nowhere": surveyed.nowhere,
        "caveat.own_rules": book.added,
    }
    return [Note(key, {"names": ", ".join(names)}) for key, names in told.items() if names]


def with_problems(report: Report, problems: Iterable[Problem]) -> Report:
    """The report with problems that came up while it was made."""
    return replace(report, input=replace(report.input, problems=(*report.input.problems, *problems)))
