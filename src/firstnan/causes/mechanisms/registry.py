"""Why a value turned bad: one row per mechanism, each with its test on dtypes and statistics.

The first row whose test answers gives the mechanism; ``certain`` only where the recorded numbers prove it.
An ``unknown`` with the right operator is worth more than a confident wrong answer, so a test that does not
fit says nothing. Communication is judged in :mod:`root_cause`, peers in :mod:`peers`.
"""

from __future__ import annotations

from msgspec import Struct

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms import domain, entry
from firstnan.causes.mechanisms import range as ranges
from firstnan.causes.mechanisms.case import Case, Test, found
from firstnan.rank.events import Event, EventKind


class Row(Struct, frozen=True):
    """One mechanism and what proves it."""

    kind: MechanismKind
    proves: str
    """What the test looks at, in a few words."""
    test: Test


_Kind = MechanismKind
ENTRY_ROWS: tuple[Row, ...] = (
    Row(_Kind.BAD_PARAMETER, "the bad input is a weight", entry.bad_parameter),
    Row(_Kind.BAD_INPUT, "the bad input is an argument of the outermost module", entry.bad_input),
    Row(_Kind.UNINITIALISED_MEMORY, "the bad input was written by an initialiser alone", entry.uninitialised),
    Row(_Kind.CAST_OVERFLOW, "the value before the entry is beyond the entry's dtype", entry.cast_between),
    Row(_Kind.FP16_OVERFLOW, "an infinity in float16 from nowhere", entry.narrow_between),
)
"""Bad inputs that no record made."""
BIRTH_ROWS: tuple[Row, ...] = (
    Row(_Kind.SATURATION, "a finite result exactly at its dtype's limit", ranges.saturated_result),
    Row(_Kind.CAST_OVERFLOW, "an input beyond the output's dtype", ranges.cast_overflow),
    Row(_Kind.FP16_OVERFLOW, "the device's flag on a float16 product", ranges.flagged),
    Row(_Kind.UNKNOWN, "a NaN among the plain arguments", domain.nan_argument),
    Row(_Kind.UNKNOWN, "a NaN that the forward call of a backward record saved", domain.saved_bad),
    Row(_Kind.MASKED_SOFTMAX, "softmax or attention over -Inf", domain.masked_softmax),
    Row(_Kind.INF_MINUS_INF, "a sum or difference of infinities gives NaN", domain.inf_minus_inf),
    Row(_Kind.ZERO_TIMES_INF, "a product with an infinity gives NaN", domain.zero_times_inf),
    Row(_Kind.EXP_OVERFLOW, "an exponent beyond the logarithm of the dtype's limit", domain.exp_overflow),
    Row(_Kind.LOG_ZERO, "the argument of a logarithm is zero or negative", domain.log_zero),
    Row(_Kind.UNKNOWN, "an argument outside the function's domain", domain.outside_domain),
    Row(_Kind.FP8_SCALE, "a low-precision dtype takes part", ranges.fp8_scale),
    Row(_Kind.LARGE_VALUE_PROPAGATION, "an absurd finite input", ranges.large_value),
    Row(_Kind.DIV_BY_ZERO, "the divisor holds a zero", domain.div_by_zero),
    Row(_Kind.SQRT_BACKWARD, "a derivative at the edge of the domain", domain.sqrt_backward),
    Row(_Kind.DIV_BY_ZERO, "normalisation without variance", domain.no_variance),
    Row(_Kind.DIV_BY_ZERO, "a mean over nothing", domain.empty_mean),
    Row(_Kind.SATURATION, "an input exactly at its dtype's limit", ranges.saturated_input),
    Row(_Kind.FP32_OVERFLOW, "the result's bound is beyond the dtype (float16 and bfloat16 too)", ranges.overflow),
)
"""Clean inputs, bad output."""


def explain(event: Event) -> Mechanism:
    """The mechanism of an event, ``unknown`` when no row fits."""
    case = Case(event)
    for row in ENTRY_ROWS if event.kind is EventKind.ENTRY else BIRTH_ROWS:
        answer = row.test(case)
        if answer is not None:
            return answer
    return found(MechanismKind.UNKNOWN, Confidence.POSSIBLE, "why.unknown")
