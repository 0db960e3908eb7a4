"""Records without statistics on the way to a birth."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import NAN, Rank, Run, blank, t, the_cause

from firstnan.answer.model import Confidence

ZERO = t(0.0)
ROWS = (4,)


def normalised(rank: Rank, *, before: bool, behind: bool, size: tuple[int, ...]) -> tuple[str, str]:
    """``x.amax() / y`` with both zero, of which ``x`` may have come from a record without statistics."""
    rank.op("Torch.relu", [t(1.0)], [t(1.0)])
    blind = rank.op("Torch.exp", [blank(size)], [blank(size)]) if before else ""
    rank.op("Tensor.amax", [ZERO], [t(0.0, shape=ROWS)])
    div = rank.op("Tensor.__truediv__", [t(0.0, shape=ROWS), t(0.0, shape=ROWS)], [t(NAN, shape=ROWS)])
    if behind:
        rank.op("Torch.exp", [blank(size)], [blank(size)])
    loss = rank.op("Torch.mean", [t(NAN, shape=ROWS)], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0, shape=ROWS)])
    return blind, div


def test_a_blind_record_may_hold_the_cause(tmp_path: Path) -> None:
    run = Run()
    blind, div = normalised(run.rank(0), before=True, behind=False, size=(4, 8))
    cause = the_cause(run.analyze(tmp_path))
    assert cause.op_name == div
    assert (cause.place_confidence, cause.mechanism.confidence) == (Confidence.LIKELY, Confidence.LIKELY)
    assert (cause.alternatives[0].op_name, cause.alternatives[0].reason.key) == (blind, "reason.blind")


@pytest.mark.parametrize(
    ("before", "behind", "size"),
    [(False, True, (4, 8)), (True, False, (4, 9))],
    ids=["behind the birth", "of another size"],
)
def test_a_blind_record_elsewhere_takes_nothing_away(
    before: bool, behind: bool, size: tuple[int, ...], tmp_path: Path
) -> None:
    run = Run()
    normalised(run.rank(0), before=before, behind=behind, size=size)
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.place_confidence, cause.mechanism.confidence) == (Confidence.CERTAIN, Confidence.CERTAIN)


def test_the_way_back_goes_through_recorded_results(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.exp", [blank()], [blank()])
    rank.op("Tensor.mul", [ZERO, t(1.0)], [ZERO])
    rank.op("Torch.relu", [t(1.0)], [t(1.0)])
    div = rank.op("Tensor.__truediv__", [ZERO, ZERO], [t(NAN)])
    loss = rank.op("Torch.mean", [t(NAN)], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.place_confidence) == (div, Confidence.LIKELY)  # mul took in what exp gave
    rank.data["Torch.exp.0.forward"]["output"] = [t(1.0)]
    assert the_cause(run.analyze(tmp_path)).place_confidence is Confidence.CERTAIN
