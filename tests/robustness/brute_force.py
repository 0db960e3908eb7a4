"""Which tensors of a dump.json hold a non-finite value, found without any of the program's own readers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def nonfinite(folder: Path) -> dict[str, int] | None:
    """Record name -> tensors in it whose Max or Min is non-finite; None where the file is no whole JSON text.

    Tensors in every place count: arguments, results, parameters, gradients.
    """
    try:
        data = json.loads((folder / "dump.json").read_bytes())["data"]
    except (OSError, ValueError, KeyError):
        return None
    found = {name: sum(map(_is_bad, _tensors(record))) for name, record in data.items()}
    return {name: count for name, count in found.items() if count}


def _tensors(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "Max" in value or "Min" in value:
            yield value
        else:
            for item in value.values():
                yield from _tensors(item)
    elif isinstance(value, list):
        for item in value:
            yield from _tensors(item)


def _is_bad(tensor: dict[str, Any]) -> bool:
    return any(_is_nonfinite(tensor.get(key)) for key in ("Max", "Min"))


def _is_nonfinite(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower().lstrip("+-") in ("nan", "inf", "infinity")
    return isinstance(value, float) and not math.isfinite(value)
