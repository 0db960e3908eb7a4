"""One rank of one run: build the model, wrap it, train a step or two under msprobe."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from nets import NETS, VOCAB
from parts import PARTS, Head, Part
from pipe import train_pipeline
from spec import Case
from torch import nn


class Adapter(nn.Module):
    """A layer followed by a part."""

    def __init__(self, inner: nn.Module, part: Part) -> None:
        super().__init__()
        self.inner, self.part = inner, part

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return self.part(self.inner(*args, **kwargs))


class TrainModule(nn.Module):
    """Network plus extra loss terms; the root module that a trainer wraps."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.extra = nn.ModuleDict()

    def forward(self, batch: dict[str, Any]) -> torch.Tensor:
        out = self.net(**batch)
        loss = out.loss
        for term in self.extra.values():
            loss = loss + term(out, batch)
        return loss


def make_debugger(case: Case, out: Path, rank: int) -> Any:
    from msprobe.pytorch import PrecisionDebugger

    stats: dict[str, Any] = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"}
    config: dict[str, Any] = {"task": "statistics", "dump_path": str(out), "rank": [], "step": [], "level": case.level}
    config |= {"async_dump": False, "statistics": stats}
    if case.risk:
        config["risk_level"] = case.risk
    path = out.with_name(f"{out.name}.config{rank}.json")
    path.write_text(json.dumps(config))
    return PrecisionDebugger(config_path=str(path))


def build(case: Case, faulty: bool) -> tuple[TrainModule, Any]:
    """The model with its parts, and the batch maker. Same weights on every rank."""
    torch.manual_seed(1234)
    net, maker = NETS[case.net](**case.over)
    tm = TrainModule(net)
    if case.ckpt:
        net.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": case.ckpt == "reentrant"})
    for path, name in case.parts:
        part = PARTS[name]()
        if isinstance(part, Head):
            tm.extra[name.lower()] = part
            continue
        parent, _, leaf = path.rpartition(".")
        owner = net.get_submodule(parent)
        inner = net.get_submodule(path)
        if isinstance(owner, nn.Sequential | nn.ModuleList):
            owner[int(leaf)] = Adapter(inner, part)
        else:
            setattr(owner, leaf, Adapter(inner, part))
    if case.dtype in ("fp16", "bf16"):
        tm.to(torch.float16 if case.dtype == "fp16" else torch.bfloat16)
    tm.train()
    if faulty and case.edit is not None:
        with torch.no_grad():
            case.edit(tm)
    return tm, maker


def wrap(case: Case, tm: TrainModule, world: int) -> nn.Module:
    if case.par == "ddp":
        return nn.parallel.DistributedDataParallel(tm)
    if case.par == "fsdp":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (world,))
        for name, m in tm.net.named_modules():
            if type(m).__name__ in ("LlamaDecoderLayer", "ViTLayer", "BertLayer", "MixtralDecoderLayer", "ResBlock"):
                fully_shard(m, mesh=mesh)
                assert name
        fully_shard(tm, mesh=mesh)
    if case.par == "tp":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        mesh = init_device_mesh("cpu", (world,))
        plan: dict[str, Any] = {}
        for i in range(len(tm.net.model.layers)):
            for col in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
                plan[f"model.layers.{i}.{col}"] = ColwiseParallel()
            for row in ("self_attn.o_proj", "mlp.down_proj"):
                plan[f"model.layers.{i}.{row}"] = RowwiseParallel()
        parallelize_module(tm.net, mesh, plan)
    return tm


