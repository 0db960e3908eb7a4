"""A fourth power in float32 of activations that had grown far beyond their size."""

import torch
from torch import nn


class Kurtosis(nn.Module):
    def forward(self, x):
        return torch.pow(x - x.mean(), 4).mean()


def model():
    return Kurtosis()


def step(net, rank):
    x = torch.linspace(-3e10, 3e10, 8, requires_grad=True)
    net(x).backward()
