"""Gradients that grow out of all measure in one operator, and overflow where no record adds them up."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Rank, Run, t, the_cause

from firstnan.answer.model import Confidence, MechanismKind, Where
from firstnan.dump.language import Language
from firstnan.show.outline.causes import place_key
from firstnan.words import text

ATTENTION = "Functional.scaled_dot_product_attention"


def head(rank: Rank, *, keys: object, values: object, given: object, dtype: str = "float32") -> str:
    """A module whose input goes into three projections; their gradients are added up on the way back."""
    usual, weight = t(1.0, dtype=dtype), t(0.5, shape=(8, 8), dtype=dtype)
    with rank.module("head", "Attention", [usual], [usual]) as module:
        projections = [rank.op("Functional.linear", [usual, weight], [usual]) for _ in range(3)]
        attention = rank.op(ATTENTION, [usual, usual, usual], [usual])
    loss = rank.op("Torch.sum", [usual], [t(1.0, shape=(), dtype=dtype)])
    rank.backward(loss, [t(1.0, shape=(), dtype=dtype)], [usual])
    rank.backward(attention, [usual], [usual, keys, values])
    for call, gradient in zip(projections, (usual, keys, values), strict=True):
        rank.backward(call, [gradient], [gradient])
    rank._put(module.replace("forward", "backward"), {"input": [usual], "output": [given]}, None)
    return f"{ATTENTION}.0.backward"


def test_a_sum_of_gradients_has_no_record(tmp_path: Path) -> None:
    run = Run()
    name = head(run.rank(0), keys=t(2.5e38), values=t(2.0e38), given=t(1e38, -INF))
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where) == (name, Where.OPERATOR)
    assert cause.mechanism.kind is MechanismKind.LARGE_VALUE_PROPAGATION
    assert (cause.mechanism.confidence, cause.place_confidence) == (Confidence.LIKELY, Confidence.LIKELY)
    told = {language: text(cause.mechanism.explanation, language) for language in Language}
    assert all("Module.head.Attention.backward.0" in words for words in told.values())
    assert place_key(cause) == "where.operator.jump"  # its result is finite


@pytest.mark.parametrize(
    ("keys", "dtype", "given"),
    [(t(2.0), "float32", t(NAN)), (t(1e20), "float32", t(INF, 0.0)), (t(6e4, dtype="float16"), "float16", t(NAN))],
    ids=["usual gradients", "far below the limit", "a dtype without such numbers"],
)
def test_without_a_jump_the_module_is_the_answer(keys: object, dtype: str, given: object, tmp_path: Path) -> None:
    """Gradients of 1e20 add up to nothing that float32 cannot hold."""
    run = Run()
    head(run.rank(0), keys=keys, values=t(1.0, dtype=dtype), given={**given, "dtype": f"torch.{dtype}"}, dtype=dtype)
    cause = the_cause(run.analyze(tmp_path))
    assert cause.op_name == "Module.head.Attention.backward.0"
    assert place_key(cause) == "where.operator.module"
    assert "not recorded" not in text("where.operator.module", Language.EN)  # its operators are
