"""The steps before the first bad one: whether values grew on the way to it.

Only a report that an overflow explains is asked about, and only the rank of its first cause; where all is finite, a
rank that holds a value beyond 1 % of the largest float32.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from firstnan.answer.model import Note, Report
from firstnan.causes.growth import run_up_steps
from firstnan.causes.mechanisms import registry
from firstnan.causes.mechanisms.divergence import divergence
from firstnan.causes.mechanisms.traits import Trait
from firstnan.run.access import RankAccess

MOST = 8
"""Steps that are read again."""
LEAST = 3
"""Steps of a rank without which nothing can be said to grow."""


def add(report: Report, steps: Mapping[int, Collection[int]], files: RankAccess) -> Report:
    """The report with what grew over the steps before its first cause, or towards a limit; ``steps``: step -> ranks."""
    if report.root_causes:
        return _before_cause(report, steps, files)
    ranks = files.near_limit() if len(steps) >= LEAST else []
    for rank in ranks:
        there = _steps_of(rank, steps)[-MOST:]
        if len(there) >= LEAST and (grown := run_up_steps(files.magnitudes(rank, there), None)):
            first = grown[0]
            note = Note("caveat.growing", {"rank": rank, "since": first.since, "name": first.name})
            return replace(report, run_up_steps=grown, caveats=(*report.caveats, note))
    return report


def _before_cause(report: Report, steps: Mapping[int, Collection[int]], files: RankAccess) -> Report:
    cause = report.root_causes[0]
    there = [step for step in _steps_of(cause.rank, steps) if step <= cause.step][-MOST:]
    if len(there) < LEAST or not registry.has(cause.mechanism.kind, Trait.ENDS_GROWTH):
        return report
    grown = run_up_steps(files.magnitudes(cause.rank, there), cause.step)
    mechanism = divergence(grown)
    if mechanism is None:
        return report
    # What the growth ended in stays as evidence.
    first = replace(cause, mechanism=mechanism, evidence=(*cause.evidence, cause.mechanism.explanation))
    return replace(report, run_up_steps=grown, root_causes=(first, *report.root_causes[1:]))


def _steps_of(rank: int, steps: Mapping[int, Collection[int]]) -> list[int]:
    return sorted(step for step, ranks in steps.items() if rank in ranks)
