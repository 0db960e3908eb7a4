"""Why a value turned bad: one row per mechanism, each with its test on dtypes and statistics.

The first row whose test answers gives the mechanism; ``certain`` only where the recorded numbers prove it.
An ``unknown`` with the right operator is worth more than a confident wrong answer, so a row that does not
fit says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from firstnan.analysis.arithmetic import PRODUCTS, holds_zero, largest, magnitudes, result_bound, touches_zero
from firstnan.analysis.events import Event, EventKind, Origin
from firstnan.dump import Direction, Record, RecordKind, Scalar, TensorStat
from firstnan.numerics import ValueState, limits, magnitude
from firstnan.report import Confidence, Mechanism, MechanismKind, Note, RunUp
from firstnan.rulebook import short_api

ABSURD = 1e12
"""Finite values of this size do not occur in healthy training in any layer."""
JUMP = 1e4
"""A growth by this factor in one operator is where an absurd value entered."""


@dataclass(frozen=True, slots=True)
class Case:
    """What a row looks at."""

    event: Event
    run_up: tuple[RunUp, ...] = ()

    @property
    def record(self) -> Record:
        return self.event.record

    @property
    def api(self) -> str:
        return short_api(self.record.name)

    @property
    def is_backward(self) -> bool:
        return self.event.direction is Direction.BACKWARD

    @property
    def forward(self) -> Record | None:
        """The forward record of the call: the record itself, or a backward record's twin."""
        return self.event.forward_twin if self.is_backward else self.record

    @property
    def bad_output(self) -> TensorStat | None:
        return self.event.bad_outputs[0] if self.event.bad_outputs else None


Test = Callable[[Case], Mechanism | None]


@dataclass(frozen=True, slots=True)
class Row:
    """One mechanism."""

    kind: MechanismKind
    proves: str
    """What the test looks at, in a sentence."""
    test: Test


def explain(event: Event, run_up: tuple[RunUp, ...] = ()) -> Mechanism:
    """The mechanism of an event, ``unknown`` when no row fits."""
    case = Case(event, run_up)
    for row in ENTRY_ROWS if event.kind is EventKind.ENTRY else BIRTH_ROWS:
        found = row.test(case)
        if found is not None:
            return found
    return _found(MechanismKind.UNKNOWN, Confidence.POSSIBLE, "why.unknown")


def _found(kind: MechanismKind, confidence: Confidence, key: str, **params: str | float | int | None) -> Mechanism:
    return Mechanism(kind, confidence, Note(key, dict(params)))


# -- entries -------------------------------------------------------------------------------------------


def _bad_parameter(case: Case) -> Mechanism | None:
    if case.event.origin is not Origin.PARAMETER:
        return None
    return _found(MechanismKind.BAD_PARAMETER, Confidence.CERTAIN, "why.bad_parameter", name=case.event.parameter)


def _bad_input(case: Case) -> Mechanism | None:
    if case.event.origin is not Origin.INPUT_DATA:
        return None
    return _found(MechanismKind.BAD_INPUT, Confidence.LIKELY, "why.bad_input")


def _uninitialised(case: Case) -> Mechanism | None:
    if case.event.origin is Origin.UNINITIALISED and case.event.writer is not None:
        memory = case.event.writer.name.full
        return _found(MechanismKind.UNINITIALISED_MEMORY, Confidence.LIKELY, "why.uninitialised", memory=memory)
    return None


def _cast_between(case: Case) -> Mechanism | None:
    """Entry of an infinity in a narrow dtype, while the value before it was finite and beyond that dtype."""
    event = case.event
    if event.kind is not EventKind.ENTRY or event.origin not in (Origin.BETWEEN_RECORDS, Origin.BEFORE_DUMP):
        return None
    for tensor in event.bad_inputs:
        limit = limits(tensor.dtype)
        if limit is None or event.writer is None:
            continue
        before = [t for t in event.writer.outputs if t.numel == tensor.numel and t.dtype != tensor.dtype]
        value = largest(before)
        if value is not None and value > limit.largest:
            return _found(MechanismKind.CAST_OVERFLOW, Confidence.CERTAIN, "why.cast_between", value=value,
                          limit=limit.largest, dtype=tensor.dtype, before=event.writer.name.full)  # fmt: skip
    first = event.bad_inputs[0] if event.bad_inputs else None
    if first is not None and first.dtype == "float16" and first.state is not ValueState.NAN:
        return _found(MechanismKind.FP16_OVERFLOW, Confidence.POSSIBLE, "why.fp16_between", limit=65504.0)
    return None


