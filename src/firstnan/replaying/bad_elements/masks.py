"""Bad elements of a tensor, counted and described."""

from __future__ import annotations

import torch
from torch import Tensor

from firstnan.answer.replay import BadElements
from firstnan.replaying.bad_elements.elements import axes_of, fills_block, picture_axes, picture_of


def non_finite(tensor: Tensor) -> Tensor:
    """Where NaN or Inf stands; nowhere in integers."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return torch.zeros_like(tensor, dtype=torch.bool)
    return ~torch.isfinite(plain(tensor))


def plain(tensor: Tensor) -> Tensor:
    """A tensor that all comparisons work on: 8-bit floats as float32."""
    return tensor.float() if tensor.is_floating_point() and tensor.element_size() == 1 else tensor


def describe(slot: str, tensor: Tensor, bad: Tensor) -> BadElements | None:
    """What the elements at ``bad`` are and where; None when there is none."""
    count = int(bad.sum())
    if not count:
        return None
    values = plain(tensor)[bad]
    floating = values.is_floating_point()
    nan = int(torch.isnan(values).sum()) if floating or values.is_complex() else 0
    posinf = int(torch.isposinf(values).sum()) if floating else 0
    neginf = int(torch.isneginf(values).sum()) if floating else 0
    shape = tuple(bad.shape)
    places = [_hit(bad, axis) for axis in range(bad.dim())]
    axes = axes_of(shape, places)
    shown = picture_axes(axes)
    return BadElements(
        slot=slot,
        dtype=str(tensor.dtype).removeprefix("torch."),
        shape=shape,
        nan=nan,
        posinf=posinf,
        neginf=neginf,
        differing=count - nan - posinf - neginf,
        of=bad.numel(),
        first=first_index(bad),
        axes=axes,
        block=fills_block(axes, count),
        picture=picture_of(shown, _picture_size(shape, shown), _seen_along(bad, shown)),
    )


def first_index(bad: Tensor) -> tuple[int, ...]:
    """Index of the first true element, of which there is one."""
    flat = int(bad.reshape(-1).to(torch.uint8).argmax())
    index: list[int] = []
    for size in reversed(bad.shape):
        flat, place = divmod(flat, size)
        index.append(place)
    return tuple(reversed(index))


def _hit(bad: Tensor, axis: int) -> list[int]:
    others = tuple(other for other in range(bad.dim()) if other != axis)
    along = bad.any(others) if others else bad
    return [int(place) for place in along.nonzero().flatten().tolist()]


def _picture_size(shape: tuple[int, ...], axes: tuple[int, int]) -> tuple[int, int]:
    down, across = (1 if axis < 0 else shape[axis] for axis in axes)
    return down, across


def _seen_along(bad: Tensor, axes: tuple[int, int]) -> list[tuple[int, int]]:
    others = tuple(axis for axis in range(bad.dim()) if axis not in axes)
    flat = bad.any(others) if others else bad
    flat = flat.reshape(_picture_size(tuple(bad.shape), axes))
    return [(down, across) for down, across in flat.nonzero().tolist()]
