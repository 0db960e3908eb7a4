"""Bounds of results: never below what real matrices of small integers give."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstnan.dump.names import parse_name
from firstnan.dump.records import Record, Scalar, TensorStat
from firstnan.dump.values import judge
from firstnan.operators.bounds import backward_bound, contracted, holds_zero, largest, result_bound, touches_zero
from firstnan.operators.table import load

Matrix = list[list[int]]
MODEST = settings(max_examples=60, deadline=None)
SIZE = st.integers(1, 4)
ENTRY = st.integers(-9, 9).map(lambda n: n or 1)  # values below 1 are of no interest: nothing overflows there

BOOK = load()


def stat(values: Sequence[float], shape: Sequence[int], slot: str = "") -> TensorStat:
    high, low = float(max(values)), float(min(values))
    return TensorStat(slot, "float32", tuple(shape), high, low, None, None, judge(high, low))


def matrix(m: Matrix) -> TensorStat:
    return stat([x for row in m for x in row], (len(m), len(m[0])))


def record(api: str, inputs: Sequence[TensorStat], scalars: Sequence[Scalar] = ()) -> Record:
    return Record(parse_name(f"Torch.{api}.0.forward"), 0, tuple(inputs), (), scalars=tuple(scalars))


def bound(api: str, *inputs: TensorStat, scalars: Sequence[Scalar] = ()) -> float:
    found = result_bound(record(api, inputs, scalars), BOOK)
    assert found is not None
    return found


def times(a: Matrix, b: Matrix) -> Matrix:
    return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True)] for row in a]


def top(m: Matrix) -> int:
    return max(abs(x) for row in m for x in row)


@st.composite
def matrices(draw: st.DrawFn, rows: int | None = None, columns: int | None = None) -> Matrix:
    wide = columns or draw(SIZE)
    tall = rows or draw(SIZE)
    return draw(st.lists(st.lists(ENTRY, min_size=wide, max_size=wide), min_size=tall, max_size=tall))


@st.composite
def factors(draw: st.DrawFn) -> tuple[Matrix, Matrix]:
    inner = draw(SIZE)
    return draw(matrices(columns=inner)), draw(matrices(rows=inner))


@MODEST
@given(factors())
def test_a_product_is_within_its_bound(pair: tuple[Matrix, Matrix]) -> None:
    a, b = pair
    transposed = [list(column) for column in zip(*b, strict=True)]
    assert bound("matmul", matrix(a), matrix(b)) >= top(times(a, b))
    assert bound("linear", matrix(a), matrix(transposed)) >= top(times(a, b))


@MODEST
@given(factors(), st.data())
def test_a_linear_layer_with_a_bias_is_within_its_bound(pair: tuple[Matrix, Matrix], data: st.DataObject) -> None:
    a, b = pair
    bias = data.draw(st.lists(ENTRY, min_size=len(b[0]), max_size=len(b[0])))
    result = [[x + y for x, y in zip(row, bias, strict=True)] for row in times(a, b)]
    transposed = [list(column) for column in zip(*b, strict=True)]
    assert bound("linear", matrix(a), matrix(transposed), stat(bias, (len(bias),))) >= top(result)


@MODEST
@given(factors(), st.integers(1, 3))
def test_a_batch_of_products_is_within_its_bound(pair: tuple[Matrix, Matrix], count: int) -> None:
    a, b = pair
    left = stat([x for row in a for x in row], (count, len(a), len(a[0])))
    right = stat([x for row in b for x in row], (count, len(b), len(b[0])))
    assert bound("bmm", left, right) >= top(times(a, b))


@MODEST
@given(st.lists(ENTRY, min_size=3, max_size=9), st.lists(ENTRY, min_size=1, max_size=3))
def test_a_convolution_is_within_its_bound(signal: list[int], kernel: list[int]) -> None:
    width = len(kernel)
    result = [
        sum(s * k for s, k in zip(signal[at : at + width], kernel, strict=True))
        for at in range(len(signal) - width + 1)
    ]
    size = bound("conv1d", stat(signal, (1, 1, len(signal))), stat(kernel, (1, 1, width)))
    assert size >= max(map(abs, result))


def _flat(values: list[int]) -> TensorStat:
    return stat(values, (len(values),))


SUMS: dict[str, Callable[[list[int]], float]] = {
    "sum": lambda v: abs(sum(v)),
    "cumsum": lambda v: max(map(abs, itertools.accumulate(v))),
    "mean": lambda v: abs(sum(v)) / len(v),
    "square": lambda v: max(x * x for x in v),
    "norm": lambda v: math.sqrt(sum(x * x for x in v)),
    "var": lambda v: sum((x - sum(v) / len(v)) ** 2 for x in v) / max(len(v) - 1, 1),
}


@pytest.mark.parametrize("api", SUMS)
@MODEST
@given(values=st.lists(ENTRY, min_size=1, max_size=12))
def test_a_reduction_is_within_its_bound(api: str, values: list[int]) -> None:
    assert bound(api, _flat(values)) >= SUMS[api](values) - 1e-9


PAIRS: dict[str, Callable[[int, int], float]] = {
    "add": lambda a, b: a + b,
    "__sub__": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "__imul__": lambda a, b: a * b,
    "mse_loss": lambda a, b: (a - b) ** 2,
}


@pytest.mark.parametrize("api", PAIRS)
@MODEST
@given(pairs=st.lists(st.tuples(ENTRY, ENTRY), min_size=1, max_size=9))
def test_an_elementwise_result_is_within_its_bound(api: str, pairs: list[tuple[int, int]]) -> None:
    one, other = [a for a, _ in pairs], [b for _, b in pairs]
    assert bound(api, _flat(one), _flat(other)) >= max(abs(PAIRS[api](a, b)) for a, b in pairs)


@MODEST
@given(st.lists(ENTRY, min_size=1, max_size=9), st.integers(-9, 9), st.integers(1, 5))
def test_plain_numbers_count_as_operands(values: list[int], number: int, exponent: int) -> None:
    at = Scalar("input_args.1", "int", number)
    assert bound("add", _flat(values), scalars=[at]) >= max(abs(v + number) for v in values)
    assert bound("mul", _flat(values), scalars=[at]) >= max(abs(v * number) for v in values)
    power = Scalar("input_args.1", "int", exponent)
    assert bound("pow", _flat(values), scalars=[power]) >= max(abs(v**exponent) for v in values)
    inverse = Scalar("input_args.1", "int", -exponent)
    of_nonzero = [v for v in values if v] or [1]
    assert bound("pow", _flat(of_nonzero), scalars=[inverse]) >= max(abs(v**-exponent) for v in of_nonzero)


BIG = stat([1000], (4, 4))
NOTHING, ONE, TEN = stat([0], (4, 4)), stat([1], (4, 4)), stat([10], (4, 4))


@pytest.mark.parametrize(
    ("api", "inputs", "scalars", "true"),
    [
        pytest.param("addmm", [NOTHING, BIG, BIG], [], 4e6, id="addmm: the bias comes first"),
        pytest.param("baddbmm", [NOTHING, BIG, BIG], [], 4e6, id="baddbmm: the bias comes first"),
        pytest.param("addcmul", [NOTHING, BIG, BIG], [], 1e6, id="addcmul: a product is added"),
        pytest.param("tensordot", [BIG, BIG], [], 16e6, id="tensordot: over two dimensions"),
        pytest.param("einsum", [BIG, BIG], [], 16e6, id="einsum: over two dimensions"),
        pytest.param("add", [ONE, BIG], [Scalar("input_kwargs.alpha", "int", 1000)], 1e6, id="add: alpha"),
        pytest.param("index_add", [ONE, BIG], [], 4001, id="index_add: one place may be hit often"),
        pytest.param("mse_loss", [BIG, ONE], [Scalar("input_kwargs.reduction", "str", "sum")], 1e7, id="mse_loss: sum"),
        pytest.param("bilinear", [TEN, TEN, BIG], [], 1e5, id="bilinear: three factors"),
        pytest.param(
            "conv_transpose1d", [stat([10], (1, 8, 4)), stat([10], (8, 1, 3))], [], 1600, id="conv_transpose: channels"
        ),
    ],
)
def test_bounds_of_special_operators(api: str, inputs: list[TensorStat], scalars: list[Scalar], true: float) -> None:
    """``true`` is the value of an element when all elements are as large as the largest."""
    found = result_bound(record(api, inputs, scalars), BOOK)
    assert found is None or found >= true


@pytest.mark.parametrize(
    ("one", "other", "length"),
    [
        ((8, 2, 16), (48, 16), 16),
        ((3, 5), (5, 7), 5),
        ((1, 3, 32, 32), (64, 3, 7, 7), 3 * 7 * 7),
        ((2, 4, 8, 4), (2, 4, 4, 8), 8),
    ],
    ids=["linear", "matmul", "convolution", "batches"],
)  # fmt: skip
def test_contracted_is_a_dimension_that_both_have(one: tuple[int, ...], other: tuple[int, ...], length: int) -> None:
    assert contracted(stat([1], one), stat([1], other)) == length


def test_no_bound_without_knowledge() -> None:
    unknown = TensorStat("", "float32", (4,), None, None, None, None, judge(None, None))
    assert result_bound(record("matmul", [ONE, unknown]), BOOK) is None
    assert result_bound(record("frobnicate", [ONE]), BOOK) is None
    assert result_bound(record("matmul", [ONE]), BOOK) is None
    assert result_bound(record("prod", [ONE]), BOOK) is None


@MODEST
@given(factors())
def test_a_gradient_of_a_product_is_within_its_bound(pair: tuple[Matrix, Matrix]) -> None:
    """grad_a = grad * b^T, grad_b = a^T * grad, for a gradient of ones."""
    a, b = pair
    gradient = [[1] * len(b[0]) for _ in a]
    found = backward_bound(record("matmul", [matrix(gradient)]), record("matmul", [matrix(a), matrix(b)]), BOOK)
    to_a = times(gradient, [list(column) for column in zip(*b, strict=True)])
    to_b = times([list(column) for column in zip(*a, strict=True)], gradient)
    assert found is not None
    assert found >= max(top(to_a), top(to_b))


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=5))
def test_zeros_are_told_by_the_extremes(values: list[int]) -> None:
    tensor = _flat(values)
    if touches_zero(tensor):
        assert 0 in values
    if 0 in values:
        assert holds_zero(tensor)
    assert largest([tensor]) == max(map(abs, values))
