"""The steps before the first bad one: whether values grew on the way to it.

Only a report that an overflow explains is asked about, and only the rank of its first cause; where all is finite, a
rank that holds a value beyond 1 % of the largest float32.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from firstnan.answer.model import Note, Report
from firstnan.causes.growth import run_up_steps
from firstnan.causes.mechanisms.divergence import OVERFLOWS, divergence
from firstnan.rank.magnitudes import Magnitudes

MOST = 8
"""Steps that are read again."""
LEAST = 3
"""Steps of a rank without which nothing can be said to grow."""

Lookup = Callable[[int, Sequence[int]], Sequence[Magnitudes]]
"""Rank and steps -> the magnitudes of those that could be read, by step."""


def add(report: Report, there: Mapping[int, Collection[int]], lookup: Lookup) -> Report:
    """The report with what grew before its first cause; ``there``: rank -> its steps."""
    cause = report.root_causes[0]
    steps = sorted(step for step in there.get(cause.rank, ()) if step <= cause.step)[-MOST:]
    if len(steps) < LEAST or cause.mechanism.kind not in OVERFLOWS:
        return report
    grown = run_up_steps(lookup(cause.rank, steps), cause.step)
    mechanism = divergence(grown)
    if mechanism is None:
        return report
    # What the growth ended in stays as evidence.
    first = replace(cause, mechanism=mechanism, evidence=(*cause.evidence, cause.mechanism.explanation))
    return replace(report, run_up_steps=grown, root_causes=(first, *report.root_causes[1:]))


def near_limit(report: Report, there: Mapping[int, Collection[int]], ranks: Sequence[int], lookup: Lookup) -> Report:
    """A report without any bad value, with what grew on the first of the ranks that hold values near a limit."""
    for rank in ranks:
        steps = sorted(there.get(rank, ()))[-MOST:]
        if len(steps) >= LEAST and (grown := run_up_steps(lookup(rank, steps), None)):
            first = grown[0]
            note = Note("caveat.growing", {"rank": rank, "since": first.since, "name": first.name})
            return replace(report, run_up_steps=grown, caveats=(*report.caveats, note))
    return report
