"""The log of a probability: softmax gave 0 where the score was far below the largest."""

import torch
import torch.nn.functional as F
from torch import nn


class Entropy(nn.Module):
    def forward(self, scores):
        p = F.softmax(scores, dim=-1)
        return -(p * torch.log(p)).sum(-1)


def model():
    return Entropy()


def step(net, rank):
    scores = torch.tensor([[200.0, 1.0, 0.5], [0.1, 0.2, 0.3]], requires_grad=True)
    net(scores).mean().backward()
