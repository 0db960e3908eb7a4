"""The same operator on other ranks: ``causes/peers.py``."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import NAN, Json, Run, t, the_cause

from firstnan.answer.model import Confidence, MechanismKind


def run_of(here: Json, there: Json, ranks: int = 3, operator: str = "Torch.matmul") -> Run:
    """Rank 1's product is NaN; the others' with ``there`` as their input are finite."""
    run = Run()
    for rank in range(ranks):
        faulty = rank == 1
        value = here if faulty else there
        run.rank(rank).op(operator, [value, t(0.5, shape=(8, 8), grad=False)], [t(NAN) if faulty else t(2.0)])
        run.rank(rank).op("Torch.sum", [t(NAN) if faulty else t(2.0)], [t(NAN if faulty else 9.0, shape=())])
    return run


def test_same_operator_same_inputs(tmp_path: Path) -> None:
    """Small finite inputs, a bound far below the dtype's limit, finite peers: the device is suspected."""
    cause = the_cause(run_of(t(1.0), t(1.1)).analyze(tmp_path))
    assert (cause.rank, cause.op_name) == (1, "Torch.matmul.0.forward")
    assert cause.mechanism.kind is MechanismKind.DEVICE_FAULT_SUSPECTED
    assert cause.mechanism.confidence is Confidence.LIKELY
    assert cause.mechanism.explanation.params["ranks"] == "0,2"


def test_same_operator_same_inputs_on_one_peer_alone_is_weaker(tmp_path: Path) -> None:
    cause = the_cause(run_of(t(1.0), t(1.1), ranks=2).analyze(tmp_path))
    assert cause.mechanism.kind is MechanismKind.DEVICE_FAULT_SUSPECTED
    assert cause.mechanism.confidence is Confidence.POSSIBLE


@pytest.mark.parametrize(
    "there",
    [t(5.0), t(1.0, shape=(2, 8)), t(1.0, dtype="bfloat16")],
    ids=["larger by a factor of five", "another shape", "another type"],
)
def test_same_operator_same_inputs_not_alike(there: Json, tmp_path: Path) -> None:
    cause = the_cause(run_of(t(1.0), there).analyze(tmp_path))
    assert cause.mechanism.kind is not MechanismKind.DEVICE_FAULT_SUSPECTED


def test_same_operator_same_inputs_without_peers(tmp_path: Path) -> None:
    cause = the_cause(run_of(t(1.0), t(1.0), ranks=2).trace(tmp_path, 1))
    assert cause.mechanism.kind is MechanismKind.UNKNOWN


def test_same_operator_same_inputs_says_nothing_where_arithmetic_explains_it(tmp_path: Path) -> None:
    """The product of these inputs can leave float32: the peers' finite results are no proof."""
    cause = the_cause(run_of(t(3e38), t(3e38)).analyze(tmp_path))
    assert cause.mechanism.kind is not MechanismKind.DEVICE_FAULT_SUSPECTED


def test_same_operator_same_inputs_says_nothing_about_fused_kernels(tmp_path: Path) -> None:
    run = run_of(t(1.0), t(1.0), operator="NPU.npu_grouped_matmul")
    assert the_cause(run.analyze(tmp_path)).mechanism.kind is MechanismKind.UNKNOWN
