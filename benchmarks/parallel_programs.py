"""Programs on other people's parallel code, one process per rank: what :mod:`parallel` runs under MSProbe.

Every program computes the same in healthy and in faulty runs: a fault is a number (a gain, a factor, an element of a
weight or of the batch) on one rank.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

WIDTH, SEQUENCE, BATCH = 16, 6, 4


class Fault(Enum):
    """What is wrong in a run."""

    NONE = "ok"
    EXP = "exp"
    """A gain that makes ``exp`` overflow."""
    ROOT = "root"
    """A norm of exact zeros: its derivative is not finite."""
    WEIGHT = "weight"
    """A NaN in a weight, or in the shard of one."""
    BATCH = "batch"
    """A NaN in what one rank reads."""


@dataclass(frozen=True)
class Place:
    """This process, and what is wrong on it."""

    rank: int
    world: int
    fault: Fault
    at: int
    """Rank of the fault."""

    def has(self, fault: Fault) -> bool:
        return self.fault is fault and self.rank == self.at


class Block(nn.Module):
    """Attention over a causal mask and a gated layer, which a gain and a factor can break."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)
        self.gain, self.keep = 0.1, 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        scores = q @ k.transpose(-2, -1) / WIDTH**0.5
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        x = x + torch.softmax(scores.masked_fill(hidden, float("-inf")), -1) @ v
        gate = torch.exp(functional.relu(self.up(x)) * self.gain)
        x = x + self.down(functional.silu(self.up(x)) / gate * gate)
        length = torch.sqrt((x * self.keep).square().sum(-1, keepdim=True))
        return x * torch.tanh(length) if self.keep else x + length

    def spoil(self, place: Place) -> None:
        """The faults of this block."""
        if place.has(Fault.EXP):
            self.gain = 5e3
        if place.has(Fault.ROOT):
            self.keep = 0.0


class Net(nn.Module):
    """Some blocks and a head."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(blocks)])
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


Step = Callable[[], Any]
"""One step of training."""


def batch(place: Place) -> torch.Tensor:
    """Input of a rank."""
    x = torch.randn(BATCH, SEQUENCE, WIDTH)
    if place.has(Fault.BATCH):
        x[1, 2, 3] = float("nan")
    return x


def spoil_shard(parameter: torch.Tensor, place: Place) -> None:
    """A NaN in the part of a weight that this rank holds."""
    if place.has(Fault.WEIGHT):
        with torch.no_grad():
            local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
            local.view(-1)[0] = float("nan")


def _pipeline(place: Place, schedule: str, per_rank: int) -> tuple[nn.Module, Step]:
    from torch.distributed import pipelining

    count = place.world * per_rank
    net = Net(count)
    mine = [place.rank + place.world * turn for turn in range(per_rank)]
    parts = {at: nn.Sequential(net.blocks[at], *([net.head] if at == count - 1 else [])) for at in mine}
    last = parts[mine[-1]]
    last[0].spoil(place)
    spoil_shard(last[0].up.weight, place)
    stages = [pipelining.PipelineStage(parts[at], at, count, torch.device("cpu")) for at in mine]
    kind = getattr(pipelining, schedule)
    run = kind(stages if per_rank > 1 else stages[0], n_microbatches=BATCH, loss_fn=functional.mse_loss)
    holder = nn.ModuleDict({str(at): part for at, part in parts.items()})
    optimizer = torch.optim.SGD(holder.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        x, target = batch(Place(place.rank, place.world, place.fault, place.at)), torch.randn(BATCH, SEQUENCE, WIDTH)
        losses: list[torch.Tensor] = []
        given = (x,) if place.rank == 0 else ()
        wanted = {"target": target, "losses": losses} if count - 1 in mine else {}
        run.step(*given, **wanted)
        optimizer.step()

    return holder, step


def gpipe(place: Place) -> tuple[nn.Module, Step]:
    return _pipeline(place, "ScheduleGPipe", 1)


def one_forward_one_backward(place: Place) -> tuple[nn.Module, Step]:
    return _pipeline(place, "Schedule1F1B", 1)


def interleaved(place: Place) -> tuple[nn.Module, Step]:
    return _pipeline(place, "ScheduleInterleaved1F1B", 2)


def _data_parallel(net: nn.Module, place: Place) -> Step:
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        functional.mse_loss(net(batch(place)), torch.randn(BATCH, SEQUENCE, WIDTH)).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

    return step


def fsdp1(place: Place) -> tuple[nn.Module, Step]:
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    net = Net(2)
    net.blocks[1].spoil(place)
    whole = FullyShardedDataParallel(
        net, auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.device("cpu"), use_orig_params=False
    )
    spoil_shard(list(whole.parameters())[-1], place)
    optimizer = torch.optim.AdamW(whole.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        functional.mse_loss(whole(batch(place)), torch.randn(BATCH, SEQUENCE, WIDTH)).backward()
        whole.clip_grad_norm_(1.0)
        optimizer.step()

    return whole, step


def fsdp2(place: Place, mesh: Any = None) -> tuple[nn.Module, Step]:
    from torch.distributed.fsdp import fully_shard

    net = Net(2)
    net.blocks[1].spoil(place)
    for block in net.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(net, mesh=mesh)
    spoil_shard(net.blocks[1].up.weight, place)
    return net, _data_parallel(net, place)


def hsdp(place: Place) -> tuple[nn.Module, Step]:
    from torch.distributed.device_mesh import init_device_mesh

    return fsdp2(place, init_device_mesh("cpu", (2, place.world // 2), mesh_dim_names=("replicate", "shard")))


class Mlp(nn.Module):
    """Two layers that tensor parallelism splits."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)
        self.gain = 0.1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = functional.gelu(self.up(self.norm(x)))
        return x + self.down(h / torch.exp(functional.relu(h) * self.gain) * torch.exp(functional.relu(h) * self.gain))


