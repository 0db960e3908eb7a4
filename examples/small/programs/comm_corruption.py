"""An all_reduce whose result is damaged on the way to one rank. Imitated: see before_msprobe."""

import torch
import torch.distributed as dist
from torch import nn

RANKS = 4


def before_msprobe(rank):
    whole = dist.all_reduce

    def damaged(tensor, *args, **kwargs):
        work = whole(tensor, *args, **kwargs)
        if rank == 2:
            tensor.view(-1)[1] = float("nan")
        return work

    dist.all_reduce = damaged


class Average(nn.Module):
    def forward(self, x):
        dist.all_reduce(x)
        return x / 4


def model():
    return Average()


def step(net, rank):
    net(torch.randn(2, 4)).sum()
