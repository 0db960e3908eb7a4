"""Why a gradient turned bad: rows of the table in backward, with near misses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from made_runs import INF, NAN, Json, Run, events, t

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.registry import explain
from firstnan.operators.table import load

Kind = MechanismKind
CERTAIN, LIKELY, POSSIBLE = Confidence.CERTAIN, Confidence.LIKELY, Confidence.POSSIBLE
HALF = "float16"
SMALL = t(1e-3)


def h(high: Json, low: Json = "mirror", shape: Sequence[int] = (4, 8)) -> Json:
    return t(high, low, shape, HALF)


@dataclass(frozen=True)
class Turn:
    """A forward call, and its backward call with a finite gradient in and a bad one out."""

    operator: str
    inputs: Sequence[Json]
    output: Json
    gradient: Json
    result: Json
    kwargs: Mapping[str, Json] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = [f"{i['Max']}:{i['Min']}" if isinstance(i, dict) else str(i) for i in self.inputs]
        return f"{self.operator}({', '.join(shown)})"


def why(turn: Turn, path: Path, *, forward: bool = True) -> Mechanism:
    """The forward output is dropped by selection, so that only the gradient matters."""
    rank = Run().rank(0)
    for tensor in turn.inputs:
        if isinstance(tensor, dict) and tensor["Min"] == -INF:
            rank.op("Tensor.masked_fill", [t(1.0)], [tensor])
    name = rank.op(turn.operator, turn.inputs, [turn.output], **turn.kwargs)
    rank.op("Torch.where", [t(True, False, dtype="bool"), turn.output, t(1.0)], [t(1.0)])
    loss = rank.op("Torch.frob", [t(1.0)], [t(1.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    born = rank.backward(name, [turn.gradient], [turn.result])
    if not forward:
        del rank.data[name]
    return next(explain(e, load()) for e in events(rank, path) if e.record.name.full == born)


FIRES: list[tuple[Turn, Kind, Confidence]] = [
    (Turn("Tensor.to", [h(1.0)], t(1.0), t(7e4), h(INF)), Kind.CAST_OVERFLOW, CERTAIN),
    (Turn("Torch.mul", [t(-INF), t(1.0)], t(1.0, -INF), SMALL, t(NAN)), Kind.ZERO_TIMES_INF, LIKELY),
    (Turn("Torch.exp", [t(800.0)], t(INF, 0.0), SMALL, t(NAN)), Kind.ZERO_TIMES_INF, LIKELY),
    (Turn("Torch.log", [t(1.0, 0.0)], t(0.0, -INF), SMALL, t(NAN)), Kind.LOG_ZERO, CERTAIN),
    (Turn("Functional.binary_cross_entropy", [t(1.0, 0.5), t(1.0)], t(50.0), SMALL, t(NAN)), Kind.LOG_ZERO, CERTAIN),
    (Turn("Torch.div", [t(1.0), t(1.0, 0.0)], t(INF), SMALL, t(NAN)), Kind.DIV_BY_ZERO, CERTAIN),
    (Turn("Torch.div", [t(1.0), t(1.0)], t(INF), SMALL, t(NAN)), Kind.DIV_BY_ZERO, LIKELY),
    (Turn("Torch.reciprocal", [t(1.0, 0.0)], t(INF), SMALL, t(-INF)), Kind.DIV_BY_ZERO, CERTAIN),
    (Turn("Torch.sqrt", [t(1.0, 0.0)], t(1.0, 0.0), SMALL, t(INF)), Kind.SQRT_BACKWARD, CERTAIN),
    (Turn("Torch.norm", [t(0.0, 0.0)], t(0.0, 0.0, ()), SMALL, t(NAN)), Kind.SQRT_BACKWARD, CERTAIN),
    (Turn("Torch.norm", [t(1.0)], t(4.0, 3.0, (4,)), SMALL, t(NAN)), Kind.SQRT_BACKWARD, LIKELY),
    (Turn("Torch.pow", [t(1.0, 0.0), 0.5], t(1.0, 0.0), SMALL, t(INF)), Kind.SQRT_BACKWARD, CERTAIN),
    (Turn("Torch.acos", [t(1.0)], t(3.1, 0.0), SMALL, t(-INF)), Kind.SQRT_BACKWARD, CERTAIN),
    (
        Turn("Functional.layer_norm", [t(3.0), [8], t(1.0, 0.0, (8,))], t(1.0), SMALL, t(NAN)),
        Kind.DIV_BY_ZERO,
        LIKELY,
    ),
    (Turn("Functional.layer_norm", [t(3.0, 3.0), [8]], t(0.0), SMALL, t(NAN)), Kind.DIV_BY_ZERO, LIKELY),
    (Turn("Functional.linear", [h(50.0), h(2.0, shape=(8, 8))], h(5.0), h(5e4), h(INF)), Kind.FP16_OVERFLOW, LIKELY),
    (Turn("Torch.mul", [h(2.0), 1e4], h(2e4), h(100.0), h(INF)), Kind.FP16_OVERFLOW, LIKELY),
    (Turn("Torch.frob", [h(1.0)], h(2.0), h(6e4), h(INF)), Kind.FP16_OVERFLOW, LIKELY),
    (Turn("Torch.matmul", [t(1e20), t(1.0)], t(1e21), t(1e15), t(INF)), Kind.LARGE_VALUE_PROPAGATION, POSSIBLE),
    (Turn("Torch.frob", [h(1.0)], h(2.0), h(65504.0), h(INF)), Kind.SATURATION, LIKELY),
]


@pytest.mark.parametrize(("turn", "kind", "confidence"), FIRES, ids=[f"{kind.value}-{c}" for c, kind, _ in FIRES])
def test_fires(turn: Turn, kind: Kind, confidence: Confidence, tmp_path: Path) -> None:
    mechanism = why(turn, tmp_path)
    assert (mechanism.kind, mechanism.confidence) == (kind, confidence)


NEAR_MISSES: list[tuple[Turn, Kind]] = [
    (Turn("Tensor.to", [h(1.0)], t(1.0), t(6e4), h(INF)), Kind.CAST_OVERFLOW),
    (Turn("Torch.mul", [t(1.0), t(1.0)], t(1.0), SMALL, t(NAN)), Kind.ZERO_TIMES_INF),
    (Turn("Torch.exp", [t(8.0)], t(3000.0, 0.0), SMALL, t(NAN)), Kind.ZERO_TIMES_INF),
    (Turn("Torch.log", [t(1.0, 0.1)], t(0.0, -2.4), SMALL, t(NAN)), Kind.LOG_ZERO),
    (Turn("Torch.div", [t(1.0), t(2.0, 1.0)], t(1.0), SMALL, t(NAN)), Kind.DIV_BY_ZERO),
    (Turn("Torch.exp", [t(1.0)], t(2.7, 0.3), SMALL, t(NAN)), Kind.EXP_OVERFLOW),
    (Turn("Functional.softmax", [t(-INF)], t(1.0, 0.0), SMALL, t(NAN)), Kind.MASKED_SOFTMAX),
    (Turn("Torch.mul", [t(2.0, 1.0), t(1.0)], t(2.0), SMALL, t(NAN)), Kind.SQRT_BACKWARD),
    (Turn("Functional.linear", [h(0.5), h(0.5, shape=(8, 8))], h(2.0), h(1.0), h(INF)), Kind.FP16_OVERFLOW),
    (Turn("Torch.mul", [h(2.0), 3.0], h(6.0), h(1.0), h(INF)), Kind.FP16_OVERFLOW),
    (Turn("Torch.matmul", [t(1.0), t(1.0)], t(1.0), t(1e11), t(INF)), Kind.LARGE_VALUE_PROPAGATION),
]


@pytest.mark.parametrize(("turn", "kind"), NEAR_MISSES, ids=[f"{kind.value}-{turn}" for turn, kind in NEAR_MISSES])
def test_does_not_fire(turn: Turn, kind: Kind, tmp_path: Path) -> None:
    assert why(turn, tmp_path).kind is not kind


def test_the_derivative_of_a_root_is_finite_away_from_zero(tmp_path: Path) -> None:
    turn = Turn("Torch.sqrt", [t(2.0, 1.0)], t(1.4, 1.0), SMALL, t(NAN))
    assert why(turn, tmp_path).kind is not Kind.SQRT_BACKWARD


@pytest.mark.parametrize("operator", ["Torch.sqrt", "Torch.norm"])
def test_without_the_forward_record_it_is_only_possible(operator: str, tmp_path: Path) -> None:
    mechanism = why(Turn(operator, [t(1.0)], t(1.0), SMALL, t(NAN)), tmp_path, forward=False)
    assert (mechanism.kind, mechanism.confidence) == (Kind.SQRT_BACKWARD, POSSIBLE)
