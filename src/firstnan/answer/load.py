"""The way back from JSON (schema ``firstnan.report/1``): see :mod:`firstnan.show.json`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import Struct

from firstnan.dump.errors import InputError
from firstnan.dump.values import Statistic

SCHEMA_VERSION = "firstnan.report/1"
NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""How JSON spells numbers that it cannot hold."""
HOMES = ("firstnan.answer.", "firstnan.dump.")
"""The floors whose values a report can hold."""

T = TypeVar("T")


def from_dict(document: Mapping[str, Any], kind: type[T]) -> T:
    """The report (``kind``: its class) that :func:`firstnan.show.json.to_dict` wrote.

    What ``kind`` does not know is passed over, so that a report of a later version can be read.
    A text parameter of a note that reads ``"NaN"``, ``"Infinity"`` or ``"-Infinity"`` comes back as the number.

    Raises:
        InputError: not a report of schema ``firstnan.report/1``.
    """
    schema = document.get("schema") if isinstance(document, Mapping) else None
    if schema != SCHEMA_VERSION:
        raise InputError(f"not a report of schema {SCHEMA_VERSION}")
    try:
        return msgspec.convert(_with_numbers(_flat(document)), kind, str_keys=True)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"a damaged report of schema {SCHEMA_VERSION}: {error}") from error


def _flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with the two parts that have another shape in the model."""
    hops = [
        {
            "step": hop["from"]["step"],
            "from_rank": hop["from"]["rank"],
            "from_op": hop["from"]["op_name"],
            "to_ranks": hop["to"]["ranks"],
            "to_ops": hop["to"]["ops"],
            "via": hop["via"],
        }
        for hop in document["propagation"]
    ]
    return {**document, "propagation": hops, "benign": document["benign"]["rules"]}


def _with_numbers(value: Any, name: str = "") -> Any:
    """The document with numbers where words stand for them: in statistics and in parameters of notes."""
    if isinstance(value, dict):
        return {key: _with_numbers(item, name if name == "params" else key) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_numbers(item) for item in value]
    return NON_FINITE.get(value, value) if isinstance(value, str) and name in _numeric() else value


@cache
def _numeric() -> frozenset[str]:
    """Names in JSON of all statistics, and of the parameters of notes."""
    kinds = (kind for kind in Struct.__subclasses__() if kind.__module__.startswith(HOMES))
    fields = (field for kind in kinds for field in msgspec.structs.fields(kind))
    return frozenset(field.encode_name for field in fields if Statistic in (field.type, *get_args(field.type))) | {
        "params"
    }
