"""Where bad elements are: axes, blocks, a small picture, the sample of the batch. Knows numbers alone, no torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from firstnan.answer.replay import MOST_PLACES, AxisHits, Picture

PICTURE_ROWS = 32
"""Most cells of a picture downwards."""
PICTURE_COLUMNS = 64
"""Most cells of a picture across."""


class Batch(Struct, frozen=True):
    """The integers that went into the model: the token or sample numbers of a step."""

    op_name: str
    slot: str
    shape: tuple[int, ...]


def axes_of(shape: Sequence[int], places: Sequence[Sequence[int]]) -> tuple[AxisHits, ...]:
    """What each axis shows, from the places along it that hold a bad element.

    >>> axes_of((2, 8), [[0, 1], [4, 5]])[1]
    AxisHits(axis=1, size=8, hit=2, which=(4, 5))
    """
    return tuple(
        AxisHits(axis, size, len(hit), tuple(hit[:MOST_PLACES]))
        for axis, (size, hit) in enumerate(zip(shape, places, strict=True))
    )


def fills_block(axes: Iterable[AxisHits], bad: int) -> bool:
    """Whether so many bad elements are all elements at the hit places of all axes.

    >>> fills_block(axes_of((2, 8), [[0, 1], [4, 5]]), 4), fills_block(axes_of((2, 8), [[0, 1], [4, 5]]), 3)
    (True, False)
    """
    return math.prod(axis.hit for axis in axes) == bad


def picture_axes(axes: Sequence[AxisHits]) -> tuple[int, int]:
    """The two axes that a picture shows: those along which the bad elements say most, in their order.

    An axis that is hit partly says more than one that is hit everywhere, and a long one more than a short one. -1
    stands for an axis that is not there.
    """
    wide = [axis for axis in axes if axis.size > 1]
    chosen = sorted(sorted(wide, key=lambda axis: (axis.hit == axis.size, -axis.size))[:2], key=lambda axis: axis.axis)
    down, across = ([-1, -1] + [axis.axis for axis in chosen])[-2:]
    return down, across


def picture_of(axes: tuple[int, int], size: tuple[int, int], bad: Iterable[tuple[int, int]]) -> Picture:
    """Bad places of a matrix as rows of ``#`` and ``.``, several elements to a cell where there are many.

    >>> picture_of((0, 1), (2, 4), [(0, 1), (0, 2)]).rows
    ('.##.', '....')
    """
    per_cell = (-(-size[0] // PICTURE_ROWS), -(-size[1] // PICTURE_COLUMNS))
    rows = [["."] * -(-size[1] // per_cell[1]) for _ in range(-(-size[0] // per_cell[0]))]
    for down, across in bad:
        rows[down // per_cell[0]][across // per_cell[1]] = "#"
    return Picture(axes, tuple("".join(row) for row in rows), per_cell)


def batch_index(index: Sequence[int], shape: Sequence[int], batch: Sequence[int]) -> tuple[int, ...] | None:
    """The element of the batch to which an element belongs; None when the sizes do not match.

    The batch's axes may stand first, first in the other order, or as one axis.

    >>> batch_index((4, 0, 7), (8, 2, 16), (8, 2)), batch_index((4, 1, 7), (8, 2, 16), (2, 8))
    ((4, 0), (1, 4))
    >>> batch_index((9, 3), (16, 32), (8, 2)), batch_index((1,), (5,), (8, 2))
    ((4, 1), None)
    """
    width = len(batch)
    if not width or math.prod(batch) <= 1:
        return None
    if tuple(shape[:width]) == tuple(batch):
        return tuple(index[:width])
    if tuple(shape[:width]) == tuple(reversed(batch)):
        return tuple(reversed(index[:width]))
    if width == 2 and len(shape) > 1 and shape[0] == math.prod(batch):
        return divmod(index[0], batch[1])
    return None
