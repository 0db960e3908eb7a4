"""Why a forward value turned bad: for every row of the table operators that fire it, and near misses that do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from made_runs import INF, NAN, Json, Rank, Run, blank, events, t, the_cause

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.registry import explain
from firstnan.operators.table import load

Kind = MechanismKind
CERTAIN, LIKELY, POSSIBLE = Confidence.CERTAIN, Confidence.LIKELY, Confidence.POSSIBLE
MASK, MASKED = t(-INF, grad=False), t(-INF, -INF)
"""Some elements masked; all of them."""
HALF, BRAIN = "float16", "bfloat16"
ANY_MASK = t(True, False, dtype="bool")


def h(high: Json, low: Json = "mirror", shape: Sequence[int] = (4, 8)) -> Json:
    return t(high, low, shape, HALF)


@dataclass(frozen=True)
class Call:
    """A call that turns clean (or masked) inputs into a bad output."""

    operator: str
    inputs: Sequence[Json]
    output: Json
    kwargs: Mapping[str, Json] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = [f"{i['Max']}:{i['Min']}" if isinstance(i, dict) else str(i) for i in self.inputs]
        return f"{self.operator}({', '.join(shown)})"

    def record(self, rank: Rank) -> str:
        """Masks among the inputs are written first, so that they are legal."""
        for tensor in self.inputs:
            if isinstance(tensor, dict) and tensor["Min"] == -INF:
                rank.op("Tensor.masked_fill", [t(1.0)], [tensor])
        name = rank.op(self.operator, self.inputs, [self.output], **self.kwargs)
        rank.op("Torch.frob", [self.output], [self.output])
        return name


def why(call: Call, path: Path) -> Mechanism:
    rank = Run().rank(0)
    name = call.record(rank)
    return next(explain(e, load()) for e in events(rank, path) if e.record.name.full == name)


FIRES: list[tuple[Call, Kind, Confidence]] = [
    (Call("Tensor.to", [t(7e4), "torch.float16"], h(INF)), Kind.CAST_OVERFLOW, CERTAIN),
    (Call("Tensor.half", [t(7e4)], h(INF)), Kind.CAST_OVERFLOW, CERTAIN),
    (Call("Tensor.bfloat16", [t(3.4e38)], t(INF, dtype=BRAIN)), Kind.CAST_OVERFLOW, CERTAIN),
    (Call("Functional.softmax", [MASK, 1], t(NAN)), Kind.MASKED_SOFTMAX, CERTAIN),
    (Call("Functional.log_softmax", [MASK], t(NAN)), Kind.MASKED_SOFTMAX, CERTAIN),
    (
        Call("Functional.scaled_dot_product_attention", [t(1.0)] * 3, t(NAN), {"attn_mask": MASK}),
        Kind.MASKED_SOFTMAX,
        LIKELY,
    ),
    (Call("Functional.scaled_dot_product_attention", [t(1.0)] * 3 + [MASKED], t(NAN)), Kind.MASKED_SOFTMAX, CERTAIN),
    (Call("NPU.npu_fusion_attention", [t(1.0)] * 3 + [ANY_MASK], t(NAN)), Kind.MASKED_SOFTMAX, POSSIBLE),
    (Call("Torch.sub", [MASK, MASK], t(NAN)), Kind.INF_MINUS_INF, CERTAIN),
    (Call("Tensor.__sub__", [MASK, t(1.0)], t(NAN)), Kind.INF_MINUS_INF, LIKELY),
    (Call("Torch.cumsum", [MASK, 0], t(NAN)), Kind.INF_MINUS_INF, CERTAIN),
    (Call("Torch.add", [MASK, INF], t(NAN)), Kind.INF_MINUS_INF, CERTAIN),
    (Call("Torch.mul", [MASK, t(1.0, 0.0)], t(NAN)), Kind.ZERO_TIMES_INF, CERTAIN),
    (Call("Tensor.__mul__", [MASK, 0.0], t(NAN)), Kind.ZERO_TIMES_INF, CERTAIN),
    (Call("Torch.matmul", [t(-0.5, -2.0), MASK], t(NAN)), Kind.ZERO_TIMES_INF, CERTAIN),
    (Call("Torch.exp", [t(89.0)], t(INF)), Kind.EXP_OVERFLOW, CERTAIN),
    (Call("Torch.exp", [h(11.5)], h(INF)), Kind.EXP_OVERFLOW, CERTAIN),
    (Call("Torch.exp2", [t(129.0)], t(INF)), Kind.EXP_OVERFLOW, CERTAIN),
    (Call("Torch.expm1", [t(90.0)], t(INF)), Kind.EXP_OVERFLOW, CERTAIN),
    (Call("Torch.cosh", [t(1.0, -100.0)], t(INF, 1.0)), Kind.EXP_OVERFLOW, CERTAIN),
    (Call("Torch.pow", [10, t(39.0)], t(INF)), Kind.EXP_OVERFLOW, CERTAIN),
    (Call("Tensor.__rpow__", [t(39.0), 10], t(INF)), Kind.EXP_OVERFLOW, CERTAIN),
    (Call("Torch.pow", [t(1e4), t(10.0)], t(INF)), Kind.EXP_OVERFLOW, CERTAIN),
    (Call("Torch.pow", [0.1, t(1.0, -40.0)], t(INF)), Kind.EXP_OVERFLOW, CERTAIN),
    (Call("Torch.log", [t(1.0, 0.0)], t(0.0, -INF)), Kind.LOG_ZERO, CERTAIN),
    (Call("Tensor.log_", [t(1.0, -0.5)], t(NAN)), Kind.LOG_ZERO, CERTAIN),
    (Call("Torch.log1p", [t(1.0, -1.0)], t(0.7, -INF)), Kind.LOG_ZERO, CERTAIN),
    (Call("Torch.logit", [t(1.0, 0.5)], t(INF)), Kind.LOG_ZERO, CERTAIN),
    (Call("Functional.binary_cross_entropy", [t(1.0, 0.5), t(1.0, 0.0)], t(INF)), Kind.LOG_ZERO, CERTAIN),
    (Call("Torch.matmul", [t(1e20), t(1.0)], t(INF)), Kind.LARGE_VALUE_PROPAGATION, POSSIBLE),
    (Call("Torch.div", [t(1.0), t(1.0, 0.0)], t(INF)), Kind.DIV_BY_ZERO, CERTAIN),
    (Call("Tensor.__truediv__", [t(1.0), t(1.0)], t(INF)), Kind.DIV_BY_ZERO, LIKELY),
    (Call("Torch.div", [t(1.0), 0], t(INF)), Kind.DIV_BY_ZERO, CERTAIN),
    (Call("Torch.reciprocal", [t(1.0, 0.0)], t(INF)), Kind.DIV_BY_ZERO, CERTAIN),
    (Call("Torch.rsqrt", [t(1.0, 0.0)], t(INF)), Kind.DIV_BY_ZERO, CERTAIN),
    (Call("Tensor.__rtruediv__", [t(1.0, 0.0), 1], t(INF)), Kind.DIV_BY_ZERO, CERTAIN),
    (Call("Torch.addcdiv", [t(1.0), t(1.0), t(1.0, 0.0)], t(INF)), Kind.DIV_BY_ZERO, CERTAIN),
    (Call("Torch.div", [t(1e6), t(1.0, 1e-35)], t(INF)), Kind.DIV_BY_ZERO, LIKELY),
    (Call("Torch.div", [h(100.0), 1e-4], h(INF)), Kind.DIV_BY_ZERO, LIKELY),
    (Call("Functional.layer_norm", [t(3.0, 3.0), [8]], t(NAN)), Kind.DIV_BY_ZERO, LIKELY),
    (Call("Functional.rms_norm", [t(3.0), [8]], t(NAN), {"eps": 0.0}), Kind.DIV_BY_ZERO, CERTAIN),
    (Call("Functional.rms_norm", [h(3.0), [8], h(100.0)], h(NAN), {"eps": 0.0}), Kind.DIV_BY_ZERO, CERTAIN),
    (Call("Functional.rms_norm", [h(100.0), [8]], h(NAN), {"eps": 0.0}), Kind.DIV_BY_ZERO, LIKELY),
    (Call("Functional.rms_norm", [h(3.0), [8], h(2e4)], h(NAN), {"eps": 0.0}), Kind.DIV_BY_ZERO, LIKELY),
    (Call("Functional.rms_norm", [t(3.0, 1.0), [8]], t(NAN), {"eps": 1e-6}), Kind.DIV_BY_ZERO, POSSIBLE),
    (Call("Functional.normalize", [t(3.0)], t(NAN)), Kind.DIV_BY_ZERO, POSSIBLE),
    (Call("Torch.mean", [blank((0, 8))], t(NAN, shape=())), Kind.DIV_BY_ZERO, CERTAIN),
    (
        Call("Functional.cross_entropy", [t(3.0), t(-100, -100, (4,), "int64")], t(NAN, shape=())),
        Kind.DIV_BY_ZERO,
        CERTAIN,
    ),
    (
        Call("Functional.cross_entropy", [t(3.0), t(7, 7, (4,), "int64")], t(NAN, shape=()), {"ignore_index": 7}),
        Kind.DIV_BY_ZERO,
        CERTAIN,
    ),
    (Call("Torch.frob", [h(65504.0)], h(INF)), Kind.SATURATION, LIKELY),
    (Call("Torch.frob", [h(3.0, -65504.0)], h(NAN)), Kind.SATURATION, LIKELY),
    (Call("Torch.matmul", [h(300.0), h(300.0, shape=(8, 4))], h(INF)), Kind.FP16_OVERFLOW, CERTAIN),
    (Call("Torch.matmul", [h(300.0), h(300.0, shape=(8, 4))], h(NAN)), Kind.FP16_OVERFLOW, LIKELY),
    (Call("Functional.linear", [h(300.0), h(300.0, shape=(16, 8))], h(INF)), Kind.FP16_OVERFLOW, CERTAIN),
    (Call("Torch.sum", [h(3e3)], h(INF, shape=())), Kind.FP16_OVERFLOW, CERTAIN),
    (Call("Torch.add", [h(4e4), h(4e4)], h(INF)), Kind.FP16_OVERFLOW, CERTAIN),
    (Call("Torch.square", [h(300.0)], h(INF)), Kind.FP16_OVERFLOW, CERTAIN),
    (Call("Torch.norm", [h(300.0)], h(INF, shape=())), Kind.FP16_OVERFLOW, CERTAIN),
    (Call("Torch.frob", [h(4e4)], h(INF)), Kind.FP16_OVERFLOW, LIKELY),
    (Call("Torch.pow", [t(1e11, dtype=BRAIN), 4], t(INF, dtype=BRAIN)), Kind.BF16_OVERFLOW, CERTAIN),
    (Call("Torch.pow", [t(1e11), 4], t(INF)), Kind.FP32_OVERFLOW, CERTAIN),
    (Call("Torch.pow", [t(1.0, 1e-3), -90], t(INF, 1.0)), Kind.FP32_OVERFLOW, CERTAIN),
]


@pytest.mark.parametrize(("call", "kind", "confidence"), FIRES, ids=[f"{kind.value}-{c}" for c, kind, _ in FIRES])
def test_fires(call: Call, kind: Kind, confidence: Confidence, tmp_path: Path) -> None:
    mechanism = why(call, tmp_path)
    assert (mechanism.kind, mechanism.confidence) == (kind, confidence)


NEAR_MISSES: list[tuple[Call, Kind]] = [
    (Call("Tensor.to", [t(6e4), "torch.float16"], h(INF)), Kind.CAST_OVERFLOW),
    (Call("Torch.mul", [t(7e4), t(1.0)], h(INF)), Kind.CAST_OVERFLOW),
    (Call("Functional.softmax", [t(5.0), 1], t(NAN)), Kind.MASKED_SOFTMAX),
    (Call("Functional.scaled_dot_product_attention", [t(1.0)] * 3, t(NAN)), Kind.MASKED_SOFTMAX),
    (Call("Torch.sub", [t(1.0), t(1.0)], t(NAN)), Kind.INF_MINUS_INF),
    (Call("Torch.sub", [t(1.0), MASK], t(INF)), Kind.INF_MINUS_INF),
    (Call("Torch.mul", [t(1.0), t(0.0)], t(NAN)), Kind.ZERO_TIMES_INF),
    (Call("Torch.mul", [MASK, t(-1.0, -2.0)], t(INF)), Kind.ZERO_TIMES_INF),
    (Call("Torch.exp", [t(88.0)], t(INF)), Kind.EXP_OVERFLOW),
    (Call("Torch.exp", [h(11.0)], h(INF)), Kind.EXP_OVERFLOW),
    (Call("Torch.exp", [t(1.0, -500.0)], t(INF)), Kind.EXP_OVERFLOW),
    (Call("Torch.exp2", [t(100.0)], t(INF)), Kind.EXP_OVERFLOW),
    (Call("Torch.pow", [1, t(1000.0)], t(INF)), Kind.EXP_OVERFLOW),
    (Call("Torch.pow", [0.1, t(1000.0, -20.0)], t(INF)), Kind.EXP_OVERFLOW),
    (Call("Torch.log", [t(1.0, 1e-30)], t(NAN)), Kind.LOG_ZERO),
    (Call("Torch.log1p", [t(1.0, -0.9)], t(NAN)), Kind.LOG_ZERO),
    (Call("Torch.sqrt", [t(1.0, 0.0)], t(NAN)), Kind.LOG_ZERO),
    (Call("Torch.matmul", [t(1e11), t(1.0)], t(INF)), Kind.LARGE_VALUE_PROPAGATION),
    (Call("Torch.div", [t(1.0), t(1.0, 0.5)], t(INF)), Kind.DIV_BY_ZERO),
    (Call("Torch.div", [t(1.0), t(-0.5, -1.0)], t(INF)), Kind.DIV_BY_ZERO),
    (Call("Torch.div", [t(1.0, 0.0), t(2.0, 1.0)], t(NAN)), Kind.DIV_BY_ZERO),
    (Call("Torch.rsqrt", [t(1.0, 0.5)], t(INF)), Kind.DIV_BY_ZERO),
    (Call("Torch.mul", [t(1.0), t(1.0, 0.0)], t(INF)), Kind.DIV_BY_ZERO),
    (Call("Functional.layer_norm", [t(1e30), [8]], t(NAN)), Kind.DIV_BY_ZERO),
    (Call("Functional.cross_entropy", [t(3.0), t(5, -100, (4,), "int64")], t(NAN, shape=())), Kind.DIV_BY_ZERO),
    (Call("Torch.mean", [t(1.0)], t(NAN, shape=())), Kind.DIV_BY_ZERO),
    (Call("Torch.frob", [h(6e4)], h(INF)), Kind.SATURATION),
    (Call("Torch.frob", [t(65504.0)], t(INF)), Kind.SATURATION),
    (Call("Torch.matmul", [h(1.0), h(1.0, shape=(8, 4))], h(INF)), Kind.FP16_OVERFLOW),
    (Call("Torch.frob", [h(1.0)], h(NAN)), Kind.FP16_OVERFLOW),
    (Call("Torch.matmul", [t(1e10), t(1e10, shape=(8, 4))], t(INF)), Kind.FP32_OVERFLOW),
    (Call("Torch.matmul", [t(3e5, dtype=BRAIN)] * 2, t(INF, dtype=BRAIN)), Kind.BF16_OVERFLOW),
]


@pytest.mark.parametrize(("call", "kind"), NEAR_MISSES, ids=[f"{kind.value}-{call}" for call, kind in NEAR_MISSES])
def test_does_not_fire(call: Call, kind: Kind, tmp_path: Path) -> None:
    assert why(call, tmp_path).kind is not kind


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (Call("Torch.sqrt", [t(1.0, -1.0)], t(NAN)), Kind.DOMAIN_ERROR),
        (Call("Torch.acos", [t(1.5, 0.0)], t(NAN)), Kind.DOMAIN_ERROR),
        (Call("Torch.pow", [t(1.0, -1.0), 0.5], t(NAN)), Kind.DOMAIN_ERROR),
        (Call("Torch.pow", [t(1.0, -1.0), 3.0], t(NAN)), Kind.UNKNOWN),
        (Call("Torch.sqrt", [t(1.0, 0.5)], t(NAN)), Kind.UNKNOWN),
        (Call("Torch.acos", [t(1.0)], t(NAN)), Kind.UNKNOWN),
        (Call("Torch.mul", [t(1.0), NAN], t(NAN)), Kind.NAN_ARGUMENT),
        (Call("Torch.mul", [t(1.0), 2.0], t(NAN)), Kind.UNKNOWN),
        (Call("Torch.frob", [t(1.0)], t(NAN)), Kind.UNKNOWN),
        (Call("Torch.std", [t(1.0, 1.0, (1,))], t(NAN, shape=(1,))), Kind.DIV_BY_ZERO),
    ],
    ids=str,
)
def test_arguments_alone_can_be_the_reason(call: Call, kind: Kind, tmp_path: Path) -> None:
    mechanism = why(call, tmp_path)
    assert mechanism.kind is kind
    assert mechanism.confidence is (POSSIBLE if kind is Kind.UNKNOWN else CERTAIN)


@pytest.mark.parametrize(
    "call",
    [
        Call("Functional.nll_loss", [t(-0.1, -5.0), t(3, 0, (4,), "int64")], t(NAN, shape=())),
        Call("Functional.kl_div", [t(-0.1, -5.0), t(0.9, 0.1)], t(NAN, shape=())),
        Call("Torch.logdet", [t(2.0, -1.0, (4, 4))], t(NAN, shape=())),
    ],
    ids=str,
)
def test_a_negative_argument_is_no_logarithm_of_zero_everywhere(call: Call, tmp_path: Path) -> None:
    assert why(call, tmp_path).kind is not Kind.LOG_ZERO


def test_low_precision_takes_part(tmp_path: Path) -> None:
    eight = blank(dtype="float8_e4m3fn")
    mechanism = why(Call("Torch._scaled_mm", [eight, eight, t(1.0, 1.0, ())], t(INF)), tmp_path)
    assert (mechanism.kind, mechanism.confidence) == (Kind.FP8_SCALE, POSSIBLE)
    assert why(Call("Torch._scaled_mm", [blank(), blank()], t(INF)), tmp_path / "not").kind is not Kind.FP8_SCALE


def test_a_large_value_is_followed_to_where_it_entered(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    rank.op("Functional.linear", [t(1.0), t(5.0)], [t(5.0)])
    jump = rank.op("Functional.embedding", [t(5.0), t(2.0)], [t(1e25)])
    rank.op("Torch.mul", [t(1e25), 0.5], [t(5e24)])
    rank.op("Torch.square", [t(5e24)], [t(INF)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.mechanism.kind, cause.mechanism.confidence) == (Kind.LARGE_VALUE_PROPAGATION, LIKELY)
    assert cause.mechanism.explanation.params["operator"] == jump
    assert [(r.op_name, r.magnitude_in, r.magnitude_out) for r in cause.run_up] == [
        ("Functional.linear.0.forward", 5.0, 5.0), (jump, 5.0, 1e25), ("Torch.mul.0.forward", 1e25, 5e24),
    ]  # fmt: skip


def test_a_result_clamped_at_the_limit_of_its_type(tmp_path: Path) -> None:
    """Hardware that saturates: nothing is non-finite, the product stands exactly at 65504 and must be beyond it."""
    run = Run()
    name = run.rank(0).op("Torch.matmul", [h(300.0), h(300.0, shape=(8, 4))], [h(65504.0)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.mechanism.kind, cause.mechanism.confidence) == (name, Kind.SATURATION, LIKELY)


@pytest.mark.parametrize("small", [h(65472.0), h(3.0)], ids=["below the limit", "far below"])
def test_a_result_below_the_limit_is_not_clamped(small: Json, tmp_path: Path) -> None:
    run = Run()
    run.rank(0).op("Torch.matmul", [h(300.0), h(300.0, shape=(8, 4))], [small])
    assert run.analyze(tmp_path).root_causes == ()


def test_a_limit_that_the_inputs_cannot_reach_is_no_clamp(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).op("Torch.matmul", [h(3.0), h(3.0, shape=(8, 4))], [h(65504.0)])
    assert run.analyze(tmp_path).root_causes == ()


STORED = [t(1.0), t(0.0, 0.0, (8,), grad=False), t(1.0, -2.0, (8,), grad=False), t(1.0, 1.0, (8,)), t(0.0, 0.0, (8,))]
"""Arguments of a normalisation with a stored mean and a negative stored variance."""


@pytest.mark.parametrize("operator", ["Functional.batch_norm", "Functional.instance_norm"])
@pytest.mark.parametrize(
    ("trains", "eps", "kind"),
    [(False, 1e-5, Kind.DOMAIN_ERROR), (True, 1e-5, Kind.DIV_BY_ZERO), (False, 3.0, Kind.DIV_BY_ZERO)],
    ids=["stored", "of the batch", "eps makes it positive"],
)
def test_a_negative_stored_variance(operator: str, trains: bool, eps: float, kind: Kind, tmp_path: Path) -> None:
    """Outside training its root is taken, and that has no value; in training it is only written."""
    found = why(Call(operator, [*STORED, trains, 0.1, eps], t(NAN)), tmp_path)
    assert found.kind is kind
    if kind is Kind.DOMAIN_ERROR:
        assert (found.confidence, found.explanation.params["value"]) == (CERTAIN, -2.0)


@pytest.mark.parametrize(
    ("operator", "variance"),
    [("Functional.batch_norm", -1e-6), ("Functional.instance_norm", -2.0), ("Torch.batch_norm", -2.0)],
    ids=["eps left out", "statistics of the batch", "a bias in that place"],
)
def test_what_a_call_leaves_out_is_its_default(operator: str, variance: float, tmp_path: Path) -> None:
    given = [*STORED[:2], t(1.0, variance, (8,), grad=False), *STORED[3:]]
    assert why(Call(operator, given, t(NAN)), tmp_path).kind is not Kind.DOMAIN_ERROR


@pytest.mark.parametrize(
    ("given", "clamped"),
    [(h(0.0, -65504.0), False), (h(-65504.0, -65504.0), False), (h(12.0, -65504.0), True), (h(65504.0), True)],
    ids=["mask", "mask of a forbidden row", "clamped below", "clamped above"],
)
def test_the_least_number_of_a_dtype_in_a_mask_was_not_clamped(given: Json, clamped: bool, tmp_path: Path) -> None:
    found = why(Call("Torch.frob", [h(1.0), given], h(NAN)), tmp_path)
    assert (found.kind is Kind.SATURATION) is clamped


@pytest.mark.parametrize(
    ("exponent", "kind"),
    [(t(1.5, 1.5, ()), Kind.DOMAIN_ERROR), (t(2.0, 2.0, ()), Kind.UNKNOWN), (t(1.5, 0.5, (8,)), Kind.UNKNOWN)],
    ids=["learnt", "whole", "several"],
)
def test_a_learnt_exponent_of_a_negative_base(exponent: Json, kind: Kind, tmp_path: Path) -> None:
    """A generalised mean: the exponent is a tensor of one number, and a base below zero has no such power."""
    assert why(Call("Torch.pow", [t(1.0, -1.0), exponent], t(NAN)), tmp_path).kind is kind
