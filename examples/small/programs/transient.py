"""A gradient that is NaN in the first run of the step alone, as after a flipped bit. Imitated: see step."""

import torch
from torch import nn

GUARD = True
runs = []


def model():
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))


def step(net, rank):
    loss = net(torch.ones(3, 4)).square().mean()
    loss.backward()
    runs.append(loss.item())
    if len(runs) == 1:
        net[0].weight.grad[1, 2] = float("nan")
    return loss
