"""The Bessel function i0 grows like exp, and no rule knows it: the input of ordinary size does not tell why it is Inf."""

import torch
from torch import nn


class Concentration(nn.Module):
    def forward(self, kappa):
        return torch.i0(kappa).sum()


def model():
    return Concentration()


def step(net, rank):
    net(torch.tensor([3.0, 1.0, 95.0, 2.0], requires_grad=True)).backward()
