"""The guard on several processes: all ranks together, or not at all."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

import ranks  # noqa: E402
import torch.distributed as dist  # noqa: E402
from nets import WIDTH, batch, loss_of, seeded_net  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import firstnan  # noqa: E402
from firstnan.cli.main import main  # noqa: E402
from firstnan.recording import closed_loop  # noqa: E402
from firstnan.recording.outcome import Off  # noqa: E402

pytestmark = pytest.mark.torch

BAD_RANK, BAD_STEP = 1, 3
Outcome = tuple[list[str], list[tuple[int, bool | None]], Off | None]


def _outcome(losses: list[str], guard: Any) -> Outcome:
    if guard is None:
        return losses, [], None
    return losses, [(f.step, f.reproduced) for f in guard.findings], guard.off


def _data_parallel(
    rank: int,
    out: Path | None,
    steps: int,
    kind: str = "healthy",
    wrapped: bool = True,
    found: list[Any] | None = None,
    **options: Any,
) -> Outcome:
    """Training under DDP (or with reductions by hand): batch normalisation, dropout, a fault on one rank."""
    net = seeded_net()
    model = DistributedDataParallel(net) if wrapped else net
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    torch.manual_seed(rank)
    guard = None if out is None else firstnan.guard(model, out, **{"analyze": False, "check": "gradients", **options})
    losses, glitches = [], []
    for step in range(steps):
        bad = rank == BAD_RANK and step == BAD_STEP

        def forward_backward(step: int = step, bad: bool = bad) -> Any:
            loss = loss_of(model, batch(step, rank), 400.0 if bad and kind == "persistent" else 1.0)
            if bad and kind == "transient" and not glitches:
                glitches.append(step)
                loss = loss * math.nan
            loss.backward()
            if not wrapped:
                for p in net.parameters():
                    dist.all_reduce(p.grad)
            return loss

        optimizer.zero_grad()
        loss = forward_backward() if guard is None else guard.step(forward_backward)
        optimizer.step()
        losses.append(repr(loss.item()))
    if guard is not None:
        guard.close()
    if found is not None:
        found.append(guard)
    return _outcome(losses, guard)


@pytest.mark.parametrize("world", [2, 4])
def test_fifty_losses_are_the_same_with_and_without_a_guard(tmp_path: Path, world: int) -> None:
    plain = ranks.run(world, _data_parallel, None, 50, folder=tmp_path)
    guarded = ranks.run(world, _data_parallel, tmp_path / "d", 50, folder=tmp_path)
    assert guarded == plain
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("wrapped", [True, False], ids=["ddp", "by_hand"])
@pytest.mark.parametrize("kind", ["persistent", "transient"])
def test_persistent_and_transient_faults_are_told_apart(tmp_path: Path, kind: str, wrapped: bool) -> None:
    plain = ranks.run(2, _data_parallel, None, 5, kind, wrapped, folder=tmp_path)
    guarded = ranks.run(2, _data_parallel, tmp_path / "d", 5, kind, wrapped, folder=tmp_path)
    assert [losses for losses, _, _ in guarded] == [losses for losses, _, _ in plain]
    assert [found for _, found, _ in guarded] == [[(BAD_STEP, kind == "persistent")]] * 2
    report = firstnan.analyze(tmp_path / "d")
    first = report.root_causes[0]
    expected = "exp_overflow" if kind == "persistent" else "transient"
    assert (report.step, first.rank, first.mechanism.kind.value) == (BAD_STEP, BAD_RANK, expected)


def test_what_ddp_reduces_inside_is_recorded(tmp_path: Path) -> None:
    ranks.run(2, _data_parallel, tmp_path / "d", 5, "persistent", folder=tmp_path)
    report = firstnan.analyze(tmp_path / "d")
    (call,) = (c for c in report.collectives if c.op == "all_reduce")
    assert (call.group, call.source_ranks, call.propagated_ranks) == ((0, 1), (1,), (0,))
    data = json.loads((tmp_path / "d" / f"step{BAD_STEP}" / "rank0" / "dump.json").read_text())["data"]
    assert not [name for name in data if name.startswith(("Aten.", "c10d."))], "what runs inside has no record"


@pytest.mark.skipif(not closed_loop.can_replay(), reason="records cannot run again here")
def test_the_record_that_the_answer_names_runs_again_on_rank_0(tmp_path: Path) -> None:
    plain = ranks.run(2, _data_parallel, None, 5, "persistent", folder=tmp_path)
    guarded = ranks.run(2, _named, tmp_path / "d", folder=tmp_path)
    assert [losses for losses, _ in guarded] == [losses for losses, _, _ in plain]
    assert [replay for _, replay in guarded] == [True, None]
    kept = [path.parts[-3:-2] for path in (tmp_path / "d-tensors").rglob("*.npy")]
    assert set(kept) == {(f"rank{BAD_RANK}",)}


def _named(rank: int, out: Path) -> tuple[list[str], bool | None]:
    found: list[Any] = []
    losses, _, _ = _data_parallel(rank, out, 5, "persistent", analyze=True, found=found)
    replay = found[0].findings[0].replay
    return losses, None if replay is None else replay.is_reproduced


@pytest.mark.parametrize("wrapped", [True, False], ids=["ddp", "by_hand"])
def test_replicas_agree(tmp_path: Path, wrapped: bool) -> None:
    """A healthy dump: the second run of a transient fault."""
    ranks.run(2, _data_parallel, tmp_path / "d", 5, "transient", wrapped, folder=tmp_path)
    assert main(["agree", str(tmp_path / "d")]) == 0


def _alone(rank: int, out: Path) -> tuple[Off | None, float]:
    net = seeded_net()
    if rank == 1:
        return None, 0.0  # never calls the guard
    guard = firstnan.guard(net, out, immediate=True)
    loss = guard.step(lambda: loss_of(net, batch(0)).detach())
    return guard.off, float(guard.step(lambda: loss + 1.0) - loss)


def test_a_rank_that_does_not_answer_ends_the_guard_alone(tmp_path: Path) -> None:
    answers = ranks.run(2, _alone, tmp_path / "d", folder=tmp_path, group_seconds=3.0)
    off, difference = answers[0]
    assert (off, difference) == (Off.NO_ANSWER, pytest.approx(1.0))


def _pipeline(rank: int, out: Path) -> list[tuple[int, bool | None]]:
    """Two stages, two micro-batches; only the last stage has a loss. The first stage overflows."""
    torch.manual_seed(rank)
    stage = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH))
    guard = firstnan.guard(stage, out, immediate=True, analyze=False)
    for step in range(2):

        def forward_backward(step: int = step) -> Any:
            total = torch.zeros(())
            for micro in range(2):
                if rank == 0:
                    x = torch.full((2, WIDTH), 1.0 + micro)
                    y = torch.log(stage(x) * (0.0 if step == 1 else 1.0) + 9.0 * (step == 0))
                    dist.send(y.detach(), 1)
                    gradient = torch.empty_like(y)
                    dist.recv(gradient, 1)
                    y.backward(gradient)
                else:
                    x = torch.empty(2, WIDTH)
                    dist.recv(x, 0)
                    x.requires_grad_()
                    loss = stage(x).square().mean()
                    loss.backward()
                    dist.send(x.grad, 0)
                    total = total + loss.detach()
            return total if rank == 1 else None

        stage.zero_grad()
        guard.step(forward_backward)
    return [(f.step, f.reproduced) for f in guard.findings]


def test_a_pipeline_runs_the_step_again_on_all_stages(tmp_path: Path) -> None:
    assert ranks.run(2, _pipeline, tmp_path / "d", folder=tmp_path) == [[(1, True)]] * 2
    (cause,) = firstnan.analyze(tmp_path / "d").root_causes
    assert (cause.rank, cause.op_name, cause.mechanism.kind.value) == (0, "Torch.log.0.forward", "log_zero")


def _tensor_parallel(_: int, out: Path) -> Off | None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2,))
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
    parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    guard = firstnan.guard(net, out, check="gradients", immediate=True, analyze=False)

    def forward_backward() -> Any:
        loss = torch.exp(net(torch.full((2, 8), 1e4)).abs() + 10.0).mean()
        loss.backward()
        return loss

    guard.step(forward_backward)
    assert len(guard.findings) == 1
    return guard.off


def test_tensor_parallel_models(tmp_path: Path) -> None:
    assert ranks.run(2, _tensor_parallel, tmp_path / "d", folder=tmp_path) == [None, None]
    report = firstnan.analyze(tmp_path / "d")
    assert {c.op_name for c in report.root_causes} == {"Torch.exp.0.forward"}
    assert report.call_map is not None


def _sharded(rank: int, out: Path | None) -> Outcome:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    net = seeded_net()
    fully_shard(net.gate, mesh=init_device_mesh("cpu", (2,)))
    fully_shard(net, mesh=init_device_mesh("cpu", (2,)))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    torch.manual_seed(rank)
    guard = None if out is None else firstnan.guard(net, out, check="gradients", analyze=False)
    losses = []
    for step in range(5):

        def forward_backward(step: int = step) -> Any:
            loss = loss_of(net, batch(step, rank), 400.0 if (rank, step) == (BAD_RANK, BAD_STEP) else 1.0)
            loss.backward()
            return loss

        optimizer.zero_grad()
        loss = forward_backward() if guard is None else guard.step(forward_backward)
        optimizer.step()
        losses.append(repr(loss.item()))
    return _outcome(losses, guard)


def test_sharded_models(tmp_path: Path) -> None:
    plain = ranks.run(2, _sharded, None, folder=tmp_path)
    guarded = ranks.run(2, _sharded, tmp_path / "d", folder=tmp_path)
    assert [losses for losses, _, _ in guarded] == [losses for losses, _, _ in plain]
    assert [(found, off) for _, found, off in guarded] == [([(BAD_STEP, True)], None)] * 2
    first = firstnan.analyze(tmp_path / "d").root_causes[0]
    assert (first.rank, first.op_name) == (BAD_RANK, "Torch.exp.0.forward")
    dump = tmp_path / "d" / f"step{BAD_STEP}" / f"rank{BAD_RANK}" / "dump.json"
    assert not [name for name in json.loads(dump.read_text())["data"] if name.startswith("fsdp.")]


def _calls(rank: int, out: Path) -> None:
    """Every kind of communication once."""
    x, other = torch.full((2,), float(rank + 1)), 1 - rank
    both, parts = torch.zeros(4), [torch.zeros(2), torch.zeros(2)]
    group = dist.new_group([0, 1])
    gather_into = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)  # the newer name, where it exists
    with firstnan.record(torch.nn.Identity(), out):
        dist.all_reduce(x.clone(), dist.ReduceOp.MAX)
        work = dist.all_reduce(x.clone(), group=group, async_op=True)
        work.wait()
        dist.broadcast(x.clone(), 1)
        dist.reduce(x.clone(), 1)
        dist.all_gather(parts, x)
        dist.all_to_all_single(torch.zeros(2), x)
        dist.scatter(torch.zeros(2), parts if rank == 0 else None, 0)
        dist.gather(x, parts if rank == 0 else None, 0)
        dist.reduce_scatter(torch.zeros(2), [x, x])
        gather_into(both, x)
        for request in dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, x, other), dist.P2POp(dist.irecv, torch.zeros(2), other)]
        ):
            request.wait()


def test_every_kind_of_communication_is_recorded_and_matched(tmp_path: Path) -> None:
    ranks.run(2, _calls, tmp_path / "d", folder=tmp_path)
    report = firstnan.analyze(tmp_path / "d")
    assert (report.verdict.value, report.complete, report.input.problems, report.caveats) == ("clean", True, (), ())
    data = json.loads((tmp_path / "d" / "step0" / "rank0" / "dump.json").read_text())["data"]
    results = {name.split(".")[1]: _maxima(record["output"][0]) for name, record in data.items() if name[0] == "D"}
    assert results == {
        "all_reduce": [3.0],
        "broadcast": [2.0],
        "reduce": results["reduce"],
        "all_gather": [1.0, 2.0],
        "all_to_all_single": [2.0],
        "scatter": [1.0],
        "gather": [1.0],
        "reduce_scatter": [3.0],
        "all_gather_into_tensor": [2.0],
        "isend": [],
        "irecv": [2.0],
    }


def _maxima(value: Any) -> list[float]:
    if isinstance(value, list):
        return [number for one in value for number in _maxima(one)]
    return [] if value is None else [value["Max"]]
