"""Causal attention: full of -Inf, and right."""

import torch
import torch.nn.functional as F
from torch import nn

RISK = "ALL"


class Attention(nn.Module):
    def forward(self, scores):
        mask = torch.triu(torch.full((4, 4), float("-inf")), diagonal=1)
        return F.softmax(scores + mask, dim=-1)


def model():
    return Attention()


def step(net, rank):
    net(torch.randn(4, 4, requires_grad=True)).square().sum().backward()
