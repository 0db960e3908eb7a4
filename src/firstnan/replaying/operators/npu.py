"""What fused Ascend operators compute, as formulas of torch.

Written from their documented meaning. A result that a formula does not give is None and is not compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


class NoReferenceError(ValueError):
    """A form of the operator for which there is no formula."""


def npu_rms_norm(x: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """``x / sqrt(mean(x²) + epsilon) · gamma``, and the factor ``1 / sqrt(...)``."""
    axes = tuple(range(-gamma.dim(), 0))
    wide = x if x.dtype == torch.float64 else x.float()
    scale = torch.rsqrt(wide.pow(2).mean(axes, keepdim=True) + epsilon)
    return (wide * scale * gamma.to(wide.dtype)).to(x.dtype), scale


def npu_swiglu(x: Tensor, dim: int = -1) -> Tensor:
    """``silu(a) · b`` of the two halves a, b along an axis."""
    gate, value = x.chunk(2, dim)
    return functional.silu(gate) * value


def npu_rotary_mul(x: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half") -> Tensor:
    """``x · cos + rotated(x) · sin``; half: (a, b) turns into (−b, a), interleave: pairs do."""
    return _turned(x, r1, r2, rotary_mode)


def npu_rotary_position_embedding(x: Tensor, cos: Tensor, sin: Tensor, mode: int = 0) -> Tensor:
    """The same with a number for the mode: 0 half, 1 interleave."""
    return _turned(x, cos, sin, {0: "half", 1: "interleave"}.get(mode, str(mode)))


def _turned(x: Tensor, cos: Tensor, sin: Tensor, mode: str) -> Tensor:
    if mode == "half":
        one, other = x.chunk(2, -1)
        turned = torch.cat((-other, one), -1)
    elif mode == "interleave":
        turned = torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)
    else:
        raise NoReferenceError(f"no reference for the rotary mode {mode}")
    return x * cos + turned * sin


def npu_bmm(one: Tensor, other: Tensor, *_: object) -> Tensor:
    """A batched matrix product."""
    return torch.matmul(one, other)


def npu_fusion_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    pse: Tensor | None = None,
    padding_mask: Tensor | None = None,
    atten_mask: Tensor | None = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    **options: Any,
) -> tuple[Tensor | None, ...]:
    """``softmax(scale · q kᵀ + pse, masked) v``, in the layouts BSH, SBH, BSND and BNSD."""
    sparse = options.get("sparse_mode", 0)
    ragged = input_layout == "TND" or options.get("actual_seq_qlen") is not None
    if ragged or padding_mask is not None or keep_prob != 1 or sparse not in (0, 1, 2, 3):
        raise NoReferenceError(f"no reference for this form of npu_fusion_attention ({input_layout})")
    whole = (_length(query, input_layout), _length(key, input_layout))
    if sparse in (0, 1) and atten_mask is not None and tuple(atten_mask.shape[-2:]) != whole:
        raise NoReferenceError("no reference for a compressed mask")
    q, k, v = (_heads(tensor, head_num, query.shape[-1], input_layout) for tensor in (query, key, value))
    groups = q.shape[1] // max(k.shape[1], 1)
    k, v = (tensor.repeat_interleave(groups, 1) for tensor in (k, v))
    work = q.dtype if q.dtype == torch.float64 else torch.float32
    scores = torch.matmul(q.to(work), k.to(work).transpose(-1, -2)) * scale
    if pse is not None:
        scores = scores + pse.to(work)
    masked = _mask(atten_mask, sparse, scores)
    if masked is None:
        weights = torch.softmax(scores, -1)
    else:
        weights = torch.softmax(scores.masked_fill(masked, -math.inf), -1)
        weights = weights.masked_fill(masked.expand_as(scores).all(-1, keepdim=True), 0.0)  # no place to attend to
    out = torch.matmul(weights, v.to(work)).to(query.dtype)
    return (_unheads(out, input_layout), *(None for _ in range(6)))


def _length(tensor: Tensor, layout: str) -> int:
    return int(tensor.shape[layout.index("S")])


def _heads(tensor: Tensor, heads: int, width: int, layout: str) -> Tensor:
    """To [batch, head, place, element]; keys may have fewer heads, of the query's size."""
    if layout == "BNSD":
        return tensor
    if layout == "BSND":
        return tensor.transpose(1, 2)
    if layout == "SBH":
        tensor = tensor.transpose(0, 1)
    return tensor.unflatten(-1, (-1, width // heads)).transpose(1, 2)


def _unheads(tensor: Tensor, layout: str) -> Tensor:
    if layout == "BNSD":
        return tensor
    tensor = tensor.transpose(1, 2)
    if layout == "BSND":
        return tensor
    tensor = tensor.flatten(-2)
    return tensor.transpose(0, 1) if layout == "SBH" else tensor


def _mask(given: Tensor | None, sparse: int, scores: Tensor) -> Tensor | None:
    """True where nothing is attended to."""
    if sparse in (0, 1):
        return None if given is None else given.bool()
    rows, columns = scores.shape[-2:]
    shift = 0 if sparse == 2 else columns - rows  # the triangle starts in the left or the right lower corner
    return torch.ones(rows, columns, dtype=torch.bool).triu(shift + 1)


FORMULAS: Mapping[str, Callable[..., Any]] = {
    "npu_rms_norm": npu_rms_norm,
    "npu_swiglu": npu_swiglu,
    "npu_rotary_mul": npu_rotary_mul,
    "npu_rotary_position_embedding": npu_rotary_position_embedding,
    "npu_bmmV2": npu_bmm,
    "npu_bmm_v2": npu_bmm,
    "npu_fusion_attention": npu_fusion_attention,
}
"""Operator to formula."""
