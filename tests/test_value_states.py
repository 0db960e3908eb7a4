"""What a recorded value means: judging by Max and Min, dtypes and their limits."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstnan.dump.values import ValueState, judge, limits, magnitude, normalise_dtype, parse_number

NAN, INF = math.nan, math.inf
BLANKS = st.text(" \t\n\r", max_size=3)
WORDS = {"nan": NAN, "inf": INF, "+inf": INF, "-inf": -INF, "infinity": INF, "+infinity": INF, "-infinity": -INF}


@st.composite
def written(draw: st.DrawFn) -> str:
    """A non-finite number as text: in any case, with blanks around."""
    word = draw(st.sampled_from(sorted(WORDS)))
    upper = draw(st.lists(st.booleans(), min_size=len(word), max_size=len(word)))
    cased = "".join(c.upper() if up else c for c, up in zip(word, upper, strict=True))
    return draw(BLANKS) + cased + draw(BLANKS)


@settings(deadline=None)
@given(written())
def test_non_finite_numbers_are_read_from_text(text: str) -> None:
    expected = WORDS[text.strip().lower()]
    found = parse_number(text)
    assert found == expected or (found != found and expected != expected)


@settings(deadline=None)
@given(st.floats(allow_nan=False), BLANKS, BLANKS)
def test_numbers_are_read_from_text(value: float, before: str, after: str) -> None:
    assert parse_number(before + repr(value) + after) == value


@settings(deadline=None)
@given(st.one_of(st.integers(), st.booleans(), st.floats(allow_nan=False)))
def test_numbers_are_taken_as_they_are(value: float) -> None:
    assert parse_number(value) == value


@pytest.mark.parametrize("raw", [None, "", " ", "none", "null", "1,5", "0x10", "nan nan", [], {}, [1.0], {"Max": 1.0}])
def test_what_is_no_number_is_none(raw: object) -> None:
    assert parse_number(raw) is None


@settings(deadline=None)
@given(st.one_of(st.text(), st.binary(), st.lists(st.floats()), st.none()))
def test_anything_can_be_asked_for_a_number(raw: object) -> None:
    found = parse_number(raw)
    assert found is None or isinstance(found, (int, float))


ANY = st.one_of(
    st.none(),
    st.sampled_from([NAN, INF, -INF, 0.0, -0.0, 10**400, -(10**400), True, False]),
    st.floats(),
    st.integers(),
)


def state_of(high: object, low: object) -> ValueState:
    """The rules in words: NaN beats all, infinities tell their sign, both must be known to be finite."""
    known = [v for v in (high, low) if v is not None]
    if any(v != v for v in known):
        return ValueState.NAN
    signs = {v > 0 for v in known if v in (INF, -INF)}
    if signs:
        return ValueState.BOTH_INF if len(signs) == 2 else ValueState.POS_INF if True in signs else ValueState.NEG_INF
    return ValueState.FINITE if len(known) == 2 else ValueState.UNKNOWN


@settings(deadline=None)
@given(ANY, ANY)
def test_any_pair_is_judged(high: float | None, low: float | None) -> None:
    assert judge(high, low) is state_of(high, low)


@settings(deadline=None)
@given(ANY, ANY)
def test_the_order_of_the_two_does_not_matter(high: float | None, low: float | None) -> None:
    assert judge(high, low) is judge(low, high)


@pytest.mark.parametrize("text", ["nan", "NaN ", "inf", "-inf\t", "Infinity", "-Infinity"])
def test_text_is_judged_as_the_number_it_stands_for(text: str) -> None:
    assert judge(parse_number(text), parse_number("1.0")).is_bad


def test_one_of_the_two_is_enough_to_be_bad_and_not_to_be_finite() -> None:
    assert judge(NAN, None) is ValueState.NAN
    assert judge(None, -INF) is ValueState.NEG_INF
    assert judge(1.0, None) is ValueState.UNKNOWN
    assert judge(None, None) is ValueState.UNKNOWN


def test_which_states_are_bad() -> None:
    fine = {ValueState.FINITE, ValueState.UNKNOWN, ValueState.EMPTY}
    assert {state for state in ValueState if not state.is_bad} == fine
    assert [state for state in ValueState if state.is_unknown] == [ValueState.UNKNOWN]


@settings(deadline=None)
@given(ANY, ANY)
def test_the_magnitude_is_the_larger_absolute_value(high: float | None, low: float | None) -> None:
    found = magnitude(high, low)
    if high is None or low is None or high != high or low != low:
        assert found is None
    else:
        assert found is not None
        assert found >= 0
        assert math.isinf(found) or found == max(abs(high), abs(low))


def test_a_huge_integer_has_an_infinite_magnitude() -> None:
    assert magnitude(10**400, 0) == INF


@pytest.mark.parametrize(
    ("spellings", "name"),
    [
        (("torch.float16", "Float16", "half", "mindspore.half", " torch.Half ", "fp16"), "float16"),
        (("torch.bfloat16", "BFloat16", "bf16"), "bfloat16"),
        (("torch.float32", "Float32", "float", "torch.float", "fp32"), "float32"),
        (("torch.float64", "double", "torch.double"), "float64"),
        (("torch.float8_e4m3fn",), "float8_e4m3fn"),
        (("torch.int64", "Int64"), "int64"),
    ],
)
def test_one_spelling_for_every_framework(spellings: tuple[str, ...], name: str) -> None:
    assert {normalise_dtype(s) for s in spellings} == {name}


@pytest.mark.parametrize(
    ("dtype", "largest"),
    [("float16", 65504.0), ("float8_e4m3fn", 448.0), ("float8_e5m2", 57344.0), ("float64", 1.7976931348623157e308)],
)
def test_limits_of_types(dtype: str, largest: float) -> None:
    found = limits(dtype)
    assert found is not None
    assert (found.name, found.largest) == (dtype, largest)


def test_limits_follow_from_the_bits() -> None:
    """largest = (2 - epsilon) * 2 ** emax."""
    for dtype, mantissa, exponent in (("float16", 10, 15), ("bfloat16", 7, 127), ("float32", 23, 127)):
        found = limits(dtype)
        assert found is not None
        assert found.largest == (2 - 2.0**-mantissa) * 2.0**exponent
        assert found.epsilon == 2.0**-mantissa
        assert found.smallest_normal == 2.0 ** (1 - exponent)


@pytest.mark.parametrize("dtype", ["int64", "bool", "", "complex64", "quint8"])
def test_other_types_have_no_limits(dtype: str) -> None:
    assert limits(dtype) is None


def test_a_type_is_known_under_each_of_its_names() -> None:
    pairs = itertools.pairwise(["half", "fp16", "torch.float16", "Float16"])
    assert all(limits(one) == limits(other) for one, other in pairs)
