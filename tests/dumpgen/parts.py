"""Pieces of ordinary training code in which a value can break, to be set into a model.

A part takes a tensor and returns one of the same shape (or, for `head` parts, adds a term to the loss). `on` is set
by the training loop on the ranks and the step where the case wants the break; off, the same code runs with sane
values, so that the run without the fault makes the same records.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional


class Part(nn.Module):
    """Base: a piece of code with a switch."""

    on = False


class ExpGate(Part):
    """Gate by an exponential whose temperature went wrong."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        beta = 900.0 if self.on else 0.1
        gate = torch.exp(torch.abs(x) * beta + (90.0 if self.on else 0.0))
        return x / (1 + gate)


class SoftPlusGate(Part):
    """log(1 + exp(x)) by hand: overflows where the library's softplus would not."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shift = 120.0 if self.on else 0.0
        return x + 0.01 * (1 + (x + shift).exp()).log()


class RowNorm(Part):
    """Standardise rows with a square root that has no epsilon: forward finite on a constant row only by luck."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        row = x * 0.0 + 1.0 if self.on else x
        var = (row - row.mean(-1, keepdim=True)).pow(2).mean(-1, keepdim=True)
        return x + torch.sqrt(var) * 0.1


class DivNorm(Part):
    """Divide by the norm of a row that may be nothing but zeros."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        keep = torch.ones((*x.shape[:-1], 1), dtype=x.dtype)
        if self.on:
            keep.view(-1)[0] = 0.0
        y = x * keep
        return x + y / y.norm(dim=-1, keepdim=True)


class WhereLog(Part):
    """The where trap: the logarithm of values that the selection drops, whose derivative survives."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * (x > 0) if self.on else torch.abs(x) + 0.5
        return x + torch.where(y > 0, torch.log(y), torch.zeros_like(y))


class ReluLog(Part):
    """The same behind a relu, whose derivative drops what comes from the exact zeros: harmless."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        return x + torch.where(y > 0, torch.log(y), torch.zeros_like(y))


class DroppedNaN(Part):
    """A NaN that is made and thrown away before anything reads it: harmless, with no gradient through it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            ratio = (x * 0.0) / (x * 0.0)
            safe = torch.nan_to_num(ratio, nan=1.0)
        return x * safe


class UnusedInf(Part):
    """A metric that is never read: its reciprocal is infinite."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            torch.reciprocal(x * 0.0).sum()
        return x


class AcosAngle(Part):
    """Angle of a cosine that is exactly one: its derivative is infinite."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        c = torch.tanh(x) if not self.on else torch.tanh(x) * 0.0 + 1.0
        return x + 0.1 * torch.acos(c)


class PowRoot(Part):
    """x ** 0.5 of an exact zero."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * (x > 0) if self.on else torch.abs(x) + 0.1
        return x + y**0.5


class ReluRoot(Part):
    """Square root behind a relu: an infinite derivative that the relu drops."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(x) ** 0.5


class DoubleMask(Part):
    """Two masks of the least finite number: their sum is -inf, harmless unless a whole row is masked twice."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = torch.matmul(x, x.transpose(-1, -2)).float()
        low = torch.finfo(score.dtype).min
        n = score.shape[-1]
        causal = torch.zeros(n, n).masked_fill(torch.ones(n, n).triu(0 if self.on else 1) > 0, low)
        padding = torch.zeros(n).masked_fill(torch.arange(n) >= (0 if self.on else n - 2), low)
        score = score + causal + padding
        return x + torch.matmul(torch.softmax(score, dim=-1).to(x.dtype), x)


class StaleBuffer(Part):
    """Adds a work buffer that nobody wrote: torch.empty, here filled with NaN behind the recorder's back."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        buf = torch.empty(x.shape[-1])
        buf.numpy()[:] = np.nan if self.on else 0.25  # a numpy view: leaves no record, as stale memory leaves none
        return x + buf


class HalfCast(Part):
    """Goes through fp16 although the numbers do not fit."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        big = x * (1e7 if self.on else 1.0)
        low = big.half()
        return x + (low * 0.5).float() * 1e-3


class _Reciprocal(torch.autograd.Function):
    """A kernel of one's own: no record of it is made."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.from_numpy(1.0 / x.detach().numpy())

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return -grad / (x * x)


class FusedKernel(Part):
    """Calls a custom autograd Function that divides by zero."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x) if self.on else torch.abs(x) + 1.0
        return x + 0.1 * torch.sigmoid(_Reciprocal.apply(y) * y)


class _BadGrad(torch.autograd.Function):
    """Forward is the identity; the hand-written derivative divides by zero."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, on: bool) -> torch.Tensor:
        ctx.on = on
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        scale = np.float32(0.0 if ctx.on else 1.0)
        with np.errstate(all="ignore"):
            return torch.from_numpy(grad.detach().numpy() / scale), None


class FusedBackward(Part):
    """Custom Function whose backward alone is wrong."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _BadGrad.apply(torch.tanh(x), self.on) + x


class NumpyScale(Part):
    """Per-channel scale computed on the host with numpy: 0 / 0."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = x.detach().float().numpy()
        amax = np.abs(a).max(axis=tuple(range(a.ndim - 1)))
        with np.errstate(all="ignore"):
            scale = (amax * 0) / (amax * 0) if self.on else amax / (amax + 1)
        return torch.mul(x, torch.from_numpy(scale.astype(np.float32)))


