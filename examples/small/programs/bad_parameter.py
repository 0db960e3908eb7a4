"""A weight that was NaN before the step began, as after a bad update or from a damaged checkpoint."""

import torch
from torch import nn


def model():
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    with torch.no_grad():
        net[2].weight[1, 3] = float("nan")
    return net


def step(net, rank):
    net(torch.randn(3, 4)).sum().backward()