# -- forward births ------------------------------------------------------------------------------------

_SOFTMAX = frozenset({"softmax", "log_softmax", "scaled_dot_product_attention", "npu_fusion_attention", "softmin",
                      "npu_scaled_masked_softmax", "logsumexp", "npu_prompt_flash_attention", "_softmax", "gumbel_softmax",
                      "scaled_masked_softmax", "multi_head_attention_forward"})  # fmt: skip
_EXPONENTIALS = {
    "exp": 1.0,
    "exp_": 1.0,
    "exp2": math.log(2.0),
    "expm1": 1.0,
    "sinh": 1.0,
    "cosh": 1.0,
    "softplus": 1.0,
}
_POWERS = frozenset({"pow", "__pow__", "__rpow__", "float_power", "pow_", "__ipow__"})
_LOGS = frozenset({"log", "log2", "log10", "log1p", "logit", "xlogy", "logdet", "slogdet", "log_sigmoid", "nll_loss",
                   "binary_cross_entropy", "kl_div", "mvlgamma", "lgamma", "digamma"})  # fmt: skip
_DIVISIONS = frozenset({"div", "divide", "true_divide", "__truediv__", "__rtruediv__", "__itruediv__", "__floordiv__", "fmod",
                        "remainder", "__mod__", "reciprocal", "rsqrt", "addcdiv", "floor_divide", "__rdiv__",
                        "_foreach_div", "_foreach_addcdiv", "real_div"})  # fmt: skip
_NORMALISATIONS = frozenset({"normalize", "layer_norm", "rms_norm", "group_norm", "batch_norm", "instance_norm", "npu_rms_norm",
                             "cosine_similarity", "local_response_norm", "std", "var", "native_layer_norm", "npu_add_rms_norm",
                             "cosine_embedding_loss", "corrcoef", "cov", "var_mean", "std_mean", "renorm"})  # fmt: skip
_MEANS = frozenset({"mean", "nanmean", "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
                    "kl_div", "binary_cross_entropy_with_logits", "avg_pool2d", "adaptive_avg_pool2d"})  # fmt: skip
_DIFFERENCES = frozenset({"sub", "__sub__", "__rsub__", "__isub__", "subtract", "rsub", "add", "__add__", "__radd__", "__iadd__",
                          "sum", "mean", "cumsum", "lerp", "var", "std", "layer_norm"})  # fmt: skip
_MULTIPLICATIONS = frozenset({"mul", "__mul__", "__rmul__", "__imul__", "multiply", "addcmul", *PRODUCTS})
_CASTS = frozenset(
    {"to", "half", "float", "bfloat16", "double", "type", "type_as", "cast", "npu_dtype_cast", "copy", "_to_copy"}
)


def _masked_softmax(case: Case) -> Mechanism | None:
    if case.is_backward or case.api not in _SOFTMAX:
        return None
    mask = [t for t in case.record.inputs if t.state is ValueState.NEG_INF]
    if mask:
        whole = any(t.max == -math.inf for t in mask)
        sure = Confidence.CERTAIN if whole or case.api in ("softmax", "log_softmax", "_softmax") else Confidence.LIKELY
        return _found(MechanismKind.MASKED_SOFTMAX, sure, "why.masked_softmax", slot=mask[0].slot)
    if any(t.dtype == "bool" for t in case.record.inputs):
        return _found(MechanismKind.MASKED_SOFTMAX, Confidence.POSSIBLE, "why.masked_attention")
    return None


