"""Small models of other kinds than transformers, for :mod:`healthy`: each makes a model and a batch.

The model's result is its loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Made = tuple[nn.Module, dict[str, Any]]


class Convolution(nn.Module):
    """A classifier of images with batch normalisation and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.1),
            nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Linear(16, 5)

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.head(self.body(images)), labels, label_smoothing=0.1)


class Autoencoder(nn.Module):
    """A variational autoencoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(24, 16), nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, log_variance = self.encoder(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(-1).mean()
        return functional.mse_loss(self.decoder(functional.silu(z)), x) + 0.1 * divergence


class Speech(nn.Module):
    """A recurrent recogniser with CTC; one target is as long as its input allows."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent, self.head = nn.GRU(12, 16, bidirectional=True), nn.Linear(32, 7)

    def forward(self, sound: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.recurrent(sound)
        scores = self.head(hidden).log_softmax(-1)
        lengths = torch.tensor([sound.shape[0], sound.shape[0] // 2, 6])
        return functional.ctc_loss(scores, targets, lengths, torch.tensor([6, 4, 2]), zero_infinity=True)


class Graph(nn.Module):
    """A graph network with attention over neighbours; one node has none."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.score, self.head = nn.Linear(8, 16), nn.Linear(32, 1), nn.Linear(16, 3)

    def forward(self, nodes: torch.Tensor, adjacent: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.inner(nodes))
        count = len(nodes)
        pairs = torch.cat([hidden[:, None].expand(-1, count, -1), hidden[None].expand(count, -1, -1)], -1)
        scores = functional.leaky_relu(self.score(pairs)).squeeze(-1).masked_fill(~adjacent, float("-inf"))
        weights = torch.nan_to_num(torch.softmax(scores, -1))
        return functional.cross_entropy(self.head(weights @ hidden), labels)


class Gaussian(nn.Module):
    """The marginal likelihood of a Gaussian process."""

    def __init__(self) -> None:
        super().__init__()
        self.log_length, self.log_noise = nn.Parameter(torch.zeros(())), nn.Parameter(torch.tensor(-1.0))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        distance = (x[:, None] - x[None]).square().sum(-1)
        covariance = torch.exp(-distance / (2 * self.log_length.exp())) + self.log_noise.exp() * torch.eye(len(x))
        factor = torch.linalg.cholesky(covariance)
        solved = torch.cholesky_solve(y[:, None], factor)
        return (0.5 * y @ solved + factor.diagonal().log().sum()).squeeze()


class Flow(nn.Module):
    """A normalising flow of affine couplings."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8)) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(len(x))
        for net in self.nets:
            left, right = x.chunk(2, -1)
            scale, shift = net(left).chunk(2, -1)
            scale = torch.tanh(scale)
            x = torch.cat([right * scale.exp() + shift, left], -1)
            total = total + scale.sum(-1)
        return (0.5 * x.square().sum(-1) - total).mean()


class Detector(nn.Module):
    """Boxes with an IoU loss and a focal loss; some boxes do not meet."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.boxes, self.classes = nn.Linear(16, 32), nn.Linear(32, 4), nn.Linear(32, 3)

    def forward(self, x: torch.Tensor, boxes: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = functional.relu(self.body(x))
        centre, size = self.boxes(hidden).sigmoid().chunk(2, -1)
        found = torch.cat([centre - size / 2, centre + size / 2], -1)
        corner, end = torch.max(found[:, :2], boxes[:, :2]), torch.min(found[:, 2:], boxes[:, 2:])
        inter = (end - corner).clamp(min=0).prod(-1)
        union = size.prod(-1) + (boxes[:, 2:] - boxes[:, :2]).prod(-1) - inter
        scores = self.classes(hidden)
        chance = scores.sigmoid()
        cross = functional.binary_cross_entropy_with_logits(scores, labels, reduction="none")
        return (1 - inter / union).mean() + ((1 - chance).square() * cross).mean()


class Recommender(nn.Module):
    """Embedding bags, one of them empty, and crossed features."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.deep = nn.EmbeddingBag(50, 8, mode="mean"), nn.Sequential(nn.Linear(14, 16), nn.Linear(16, 1))

    def forward(self, items: torch.Tensor, starts: torch.Tensor, dense: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        features = torch.cat([self.table(items, starts), dense], -1)
        return functional.binary_cross_entropy_with_logits(self.deep(features).squeeze(-1), y)


class Experts(nn.Module):
    """A router that masks all experts but the best two with -Inf."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.experts = nn.Linear(16, 4), nn.ModuleList(nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.router(x)
        best = scores.topk(2).indices
        kept = torch.full_like(scores, float("-inf")).scatter(-1, best, scores.gather(-1, best))
        weights = kept.softmax(-1)
        results = torch.stack([expert(x) for expert in self.experts], -1)
        return (results * weights[:, None]).sum(-1).square().mean()


class Policy(nn.Module):
    """PPO with masked actions."""

    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = nn.Linear(6, 5), nn.Linear(6, 1)

    def forward(self, state: torch.Tensor, allowed: torch.Tensor, reward: torch.Tensor) -> torch.Tensor:
        logits = self.actor(state).masked_fill(~allowed, torch.finfo(torch.float32).min)
        policy = torch.distributions.Categorical(logits=logits)
        action = policy.sample()
        value = self.critic(state).squeeze(-1)
        advantage = (reward - value).detach()
        ratio = torch.exp(policy.log_prob(action) - policy.log_prob(action).detach())
        clipped = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        return -clipped.mean() + functional.mse_loss(value, reward) - 0.01 * policy.entropy().mean()


class Contrastive(nn.Module):
    """InfoNCE whose diagonal is masked."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.scale = nn.Linear(12, 8), nn.Parameter(torch.tensor(1.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = functional.normalize(self.net(torch.cat([x, x + 0.1 * torch.randn_like(x)])), dim=-1)
        scores = (z @ z.T * self.scale.exp()).masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))
        return functional.cross_entropy(scores, torch.arange(len(z)).roll(len(x)))


class Diffusion(nn.Module):
    """A denoiser with time embeddings and skip connections."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle, self.up = nn.Conv2d(1, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 1, 1), nn.Conv2d(8, 4, 3, 1, 1)
        self.norm, self.time, self.out = nn.GroupNorm(2, 8), nn.Linear(16, 8), nn.Conv2d(5, 1, 3, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        step = torch.rand(len(x))
        angles = step[:, None] * torch.exp(torch.linspace(0, 5, 8))
        moment = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        noise = torch.randn_like(x)
        spoilt = x * (1 - step).sqrt()[:, None, None, None] + noise * step.sqrt()[:, None, None, None]
        hidden = functional.silu(self.norm(self.down(spoilt)) + moment[:, :, None, None])
        hidden = functional.interpolate(self.up(functional.silu(self.middle(hidden))), scale_factor=2)
        return functional.mse_loss(self.out(torch.cat([hidden, spoilt], 1)), noise)


class Tagger(nn.Module):
    """A recurrent tagger with a conditional random field; sentences are padded."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.recurrent = nn.Embedding(40, 12, padding_idx=0), nn.LSTM(12, 16, batch_first=True)
        self.head, self.moves = nn.Linear(16, 4), nn.Parameter(torch.randn(4, 4))

    def forward(self, tokens: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
        scores = self.head(self.recurrent(self.words(tokens))[0])
        total = scores[:, 0]
        for place in range(1, tokens.shape[1]):
            step = torch.logsumexp(total[:, :, None] + self.moves, 1) + scores[:, place]
            total = torch.where((tokens[:, place] > 0)[:, None], step, total)
        gold = scores.gather(-1, tags[..., None]).squeeze(-1).masked_fill(tokens == 0, 0.0).sum(-1)
        gold = gold + self.moves[tags[:, :-1], tags[:, 1:]].masked_fill(tokens[:, 1:] == 0, 0.0).sum(-1)
        return (torch.logsumexp(total, -1) - gold).mean()


def _speech() -> Made:
    return Speech(), {"sound": torch.randn(20, 3, 12), "targets": torch.randint(1, 7, (3, 6))}


def _graph() -> Made:
    adjacent = torch.rand(10, 10) > 0.5
    adjacent[3] = False
    labels = torch.randint(0, 3, (10,))
    return Graph(), {"nodes": torch.randn(10, 8), "adjacent": adjacent, "labels": labels}


def _recommender() -> Made:
    starts = torch.tensor([0, 3, 3, 5])
    batch = {"items": torch.randint(0, 50, (9,)), "starts": starts, "dense": torch.randn(4, 6)}
    return Recommender(), {**batch, "y": torch.tensor([0.0, 1.0, 1.0, 0.0])}


def _policy() -> Made:
    allowed = torch.rand(8, 5) > 0.4
    allowed[:, 0] = True
    return Policy(), {"state": torch.randn(8, 6), "allowed": allowed, "reward": torch.randn(8)}


def _tagger() -> Made:
    tokens = torch.randint(1, 40, (3, 7))
    tokens[1, 4:] = 0
    return Tagger(), {"tokens": tokens, "tags": torch.randint(0, 4, (3, 7))}


def _detector() -> Made:
    corner = torch.rand(6, 2) / 2
    boxes = torch.cat([corner, corner + 0.3], -1)
    return Detector(), {"x": torch.randn(6, 16), "boxes": boxes, "labels": torch.randint(0, 2, (6, 3)).float()}


NETS: dict[str, Callable[[], Made]] = {
    "convolution": lambda: (Convolution(), {"images": torch.randn(4, 3, 16, 16), "labels": torch.arange(4)}),
    "autoencoder": lambda: (Autoencoder(), {"x": torch.randn(6, 24)}),
    "speech-ctc": _speech,
    "graph-attention": _graph,
    "gaussian-process": lambda: (Gaussian(), {"x": torch.randn(9, 2), "y": torch.randn(9)}),
    "normalising-flow": lambda: (Flow(), {"x": torch.randn(7, 8)}),
    "detection": _detector,
    "recommender": _recommender,
    "experts": lambda: (Experts(), {"x": torch.randn(10, 16)}),
    "ppo": _policy,
    "contrastive": lambda: (Contrastive(), {"x": torch.randn(5, 12)}),
    "diffusion": lambda: (Diffusion(), {"x": torch.randn(3, 1, 8, 8)}),
    "tagger-crf": _tagger,
}
"""Name -> how to make a model with a batch."""
