"""A buffer of packed tokens of which the last row is never written."""

import torch
from torch import nn

torch.use_deterministic_algorithms(True)  # torch then fills fresh memory with NaN; without it, any garbage may be there


class Pack(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(4, 4)

    def forward(self, x):
        packed = torch.empty(4, 4)
        packed[:3] = x
        return self.mix(packed)


class Trainer(nn.Module):
    def __init__(self):
        super().__init__()
        self.pack = Pack()

    def forward(self, x):
        return self.pack(x).square().mean()


def model():
    return Trainer()


def step(net, rank):
    net(torch.randn(3, 4)).backward()
