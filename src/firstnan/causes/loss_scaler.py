"""Steps whose gradient overflow the loss scaler skipped."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from firstnan.answer.model import RootCause, SymptomKind, Where
from firstnan.causes.step_answer import StepAnswer
from firstnan.dump.records import Direction


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
