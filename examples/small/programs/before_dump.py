"""The dump begins in the middle: what the first recorded operator reads is NaN already."""

import torch
from torch import nn

hidden = torch.randn(3, 4)
hidden[0, 0] = float("nan")
hidden.requires_grad_()


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, hidden):
        return self.head(hidden).square().mean()


def model():
    return Head()


def step(net, rank):
    net(hidden).backward()