def _inf_minus_inf(case: Case) -> Mechanism | None:
    if case.is_backward or case.api not in _DIFFERENCES:
        return None
    infinite = [t for t in case.record.inputs if t.state.is_bad and t.state is not ValueState.NAN]
    if not infinite or not any(t.state is ValueState.NAN for t in case.event.bad_outputs):
        return None
    sure = Confidence.CERTAIN if len(infinite) > 1 else Confidence.LIKELY
    return _found(MechanismKind.INF_MINUS_INF, sure, "why.inf_minus_inf", slot=infinite[0].slot)


def _zero_times_inf(case: Case) -> Mechanism | None:
    if case.is_backward or case.api not in _MULTIPLICATIONS:
        return None
    infinite = [t for t in case.record.inputs if t.state.is_bad and t.state is not ValueState.NAN]
    slots = [t.slot for t in infinite] + [s.slot for s in case.record.scalars if s.value in (math.inf, -math.inf)]
    if not slots or not any(t.state is ValueState.NAN for t in case.event.bad_outputs):
        return None
    others = [t for t in case.record.inputs if t not in infinite]
    zero = any(touches_zero(t) for t in others) or any(s.value == 0 for s in case.record.scalars)
    sure = Confidence.CERTAIN if zero else Confidence.LIKELY
    return _found(MechanismKind.ZERO_TIMES_INF, sure, "why.zero_times_inf", slot=slots[0])


def _cast_overflow(case: Case) -> Mechanism | None:
    tensor = case.bad_output
    if tensor is None or case.api not in _CASTS:
        return None
    limit, value = limits(tensor.dtype), largest(case.record.inputs)
    if limit is None or value is None or value <= limit.largest:
        return None
    return _found(MechanismKind.CAST_OVERFLOW, Confidence.CERTAIN, "why.cast_overflow", value=value, limit=limit.largest,
                  dtype=tensor.dtype)  # fmt: skip


def _exp_overflow(case: Case) -> Mechanism | None:
    tensor = case.bad_output
    if case.is_backward or tensor is None:
        return None
    limit = limits(tensor.dtype)
    if limit is None:
        return None
    if case.api in _EXPONENTIALS:
        value = max((float(t.max) for t in case.record.inputs if t.max is not None), default=None)
        edge = math.log(limit.largest) / _EXPONENTIALS[case.api]
        if value is not None and value > edge:
            return _found(MechanismKind.EXP_OVERFLOW, Confidence.CERTAIN, "why.exp_overflow", value=value, edge=edge,
                          dtype=tensor.dtype)  # fmt: skip
    if case.api in _POWERS and case.record.scalars:
        base = _operand(case.record, 0)
        exponent = case.record.inputs[0] if case.record.inputs else None
        swapped = case.api == "__rpow__"
        scalar = _operand(case.record, 1) if swapped else base
        if scalar is not None and exponent is not None and _is_number(scalar.value) and exponent.max is not None:
            return _power_overflow(scalar, exponent, tensor, limit.largest)
    return None


def _power_overflow(scalar: Scalar, exponent: TensorStat, tensor: TensorStat, limit: float) -> Mechanism | None:
    base = abs(float(scalar.value)) if isinstance(scalar.value, (int, float)) else 0.0
    top, bottom = exponent.max, exponent.min
    if base <= 0 or base == 1 or top is None or bottom is None:
        return None
    edge = math.log(limit) / math.log(base)
    value = float(top) if base > 1 else float(bottom)
    if (base > 1 and value > edge) or (base < 1 and value < edge):
        return _found(MechanismKind.EXP_OVERFLOW, Confidence.CERTAIN, "why.exp_overflow", value=value, edge=edge,
                      dtype=tensor.dtype)  # fmt: skip
    return None


def _log_zero(case: Case) -> Mechanism | None:
    if case.api not in _LOGS or case.forward is None:
        return None
    edge = -1.0 if case.api == "log1p" else 0.0
    lows = [float(t.min) for t in case.forward.inputs if t.is_floating and t.min is not None]
    if not lows or min(lows) > edge:
        return None
    return _found(MechanismKind.LOG_ZERO, Confidence.CERTAIN, "why.log_zero", value=min(lows))


