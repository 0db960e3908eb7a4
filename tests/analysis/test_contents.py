"""What is known of the values inside a module, around it too."""

from __future__ import annotations

import math

from firstnan.dump.records import TensorStat
from firstnan.dump.values import ValueState
from firstnan.rank.taint.contents import Contents
from firstnan.rank.taint.events import Value

NAN = TensorStat("output.0", "float32", (8,), math.nan, math.nan, math.nan, math.nan, ValueState.NAN)
INF = TensorStat("output.0", "float32", (8,), math.inf, 1.0, math.inf, math.inf, ValueState.POS_INF)


def value(writer: int, stat: TensorStat = NAN) -> Value:
    return Value(writer, stat, forward=True, backward=False, order=writer)


def contents(*values: Value) -> Contents:
    made = Contents()
    for one in values:
        made.put(one)
    return made


def writers(values: list[Value]) -> list[int]:
    return sorted(one.writer for one in values)


def repeated() -> tuple[Contents, Value]:
    """Two values, and the result of their module, which repeats them."""
    inside, result = contents(value(0), value(1)), value(2)
    inside.repeated_by(result, inside.same(NAN, lambda _: True))
    return inside.joined(contents(result)), result


def test_a_result_stands_for_what_it_repeats() -> None:
    around, _ = repeated()
    assert writers(around.same(NAN, lambda _: True)) == [2]


def test_a_result_that_does_not_fit_stands_for_nothing() -> None:
    around, result = repeated()
    assert writers(around.same(NAN, lambda one: one is not result)) == [0, 1]


def test_a_result_that_was_closed_stands_for_nothing() -> None:
    around, result = repeated()
    result.is_open = False
    assert writers(around.same(NAN, lambda _: True)) == [0, 1]


def test_what_a_result_repeats_is_open_too() -> None:
    around, _ = repeated()
    around.put(value(3, INF))
    assert [one.writer for one in around.open_ones()] == [0, 1, 2, 3]


def test_only_what_is_linked_is_repeated() -> None:
    inside, result = contents(value(0), value(1)), value(2)
    inside.repeated_by(result, inside.same(NAN, lambda one: one.writer == 1))
    assert writers(inside.same(NAN, lambda _: True)) == [0]


def test_other_numbers_are_not_repeated() -> None:
    inside, result = contents(value(0, INF)), value(1)
    inside.repeated_by(result, inside.where(lambda _: True, lambda _: True))
    assert writers(inside.same(INF, lambda _: True)) == [0]


def test_what_is_apart_is_not_handed_on() -> None:
    inside = contents(value(0))
    inside.put_apart(value(1))
    around = Contents()
    around.put_apart(value(2))
    assert writers(inside.same(NAN, lambda _: True)) == [0, 1]
    assert writers(inside.joined(around).same(NAN, lambda _: True)) == [0, 2]
