"""A softmax by hand: the maximum of a fully masked row is -Inf, and is subtracted from the row."""

import torch
from torch import nn


class Scores(nn.Module):
    def forward(self, scores, allowed):
        scores = scores.masked_fill(~allowed, float("-inf"))
        return torch.exp(scores - scores.amax(-1, keepdim=True))


def model():
    return Scores()


def step(net, rank):
    scores = torch.randn(2, 4, requires_grad=True)
    allowed = torch.tensor([[True, True, True, False], [False, False, False, False]])
    net(scores, allowed).sum().backward()
