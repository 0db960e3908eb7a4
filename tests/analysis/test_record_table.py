"""Which records of a rank hold something bad: everything else passes the others over."""

from __future__ import annotations

import math

import pytest

from firstnan.dump.names import parse_name
from firstnan.dump.records import Record, TensorStat
from firstnan.dump.values import Number, ValueState
from firstnan.rank.taint.record_table import Table


def table(dtype: str, high: Number | None, low: Number | None, state: ValueState, side: str) -> Table:
    stat = TensorStat(f"{side}.0", dtype, (2,), high, low, None, None, state)
    sides = {"inputs": (), "outputs": (), "parameters": (), side: (stat,)}
    return Table([Record(parse_name("Torch.add.0.forward"), 4, **sides)], 9)  # type: ignore[arg-type]


@pytest.mark.parametrize("side", ["inputs", "outputs", "parameters"])
@pytest.mark.parametrize(
    ("dtype", "high", "low", "state", "is_bad"),
    [
        ("float32", 1.0, -1.0, ValueState.FINITE, False),
        ("int64", 3, 0, ValueState.FINITE, False),
        ("bool", True, False, ValueState.FINITE, False),
        ("float32", None, None, ValueState.UNKNOWN, False),
        ("float32", None, None, ValueState.NON_FINITE, True),
        ("float32", math.nan, math.nan, ValueState.NAN, True),
        ("float32", 1.0, -math.inf, ValueState.NEG_INF, True),
        ("int64", math.nan, math.nan, ValueState.FINITE, True),
        ("float32", math.inf, None, ValueState.EMPTY, True),
        ("float32", None, -math.inf, ValueState.EMPTY, True),
    ],
)
def test_bad_is_what_is_judged_or_was_recorded_so(
    dtype: str, high: Number | None, low: Number | None, state: ValueState, side: str, *, is_bad: bool
) -> None:
    held = table(dtype, high, low, state, side)
    assert [record.index for record in held.bad] == ([4] if is_bad else [])
    assert held.is_bad(4) == is_bad
