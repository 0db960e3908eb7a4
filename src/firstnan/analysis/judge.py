"""One step over all its ranks: matching, spread, root causes; and what the next step says about it."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from firstnan.analysis.matching import Matching, match, world_of
from firstnan.analysis.outcomes import Spread
from firstnan.analysis.summary import RankSummary
from firstnan.dump import Direction
from firstnan.report import RootCause, SymptomKind, Where


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
    skipped: bool = False
    """True: a gradient overflow that the loss scaler skipped: the next step is clean."""
    undecided: bool = False
    """True: the only causes stand at the end of a cut file; a later step with a settled one is the answer."""

    @property
    def is_bad(self) -> bool:
        return bool(self.causes) and not self.skipped


def judge(
    step: int,
    summaries: Mapping[int, RankSummary],
    known_ranks: Collection[int],
    *,
    alone: bool = False,
    left_out: Collection[int] = (),
) -> StepAnswer:
    """Root causes of one step.

    ``known_ranks`` are all ranks that have a folder in any step, readable or not, ``left_out`` those of them that
    were not asked for; ``alone`` says that one rank is looked at on purpose.
    """
    world = world_of(summaries.values(), known_ranks)
    matching = match(summaries, world)
    if not any(summary.events or summary.saturated for summary in summaries.values()):
        return StepAnswer(step, summaries, matching, Spread((), frozenset()), (), _absent(summaries, world))
    # A healthy run does not need them.
    from firstnan.analysis import doubt, root_cause
    from firstnan.analysis.propagation import spread

    spreading = doubt.settle(spread(summaries, matching))
    causes = root_cause.root_causes(step, summaries, matching, spreading, alone=alone, left_out=left_out)
    undecided = doubt.is_only_undecided(spreading)
    absent = _absent(summaries, world)
    return StepAnswer(step, summaries, matching, spreading, causes, absent, undecided=undecided)


def _absent(summaries: Mapping[int, RankSummary], world: Collection[int]) -> tuple[int, ...]:
    return tuple(r for r in world if r not in summaries or not summaries[r].records)


def with_skips(answers: Sequence[StepAnswer]) -> list[StepAnswer]:
    """Marks steps whose gradient overflow did no damage (design, rule 14).

    A float16 run whose forward pass is finite, whose gradients are not, and whose next step begins with finite
    parameters and stays clean: the loss scaler skipped the update. Without a next step nothing is skipped.
    """
    marked = list(answers)
    for position, (answer, after) in enumerate(itertools.pairwise(answers)):
        if answer.causes and _only_scaled_gradients(answer) and _is_healthy(after):
            marked[position] = replace(answer, skipped=True)
    return marked


def _only_scaled_gradients(answer: StepAnswer) -> bool:
    symptoms = {s.kind for summary in answer.summaries.values() for s in summary.symptoms}
    if symptoms & {SymptomKind.LOSS, SymptomKind.PARAMETER}:
        return False
    return all(
        is_after_forward(cause, answer) and any(t.dtype == "float16" for t in (*cause.inputs, *cause.outputs))
        for cause in answer.causes
    )


def is_after_forward(cause: RootCause, answer: StepAnswer) -> bool:
    """A backward record, or a reduction of gradients after the last one."""
    last = answer.summaries[cause.rank].last_backward if cause.rank in answer.summaries else None
    late = last is not None and cause.exec_order is not None and cause.exec_order > last
    return cause.direction is Direction.BACKWARD or (late and cause.where is Where.COMMUNICATION)


def _is_healthy(answer: StepAnswer) -> bool:
    judged = [s for s in answer.summaries.values() if s.judged]
    return bool(judged) and not answer.causes
