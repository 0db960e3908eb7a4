"""Changes of the analysis that no other test noticed (see tools/mutation_check.py): values and their sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Json, Run, named, scalar, t, the_cause

from firstnan.answer.model import MechanismKind, Verdict


@pytest.mark.parametrize(
    ("largest", "result", "kind"),
    [
        (99.0, NAN, MechanismKind.UNKNOWN),
        (100.0, NAN, MechanismKind.UNKNOWN),
        (101.0, NAN, MechanismKind.FP16_OVERFLOW),
        (2.0, INF, MechanismKind.FP16_OVERFLOW),
    ],
)
def test_a_float16_result_without_a_bound(largest: float, result: float, kind: MechanismKind, tmp_path: Path) -> None:
    """An Inf is an overflow; a NaN may be one where the inputs are large."""
    rank = Run().rank(0)
    rank.op("NPU.npu_some_kernel", [t(largest, dtype="float16")], [t(result, dtype="float16")])
    rank.op("Torch.sum", [t(result, dtype="float16")], [t(result, shape=(), dtype="float16")])
    assert the_cause(Run({(0, 0): rank}).analyze(tmp_path)).mechanism.kind is kind


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_wide_result_without_a_bound_needs_huge_inputs(dtype: str, tmp_path: Path) -> None:
    rank = Run().rank(0)
    rank.op("NPU.npu_some_kernel", [t(500.0, dtype=dtype)], [t(INF, dtype=dtype)])
    rank.op("Torch.sum", [t(INF, dtype=dtype)], [t(INF, shape=(), dtype=dtype)])
    assert the_cause(Run({(0, 0): rank}).analyze(tmp_path)).mechanism.kind is MechanismKind.UNKNOWN


def test_the_writer_of_the_same_shape_is_the_one(tmp_path: Path) -> None:
    """Two values of one size and the same extremes: the reader's shape tells which of them it reads."""
    rank = Run().rank(0)
    born = rank.op("Torch.exp", [t(1000.0, 0.0, shape=(2, 8))], [t(INF, 1.0, shape=(2, 8))])
    rank.op("Torch.exp", [t(1000.0, 0.0, shape=(16,))], [t(INF, 1.0, shape=(16,))])
    rank.op("Torch.sum", [t(INF, 1.0, shape=(2, 8))], [t(INF, shape=())])
    assert named(Run({(0, 0): rank}).analyze(tmp_path)) == [(0, born)]


@pytest.mark.parametrize("given", [scalar(float("-inf")), t(-INF, -INF, shape=())], ids=["a number", "a tensor"])
def test_a_given_minus_inf_is_no_fault(given: Json, tmp_path: Path) -> None:
    rank = Run().rank(0)
    rank.op("Torch.some_fill", [t(1.0), given], [t(1.0, -INF)])
    rank.op("Functional.softmax", [t(1.0, -INF)], [t(1.0, 0.0)])
    assert Run({(0, 0): rank}).analyze(tmp_path).verdict is Verdict.CLEAN
