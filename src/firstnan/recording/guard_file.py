"""guard.json: what one rank's guard saw, beside the dump of the second run. Works without PyTorch.

::

    {"schema": "firstnan.guard/1", "step": 48211, "rank": 3, "world": 8, "trigger": "loss",
     "first": {"loss": "NaN", "gradient_norm": null}, "again": {"loss": 2.31, "gradient_norm": null},
     "reproduced": false, "random_state": "restored", "eager_regions": [], "torch": "2.13.0", "device": "cuda"}

Numbers that are not finite are the strings "NaN", "Infinity" and "-Infinity", as in the report.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

FILE_NAME = "guard.json"
SCHEMA = "firstnan.guard/1"
_LARGEST = 1_000_000
"""Bytes; a real file has some hundred."""
_SPELLED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class Trigger(Enum):
    """Which value made the guard fire."""

    LOSS = "loss"
    """A value that the step returned."""
    GRADIENT_NORM = "gradient_norm"
    """The norm of the gradients, handed over or the guard's own."""


class RandomState(Enum):
    """Whether the second run drew the same random numbers."""

    RESTORED = "restored"
    """All generators that the guard knows stood where they stood before the first run."""
    UNKNOWN = "unknown"
    """The file does not say."""


@dataclass(frozen=True, slots=True)
class StepValues:
    """What was checked on this rank after one run of the step; None: not checked."""

    loss: float | None
    gradient_norm: float | None

    @property
    def is_bad(self) -> bool:
        """One of them is NaN or Inf."""
        return any(value is not None and not math.isfinite(value) for value in (self.loss, self.gradient_norm))


@dataclass(frozen=True, slots=True)
class GuardFile:
    """One rank's guard.json."""

    step: int
    rank: int
    world: int
    trigger: Trigger
    first: StepValues
    again: StepValues | None
    """None: the second run raised."""
    reproduced: bool | None
    """Whether a value was NaN or Inf again, on any rank; None: the second run did not come to its end."""
    random_state: RandomState = RandomState.RESTORED
    eager_regions: tuple[str, ...] = ()
    """Modules that torch.compile compiles in training and that ran uncompiled in the second run."""
    error: str | None = None
    """The exception that the second run raised."""
    torch: str = ""
    device: str = ""


class GuardFileError(ValueError):
    """guard.json has a form that no guard writes."""


def to_text(file: GuardFile) -> str:
    """The content of guard.json."""
    content = {
        "schema": SCHEMA,
        "step": file.step,
        "rank": file.rank,
        "world": file.world,
        "trigger": file.trigger.value,
        "first": _values_to_json(file.first),
        "again": None if file.again is None else _values_to_json(file.again),
        "reproduced": file.reproduced,
        "random_state": file.random_state.value,
        "eager_regions": list(file.eager_regions),
        "error": file.error,
        "torch": file.torch,
        "device": file.device,
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _values_to_json(values: StepValues) -> dict[str, float | str | None]:
    return {"loss": _spell(values.loss), "gradient_norm": _spell(values.gradient_norm)}


def _spell(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def read(folder: Path) -> GuardFile | None:
    """The guard.json of a rank folder; None: there is none.

    Raises:
        GuardFileError: it is there and cannot be understood.
        OSError: it cannot be read.
    """
    path = folder / FILE_NAME
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        content = stream.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise GuardFileError("larger than any guard writes")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise GuardFileError(f"no JSON: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise GuardFileError(f"not of the schema {SCHEMA}")
    return _from_json(document)


def _from_json(document: Mapping[str, object]) -> GuardFile:
    try:
        trigger = Trigger(document.get("trigger"))
        random_state = RandomState(document.get("random_state", RandomState.UNKNOWN.value))
    except ValueError as error:
        raise GuardFileError(str(error)) from error
    again = document.get("again")
    return GuardFile(
        step=_integer(document, "step"),
        rank=_integer(document, "rank"),
        world=_integer(document, "world"),
        trigger=trigger,
        first=_values(document.get("first")),
        again=None if again is None else _values(again),
        reproduced=_truth(document.get("reproduced")),
        random_state=random_state,
        eager_regions=_texts(document.get("eager_regions")),
        error=_text(document.get("error")) or None,
        torch=_text(document.get("torch")),
        device=_text(document.get("device")),
    )


def _integer(document: Mapping[str, object], key: str) -> int:
    value = document.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise GuardFileError(f"'{key}' is no count")
    return value


def _values(value: object) -> StepValues:
    if not isinstance(value, dict):
        raise GuardFileError("no values of a run")
    return StepValues(_float(value.get("loss")), _float(value.get("gradient_norm")))


def _float(value: object) -> float | None:
    if value is None or isinstance(value, float):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**1000:
        return float(value)
    if isinstance(value, str) and value in _SPELLED:
        return _SPELLED[value]
    raise GuardFileError("a value is no number")


def _truth(value: object) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise GuardFileError("'reproduced' is neither true nor false")


def _text(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    raise GuardFileError("a text is none")


def _texts(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise GuardFileError("'eager_regions' is no list")
    return tuple(_text(one) for one in value)
