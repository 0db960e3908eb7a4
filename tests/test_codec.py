"""Typed values as JSON and back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from firstnan.dump.records import TensorStat
from firstnan.dump.values import ValueState
from firstnan.rank.summary import RankSummary
from firstnan.run.codec import CodecError, decode, encode


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Pair(NamedTuple):
    left: int
    right: str | None


@dataclass(frozen=True)
class Sample:
    number: int | float | None = None
    name: str = ""
    colour: Colour | None = None
    pairs: tuple[Pair, ...] = ()
    counts: Mapping[Pair, int] = field(default_factory=dict)
    ranks: frozenset[int] = frozenset()
    inner: Sample | None = None
    yes: bool = False


leaves = st.builds(
    Sample,
    number=st.none() | st.integers() | st.floats(),
    name=st.text(),
    colour=st.none() | st.sampled_from(Colour),
    pairs=st.lists(st.builds(Pair, st.integers(), st.none() | st.text())).map(tuple),
    counts=st.dictionaries(st.builds(Pair, st.integers(), st.none() | st.text()), st.integers(), max_size=4),
    ranks=st.frozensets(st.integers()),
    yes=st.booleans(),
)
samples = leaves | leaves.flatmap(lambda inner: st.builds(Sample, inner=st.just(inner)))


def numbers(sample: Sample | None) -> str:
    return "" if sample is None else f"{sample.number!r} {numbers(sample.inner)}"


def without_numbers(sample: Sample) -> Sample:
    inner = None if sample.inner is None else without_numbers(sample.inner)
    return replace(sample, number=None, inner=inner)


@settings(deadline=None)
@given(samples)
def test_every_value_comes_back(sample: Sample) -> None:
    """NaN is not equal to itself: numbers are compared as they are shown."""
    back = decode(Sample, json.loads(json.dumps(encode(sample), allow_nan=False)))
    assert numbers(back) == numbers(sample)
    assert without_numbers(back) == without_numbers(sample)


def test_numbers_that_are_not_finite_are_no_texts() -> None:
    assert encode((math.nan, math.inf, "NaN")) == [{"number": "NaN"}, {"number": "Infinity"}, "NaN"]
    assert decode(tuple[float | str, ...], [{"number": "-Infinity"}, "NaN"]) == (-math.inf, "NaN")


def test_an_integer_stays_one_and_a_bool_is_none() -> None:
    assert [type(value) for value in decode(tuple[int | float, ...], [1, 1.0])] == [int, float]
    with pytest.raises(CodecError):
        decode(int, True)


def test_fields_at_their_defaults_are_left_out() -> None:
    assert encode(Sample(name="x")) == {"name": "x"}
    assert encode(Sample(number=0, yes=False)) == {"number": 0}


@pytest.mark.parametrize(
    "raw",
    [
        None, [], "x", 3, {"nobody": 1}, {"number": "NaN"}, {"number": {"number": "12"}}, {"colour": "green"},
        {"pairs": [[1]]}, {"pairs": [[1, 2]]}, {"pairs": {}}, {"counts": [[[1, "a"]]]}, {"ranks": [None]}, {"yes": 1},
        {"inner": []}, {"number": {"number": []}},
    ],
)  # fmt: skip
def test_another_form_is_told(raw: object) -> None:
    with pytest.raises(CodecError):
        decode(Sample, raw)


def test_a_field_without_a_default_must_be_there() -> None:
    with pytest.raises(CodecError, match="TensorStat"):
        decode(TensorStat, {"slot": "output.0"})


def test_types_of_the_analysis_come_back() -> None:
    stat = TensorStat("output.0", "float32", (2, 3), math.nan, math.nan, None, 1.5, ValueState.NAN, True)
    assert repr(decode(TensorStat, encode(stat))) == repr(stat)
    summary = RankSummary(0, 3, "step0/rank3", benign={"mask": (2, "Torch.triu.0.forward")}, made=None)
    assert decode(RankSummary, encode(summary)) == summary


def test_paths_are_texts() -> None:
    assert decode(Path, encode(Path("/a/b"))) == Path("/a/b")


def test_what_has_no_form_is_refused_when_it_is_written() -> None:
    with pytest.raises(TypeError, match="object"):
        encode(object())


def test_an_integer_beyond_all_floats_is_told() -> None:
    with pytest.raises(CodecError, match="no float"):
        decode(float, 10**400)


def test_what_is_wrong_inside_an_optional_value_is_told() -> None:
    with pytest.raises(CodecError, match="nobody"):
        decode(Sample, {"inner": {"nobody": 1}})
