"""The section of the report about ranks that must hold the same numbers."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from firstnan.agree import call_map, disagreements
from firstnan.agree.sources import Sources
from firstnan.agree.tables import Names
from firstnan.answer.model import DisagreementKind, Report
from firstnan.rank.summary import RankSummary


def add(
    report: Report, by_step: Mapping[int, Mapping[int, RankSummary]], sources: Sources, *, draws_equals: bool = True
) -> Report:
    """The report with ranks that must hold the same numbers and do not.

    ``by_step``: step -> rank -> summary; ``draws_equals``: with the map of equal results, which costs a visit to every
    call of the step.
    """
    if all(len(summaries) < 2 for summaries in by_step.values()):
        return report
    known = Names()
    steps = {
        step: {s.rank: disagreements.replica_of(s, known) for s in summaries.values() if s.records}
        for step, summaries in by_step.items()
    }
    places = [cause.exec_order for cause in report.root_causes if cause.exec_order is not None]
    nan = None if report.step is None else (report.step, min(places, default=None))
    found = disagreements.compare(steps, sources, nan)
    kept = [one for one in found.disagreements if nan is None or not disagreements.after_a_nan(one, nan)]
    calls = [one for one in kept if one.kind is DisagreementKind.COMMUNICATION]
    step = calls[0].step if calls and draws_equals else None
    shown = None if step is None else call_map.agreement_map(step, steps[step], [one.ranks for one in calls])
    return replace(
        report,
        disagreements=tuple(kept),
        agreement=found.agreement,
        agreement_map=shown,
        verdict_agreement=disagreements.verdict(kept, found.agreement),
    )
