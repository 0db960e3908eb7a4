"""A gate that writes softplus by hand, fed with scores that nothing bounds."""

import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(8, 4)
        nn.init.constant_(self.score.weight, 3.0)

    def forward(self, x):
        s = self.score(x)
        return x * torch.log(1 + torch.exp(s)).mean()


def model():
    return Gate()


def step(gate, rank):
    x = torch.linspace(1, 8, 16).reshape(2, 8)
    gate(x).sum().backward()
