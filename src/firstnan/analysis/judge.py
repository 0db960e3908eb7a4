"""One step over all its ranks: matching, spread, root causes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from firstnan.analysis import root_cause
from firstnan.analysis.matching import Matching, match, world_of
from firstnan.analysis.propagation import Spread, spread
from firstnan.analysis.summarize import RankSummary
from firstnan.report import RootCause


@dataclass(frozen=True, slots=True)
class StepAnswer:
    """Everything known about one step."""

    step: int
    summaries: Mapping[int, RankSummary]
    matching: Matching
    spread: Spread
    causes: tuple[RootCause, ...]
    absent: tuple[int, ...]
    """Ranks of the run without a readable dump of this step."""

    @property
    def is_bad(self) -> bool:
        return bool(self.causes)


def judge(step: int, summaries: Mapping[int, RankSummary], known_ranks: Collection[int]) -> StepAnswer:
    """Root causes of one step.

    ``known_ranks`` are all ranks that have a folder in any step, readable or not.
    """
    world = world_of(summaries.values(), known_ranks)
    matching = match(summaries, world)
    spreading = spread(summaries, matching)
    causes = root_cause.root_causes(step, summaries, matching, spreading)
    absent = tuple(r for r in world if r not in summaries or not summaries[r].records)
    return StepAnswer(step, summaries, matching, spreading, causes, absent)
