"""Pipeline of encoder stages over blocking send / recv (GPipe order), with an optional tied group of data replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from parts import PARTS, Head, Part
from spec import Case
from torch import nn
from torch.nn import functional

DIM, LENGTH, CLASSES = 16, 6, 11


class Stage(nn.Module):
    """One stage: embedding on the first, library encoder layers, a tagger on the last."""

    def __init__(self, first: bool, last: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(CLASSES, DIM) if first else None
        self.pos = nn.Parameter(torch.randn(LENGTH, DIM) * 0.1) if first else None
        layer = nn.TransformerEncoderLayer(DIM, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.ModuleList([layer])
        self.parts = nn.ModuleList()
        self.norm = nn.LayerNorm(DIM) if last else None
        self.tagger = nn.Linear(DIM, CLASSES) if last else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.embed is not None:
            x = self.embed(x) + self.pos
        bias = torch.zeros(LENGTH, LENGTH).masked_fill(torch.ones(LENGTH, LENGTH).triu(1) > 0, float("-inf"))
        for block in self.blocks:
            x = block(x, src_mask=bias)
        for part in self.parts:
            x = part(x)
        if self.norm is not None:
            x = self.tagger(self.norm(x))
        return x


class StageModule(nn.Module):
    """Root module of a stage."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.stage(x)


def train_pipeline(case: Case, rank: int, world: int, out: Path, faulty: bool, debugger: Any) -> None:
    """`pp`: all ranks are stages. `ppdp`: the two halves of the ranks are two replicas of the pipeline."""
    replicas = 2 if case.par == "ppdp" else 1
    depth = world // replicas
    replica, position = divmod(rank, depth)
    first, last = position == 0, position == depth - 1
    groups = [dist.new_group([p, p + depth]) for p in range(depth)] if replicas == 2 else []
    torch.manual_seed(77 + position)
    model = StageModule(Stage(first, last))
    for where, name in case.parts:
        if int(where) == position:
            assert not issubclass(PARTS[name], Head)
            model.stage.parts.append(PARTS[name]())
    if faulty and case.edit is not None and rank in case.ranks:
        with torch.no_grad():
            case.edit(model)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=False)
    for step in range(case.steps):
        active = faulty and rank in case.ranks and step == case.step
        g = torch.Generator().manual_seed(50 * step + replica)
        data = [torch.randint(0, CLASSES, (2, LENGTH), generator=g) for _ in range(case.micro)]
        debugger.start(model=model)
        kept = []
        for micro in range(case.micro):
            for m in model.modules():
                if isinstance(m, Part):
                    m.on = active and micro == case.micro - 1
            x = data[micro]
            if not first:
                x = torch.empty(2, LENGTH, DIM)
                dist.recv(x, src=rank - 1)
                x.requires_grad_()
            y = model(x)
            if last:
                y = functional.cross_entropy(y.reshape(-1, CLASSES), data[micro].reshape(-1)) / case.micro
            else:
                dist.send(y.detach(), dst=rank + 1)
            kept.append((x, y))
        for x, y in kept:
            if last:
                y.backward()
            else:
                grad = torch.empty(2, LENGTH, DIM)
                dist.recv(grad, src=rank + 1)
                y.backward(grad)
            if not first:
                dist.send(x.grad, dst=rank - 1)
        if groups:
            flat = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
            dist.all_reduce(flat, group=groups[position])
            at = 0
            for p in model.parameters():
                p.grad.copy_(flat[at : at + p.numel()].view_as(p) / 2)
                at += p.numel()
        if case.clip:
            nn.utils.clip_grad_norm_(model.parameters(), case.clip)
        optimizer.step()
        optimizer.zero_grad()
        debugger.stop()
        debugger.step()
