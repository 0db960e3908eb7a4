"""Steps whose gradient overflow the loss scaler skipped."""

from __future__ import annotations

from firstnan.answer.model import RootCause
from firstnan.causes.step_answer import StepAnswer
from firstnan.dump.records import Direction


def is_after_forward(cause: RootCause, answer: StepAnswer) -> bool:
    """A backward record, what code in backward computed (autograd functions, hooks), or one after the last backward
    record (reduction of gradients, clipping, optimizer)."""
    summary = answer.summaries.get(cause.rank)
    if cause.direction is Direction.BACKWARD or summary is None or cause.exec_order is None:
        return cause.direction is Direction.BACKWARD
    if summary.last_backward is not None and cause.exec_order > summary.last_backward:
        return True
    return any(event.index == cause.exec_order and event.after_backward for event in summary.events)
