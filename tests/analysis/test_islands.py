"""Garbage that is computed with and thrown away: the rules of ``islands``."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Rank, Run, t, the_cause

from firstnan.answer.model import Report, Verdict


def stage(rank: Rank, read: object, given: object, factor: object = 1.0) -> str:
    """One run of a pipeline stage; the name of its product."""
    with rank.module("layers.0", "Block", [read], [given]):
        return rank.op("Torch.mul", [read, factor], [given])


def trial(rank: Rank) -> None:
    """The stage on uninitialised buffers, with its backward pass."""
    with rank.module("layers.0", "Block", [t(1e37)], [t(NAN)]) as module:
        rank.op("Functional.layer_norm", [t(1e37)], [t(NAN)])
    loss = rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(NAN)])
    rank._put(module.replace("forward", "backward"), {"input": [t(NAN)], "output": [t(NAN)]}, None)


def pipeline(tmp_path: Path, given: object, factor: object = 1.0, *, sends_first: bool = False) -> tuple[Report, str]:
    run = Run()
    first, last = run.rank(0), run.rank(1)
    stage(first, t(1.0), t(1.0))
    first.comm("send", [t(1.0), 1], {}, {})
    if sends_first:
        last.comm("send", [t(1.0), 0], {}, {})
        first.comm("recv", [None, 1], {}, {0: t(1.0)})
    trial(last)
    last.comm("recv", [None, 0], {}, {0: t(1.0)})
    name = stage(last, t(1.0), given, factor)
    loss = last.op("Torch.mean", [given], [given])
    last.backward(loss, [t(1.0)], [t(1.0)])
    return run.analyze(tmp_path), name


def test_a_stage_is_tried_on_garbage(tmp_path: Path) -> None:
    report, _ = pipeline(tmp_path, t(1.0))
    assert (report.verdict, report.exit_code) == (Verdict.CLEAN, 0)


def test_a_fault_behind_the_island_is_found(tmp_path: Path) -> None:
    report, name = pipeline(tmp_path, t(INF, 0.0), 1e39)
    assert the_cause(report).op_name == name


def test_a_rank_that_has_sent_a_tensor_is_no_island(tmp_path: Path) -> None:
    report, _ = pipeline(tmp_path, t(1.0), sends_first=True)
    assert the_cause(report).op_name == "Functional.layer_norm.0.forward"


@pytest.mark.parametrize("view", ["Torch.split", "Torch.chunk"])
def test_views_of_unfilled_memory_are_unfilled(view: str, tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    buffer, half = t(NAN, shape=(64,), grad=False), t(NAN, shape=(32,), grad=False)
    rank.op("Torch.empty", [64], [buffer])
    rank.op(view, [buffer, 32], [half, half])
    rank.op("Torch.mul", [t(1.0), t(1.0)], [t(1.0)])
    assert run.analyze(tmp_path).exit_code == 0
