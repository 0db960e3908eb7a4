"""Steps whose gradient overflow the loss scaler skipped."""

from __future__ import annotations

from firstnan.answer.model import RootCause
from firstnan.causes.step_answer import StepAnswer
from firstnan.dump.records import Direction


def is_after_forward(cause: RootCause, answer: StepAnswer) -> bool:
    """A backward record, or one after the last of them (reduction of gradients, clipping, optimizer)."""
    last = answer.summaries[cause.rank].last_backward if cause.rank in answer.summaries else None
    late = last is not None and cause.exec_order is not None and cause.exec_order > last
    return cause.direction is Direction.BACKWARD or late
