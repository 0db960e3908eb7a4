"""The records of one rank in two dumps: which belong together, and which is the first that differs.

``a_call_more_does_not_move_all_that_follow``
    Records of one name belong together while the names run alike. Where they do not, the operators (without their
    numbers) are aligned in order, so that one call more does not move all that follow; what has no counterpart is told.
``noise_is_what_healthy_runs_differ_by``
    With a third dump, a record may differ by :data:`MARGIN` times as much as the first and the third do there or
    anywhere before it; without, by the tolerance of its dtype.

A module only repeats the values of the operators inside it; it is compared where no operators were dumped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from firstnan.answer.comparison import MOST_NAMES, Difference, RankComparison
from firstnan.dump.records import Record, RecordKind, TensorStat
from firstnan.dump.values import ValueState

MARGIN = 4.0
"""How much more than the noise of one pair of runs another healthy pair may differ."""
TOLERANCES: dict[str, float] = {"float64": 1e-8, "float32": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}
"""Relative differences that come of the order of additions alone, some units in the last place."""
OTHER = 1e-4
"""The tolerance of every other dtype."""
MOST_ALIGNED = 20_000
"""Records between a common beginning and a common end that are aligned; beyond, equal names alone belong together."""

Pair = tuple[Record, Record]


def compare(
    a: Sequence[Record], b: Sequence[Record], noise: Sequence[Record] | None, place: tuple[int, int, int]
) -> RankComparison:
    """The records ``a`` and ``b`` of one rank; ``place``: step of ``a``, step of ``b``, rank."""
    a, b = _compared(a), _compared(b)
    pairs = aligned(a, b)
    allowed = {} if noise is None else _noise(a, _compared(noise))
    differing, first = 0, None
    for one, other in pairs:
        found = difference(one, other, allowed.get(one.index, 0.0))
        if found is not None:
            differing += 1
            first = first or found
    seen_a, seen_b = {one.index for one, _ in pairs}, {other.index for _, other in pairs}
    only_a = [record.name.full for record in a if record.index not in seen_a]
    only_b = [record.name.full for record in b if record.index not in seen_b]
    return RankComparison(
        step_a=place[0],
        step_b=place[1],
        rank=place[2],
        matched=len(pairs),
        only_a=tuple(only_a[:MOST_NAMES]),
        only_b=tuple(only_b[:MOST_NAMES]),
        count_only_a=len(only_a),
        count_only_b=len(only_b),
        differing=differing,
        first=first,
    )


def _compared(records: Sequence[Record]) -> Sequence[Record]:
    """modules_repeat."""
    apis = [record for record in records if record.name.kind is RecordKind.API]
    return apis or records


def aligned(a: Sequence[Record], b: Sequence[Record]) -> list[Pair]:
    """matched_by_name_and_call: the pairs, in the order of ``b``."""
    start = _common(a, b)
    pairs = list(zip(a[:start], b[:start], strict=True))
    left, right = a[start:], b[start:]
    if not left or not right:
        return pairs
    if max(len(left), len(right)) > MOST_ALIGNED:
        names = {record.name.full: record for record in left}
        return pairs + [(names[r.name.full], r) for r in right if r.name.full in names]
    matcher = SequenceMatcher(None, [_kind(r) for r in left], [_kind(r) for r in right], autojunk=False)
    for block in matcher.get_matching_blocks():
        pairs += zip(left[block.a : block.a + block.size], right[block.b : block.b + block.size], strict=True)
    return pairs


def _common(a: Sequence[Record], b: Sequence[Record]) -> int:
    ends = (n for n, (one, other) in enumerate(zip(a, b, strict=False)) if one.name.full != other.name.full)
    return next(ends, min(len(a), len(b)))


def _kind(record: Record) -> tuple[object, ...]:
    name = record.name
    return name.prefix, name.api, name.path, name.direction, tuple(t.shape for t in record.outputs)


def _noise(a: Sequence[Record], noise: Sequence[Record]) -> dict[int, float]:
    """noise_is_what_healthy_runs_differ_by: index in ``a`` -> largest difference so far, with the margin."""
    largest, found = 0.0, {}
    for one, other in aligned(a, noise):
        sizes = (_statistics(x, y) for x, y in _tensors(one, other))
        largest = max(largest, *(size for each in sizes for _, _, _, size in each if math.isfinite(size)), 0.0)
        found[one.index] = MARGIN * largest
    return found


def difference(a: Record, b: Record, allowed: float) -> Difference | None:
    """The first tensor of two records that differs, inputs first."""
    inputs = next(_differing(a, b, a.inputs, b.inputs, allowed, begins=False), None)
    outputs = next(_differing(a, b, a.outputs, b.outputs, allowed, begins=True), None)
    return inputs or (outputs and (_argument(a, b) or outputs))


def _argument(a: Record, b: Record) -> Difference | None:
    """A plain number among the arguments that explains another result: a learning rate, a scale, an epsilon."""
    others = {scalar.slot: scalar.value for scalar in b.scalars}
    for scalar in a.scalars:
        one, two = _number(scalar.value), _number(others.get(scalar.slot))
        if one is not None and two is not None and one != two:
            size = abs(one - two) / (_largest(one, two) or 1.0)
            return Difference(b.name.full, a.index, b.index, scalar.slot, "argument", one, two, size, 0.0, True)
    return None


def _tensors(a: Record, b: Record) -> Iterator[tuple[TensorStat, TensorStat]]:
    yield from zip((*a.inputs, *a.outputs), (*b.inputs, *b.outputs), strict=False)


def _differing(
    a: Record, b: Record, left: Sequence[TensorStat], right: Sequence[TensorStat], allowed: float, *, begins: bool
) -> Iterator[Difference]:
    others = {tensor.slot: tensor for tensor in right}
    for tensor in left:
        other = others.get(tensor.slot)
        if other is None:
            continue
        limit = max(allowed, TOLERANCES.get(tensor.dtype, OTHER))
        for statistic, one, two, size in _statistics(tensor, other):
            if size > limit:
                yield Difference(b.name.full, a.index, b.index, tensor.slot, statistic, one, two, size, limit, begins)


_Statistic = tuple[str, "float | None", "float | None", float]


def _statistics(a: TensorStat, b: TensorStat) -> Iterator[_Statistic]:
    """Every statistic of two tensors, and by how much it differs."""
    for name, same in (("dtype", a.dtype == b.dtype), ("shape", a.shape == b.shape)):
        if not same:
            yield name, None, None, math.inf
            return
    if ValueState.UNKNOWN in (a.state, b.state):
        return
    if a.state is not b.state:
        yield "state", _number(a.max), _number(b.max), math.inf
        return
    scale = _scale((a, b))
    for name, one, two, reach in (
        ("Max", a.max, b.max, scale),
        ("Min", a.min, b.min, scale),
        ("Norm", a.norm, b.norm, _largest(a.norm, b.norm)),
    ):
        left, right = _number(one), _number(two)
        if left is not None and right is not None and math.isfinite(left) and math.isfinite(right):
            yield name, left, right, abs(left - right) / reach if reach else 0.0


def _scale(tensors: Sequence[TensorStat]) -> float:
    return _largest(*(value for tensor in tensors for value in (tensor.max, tensor.min)))


def _largest(*values: object) -> float:
    numbers = (_number(value) for value in values)
    return max((abs(n) for n in numbers if n is not None and math.isfinite(n)), default=0.0)


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, (int, float)) else None
    except OverflowError:
        return math.inf


def order(found: Sequence[RankComparison]) -> list[RankComparison]:
    """Earlier steps first, in each the ranks on which the difference began before those that took it in."""
    return sorted(
        found,
        key=lambda one: (
            one.first is None,
            one.step_b,
            one.first is not None and not one.first.begins_here,
            0 if one.first is None else one.first.index_b,
            one.rank,
        ),
    )