def _div_by_zero(case: Case) -> Mechanism | None:
    forward = case.forward
    if forward is None or case.api not in _DIVISIONS:
        return None
    divisors = _divisors(case.api, forward)
    for tensor in divisors:
        if holds_zero(tensor):
            sure = Confidence.CERTAIN if touches_zero(tensor) else Confidence.LIKELY
            return _found(MechanismKind.DIV_BY_ZERO, sure, "why.div_by_zero", slot=tensor.slot, min=_number(tensor.min),
                          max=_number(tensor.max))  # fmt: skip
    scalar = _operand(forward, 1)
    if scalar is not None and scalar.value == 0 and case.api not in ("reciprocal", "rsqrt"):
        return _found(
            MechanismKind.DIV_BY_ZERO, Confidence.CERTAIN, "why.div_by_zero", slot=scalar.slot, min=0.0, max=0.0
        )
    return _tiny_divisor(case, divisors)


def _tiny_divisor(case: Case, divisors: list[TensorStat]) -> Mechanism | None:
    tensor = case.bad_output
    limit = limits(tensor.dtype) if tensor else None
    top = max(magnitudes(case.record.inputs), default=None)
    small = [abs(float(v)) for t in divisors for v in (t.min, t.max) if v is not None]
    scalar = _operand(case.record, 1)
    if not divisors and scalar is not None and isinstance(scalar.value, (int, float)):
        small = [abs(float(scalar.value))]
    if limit is None or top is None or not small or min(small) <= 0:
        return None
    reached = top / min(small) if case.api not in ("reciprocal", "rsqrt") else 1.0 / min(small)
    if reached <= limit.largest:
        return None
    return _found(MechanismKind.DIV_BY_ZERO, Confidence.LIKELY, "why.tiny_divisor", value=min(small), limit=limit.largest,
                  dtype=limit.name)  # fmt: skip


def _divisors(api: str, forward: Record) -> list[TensorStat]:
    floating = [t for t in forward.inputs if not t.slot.startswith("input_kwargs.out")]
    if api in ("reciprocal", "rsqrt", "__rtruediv__"):
        return floating[:1]
    if api == "addcdiv":
        return floating[2:3]
    return floating[1:2]


def _no_variance(case: Case) -> Mechanism | None:
    """Normalisation of something without spread, a mean over nothing."""
    forward = case.forward
    if forward is None or case.api not in _NORMALISATIONS or not forward.inputs:
        return None
    tensor = forward.inputs[0]
    limit = limits(tensor.dtype)
    value = magnitude(tensor.max, tensor.min)
    if limit is not None and value is not None and value * value > limit.largest:
        return None  # the square overflows: another row
    if case.is_backward and any(holds_zero(t) for t in forward.inputs[1:2]):
        return _found(MechanismKind.DIV_BY_ZERO, Confidence.LIKELY, "why.zero_weight", slot=forward.inputs[1].slot)
    eps = [s.value for s in forward.scalars if isinstance(s.value, float)]
    flat = tensor.max == tensor.min or touches_zero(tensor) or 0.0 in eps
    return _found(MechanismKind.DIV_BY_ZERO, Confidence.LIKELY if flat else Confidence.POSSIBLE, "why.no_variance",
                  slot=tensor.slot)  # fmt: skip


def _empty_mean(case: Case) -> Mechanism | None:
    if case.is_backward or case.api not in _MEANS:
        return None
    if any(t.state is ValueState.EMPTY for t in case.record.inputs):
        return _found(MechanismKind.DIV_BY_ZERO, Confidence.CERTAIN, "why.empty_mean")
    targets = [t for t in case.record.inputs[1:2] if t.dtype.startswith("int")]
    ignore = next((s.value for s in case.record.scalars if s.slot.endswith("ignore_index")), -100)
    if targets and targets[0].max == targets[0].min == ignore:
        return _found(MechanismKind.DIV_BY_ZERO, Confidence.CERTAIN, "why.all_ignored", value=_number(targets[0].max))
    return None


# -- backward births -----------------------------------------------------------------------------------