def reduce_gradients(case: Case, tm: nn.Module, world: int, active: bool) -> None:
    """Data parallel by hand, in the ways trainers do it."""
    params = [p for p in tm.parameters() if p.grad is not None]
    if case.par == "dp":  # one all_reduce per parameter
        for p in params:
            dist.all_reduce(p.grad)
            p.grad.div_(world)
    elif case.par == "dpflat16":  # one flat bucket, compressed to fp16
        scale = case.bad_scale if active else 1.0
        flat = (torch.cat([p.grad.reshape(-1) for p in params]) * scale).half()
        work = dist.all_reduce(flat, async_op=True)
        work.wait()
        at = 0
        for p in params:
            p.grad.copy_(flat[at : at + p.numel()].view_as(p))
            at += p.numel()
        for p in params:
            p.grad.div_(world * scale)
    elif case.par == "zero":  # reduce_scatter of gradients, all_gather of updated shards
        flat = torch.cat([p.grad.reshape(-1) for p in params])
        flat = torch.nn.functional.pad(flat, (0, -len(flat) % world))
        shard = torch.empty(len(flat) // world)
        dist.reduce_scatter_tensor(shard, flat)
        weights = torch.cat([p.detach().reshape(-1) for p in params])
        weights = torch.nn.functional.pad(weights, (0, -len(weights) % world))
        mine = weights.chunk(world)[dist.get_rank()] - 1e-3 * shard / world
        if active and case.shard_edit is not None:
            case.shard_edit(mine)
        full = torch.empty_like(weights)
        dist.all_gather_into_tensor(full, mine.contiguous())
        at = 0
        with torch.no_grad():
            for p in params:
                p.copy_(full[at : at + p.numel()].view_as(p))
                at += p.numel()


def optimizer_for(case: Case, params: list[nn.Parameter], faulty: bool) -> Any:
    if faulty and case.bad_optim is not None:
        return case.bad_optim(params)
    if case.optim is not None:
        return case.optim(params)
    return torch.optim.AdamW(params, lr=1e-3, foreach=False)


def train(case: Case, rank: int, world: int, out: Path, faulty: bool) -> None:
    tm, maker = build(case, faulty)
    model = wrap(case, tm, world)
    late_ranks = case.ranks if case.late_ranks is None else case.late_ranks
    if faulty and case.late_edit is not None and rank in late_ranks:
        with torch.no_grad():
            case.late_edit(tm)
    optimizer = optimizer_for(case, [p for p in model.parameters() if p.requires_grad], faulty)
    scaler = (
        torch.amp.GradScaler("cpu", init_scale=case.scale, backoff_factor=case.backoff)
        if case.dtype == "fp16amp"
        else None
    )
    debugger = make_debugger(case, out, rank)
    for step in range(case.steps):
        active = faulty and rank in case.ranks and step == case.step
        data_rank = 0 if case.par == "tp" else rank
        batches = []
        for micro in range(case.micro):
            batch = maker(torch.Generator().manual_seed(1000 * step + 100 * micro + data_rank))
            last = micro == case.micro - 1
            if active and last and case.edit_batch is not None:
                case.edit_batch(batch)
            if case.dtype in ("fp16", "bf16"):
                low = torch.float16 if case.dtype == "fp16" else torch.bfloat16
                batch = {k: v.to(low) if v.is_floating_point() else v for k, v in batch.items()}
            batches.append(batch)
        debugger.start(model=model)
        for micro, batch in enumerate(batches):
            for m in tm.modules():
                if isinstance(m, Part):
                    m.on = active and micro == case.micro - 1
            cast: Any = contextlib.nullcontext()
            if case.dtype.endswith("amp"):
                cast = torch.autocast("cpu", torch.float16 if case.dtype == "fp16amp" else torch.bfloat16)
            with cast:
                loss = model(batch)
            loss = loss / case.micro
            (scaler.scale(loss) if scaler else loss).backward()
        if world > 1:
            reduce_gradients(case, tm, world, active)
        if scaler:
            scaler.unscale_(optimizer)
        if case.clip:
            nn.utils.clip_grad_norm_(model.parameters(), case.clip)
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        elif case.par != "zero":
            optimizer.step()
        optimizer.zero_grad()
        debugger.stop()
        debugger.step()


def rank_main(case: Case, rank: int, world: int, port: int, out: Path, faulty: bool) -> None:
    """Entry of a forked process."""
    torch.set_num_threads(1)
    if case.group:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank)}
        os.environ["WORLD_SIZE"] = str(world)
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        dist.init_process_group("gloo", rank=rank, world_size=world)
    if case.par.startswith("pp"):
        train_pipeline(case, rank, world, out, faulty, make_debugger(case, out, rank))
    else:
        train(case, rank, world, out, faulty)
    if case.group:
        dist.barrier()
        dist.destroy_process_group()


__all__ = ["VOCAB", "rank_main"]
