"""Steps of a run that still writes them: each is analysed once it is complete.

``a_half_written_file_is_not_taken_for_cut``
    All ranks have a dump.json, and none of its files has changed for a while; or nothing of it has changed until the
    time-out. A file that is cut may still grow: the step is looked at again until then.
``a_skipped_step_is_no_anomaly``
    A gradient overflow that the loss scaler skips is none, and only the weights of the next step tell. An anomaly that
    may be one is final when the next step is complete, or when none came until the time-out; any other at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from firstnan.answer.model import Report, Verdict
from firstnan.dump.errors import FirstnanError, InputError
from firstnan.dump.folders import FileKind
from firstnan.dump.options import Options
from firstnan.dump.problems import ProblemKind
from firstnan.read.layout import path_layouts
from firstnan.read.layout.dump_layout import Layout
from firstnan.read.sources import places
from firstnan.run import pipeline
from firstnan.run.paths import shown

_MAY_GROW = frozenset(
    {
        ProblemKind.TRUNCATED,
        ProblemKind.UNREADABLE,
        ProblemKind.NO_RECORDS,
        ProblemKind.MISSING_FILE,
        ProblemKind.EMPTY_RANK,
        ProblemKind.EMPTY_STEP,
        ProblemKind.UNFINISHED_RECORDS,
        ProblemKind.SHORT_RANK,
    }
)
"""Problems that a step may lose when more of it is written."""

Marks = Mapping[int, tuple[int, int] | None]
"""Rank -> size and time of change of its dump.json; None: it is not there."""


class Pace(Struct, frozen=True):
    """How long to wait, in seconds."""

    interval: float = 2.0
    """Between two looks at the folder."""
    settle: float = 10.0
    """Without a change, until files count as finished."""
    timeout: float = 600.0
    """Without a change, until what is absent counts as absent, and a run without a new step as ended."""
    ranks: int | None = None
    """Ranks of the run; None: as many as any step has."""


class Outcome(Enum):
    """What a step turned out to be."""

    CLEAN = "clean"
    """Everything that could be judged is clean, and all of it could."""
    UNDECIDED = "undecided"
    """Clean as far as it could be judged, or nothing could."""
    SUSPECTED = "suspected"
    """An anomaly, unless the next step shows that the loss scaler skipped it."""
    SKIPPED = "skipped"
    """A gradient overflow that the loss scaler skipped: the next step has the same weights, all finite."""
    ANOMALY = "anomaly"
    """The first bad step; the last event."""
    ENDED = "ended"
    """No new step came until the time-out; the last event."""


class Event(Struct, frozen=True):
    """Something that is known now."""

    outcome: Outcome
    step: int | None
    report: Report | None
    """Of that step; of the first anomaly together with the step after it. None: ended without any step."""


class _Step(Struct):
    """What was seen of a step."""

    marks: Marks = field(default_factory=dict)
    since: float = 0.0
    """When it last changed."""


Analysis = Callable[[Sequence[int]], Report]


class Watch:
    """The steps below some paths, as they come."""

    def __init__(
        self,
        paths: Sequence[Path],
        options: Options | None = None,
        pace: Pace | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._paths = tuple(paths)
        self._options = options or Options()
        self._pace = pace or Pace()
        self._clock = clock
        self._sleep = sleep
        self._steps: dict[int, _Step] = {}
        self._done: set[int] = set()
        self._changed = clock()
        """When anything last changed."""
        self._fault: FirstnanError | None = None
        """Why the paths could not be looked at."""

    def events(self) -> Iterator[Event]:
        """What becomes known, until the first anomaly or the end of the run.

        Raises:
            InputError: nothing that looks like a dump came until the time-out.
        """
        suspected: int | None = None
        last: Report | None = None
        while True:
            self._look()
            step = self._next()
            if step is not None:
                report = self._analysed(step) if suspected is None else self._analysed(suspected, step)
                if report is not None:
                    last = report
                    self._done.add(step)
                    if suspected is not None and report.step == suspected:
                        yield Event(Outcome.ANOMALY, suspected, report)
                        return
                    if suspected is not None:
                        yield Event(Outcome.SKIPPED, suspected, report)
                    outcome = _outcome(report)
                    suspected = step if outcome is Outcome.SUSPECTED else None
                    yield Event(outcome, step, report)
                    if outcome is Outcome.ANOMALY:
                        return
                    continue
            elif self._clock() - self._changed >= self._pace.timeout:
                if not self._steps and self._fault is not None:
                    raise self._fault
                yield Event(Outcome.ENDED if suspected is None else Outcome.ANOMALY, suspected, last)
                return
            self._sleep(self._pace.interval)

    def _look(self) -> None:
        """Takes account of what has changed."""
        now = self._clock()
        places.forget()
        try:
            found = path_layouts.survey(self._paths, self._options.steps, self._options.ranks)
        except InputError as error:  # not there yet
            self._fault = error
            return
        self._fault = self._fault if found.claimed else InputError(f"no dump came at {shown(self._paths)}")
        for step, marks in _marks(found).items():
            seen = self._steps.get(step)
            if seen is None or seen.marks != marks:
                self._steps[step] = _Step(marks, now)
                self._changed = now

    def _next(self) -> int | None:
        """The earliest step that was not analysed, when it is complete."""
        step = min(self._steps.keys() - self._done, default=None)
        if step is None:
            return None
        seen = self._steps[step]
        waited = self._clock() - seen.since
        there = sum(mark is not None for mark in seen.marks.values())
        return step if waited >= (self._pace.settle if there >= self._wanted() else self._pace.timeout) else None

    def _wanted(self) -> int:
        return max(self._pace.ranks or 0, *(len(seen.marks) for seen in self._steps.values()))

    def _analysed(self, *steps: int) -> Report | None:
        """The report of some steps; None: the last of them is not complete."""
        last = steps[-1]
        before = self._steps[last]
        whole = [step for step in sorted(self._done) if len(self._steps[step].marks) > len(before.marks)][:1]
        report: Report | None = None
        fault: InputError | None = None
        try:
            report = pipeline.analyze(self._paths, replace(self._options, steps=tuple(sorted({*whole, *steps}))))
        except InputError as error:
            fault = error
        self._look()
        if self._steps[last].since > before.since:
            return None
        is_final = self._clock() - before.since >= self._pace.timeout
        if report is None:
            if is_final and fault is not None:
                raise fault
            return None
        return report if is_final or not _may_change(report, last) else None


def _marks(found: Layout) -> dict[int, dict[int, tuple[int, int] | None]]:
    marks: dict[int, dict[int, tuple[int, int] | None]] = {}
    for step, rank in found.claimed:
        marks.setdefault(step, {})[rank] = None
    for folder in found.folders:
        marks.setdefault(folder.step, {})[folder.rank] = places.stamp(folder.path / FileKind.DUMP.value)
    return marks


def _may_change(report: Report, step: int) -> bool:
    """What was absent or cut may come."""
    problems = (p for p in report.input.problems if p.step in (None, step) and not p.judged)
    return any(problem.kind in _MAY_GROW for problem in problems)


def _outcome(report: Report) -> Outcome:
    if report.verdict is Verdict.ANOMALY:
        may_be_skipped = any(note.key == "caveat.skip_unknown" for note in report.caveats)
        return Outcome.SUSPECTED if may_be_skipped else Outcome.ANOMALY
    return Outcome.CLEAN if report.verdict is Verdict.CLEAN and report.complete else Outcome.UNDECIDED
