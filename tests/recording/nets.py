"""Small models and one way to break them."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

VOCABULARY = 40
WIDTH = 16


class Gate(nn.Module):
    """A softmax by hand: exp without a bound."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = torch.exp(self.scores(x))
        return x * (weights / weights.sum(-1, keepdim=True))


class Net(nn.Module):
    """Embedding, gate, batch normalisation, dropout, output."""

    def __init__(self, *, checkpointed: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.gate = Gate()
        self.norm = nn.BatchNorm1d(WIDTH)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(WIDTH, VOCABULARY)
        self.checkpointed = checkpointed

    def forward(self, ids: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        x = self.embed(ids) * scale
        x = torch.utils.checkpoint.checkpoint(self.gate, x, use_reentrant=False) if self.checkpointed else self.gate(x)
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        return self.out(self.drop(x))


def batch(step: int, rank: int = 0) -> torch.Tensor:
    """The token ids of one step on one rank."""
    return torch.randint(0, VOCABULARY, (4, 6), generator=torch.Generator().manual_seed(1000 * step + rank))


def loss_of(net: nn.Module, ids: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    """Cross entropy; a scale of 400 makes the gate overflow."""
    return functional.cross_entropy(net(ids, scale).reshape(-1, VOCABULARY), ids.reshape(-1))


def seeded_net(*, checkpointed: bool = False) -> Net:
    """The same weights every time."""
    torch.manual_seed(0)
    return Net(checkpointed=checkpointed)