class ShiftMax(Part):
    """Attention-like mixing with a stable softmax by hand: a row that is masked as a whole gives -inf - -inf."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = torch.matmul(x, x.transpose(-1, -2))
        mask = torch.triu(torch.ones(score.shape[-2:], dtype=torch.bool), diagonal=0 if self.on else 1)
        score = score.masked_fill(mask, float("-inf"))
        top = torch.amax(score, dim=-1, keepdim=True)
        e = torch.exp(score - top)
        return x + torch.matmul(e / e.sum(-1, keepdim=True), x)


class LocalAttention(Part):
    """Window attention with -inf masks and the library's softmax."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = torch.matmul(x, x.transpose(-1, -2)) / math.sqrt(x.shape[-1])
        n = score.shape[-1]
        bias = torch.zeros(n, n)
        bias[torch.triu(torch.ones(n, n), diagonal=0 if self.on else 1) > 0] = float("-inf")
        return x + torch.matmul(functional.softmax(score + bias, dim=-1), x)


class GatedBias(Part):
    """Multiplies a -inf bias by a gate that may be closed: 0 * inf."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = torch.matmul(x, x.transpose(-1, -2))
        n = score.shape[-1]
        bias = torch.zeros(n, n).masked_fill(torch.ones(n, n).triu(1) > 0, float("-inf"))
        gate = torch.full((n, 1), 0.0 if self.on else 1.0)
        return x + torch.matmul(torch.softmax(score + bias * gate, dim=-1), x)


class HugeScore(Part):
    """Unscaled product of activations: overflows a 16-bit type."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = x * (400.0 if self.on else 1.0) + (300.0 if self.on else 0.0)
        score = torch.matmul(q, q.transpose(-1, -2))
        return x + torch.matmul(torch.softmax(score, dim=-1), x)


class CubeGate(Part):
    """tanh(x ** 3): the cube may overflow, the tanh hides it in forward and kills it in backward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.detach() * 10.0 + 100.0
        return x * torch.tanh(torch.pow(y, 3.0))


class Head(Part):
    """A part that adds a term to the loss, from the model's output and the batch."""


class MaskedMean(Head):
    """Pooled regression over the tokens of a mask, which may be empty."""

    def forward(self, out: Any, batch: dict[str, Any]) -> torch.Tensor:
        x = out.logits
        m = torch.ones(x.shape[:2])
        if self.on:
            m[-1] = 0
        pooled = (x * m.unsqueeze(-1)).sum(1) / m.sum(1, keepdim=True)
        return 0.1 * pooled.pow(2).mean()


class Entropy(Head):
    """Entropy of a hard distribution: p * log(p) with p exactly zero."""

    def forward(self, out: Any, batch: dict[str, Any]) -> torch.Tensor:
        p = torch.softmax(out.logits * (1e5 if self.on else 1.0), dim=-1)
        return -0.01 * (p * torch.log(p)).sum(-1).mean()


class FocalLoss(Head):
    """(1 - p) ** gamma with p exactly one: the derivative of the power is infinite."""

    def forward(self, out: Any, batch: dict[str, Any]) -> torch.Tensor:
        z = out.logits.float()
        p = torch.sigmoid(z + (60.0 if self.on else 0.0))
        return 0.01 * torch.pow(1 - p, 0.5).mean()


class Distill(Head):
    """Distillation: KL divergence to a teacher, with log taken of a clipped student probability."""

    def forward(self, out: Any, batch: dict[str, Any]) -> torch.Tensor:
        student = torch.softmax(out.logits * (1e4 if self.on else 1.0), dim=-1).log()
        teacher = torch.full_like(student, 1.0 / student.shape[-1])
        return 0.01 * functional.kl_div(student, teacher, reduction="batchmean")


class AllowedSet(Head):
    """Constrained decoding loss: logits outside an allowed set are -inf; the label must lie in the set."""

    def forward(self, out: Any, batch: dict[str, Any]) -> torch.Tensor:
        z = out.logits.reshape(-1, out.logits.shape[-1])
        banned = torch.zeros(z.shape[-1], dtype=torch.bool)
        banned[: z.shape[-1] // 2] = True
        label = torch.full((len(z),), z.shape[-1] - 1)
        if self.on:
            label[0] = 0
        return 0.01 * functional.cross_entropy(z.masked_fill(banned, float("-inf")), label)


class Jensen(Head):
    """log of a softmax taken in the model's own type: a probability that underflows to zero in fp16."""

    def forward(self, out: Any, batch: dict[str, Any]) -> torch.Tensor:
        p = torch.softmax(out.logits * (60.0 if self.on else 1.0), dim=-1)
        return -0.01 * torch.log(p).mean()


class HugeTerm(Head):
    """A loss weight that is off by many orders: gradients stay finite, their norm does not."""

    def forward(self, out: Any, batch: dict[str, Any]) -> torch.Tensor:
        return (1e25 if self.on else 1e-2) * out.logits.mean()


class GroupStd(Head):
    """Spread inside groups; a group of one has no unbiased variance."""

    def forward(self, out: Any, batch: dict[str, Any]) -> torch.Tensor:
        x = out.logits.flatten(1)
        group = x[:1] if self.on else x
        return 0.01 * torch.var(group, dim=0).mean()


class EmptySelect(Head):
    """Mean over selected rows; nothing is selected."""

    def forward(self, out: Any, batch: dict[str, Any]) -> torch.Tensor:
        x = out.logits
        limit = float("inf") if self.on else -1e9
        return 0.01 * torch.masked_select(x, x > limit).mean()


class LogSigmoidByHand(Head):
    """Binary loss by hand: log(1 - sigmoid(x)) is log(0) for a confident x."""

    def forward(self, out: Any, batch: dict[str, Any]) -> torch.Tensor:
        p = torch.sigmoid(out.logits.float() + (40.0 if self.on else 0.0))
        return -0.01 * torch.log(1 - p).mean()


PARTS: dict[str, type[Part]] = {c.__name__: c for c in Part.__subclasses__() + Head.__subclasses__() if c is not Head}
