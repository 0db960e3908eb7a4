"""A step that a guard ran twice: the records are those of the second run.

==============================================  =======================================================
the second run                                  what the answer says
==============================================  =======================================================
is not finite either, and the records show why  the causes, as in any other dump
is not finite either, and no record shows it    not complete: something is not recorded
is finite                                       one more cause, in the first run: ``transient``
raised                                          not complete: the records end there
==============================================  =======================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from firstnan.causes.mechanisms.transient import transient
from firstnan.causes.step_answer import StepAnswer
from firstnan.dump.guard_file import GUARD_FILE, GuardFile
from firstnan.dump.problems import Problem, ProblemKind


def judged(answer: StepAnswer, guards: Mapping[int, GuardFile]) -> StepAnswer:
    """The answer with what the guards of these ranks saw."""
    summaries = dict(answer.summaries)
    for rank, problem in _problems(answer, guards):
        summaries[rank] = replace(summaries[rank], problems=(*summaries[rank].problems, problem))
    return replace(answer, summaries=summaries, causes=(*answer.causes, *transient(answer.step, guards)))


def _problems(answer: StepAnswer, guards: Mapping[int, GuardFile]) -> Iterator[tuple[int, Problem]]:
    for rank, guard in sorted(guards.items()):
        label = f"{answer.summaries[rank].label}/{GUARD_FILE}"
        if guard.reproduced is None:
            detail = guard.error or "on another rank"
            yield rank, Problem(ProblemKind.SECOND_RUN_RAISED, answer.step, rank, label, detail, judged=False)
        elif guard.reproduced and not answer.causes:
            yield rank, Problem(ProblemKind.SECOND_RUN_UNEXPLAINED, answer.step, rank, label, judged=False)
