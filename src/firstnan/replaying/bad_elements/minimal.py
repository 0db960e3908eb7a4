"""The smallest input that still gives the NaN or Inf: found by cutting axes that tensors share.

All tensors of one size along an axis are cut together to one place (or to a half of it), then one by one, as long as
the operator still makes a non-finite result of it. What is left is small enough to be read: ``exp(418.98)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import torch
from msgspec import Struct
from msgspec.structs import replace

from firstnan.answer.replay import MOST_VALUES, Minimal, SmallInput
from firstnan.replaying.arguments import Arguments, Leaf
from firstnan.replaying.bad_elements import masks
from firstnan.replaying.experiment import Experiment
from firstnan.replaying.refusal import RefusedError

_MOST_RUNS = 300
_MOST_PLACES = 24
"""Places of one axis that are tried, those of the first bad elements in front."""
_LARGEST = 1 << 22
"""Elements of an input beyond which nothing is cut."""
_SIGNS = {"__add__": "+", "__radd__": "+", "add": "+", "__sub__": "-", "sub": "-", "__mul__": "×", "__rmul__": "×",
          "mul": "×", "matmul": "×", "__matmul__": "×", "mm": "×", "bmm": "×", "__truediv__": "/", "div": "/",
          "true_divide": "/", "divide": "/", "pow": "**", "__pow__": "**"}  # fmt: skip


class _Cut(Struct, frozen=True):
    """A tensor, and where it was cut out: a place or a range of each axis, None where the axis is whole."""

    leaf: Leaf
    index: tuple[int | None, ...]


def smallest(made: Experiment) -> Minimal | None:
    """The smallest input found; None for backward records and for inputs that are too large to be tried."""
    leaves = made.leaves
    if made.gradients is not None or sum(leaf.tensor.numel() for leaf in leaves) > _LARGEST or not leaves:
        return None
    search = _Search(made)
    cuts = [_Cut(leaf, (None,) * leaf.tensor.dim()) for leaf in leaves]
    if not search.is_bad(cuts):
        return None
    cuts = search.cut(cuts)
    inputs = tuple(_small(cut) for cut in cuts)
    return Minimal(_expression(made, cuts), inputs, tuple(cut.index for cut in cuts))


class _Search:
    def __init__(self, made: Experiment) -> None:
        self._made = made
        self._runs = 0
        self._makes_nan = any(bool(torch.isnan(masks.plain(leaf.tensor)).any()) for leaf in made.recorded)

    def is_bad(self, cuts: Sequence[_Cut]) -> bool:
        """Whether the operator still gives a non-finite result, and not from a non-finite input alone."""
        self._runs += 1
        split = len(self._made.args.leaves)
        leaves = [cut.leaf for cut in cuts]
        part = replace(
            self._made,
            args=Arguments(self._made.args.tree, tuple(leaves[:split])),
            kwargs=Arguments(self._made.kwargs.tree, tuple(leaves[split:])),
        )
        try:
            found = part.results()
        except RefusedError:
            return False
        return any(bool(self._wanted(tensor).any()) for tensor in found)

    def _wanted(self, tensor: torch.Tensor) -> torch.Tensor:
        """NaN where the record made NaN: an Inf that only passes through is something else."""
        return torch.isnan(masks.plain(tensor)) if self._makes_nan else masks.non_finite(tensor)

    def cut(self, cuts: list[_Cut]) -> list[_Cut]:
        for size in sorted({size for cut in cuts for size in cut.leaf.tensor.shape if size > 1}, reverse=True):
            for group in _groups(cuts, size):
                found = self._at_one_place(cuts, size, group)
                if found is None:
                    continue
                cuts = found
                break
        return cuts

    def _at_one_place(self, cuts: list[_Cut], size: int, group: frozenset[tuple[int, int]]) -> list[_Cut] | None:
        for place in self._places(size, group):
            if self._runs >= _MOST_RUNS:
                return None
            tried = [_narrowed(cut, at, group, place) for at, cut in enumerate(cuts)]
            if self.is_bad(tried):
                return tried
        return None

    def _places(self, size: int, group: Iterable[tuple[int, int]]) -> Iterable[int]:
        axes = {axis for _, axis in group}
        first: list[int] = []
        for leaf in self._made.recorded:
            bad = masks.non_finite(leaf.tensor)
            if bool(bad.any()):
                index = masks.first_index(bad)
                first += [index[axis] for axis in axes if axis < len(index) and index[axis] < size]
        return list(dict.fromkeys([*first, *range(size)]))[:_MOST_PLACES]


def _groups(cuts: Sequence[_Cut], size: int) -> Iterator[frozenset[tuple[int, int]]]:
    """Axes of that size that may belong together: all of them, those at one place, each alone."""
    axes = [
        (at, axis) for at, cut in enumerate(cuts) for axis, long in enumerate(cut.leaf.tensor.shape) if long == size
    ]
    groups = [frozenset(axes)]
    groups += [frozenset(one for one in axes if one[1] == axis) for axis in sorted({axis for _, axis in axes})]
    groups += [frozenset({one, other}) for one in axes for other in axes if one[0] < other[0]]
    groups += [frozenset({one}) for one in axes]
    yield from dict.fromkeys(groups)


def _narrowed(cut: _Cut, at: int, group: Iterable[tuple[int, int]], place: int) -> _Cut:
    tensor, index = cut.leaf.tensor, list(cut.index)
    for number, axis in group:
        if number == at:
            tensor = tensor.narrow(axis, place, 1)
            index[axis] = place
    return _Cut(replace(cut.leaf, tensor=tensor), tuple(index))


def _small(cut: _Cut) -> SmallInput:
    tensor = masks.plain(cut.leaf.tensor)
    values = (
        tuple(float(value) for value in tensor.reshape(-1)[:MOST_VALUES].abs().tolist())
        if tensor.is_complex()
        else (tuple(float(value) for value in tensor.reshape(-1)[:MOST_VALUES].tolist()))
    )
    dtype = str(cut.leaf.tensor.dtype).removeprefix("torch.")
    return SmallInput(cut.leaf.slot, dtype, tuple(tensor.shape), values)


def _expression(made: Experiment, cuts: Sequence[_Cut]) -> str:
    """``exp(418.98)``, ``-49088 × 2.1387 (float16)``, ``softmax([-inf])``."""
    shown = [_value(cut.leaf.tensor) for cut in cuts]
    sign = _SIGNS.get(made.operator.api)
    scalars = [item for item in made.args.tree if isinstance(item, (int, float)) and not isinstance(item, bool)]
    if sign is not None and len(shown) == 2:
        text = f" {sign} ".join(shown)
    elif sign is not None and len(shown) == 1 and len(scalars) == 1:
        text = f"{shown[0]} {sign} {_number(scalars[0])}"
    else:
        text = f"{made.operator.api.strip('_')}({', '.join(shown)})"
    dtypes = {cut.leaf.tensor.dtype for cut in cuts if cut.leaf.tensor.is_floating_point()} - {torch.float32}
    return f"{text} ({', '.join(sorted(str(dtype).removeprefix('torch.') for dtype in dtypes))})" if dtypes else text


def _value(tensor: torch.Tensor) -> str:
    values = masks.plain(tensor).reshape(-1)
    if values.is_complex():
        return f"{tensor.numel()} complex numbers"
    if tensor.numel() == 1 and not tensor.dim() > 3:
        return _number(values[0].item())
    first = ", ".join(_number(value) for value in values[:4].tolist())
    return f"[{first}{', ...' if tensor.numel() > 4 else ''}]"


def _number(value: float | bool) -> str:
    if isinstance(value, bool) or math.isinf(value) or math.isnan(value) or isinstance(value, int):
        return str(value)
    short = f"{value:.5g}"
    is_rounded_away = float(short).is_integer() and not value.is_integer()  # 1.0000001 is another argument than 1
    return f"{value:.9g}" if is_rounded_away else short
