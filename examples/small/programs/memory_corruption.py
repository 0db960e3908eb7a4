"""Data parallel training on three ranks; between two steps one bit of a weight flips on one of them."""

import torch
import torch.distributed as dist
from torch import nn

RANKS = 3
STEPS = 2
LEARNING_RATE = 0.1
seen = 0


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2))


def step(net, rank):
    global seen
    seen += 1
    if seen == 2 and rank == 1:
        bits = net[2].weight.data.view(torch.int32)
        bits[1, 5] ^= 1 << 20
    data = torch.randn(6, 4, generator=torch.Generator().manual_seed(10 * seen + rank))
    net.zero_grad()
    net(data).pow(2).mean().backward()
    with torch.no_grad():
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
            parameter -= LEARNING_RATE * parameter.grad / RANKS
