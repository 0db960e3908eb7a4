"""Tensors without statistics that cost nothing: what sharded and tensor parallel training leaves at risk level ALL."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Json, Rank, Run, batch, blank, scalar, t, the_cause

from firstnan.answer.model import Verdict

PARTS = (32,)
BUFFER = t(NAN, shape=(64,), grad=False)


def on_its_way(kind: str = "torch.distributed._functional_collectives.AsyncCollectiveTensor") -> Json:
    return {**blank(), "type": kind}


def waited_for(rank: Rank, view: Json, given: Json) -> None:
    """A view of a result that has not arrived, and the operator that waits for it."""
    rank.op("Torch.relu", [t(1.0)], [t(1.0)])
    rank.op("Tensor.view_as", [view, view], [view])
    rank.op("Tensor.__add__", [t(1.0), view], [given])


def test_a_view_of_what_is_on_its_way_costs_nothing(tmp_path: Path) -> None:
    run = Run()
    waited_for(run.rank(0), on_its_way(), t(2.0))
    assert run.analyze(tmp_path).exit_code == 0


def test_a_view_of_a_usual_tensor_without_statistics_costs_completeness(tmp_path: Path) -> None:
    run = Run()
    waited_for(run.rank(0), on_its_way("torch.Tensor"), t(2.0))
    report = run.analyze(tmp_path)
    assert (report.verdict, report.complete) == (Verdict.CLEAN, False)


def test_what_arrived_bad_shows_in_who_waited_for_it(tmp_path: Path) -> None:
    run = Run()
    waited_for(run.rank(0), on_its_way(), t(NAN))
    assert the_cause(run.analyze(tmp_path)).op_name == "Tensor.__add__.0.forward"


@pytest.mark.parametrize(("given", "code"), [([scalar(8), scalar(1)], 0), ([], 4), ([blank()], 4)], ids=str)
def test_a_call_that_returns_no_tensor_costs_nothing(given: list[Json], code: int, tmp_path: Path) -> None:
    """``stride`` of a tensor without memory; a call that writes in place, or gives something unknown, may hide it."""
    run = Run()
    run.rank(0).op("Torch.relu", [t(1.0)], [t(1.0)])
    run.rank(0).op("Tensor.stride", [blank()], given)
    assert run.analyze(tmp_path).exit_code == code


def gathered(rank: Rank, *, parts: tuple[int, ...], arrives: Json) -> None:
    """The buffer of an all_gather that nothing filled yet, cut into the parts that it fills."""
    rank.op("Torch.chunk", [BUFFER, 2], [t(NAN, shape=parts, grad=False), t(1e29, shape=parts, grad=False)])
    rank.all_gather(t(1.0, shape=PARTS), [arrives, arrives])
    rank.op("Torch.vector_norm", [t(NAN, shape=(32,))], [t(NAN, shape=())])


def test_a_gather_fills_its_parts(tmp_path: Path) -> None:
    """The norm at the end is a cause of its own; the garbage in the buffer is none."""
    run = Run()
    gathered(run.rank(0), parts=PARTS, arrives=t(0.5, shape=PARTS))
    assert the_cause(run.analyze(tmp_path)).op_name == "Torch.vector_norm.0.forward"


@pytest.mark.parametrize("parts", [(16,), PARTS], ids=["other sizes", "bad when it arrives"])
def test_parts_that_no_gather_fills_are_read(parts: tuple[int, ...], tmp_path: Path) -> None:
    run = Run()
    arrives = t(0.5, shape=PARTS) if parts == (16,) else t(NAN, shape=PARTS)
    gathered(run.rank(0), parts=parts, arrives=arrives)
    assert "Torch.chunk.0.forward" in {cause.op_name for cause in run.analyze(tmp_path).root_causes}


def sharded(rank: Rank, *, weight: float = 0.5, given: float = 1.0) -> None:
    """A layer of fully sharded training whose communication is not recorded: a receive buffer of fresh memory and the
    parts of it that the gather fills, fresh memory for the whole parameters, and the layer that reads those."""
    buffer, half, part = (t(NAN, shape=(size,), grad=False) for size in (128, 64, 32))
    rank.op("Torch.empty", [128], [buffer], dtype="torch.float32")
    rank.op("Tensor.narrow", [buffer, 0, 64, 64], [half])
    rank.op("Torch.split", [half, [32, 32]], [part, t(1e29, shape=(32,), grad=False)])
    for _ in range(2):
        rank.op("Torch.empty", [[64]], [half], dtype="torch.float32")
    linear = rank.op("Functional.linear", [batch(1.0), t(weight, shape=(8, 8))], [t(weight)])
    result = rank.op("Torch.exp", [t(100.0 if given == INF else 1.0)], [t(given)])
    total = rank.op("Torch.sum", [t(given)], [t(given, shape=())])
    rank.backward(total, [t(1.0, shape=())], [t(1.0)])
    for call in (result, linear):
        rank.backward(call, [t(given)], [t(given)])


@pytest.mark.parametrize("ranks", [2, 4], ids=["shards", "shards and replicas"])
def test_healthy_sharded_training_is_clean(ranks: int, tmp_path: Path) -> None:
    run = Run()
    for number in range(ranks):
        sharded(run.rank(number))
    assert run.analyze(tmp_path).exit_code == 0


def test_the_fault_is_named_and_not_the_receive_buffer(tmp_path: Path) -> None:
    run = Run()
    sharded(run.rank(0))
    sharded(run.rank(1), given=INF)
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.rank, cause.op_name) == (1, "Torch.exp.0.forward")
