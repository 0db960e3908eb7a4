"""A feature divided by a spread of almost nothing: 1e25 is finite, its square two operators later is not."""

import torch
from torch import nn


class Standardise(nn.Module):
    def forward(self, x):
        return x / (x.std(0) + 1e-25)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.standardise = Standardise()
        self.first = nn.Linear(4, 4)

    def forward(self, x):
        return self.first(self.standardise(x)).square().mean()


def model():
    return Net()


def step(net, rank):
    x = torch.randn(3, 4, requires_grad=True)
    with torch.no_grad():
        x[:, 1] = 2.0  # a constant feature
    net(x).backward()
