"""Records that are larger than the memory limit: only some of their rows are run again.

Rows are places along the first axis of the result. Whether an operator works row by row is found by experiment: two
cuts with different neighbours have to give the same rows. What mixes rows is not run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from msgspec.structs import replace

from firstnan.answer.replay import NotRun, Rows
from firstnan.replaying.arguments import Arguments, Leaf
from firstnan.replaying.bad_elements import masks
from firstnan.replaying.experiment import Experiment
from firstnan.replaying.refusal import RefusedError
from firstnan.replaying.tensors import size_of

OTHER_ROWS = 64
"""Rows without a bad element that are run as well."""
_MOST_BAD = 64
"""Rows with bad elements that are run."""


def fits(raw: Iterable[Mapping[str, object]], memory: int) -> bool:
    """Whether recorded tensors can be held at all."""
    return sum(size_of(one) for one in raw) <= memory


def cut_to_rows(made: Experiment, memory: int, here: Sequence[torch.Tensor | None] = ()) -> tuple[Experiment, Rows]:
    """The experiment on the rows with bad elements and some others; with the CPU's result also those that differ.

    Raises:
        RefusedError: the operator does not work row by row, or its rows are too large.
    """
    if made.gradients is not None or not made.recorded:
        raise RefusedError(NotRun.TOO_LARGE)
    recorded = made.recorded[0].tensor
    if (
        not recorded.dim()
        or recorded.shape[0] < 4
        or any(leaf.tensor.shape[:1] != recorded.shape[:1] for leaf in made.recorded)
    ):
        raise RefusedError(NotRun.TOO_LARGE)
    chosen = _chosen(made.recorded, here)
    for cut in _ways(made, recorded.shape[0], recorded.dim()):
        part = _part(made, cut, chosen)
        fewer = _part(made, cut, chosen[1:])
        try:
            whole, less = part.run(), fewer.run()
        except RefusedError:
            continue
        if all(a is not None and b is not None and _same(a[1:], b) for a, b in zip(whole, less, strict=True)):
            if float64_bytes(part) > memory:
                break
            return part, Rows(len(chosen), recorded.shape[0])
    raise RefusedError(NotRun.TOO_LARGE)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(one.shape == other.shape and torch.allclose(one, other, rtol=1e-3, atol=1e-6, equal_nan=True))


def _chosen(recorded: Sequence[Leaf], here: Sequence[torch.Tensor | None]) -> list[int]:
    rows = recorded[0].tensor.shape[0]
    bad: set[int] = set()
    for leaf in recorded:
        hit = masks.non_finite(leaf.tensor).reshape(rows, -1).any(1)
        bad.update(hit.nonzero().flatten().tolist()[:_MOST_BAD])
    for leaf, result in zip(recorded, here, strict=False):
        if result is not None:
            off = (masks.plain(leaf.tensor).float() - masks.plain(result).float()).abs().reshape(rows, -1).amax(1)
            bad.update(off.argsort(descending=True).tolist()[:_MOST_BAD])
    spread = max(rows // OTHER_ROWS, 1)
    return sorted({*bad, *range(0, rows, spread)})[: _MOST_BAD + OTHER_ROWS]


def _ways(made: Experiment, rows: int, width: int) -> Iterable[frozenset[int]]:
    """Which arguments may have the rows: all of that length, or the first alone."""
    leaves = (*made.args.leaves, *made.kwargs.leaves)
    long = [at for at, leaf in enumerate(leaves) if leaf.tensor.dim() and leaf.tensor.shape[0] == rows]
    ways = [frozenset(long), frozenset(at for at in long if leaves[at].tensor.dim() == width), frozenset(long[:1])]
    return [way for at, way in enumerate(ways) if way and way not in ways[:at]]


def _part(made: Experiment, cut: frozenset[int], rows: Sequence[int]) -> Experiment:
    index = torch.tensor(rows)
    split = len(made.args.leaves)

    def of(leaves: Sequence[Leaf], offset: int) -> tuple[Leaf, ...]:
        return tuple(
            replace(leaf, tensor=leaf.tensor.index_select(0, index)) if at + offset in cut else leaf
            for at, leaf in enumerate(leaves)
        )

    return replace(
        made,
        args=Arguments(made.args.tree, of(made.args.leaves, 0)),
        kwargs=Arguments(made.kwargs.tree, of(made.kwargs.leaves, split)),
        recorded=tuple(replace(leaf, tensor=leaf.tensor.index_select(0, index)) for leaf in made.recorded),
    )


def plain_bytes(made: Experiment) -> int:
    """Memory that a run in the dumped dtype needs: all recorded tensors, and the result again."""
    leaves = (*made.leaves, *made.recorded, *made.recorded)
    return int(sum(leaf.tensor.numel() * leaf.tensor.element_size() for leaf in leaves))


def float64_bytes(made: Experiment) -> int:
    """Memory that the runs in float64 need: the inputs twice, the results four times."""
    inputs = sum(leaf.tensor.numel() for leaf in made.leaves)
    results = sum(leaf.tensor.numel() for leaf in made.recorded)
    return int(8 * (2 * inputs + 4 * results))
