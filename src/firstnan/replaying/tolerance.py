"""When a recorded value and a computed one differ.

The truth is float64. A device may compute in another order, in a shorter product format (TF32, HF32: 11 bits), or with
other approximations. How far that can move a result is found by experiment: the inputs move by one unit of rounding at
random, three times, and the largest change of each element (or what is usual in its row) is its sensitivity. The CPU's
own error in the dumped dtype is legitimate as well. NaN and Inf are never a matter of tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

SHORT_PRODUCT = 2.0**-11
"""Rounding of TF32 and HF32 inputs."""

_ROUNDINGS = 16
"""Units of rounding of the result itself."""
_SENSITIVITY = 24
_USUAL = 0.25
"""Part of the row's mean sensitivity that every element of the row has at least."""
_USUAL_ANYWHERE = 0.02
"""The same of the whole tensor, for sums."""
_CPU_ERROR = 8
CLOSE = 4
"""Units of rounding within which two results in one dtype are the same."""
_PART = 1 << 22
_TRIALS = 3
_SEED = 0


def unit(dtype: torch.dtype) -> float:
    """Distance from 1 to the next larger number of a floating dtype."""
    return float(torch.finfo(dtype).eps)


def input_unit(tensors: Sequence[Tensor], *, is_product: bool) -> float:
    """The rounding that inputs may carry; 0 when none of them is floating."""
    units = [unit(tensor.dtype) for tensor in tensors if tensor.is_floating_point()]
    largest = max(units, default=0.0)
    return max(largest, SHORT_PRODUCT) if is_product and units else largest


def close(one: Tensor, other: Tensor) -> Tensor:
    """Where two results in the same floating dtype are equal up to a few units of rounding."""
    info = torch.finfo(one.dtype)
    a, b = one.double(), other.double()
    return (a - b).abs() <= CLOSE * info.eps * b.abs() + 2 * info.tiny


def all_close(one: Tensor, other: Tensor) -> bool:
    """Whether :func:`close` holds everywhere; in parts, so that large tensors need little memory."""
    pairs = zip(one.reshape(-1).split(_PART), other.reshape(-1).split(_PART), strict=True)
    return all(bool(close(a, b).all()) for a, b in pairs)


def is_roughly(one: Tensor, other: Tensor, step: float) -> bool:
    """Whether all elements are equal by the measure of their row: for results whose float64 does not fit."""
    a, b = one.float(), other.float()
    size = b.abs() + (b.pow(2).mean(-1, keepdim=True).sqrt() if b.dim() else 0)
    return bool(((a - b).abs() <= _ROUNDINGS * step * size).all())


def shortened(tensor: Tensor) -> Tensor:
    """The numbers with eleven bits, as TF32 and HF32 take them; rounded to the nearest."""
    bits = tensor.to(torch.float32, copy=True, memory_format=torch.contiguous_format).view(torch.int32)
    return bits.add_(0x1000).bitwise_and_(~0x1FFF).view(torch.float32).to(tensor.dtype)


def sensitivity(
    run: Callable[[Callable[[Tensor], Tensor]], Sequence[Tensor | None]],
    truth: Sequence[Tensor | None],
    step: float,
) -> list[Tensor | None]:
    """How far each element moves when the inputs do by ``step``: the largest of three trials.

    Where the step is that of short products, a fourth trial rounds the inputs to them: equal inputs are then moved
    alike, and their errors add up instead of averaging out.
    """
    generator = torch.Generator().manual_seed(_SEED)

    def moved(tensor: Tensor) -> Tensor:
        noise = torch.rand(tensor.shape, generator=generator, dtype=torch.float64).mul_(2 * step).add_(1 - step)
        return noise.mul_(tensor) if tensor.dtype == noise.dtype else tensor * noise.to(tensor.dtype)

    changes = [moved] * _TRIALS + ([shortened] if step == SHORT_PRODUCT else [])
    found: list[Tensor | None] = [None] * len(truth)
    for change_inputs in changes:
        _take_larger(found, run(change_inputs), truth)
    return found


def _take_larger(found: list[Tensor | None], results: Sequence[Tensor | None], truth: Sequence[Tensor | None]) -> None:
    """How far the results are from the truth, where that is farther than known; they are not kept for the next run."""
    for at, (tensor, exact) in enumerate(zip(results, truth, strict=True)):
        if tensor is None or exact is None or not tensor.is_floating_point():
            continue
        change = (tensor.double() - exact.double()).abs_().nan_to_num_(0.0, 0.0, 0.0)
        before = found[at]
        found[at] = change if before is None else torch.maximum(before, change, out=before)


def allowed(recorded: Tensor, here: Tensor, truth: Tensor, moved: Tensor | None, *, is_sum: bool) -> Tensor:
    """The tolerance around the truth for each element, in float64.

    ``is_sum``: the result gathers many terms, so that rounding is measured by the size of its neighbours.
    """
    info = torch.finfo(recorded.dtype)
    exact = truth.double()
    size = exact.abs().nan_to_num_(0.0, 0.0, 0.0)
    typical = float(size.square().mean().sqrt()) if is_sum and size.numel() else 0.0
    tolerance = size.mul_(_ROUNDINGS * info.eps).add_(2 * info.tiny + 4 * info.eps * typical)
    if moved is not None:
        usual = _USUAL * (moved.mean(-1, keepdim=True) if moved.dim() else moved)
        if is_sum and moved.numel():  # terms may cancel exactly in float64 and leave their rounding elsewhere
            usual = usual.clamp_min(_USUAL_ANYWHERE * float(moved.mean()))
        tolerance.add_(torch.maximum(moved, usual), alpha=_SENSITIVITY)
    return tolerance.add_((here.double() - exact).abs_().nan_to_num_(0.0, 0.0, 0.0), alpha=_CPU_ERROR)
