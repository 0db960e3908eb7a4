"""Dumps without arguments (``data_mode: ["output"]``), or without the forward pass (``["backward"]``)."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Run, named, t, the_cause

from firstnan.answer.model import Confidence, Verdict


def answered(results: list[float]) -> Run:
    """A forward pass whose records show their results alone, and the backward of its loss."""
    run = Run()
    rank = run.rank(0)
    for result in results:
        rank.op("Torch.frob", [], [t(result)])
    loss = rank.op("Torch.sum", [], [t(results[-1], results[-1], shape=())])
    rank.backward(loss, [], [t(1.0)])
    for record in rank.data.values():
        for key in ("input", "input_args", "input_kwargs"):
            record.pop(key, None)
    return run


@pytest.mark.parametrize("bad", [(NAN, NAN), (INF, NAN), (INF, INF)], ids=str)
def test_what_it_took_in_was_not_dumped(bad: tuple[float, ...], tmp_path: Path) -> None:
    """The first bad result is the place, and no more than possible; what comes later may follow from it."""
    report = answered([1.0, 2.0, *bad]).analyze(tmp_path)
    assert named(report) == [(0, "Torch.frob.2.forward")]
    assert the_cause(report).place_confidence is Confidence.POSSIBLE


def test_a_nan_becomes_no_infinity(tmp_path: Path) -> None:
    """What was NaN before cannot be what the record with the infinity took in."""
    report = answered([NAN, 1.0, INF, INF]).analyze(tmp_path)
    assert named(report) == [(0, "Torch.frob.2.forward")]


def test_finite_results_alone_are_clean(tmp_path: Path) -> None:
    report = answered([1.0, 2.0, 3.0]).analyze(tmp_path)
    assert (report.verdict, report.exit_code) == (Verdict.CLEAN, 0)


@pytest.mark.parametrize("dumped", [True, False], ids=["forward dumped", "backward alone"])
def test_what_the_forward_call_saved_is_not_in_the_dump(dumped: bool, tmp_path: Path) -> None:
    """A finite gradient times a saved NaN: without the forward pass no record proves where the NaN began."""
    run = Run()
    rank = run.rank(0)
    forward = rank.op("Torch.square", [t(1.0)], [t(1.0)])
    loss = rank.op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    born = rank.backward(forward, [t(1.0)], [t(NAN)])
    if not dumped:
        for name in (forward, loss):
            del rank.data[name]
    report = run.analyze(tmp_path)
    assert named(report) == [(0, born)]
    assert the_cause(report).place_confidence is (Confidence.CERTAIN if dumped else Confidence.POSSIBLE)
