"""Where fuzzing begins: the corpus beside this file, and small pieces of the sample dumps of the tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

HERE = Path(__file__).resolve().parent
SAMPLES = HERE.parent / "tests" / "data" / "readers"
_RECORDS = 12
"""Records taken from one sample, each also as an input of its own."""


def seeds(target: str, samples: Path = SAMPLES) -> list[bytes]:
    """The inputs with which a target begins, in a fixed order."""
    found = [path.read_bytes() for path in sorted((HERE / "corpus" / target).glob("*")) if path.is_file()]
    dumps = sorted(samples.rglob("dump.json"))
    if target == "names":
        found += [name.encode() for path in dumps for name in islice(_data(path), 40)]
    elif target == "chains":
        found += [_small(p.with_name("construct.json")) + b"\0" + _small(p.with_name("stack.json")) for p in dumps]
    else:
        prefix = b"\1\0" if target == "json_cut" else b""
        found += [prefix + piece for path in dumps for piece in _pieces(path)]
    return list(dict.fromkeys(found))


def _data(path: Path) -> dict[str, object]:
    try:
        top = json.loads(path.read_bytes())
    except ValueError:
        return {}
    data = top.get("data") if isinstance(top, dict) else None
    return data if isinstance(data, dict) else {}


def _pieces(path: Path) -> Iterator[bytes]:
    """The first records one by one, and some of them together."""
    data = list(_data(path).items())
    for chosen in (
        *([item] for item in data[:_RECORDS]),
        data[:4],
        data[-4:],
        [d for d in data if "Distributed" in d[0]][:4],
    ):
        if chosen:
            yield json.dumps(
                {"task": "statistics", "level": "mix", "framework": "pytorch", "data": dict(chosen)}, indent=1
            ).encode()


def _small(path: Path) -> bytes:
    try:
        top = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return b"{}"
    return json.dumps(dict(islice(top.items(), 6)), indent=1).encode()
