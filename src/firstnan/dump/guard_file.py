"""guard.json: what the guard of a training loop saw on one rank, beside the dump of the second run.

::

    {"schema": "firstnan.guard/1", "step": 48211, "rank": 3, "world": 8, "trigger": "loss",
     "first": {"loss": "NaN"}, "again": {"loss": 2.31}, "reproduced": false, "random_state": "restored",
     "eager_regions": [], "torch": "2.13.0", "device": "cuda"}
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Annotated, Literal

from msgspec import Meta, Struct

GUARD_FILE = "guard.json"
Count = Annotated[int, Meta(ge=0)]


class Trigger(Enum):
    """Which value made the guard fire."""

    LOSS = "loss"
    """A value that the step returned."""
    GRADIENT_NORM = "gradient_norm"
    """The norm of the gradients."""


class RandomState(Enum):
    """Whether the second run drew the same random numbers."""

    RESTORED = "restored"
    """All generators that the guard knows stood where they stood before the first run."""
    UNKNOWN = "unknown"
    """The file does not say."""


class NotFinite(Enum):
    """A number that JSON does not have, as the report spells it."""

    NAN = "NaN"
    """Not a number."""
    PLUS_INF = "Infinity"
    """Positive infinity."""
    MINUS_INF = "-Infinity"
    """Negative infinity."""


Value = float | NotFinite | None
"""A checked value; None: not checked."""


def value_of(number: float | None) -> Value:
    """A number as guard.json holds it.

    >>> value_of(2.5), value_of(float("-inf")), value_of(None)
    (2.5, <NotFinite.MINUS_INF: '-Infinity'>, None)
    """
    if number is None or math.isfinite(number):
        return number
    if math.isnan(number):
        return NotFinite.NAN
    return NotFinite.PLUS_INF if number > 0 else NotFinite.MINUS_INF


def number_of(value: Value) -> float | None:
    """The other way round."""
    return float(value.value) if isinstance(value, NotFinite) else value


class StepValues(Struct, frozen=True, omit_defaults=True):
    """What was checked on one rank after one run of the step."""

    loss: Value = None
    gradient_norm: Value = None

    def of(self, trigger: Trigger) -> Value:
        """The value that this trigger looks at."""
        return self.loss if trigger is Trigger.LOSS else self.gradient_norm


class GuardFile(Struct, frozen=True, kw_only=True):
    """One rank's guard.json."""

    schema: Literal["firstnan.guard/1"] = "firstnan.guard/1"
    step: Count
    rank: Count
    world: Count
    trigger: Trigger
    first: StepValues
    again: StepValues | None = None
    """None: the second run raised."""
    reproduced: bool | None = None
    """Whether a value was NaN or Inf again, on any rank; None: the second run did not come to its end."""
    random_state: RandomState = RandomState.UNKNOWN
    eager_regions: tuple[str, ...] = ()
    """Modules that torch.compile compiles in training and that ran uncompiled in the second run."""
    error: str = ""
    """The exception that the second run raised."""
    torch: str = ""
    device: str = ""
