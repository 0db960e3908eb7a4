"""A sample that was divided by a standard deviation of zero in the data pipeline."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 2)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


class Trainer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x):
        return self.net(x).square().mean()


def model():
    return Trainer()


def step(trainer, rank):
    x = torch.randn(3, 4)
    x[1] = float("nan")
    trainer(x).backward()