class Stack(nn.Module):
    """Two of them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Mlp(), Mlp()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def tensor_parallel(place: Place) -> tuple[nn.Module, Step]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import parallel

    mesh = init_device_mesh("cpu", (place.world,))
    net = Stack()
    for layer in net.layers:
        plan = {"up": parallel.ColwiseParallel(), "down": parallel.RowwiseParallel()}
        parallel.parallelize_module(layer, mesh, plan)
    if place.has(Fault.EXP):
        net.layers[1].gain = 5e3
    spoil_shard(net.layers[1].up.weight, place)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, foreach=False)

    def step() -> None:
        optimizer.zero_grad()
        functional.mse_loss(net(batch(place)), torch.randn(BATCH, SEQUENCE, WIDTH)).backward()
        optimizer.step()

    return net, step


class Ring(nn.Module):
    """Attention whose keys and values go round: an online softmax that starts at -Inf."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.rank, self.world = place.rank, place.world
        self.gain, self.keep = 1.0, 1.0

    def passed_on(self, tensor: torch.Tensor) -> torch.Tensor:
        arriving = torch.empty_like(tensor)
        group = [
            dist.P2POp(dist.isend, tensor.contiguous(), (self.rank + 1) % self.world),
            dist.P2POp(dist.irecv, arriving, (self.rank - 1) % self.world),
        ]
        for request in dist.batch_isend_irecv(group):
            request.wait()
        return arriving

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        k, v = k.detach(), v.detach()
        best = torch.full((*x.shape[:-1], 1), float("-inf"))
        total = torch.zeros(*x.shape[:-1], 1)
        result = torch.zeros_like(x)
        for turn in range(self.world):
            source = (self.rank - turn) % self.world
            if source <= self.rank:
                scores = q @ k.transpose(-2, -1) / WIDTH**0.5 * self.gain
                if source == self.rank:
                    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
                    scores = scores.masked_fill(hidden, float("-inf"))
                new = torch.maximum(best, scores.amax(-1, keepdim=True))
                weight = torch.exp(scores - (new if self.gain == 1.0 else 0.0))
                old = torch.exp(best - new)
                total = total * old + weight.sum(-1, keepdim=True)
                result = result * old + weight @ v
                best = new
            if turn < self.world - 1:
                k, v = self.passed_on(k), self.passed_on(v)
        return self.out(result / total)


def ring_attention(place: Place) -> tuple[nn.Module, Step]:
    net = Ring(place)
    if place.has(Fault.EXP):
        net.gain = 5e3
    spoil_shard(net.qkv.weight, place)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        functional.mse_loss(net(batch(place)), torch.randn(BATCH, SEQUENCE, WIDTH)).backward()
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()

    return net, step


class Policy(nn.Module):
    """Gives the actions that it draws, and their log-probability."""

    def __init__(self, *, categorical: bool) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 5)
        self.categorical, self.gain = categorical, 0.1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = torch.exp(functional.relu(self.head(torch.tanh(self.body(x)))) * self.gain)
        odds = weights / weights.sum(-1, keepdim=True)
        if self.categorical:
            drawn = torch.distributions.Categorical(probs=odds)
            action = drawn.sample()
            return drawn.log_prob(action)
        action = torch.multinomial(odds, 1)
        return torch.log(odds.gather(-1, action)).squeeze(-1)


def _rollout(place: Place, *, categorical: bool) -> tuple[nn.Module, Step]:
    net = Policy(categorical=categorical)
    if place.has(Fault.EXP):
        net.gain = 5e3
    spoil_shard(net.head.weight, place)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        loss = -sum(net(batch(place)[:, at]).mean() for at in range(3))
        loss.backward()
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()

    return net, step


def rollout(place: Place) -> tuple[nn.Module, Step]:
    return _rollout(place, categorical=False)


def rollout_categorical(place: Place) -> tuple[nn.Module, Step]:
    return _rollout(place, categorical=True)


