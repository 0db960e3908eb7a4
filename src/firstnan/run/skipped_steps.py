"""Steps whose gradients overflowed and whose update the loss scaler skipped: no damage was done.

Rules, each tested under its name:

``a_skipped_step_leaves_the_weights``
    The step after begins with the very same weights, all of them finite; several steps may be skipped in a row, and
    what the step after does with the weights is its own matter.
``only_gradients_overflowed``
    The forward pass is finite, and every cause is an overflow in float16, in backward or behind it. A NaN of an
    operator outside its domain comes again in every step, whatever the scale is.
``thin_evidence_is_not_taken``
    The step after must be the next one, and show most of the weights on every rank.
``what_may_have_been_skipped_is_not_certain``
    Where the step after is there and too thin to tell, the overflow may have been skipped, and what ended the run is
    another fault.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from msgspec.structs import replace

from firstnan.answer.model import Confidence, MechanismKind, RootCause, SymptomKind
from firstnan.causes.loss_scaler import is_after_forward
from firstnan.causes.mechanisms import registry
from firstnan.causes.mechanisms.traits import Trait
from firstnan.causes.step_answer import StepAnswer
from firstnan.dump.records import TensorStat
from firstnan.dump.values import INFINITE
from firstnan.rank.summary import Weights
from firstnan.run.second_pass import Ask, Question
from firstnan.step.arrivals import SkipDoubt

MOST = 0.5
"""Share of a step's weights that the next step must show."""


def with_skips(answers: Sequence[StepAnswer], ask: Ask) -> list[StepAnswer]:
    """The answers with the steps marked whose update was skipped, or why that is not known."""
    marked = list(answers)
    for position, answer in enumerate(answers):
        if answer.causes and only_scaled_gradients(answer):
            after = answers[position + 1] if position + 1 < len(answers) else None
            marked[position] = _judged(answer, after, ask)
    return marked


def only_scaled_gradients(answer: StepAnswer) -> bool:
    """only_gradients_overflowed."""
    symptoms = {s.kind for summary in answer.summaries.values() for s in summary.symptoms}
    if symptoms & {SymptomKind.LOSS, SymptomKind.PARAMETER}:
        return False
    return all(is_after_forward(cause, answer) and _is_overflow(cause) for cause in answer.causes)


def _is_overflow(cause: RootCause) -> bool:
    tensors = (*cause.inputs, *cause.outputs)
    if not any(tensor.dtype == "float16" for tensor in tensors):
        return False
    kind = cause.mechanism.kind
    return registry.has(kind, Trait.SCALED) or (kind is MechanismKind.UNKNOWN and _begins_infinite(cause))


def _begins_infinite(cause: RootCause) -> bool:
    """The first bad values are infinities and no NaN: those that went in, or else those that came out."""
    taken = [t for t in cause.inputs if t.state.is_bad]
    first: Sequence[TensorStat] = taken or [t for t in cause.outputs if t.state.is_bad]
    return bool(first) and all(tensor.state in INFINITE for tensor in first)


def _judged(answer: StepAnswer, after: StepAnswer | None, ask: Ask) -> StepAnswer:
    if after is None:
        return replace(answer, skip_doubt=SkipDoubt.NO_NEXT_STEP)
    if after.step != answer.step + 1:
        return replace(answer, skip_doubt=SkipDoubt.GAP)
    before, later = _weights(answer, ask), _weights(after, ask)
    compared = [_same(weights, later.get(rank)) for rank, weights in before.items()]
    if not compared or None in compared:
        return replace(answer, skip_doubt=SkipDoubt.THIN, causes=tuple(map(_no_surer, answer.causes)))
    return replace(answer, skipped=True) if all(compared) else replace(answer, skip_doubt=SkipDoubt.CHANGED)


def _no_surer(cause: RootCause) -> RootCause:
    """what_may_have_been_skipped_is_not_certain"""
    if cause.place_confidence is Confidence.CERTAIN:
        cause = replace(cause, place_confidence=Confidence.LIKELY)
    if cause.mechanism.confidence is Confidence.CERTAIN:
        cause = replace(cause, mechanism=replace(cause.mechanism, confidence=Confidence.LIKELY))
    return cause


def _weights(answer: StepAnswer, ask: Ask) -> dict[int, Weights | None]:
    """The weights of every rank that has records; None where they cannot be had."""
    there = [summary for summary in answer.summaries.values() if summary.records]
    asked = ask([Question(summary, weights=True) for summary in there if summary.weights is None])
    return {summary.rank: summary.weights for summary in itertools.chain(there, asked)}


def _same(before: Weights | None, after: Weights | None) -> bool | None:
    """a_skipped_step_leaves_the_weights; None: thin_evidence_is_not_taken."""
    if before is None or after is None or not before.marks:
        return None
    shown = [place for place in before.marks if place in after.marks]  # one weight is read in every micro-batch
    if any(before.marks[place] != after.marks[place] for place in shown) or not after.finite:
        return False
    kinds = {before.marks[place] for place in shown}
    return True if len(kinds) >= MOST * len(set(before.marks.values())) else None