_EDGES = frozenset({"sqrt", "norm", "vector_norm", "matrix_norm", "pow", "__pow__", "float_power", "acos", "asin", "arccos",
                    "arcsin", "dist", "cdist", "std", "pairwise_distance", "acosh", "atanh", "normalize", "cosine_similarity",
                    "rsqrt", "std_mean", "hypot", "__rpow__"})  # fmt: skip


def _sqrt_backward(case: Case) -> Mechanism | None:
    if not case.is_backward:
        return None
    if case.api not in _EDGES or case.record.name.kind is RecordKind.MODULE:
        return None
    forward = case.forward
    sure = Confidence.POSSIBLE
    key, value = "why.sqrt_backward", 0.0
    if forward is not None:
        tensors = [*forward.inputs, *forward.outputs]
        if any(touches_zero(t) for t in tensors if t.is_floating):
            sure = Confidence.CERTAIN
        elif any(holds_zero(t) for t in tensors if t.is_floating) or case.api not in ("sqrt", "rsqrt"):
            sure = Confidence.LIKELY
    return _found(MechanismKind.SQRT_BACKWARD, sure, key, value=value, operator=case.api)


# -- overflow ------------------------------------------------------------------------------------------

_OVERFLOWS = {
    "float16": MechanismKind.FP16_OVERFLOW,
    "bfloat16": MechanismKind.BF16_OVERFLOW,
    "float32": MechanismKind.FP32_OVERFLOW,
}


def _fp8_scale(case: Case) -> Mechanism | None:
    tensors = (*case.record.inputs, *case.record.outputs)
    if not any(t.dtype.startswith(("float8", "hifloat8", "float4")) for t in tensors):
        return None
    return _found(MechanismKind.FP8_SCALE, Confidence.POSSIBLE, "why.fp8_scale")


def _large_value(case: Case) -> Mechanism | None:
    """An absurd finite value is on the way in, and the run-up shows where it entered."""
    tensor = case.bad_output
    value = largest(case.record.inputs)
    if tensor is None or value is None or value < ABSURD or case.event.kind is not EventKind.BIRTH:
        return None
    entered = first_jump(case.run_up)
    if entered is None:
        return _found(MechanismKind.LARGE_VALUE_PROPAGATION, Confidence.POSSIBLE, "why.large_value", value=value)
    return _found(MechanismKind.LARGE_VALUE_PROPAGATION, Confidence.LIKELY, "why.large_value_from", value=value,
                  operator=entered.op_name, before=entered.magnitude_in, after=entered.magnitude_out)  # fmt: skip


def first_jump(run_up: tuple[RunUp, ...]) -> RunUp | None:
    """The first record of the run-up that made its value larger by :data:`JUMP` or more."""
    for step in run_up:
        if step.magnitude_out is None:
            continue
        if step.magnitude_out > JUMP * max(step.magnitude_in or 0.0, 1.0) and step.magnitude_out >= math.sqrt(ABSURD):
            return step
    return None


def _saturated_result(case: Case) -> Mechanism | None:
    """The result is finite and stands exactly at the limit: clamped where Inf would be."""
    tensor = case.bad_output
    if tensor is None or tensor.state is not ValueState.FINITE:
        return None
    limit = limits(tensor.dtype)
    params = {"slot": tensor.slot, "limit": limit.largest if limit else None, "dtype": tensor.dtype}
    return _found(MechanismKind.SATURATION, Confidence.LIKELY, "why.saturated_result", **params)


def _saturation(case: Case) -> Mechanism | None:
    """An input stands exactly at the limit of its dtype: it was clamped there before."""
    for tensor in case.record.inputs:
        limit = limits(tensor.dtype)
        if limit is None or limit.name not in ("float16", "float8_e4m3fn", "float8_e5m2"):
            continue
        if limit.largest in (tensor.max, -(tensor.min or 0)):
            return _found(MechanismKind.SATURATION, Confidence.LIKELY, "why.saturation", slot=tensor.slot,
                          limit=limit.largest, dtype=limit.name)  # fmt: skip
    return None


