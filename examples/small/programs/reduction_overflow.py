"""Partial results of four ranks, finite in float16, summed in float16."""

import torch
import torch.distributed as dist
from torch import nn

RANKS = 4


class RowParallel(nn.Module):
    def forward(self, part):
        dist.all_reduce(part)
        return part


def model():
    return RowParallel()


def step(net, rank):
    part = torch.full((2, 4), 20000.0 + 1000 * rank, dtype=torch.float16)
    net(part).float().mean()
