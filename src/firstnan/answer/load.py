"""The way back from JSON (schema ``firstnan.report/1``): see :mod:`firstnan.show.json`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from firstnan.dump.errors import InputError

SCHEMA_VERSION = "firstnan.report/1"
NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""How JSON spells numbers that it cannot hold."""

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
        return msgspec.convert(_flat(document), kind, dec_hook=_number, str_keys=True)
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


def _number(_expected: type, raw: object) -> object:
    """For statistics and parameters of notes; msgspec refuses what is of another type."""
    return NON_FINITE.get(raw, raw) if isinstance(raw, str) else raw
