"""What a recorded value means: value states and the limits of dtypes.

Judged by Max and Min only: Mean and Norm overflow by themselves while every element is finite
(dump format, section 5).
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Annotated

from msgspec import Meta, Struct

Number = float | int | bool

Statistic = Annotated[Number, Meta(extra_json_schema={"statistic": True})]
"""A number that may be non-finite, and so a word in JSON."""


class ValueState(Enum):
    """What Max and Min say about the elements of one tensor."""

    FINITE = "finite"
    """Every element is finite."""
    NAN = "nan"
    """At least one element is NaN (which hides whatever else the tensor holds)."""
    POS_INF = "+inf"
    """At least one +Inf, no -Inf, no NaN."""
    NEG_INF = "-inf"
    """At least one -Inf, no +Inf, no NaN. May be a legal mask value."""
    BOTH_INF = "both_inf"
    """+Inf and -Inf, no NaN."""
    NON_FINITE = "non_finite"
    """The device flagged an overflow (``is_nan``), which kind was not recorded."""
    UNKNOWN = "unknown"
    """Statistics are null, absent or a placeholder. Never to be read as clean."""
    EMPTY = "empty"
    """A tensor without elements: it can hold nothing bad."""

    __hash__ = object.__hash__  # one object per member; that of Enum is Python, and asked for every tensor

    @property
    def is_bad(self) -> bool:
        """Non-finite in any way, a legal -Inf included (that filter is the analysis')."""
        return self in BAD

    @property
    def is_unknown(self) -> bool:
        return self is ValueState.UNKNOWN


INFINITE = frozenset({ValueState.POS_INF, ValueState.NEG_INF, ValueState.BOTH_INF})
"""Infinities, and no NaN."""
BAD = frozenset(
    {
        ValueState.NAN,
        ValueState.POS_INF,
        ValueState.NEG_INF,
        ValueState.BOTH_INF,
        ValueState.NON_FINITE,
    }
)
"""Non-finite in any way."""

_NON_FINITE_WORDS = {
    "nan": math.nan,
    "+nan": math.nan,
    "-nan": math.nan,
    "inf": math.inf,
    "+inf": math.inf,
    "-inf": -math.inf,
    "infinity": math.inf,
    "+infinity": math.inf,
    "-infinity": -math.inf,
}


def parse_number(raw: object) -> Number | None:
    """A statistic as written, as a number; None when it is not one.

    Accepts JSON numbers, booleans and the strings that hand-made dumps use, in any case and with
    blanks or a tab around (``"nan"``, ``"-inf\\t"``, ``"0.001"``).

    >>> parse_number(" -Inf\\t")
    -inf
    >>> parse_number("3.5")
    3.5
    >>> parse_number({"no": "number"}) is None
    True
    """
    if isinstance(raw, (bool, int, float)):
        return raw
    if isinstance(raw, str):
        word = raw.strip().lower()
        if word in _NON_FINITE_WORDS:
            return _NON_FINITE_WORDS[word]
        try:
            return float(word)
        except ValueError:
            return None
    return None


def _is_nan(value: Number) -> bool:
    return isinstance(value, float) and value != value


def judge(maximum: Number | None, minimum: Number | None) -> ValueState:
    """The state of a tensor from its Max and Min.

    One of the two alone is enough to call a tensor bad, never enough to call it finite.

    >>> judge(1.0, -1.0), judge(math.nan, math.nan), judge(2.0, -math.inf)
    (<ValueState.FINITE: 'finite'>, <ValueState.NAN: 'nan'>, <ValueState.NEG_INF: '-inf'>)
    >>> judge(1.0, None)
    <ValueState.UNKNOWN: 'unknown'>
    """
    if maximum != maximum or minimum != minimum:
        return ValueState.NAN
    pos = math.inf in (maximum, minimum)
    neg = -math.inf in (maximum, minimum)
    if pos and neg:
        return ValueState.BOTH_INF
    if pos:
        return ValueState.POS_INF
    if neg:
        return ValueState.NEG_INF
    return ValueState.UNKNOWN if maximum is None or minimum is None else ValueState.FINITE


class DtypeLimits(Struct, frozen=True):
    """The finite range of one floating dtype."""

    name: str
    largest: float
    """Largest finite value."""
    smallest_normal: float
    """Smallest positive normal value."""
    epsilon: float
    """Distance from 1 to the next larger value."""


_LIMITS = {
    "float16": DtypeLimits("float16", 65504.0, 6.103515625e-05, 2.0**-10),
    "bfloat16": DtypeLimits("bfloat16", 3.3895313892515355e38, 1.1754943508222875e-38, 2.0**-7),
    "float32": DtypeLimits("float32", 3.4028234663852886e38, 1.1754943508222875e-38, 2.0**-23),
    "float64": DtypeLimits("float64", 1.7976931348623157e308, 2.2250738585072014e-308, 2.0**-52),
    "float8_e4m3fn": DtypeLimits("float8_e4m3fn", 448.0, 2.0**-6, 2.0**-3),
    "float8_e4m3fnuz": DtypeLimits("float8_e4m3fnuz", 240.0, 2.0**-7, 2.0**-3),
    "float8_e5m2": DtypeLimits("float8_e5m2", 57344.0, 2.0**-14, 2.0**-2),
    "float8_e5m2fnuz": DtypeLimits("float8_e5m2fnuz", 57344.0, 2.0**-15, 2.0**-2),
    "hifloat8": DtypeLimits("hifloat8", 32768.0, 2.0**-15, 2.0**-3),
}
_ALIASES = {"half": "float16", "float": "float32", "double": "float64", "fp16": "float16",
            "bf16": "bfloat16", "fp32": "float32"}  # fmt: skip


def normalise_dtype(raw: str) -> str:
    """One spelling for every framework's: ``torch.float16``, ``Float16`` and ``half`` are ``float16``.

    >>> normalise_dtype("torch.bfloat16"), normalise_dtype("Float32"), normalise_dtype("mindspore.half")
    ('bfloat16', 'float32', 'float16')
    """
    name = raw.rsplit(".", 1)[-1].strip().lower()
    return _ALIASES.get(name, name)


def limits(dtype: str) -> DtypeLimits | None:
    """The limits of a floating dtype (any spelling); None for integers, bool, unknown."""
    return _LIMITS.get(normalise_dtype(dtype))


def magnitude(maximum: Number | None, minimum: Number | None) -> float | None:
    """The largest absolute value of a tensor; None when unknown or NaN.

    >>> magnitude(2.0, -5.0)
    5.0
    """
    if maximum is None or minimum is None or _is_nan(maximum) or _is_nan(minimum):
        return None
    try:
        return max(abs(float(maximum)), abs(float(minimum)))
    except OverflowError:  # an int beyond the double range
        return math.inf