def _overflow(case: Case) -> Mechanism | None:
    """The result can be beyond the dtype for these inputs."""
    tensor = case.bad_output
    if tensor is None or case.event.kind is not EventKind.BIRTH:
        return None
    limit = limits(tensor.dtype)
    kind = _OVERFLOWS.get(limit.name) if limit else None
    if limit is None or kind is None:
        return None
    bound = result_bound(case.record) if not case.is_backward else None
    value = largest(case.record.inputs)
    if bound is not None:
        if bound <= limit.largest:
            return None
        sure = Confidence.CERTAIN if tensor.state is not ValueState.NAN else Confidence.LIKELY
        return _found(kind, sure, "why.overflow", value=value, bound=bound, limit=limit.largest, dtype=limit.name)
    if limit.name == "float16" and (tensor.state is not ValueState.NAN or (value or 0) > 100):
        return _found(
            kind, Confidence.LIKELY, "why.overflow_narrow", value=value, limit=limit.largest, dtype=limit.name
        )
    if value is not None and value * value > limit.largest:
        return _found(
            kind, Confidence.LIKELY, "why.overflow_narrow", value=value, limit=limit.largest, dtype=limit.name
        )
    return None


def _flagged(case: Case) -> Mechanism | None:
    """nan_check dumps: only the dtype speaks."""
    tensor = case.bad_output
    if tensor is None or tensor.state is not ValueState.NON_FINITE or case.api not in PRODUCTS:
        return None
    if tensor.dtype != "float16":
        return None
    return _found(MechanismKind.FP16_OVERFLOW, Confidence.POSSIBLE, "why.flagged", limit=65504.0)


ENTRY_ROWS: tuple[Row, ...] = (
    Row(MechanismKind.BAD_PARAMETER, "the bad input is a weight", _bad_parameter),
    Row(MechanismKind.BAD_INPUT, "the bad input is an argument of the outermost module", _bad_input),
    Row(MechanismKind.UNINITIALISED_MEMORY, "the bad input was written by an initialiser alone", _uninitialised),
    Row(MechanismKind.CAST_OVERFLOW, "value before the entry beyond the entry's dtype", _cast_between),
)
"""Bad inputs that no record made."""
BIRTH_ROWS: tuple[Row, ...] = (
    Row(MechanismKind.SATURATION, "a finite result exactly at its dtype's limit", _saturated_result),
    Row(MechanismKind.CAST_OVERFLOW, "input beyond the output's dtype", _cast_overflow),
    Row(MechanismKind.FP16_OVERFLOW, "the device's flag on a float16 product", _flagged),
    Row(MechanismKind.MASKED_SOFTMAX, "softmax or attention over -Inf", _masked_softmax),
    Row(MechanismKind.INF_MINUS_INF, "a sum or difference with infinite inputs gives NaN", _inf_minus_inf),
    Row(MechanismKind.ZERO_TIMES_INF, "a product with infinite inputs gives NaN", _zero_times_inf),
    Row(MechanismKind.EXP_OVERFLOW, "exponent beyond the logarithm of the dtype's limit", _exp_overflow),
    Row(MechanismKind.LOG_ZERO, "argument of a logarithm is zero or negative", _log_zero),
    Row(MechanismKind.FP8_SCALE, "a low-precision dtype takes part", _fp8_scale),
    Row(MechanismKind.LARGE_VALUE_PROPAGATION, "an absurd finite input", _large_value),
    Row(MechanismKind.DIV_BY_ZERO, "the divisor holds a zero", _div_by_zero),
    Row(MechanismKind.SQRT_BACKWARD, "derivative at the edge of the domain", _sqrt_backward),
    Row(MechanismKind.DIV_BY_ZERO, "normalisation without variance", _no_variance),
    Row(MechanismKind.DIV_BY_ZERO, "mean over nothing", _empty_mean),
    Row(MechanismKind.SATURATION, "an input stands at its dtype's limit", _saturation),
    Row(MechanismKind.FP32_OVERFLOW, "result bound beyond the dtype", _overflow),
)  # fmt: skip
"""Every mechanism that one rank's records can show; communication is judged in :mod:`root_cause`."""


def _operand(record: Record, position: int) -> Scalar | None:
    return next((s for s in record.scalars if s.slot == f"input_args.{position}"), None)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(value: float | int | bool | None) -> float | int | None:
    return None if value is None else value