class Judge(nn.Module):
    """Tells real from made samples."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)
        self.gain = 0.1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.head(torch.exp(functional.softplus(self.body(x)) * self.gain)))


def penalty(place: Place) -> tuple[nn.Module, Step]:
    """A gradient penalty: backward runs twice through the same records."""
    net = Judge()
    if place.has(Fault.EXP):
        net.gain = 5e3
    keep = 0.0 if place.has(Fault.ROOT) else 1.0
    spoil_shard(net.head.weight, place)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        mixed = torch.randn(BATCH, WIDTH).requires_grad_()
        (gradient,) = torch.autograd.grad(net(mixed).sum(), mixed, create_graph=True)
        length = torch.sqrt((gradient * keep).square().sum(-1))
        (net(torch.randn(BATCH, WIDTH)).mean() + (length - 1).square().mean()).backward()
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()

    return net, step


def actors(place: Place) -> tuple[nn.Module, Step]:
    """Rank 0 learns from what the others, which compute without gradients, did with its weights."""
    net = Policy(categorical=False)
    if place.has(Fault.EXP):
        net.gain = 5e3
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def step() -> None:
        for parameter in net.parameters():
            dist.broadcast(parameter.data, src=0)
        seen = torch.zeros(BATCH, WIDTH + 1)
        if place.rank:
            with torch.no_grad():
                x = torch.randn(BATCH, WIDTH)
                seen = torch.cat([x, net(x).unsqueeze(-1)], -1)
        gathered = [torch.empty_like(seen) for _ in range(place.world)] if place.rank == 0 else None
        dist.gather(seen, gathered, dst=0)
        if gathered is not None:
            optimizer.zero_grad()
            x, before = torch.cat(gathered[1:]).split([WIDTH, 1], -1)
            torch.exp(net(x) - before.squeeze(-1)).mean().backward()
            optimizer.step()

    return net, step


class Half(nn.Module):
    """float16 layers, whose last gradient the loss scale multiplies."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.gain = 0.1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(self.first(x.half()))
        return self.last(h / torch.exp(functional.relu(h) * self.gain)).float()


def skipped(place: Place) -> tuple[nn.Module, Step]:
    """Two steps whose gradients overflow and are skipped; then the fault, or none."""
    net = Half().half()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    done = iter(range(100))
    scale = [2.0**22]

    def step() -> None:
        at = next(done)
        if at == 2 and place.has(Fault.EXP):
            net.gain = 100.0
        if at == 2:
            spoil_shard(net.last.weight, place)
        optimizer.zero_grad()
        loss = functional.mse_loss(net(torch.randn(BATCH, SEQUENCE, WIDTH)), torch.randn(BATCH, SEQUENCE, WIDTH))
        (loss * scale[0]).backward()
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
        finite = all(bool(torch.isfinite(p.grad).all()) for p in net.parameters())
        if finite:
            optimizer.step()
        scale[0] = 2.0**22 if at == 0 else 1024.0

    return net, step


PROGRAMS: dict[str, tuple[Callable[[Place], tuple[nn.Module, Step]], int, int, Sequence[Fault]]] = {
    "gpipe": (gpipe, 3, 2, (Fault.NONE, Fault.EXP, Fault.ROOT, Fault.WEIGHT)),
    "1f1b": (one_forward_one_backward, 3, 2, (Fault.NONE, Fault.EXP, Fault.ROOT, Fault.WEIGHT)),
    "interleaved": (interleaved, 2, 2, (Fault.NONE, Fault.EXP, Fault.ROOT, Fault.WEIGHT)),
    "fsdp1": (fsdp1, 2, 2, (Fault.NONE, Fault.EXP, Fault.ROOT, Fault.WEIGHT, Fault.BATCH)),
    "fsdp2": (fsdp2, 2, 2, (Fault.NONE, Fault.EXP, Fault.ROOT, Fault.WEIGHT, Fault.BATCH)),
    "hsdp": (hsdp, 4, 2, (Fault.NONE, Fault.EXP, Fault.WEIGHT)),
    "tensor_parallel": (tensor_parallel, 2, 2, (Fault.NONE, Fault.EXP, Fault.WEIGHT)),
    "ring": (ring_attention, 3, 2, (Fault.NONE, Fault.EXP, Fault.WEIGHT, Fault.BATCH)),
    "rollout": (rollout, 2, 2, (Fault.NONE, Fault.EXP, Fault.WEIGHT, Fault.BATCH)),
    "categorical": (rollout_categorical, 2, 2, (Fault.NONE, Fault.EXP, Fault.WEIGHT, Fault.BATCH)),
    "penalty": (penalty, 2, 2, (Fault.NONE, Fault.EXP, Fault.ROOT, Fault.WEIGHT)),
    "actors": (actors, 3, 2, (Fault.NONE, Fault.EXP)),
    "skipped": (skipped, 2, 4, (Fault.NONE, Fault.EXP, Fault.WEIGHT)),
}
"""Name -> the program, its ranks, its steps, and the faults that are put into it."""


@contextlib.contextmanager
def group(rank: int, world: int, port: int) -> Iterator[None]:
    """The process group of one run."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(world)}
    dist.init_process_group("gloo", rank=rank, world_size=world)
    yield
    dist.barrier()
    dist.destroy_process_group()
