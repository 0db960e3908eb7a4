"""A matrix product of small numbers that gives Inf on one of four replicas. Imitated: see before_msprobe."""

import torch
from torch import nn

RANKS = 4


def before_msprobe(rank):
    exact = torch.matmul

    def broken(x, y):
        result = exact(x, y)
        if rank == 1:
            result.data.view(-1)[2] = float("inf")
        return result

    torch.matmul = broken


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 16).reshape(4, 4))

    def forward(self, x):
        return torch.matmul(x, self.weight)


def model():
    return Net()


def step(net, rank):
    net(torch.randn(3, 4)).sum().backward()
