"""One step over all its ranks: matching, spread, root causes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from firstnan.causes.step_answer import StepAnswer
from firstnan.operators.table import Rulebook
from firstnan.rank.summary import RankSummary
from firstnan.step.arrivals import Spread
from firstnan.step.matching import match, world_of


def judge(
    step: int,
    summaries: Mapping[int, RankSummary],
    known_ranks: Collection[int],
    book: Rulebook,
    *,
    alone: bool = False,
    left_out: Collection[int] = (),
) -> StepAnswer:
    """Root causes of one step.

    ``known_ranks`` are all ranks that have a folder in any step, readable or not, ``left_out`` those of them that
    were not asked for; ``alone`` says that one rank is looked at on purpose.
    """
    guards = {rank: summary.guard for rank, summary in summaries.items() if summary.guard is not None}
    found = _judge(step, summaries, known_ranks, book, alone=alone, left_out=left_out)
    if not guards:
        return found
    from firstnan.causes import second_run  # few dumps are those of a guard

    return second_run.judged(found, guards)


def _judge(
    step: int,
    summaries: Mapping[int, RankSummary],
    known_ranks: Collection[int],
    book: Rulebook,
    *,
    alone: bool,
    left_out: Collection[int],
) -> StepAnswer:
    world = world_of(summaries.values(), known_ranks)
    matching = match(summaries, world)
    if not any(summary.events or summary.saturated for summary in summaries.values()):
        return StepAnswer(step, summaries, matching, Spread((), frozenset()), (), _absent(summaries, world))
    # A healthy run does not need them.
    from firstnan.causes import cause as root_cause
    from firstnan.step import undecided as doubt
    from firstnan.step.spread import spread
    from firstnan.step.trials import with_trials

    summaries = with_trials(summaries)
    spreading = doubt.settle(spread(summaries, matching))
    causes = root_cause.root_causes(step, summaries, matching, spreading, book, alone=alone, left_out=left_out)
    undecided = doubt.is_only_undecided(spreading)
    absent = _absent(summaries, world)
    return StepAnswer(step, summaries, matching, spreading, causes, absent, undecided=undecided)


def _absent(summaries: Mapping[int, RankSummary], world: Collection[int]) -> tuple[int, ...]:
    return tuple(r for r in world if r not in summaries or not summaries[r].records)
