"""Attention whose second product gives NaN in one head and two rows. Imitated: see before_msprobe."""

import torch
from torch import nn

TASK = "tensor"


def before_msprobe(rank):
    exact = torch.matmul
    calls = []

    def broken(x, y):
        calls.append(1)
        result = exact(x, y)
        if len(calls) == 2:
            result.data[:, 1, 4:6] = float("nan")
        return result

    torch.matmul = broken


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 16)
        self.qkv = nn.Linear(16, 48)

    def forward(self, tokens):
        batch, length = tokens.shape
        q, k, v = self.qkv(self.embed(tokens)).view(batch, length, 3, 4, 4).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / 2, -1)
        heads = torch.matmul(weights, v)
        return heads.transpose(1, 2).reshape(batch, length, 16)


def model():
    return Attention()


def step(attention, rank):
    tokens = torch.arange(16).view(2, 8)
    attention(tokens).pow(2).mean().backward()
