"""Records that healthy programs leave, put into a dump at places where they touch nothing.

Each kind is a short run of records as MSProbe writes them: a non-finite value, and what a program does with it. Their
tensors have sizes that no record of the dump has, so that nothing else can have read or written them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Json = Any
NAN, INF = float("nan"), float("inf")
_FIRST_CALL = 70_000
"""Number of the first record that is put in: larger than any in the dumps."""


def tensor(high: float, low: float, shape: Sequence[int], dtype: str = "float32") -> Json:
    mean = high if high != high or abs(high) == INF else (high + low) / 2
    return {
        "type": "torch.Tensor",
        "dtype": f"torch.{dtype}",
        "shape": list(shape),
        "Max": high,
        "Min": low,
        "Mean": mean,
        "Norm": abs(high),
        "requires_grad": False,
    }


def _record(inputs: Sequence[Json], outputs: Sequence[Json], **kwargs: Json) -> Json:
    return {"input_args": list(inputs), "input_kwargs": kwargs, "output": list(outputs)}


Records = list[tuple[str, Json]]
"""API -> record, in order."""


def masked_row(shape: Sequence[int]) -> Records:
    """A row of scores that is masked in full: softmax gives NaN, where drops it."""
    scores, masked = tensor(1.0, -1.0, shape), tensor(1.0, -INF, shape)
    chosen = tensor(True, False, shape, "bool")
    zero = {"type": "float", "value": 0.0}
    return [
        ("Tensor.masked_fill", _record([scores, chosen, {"type": "float", "value": -INF}], [masked])),
        ("Functional.softmax", _record([masked], [tensor(NAN, NAN, shape)], dim={"type": "int", "value": -1})),
        ("Torch.where", _record([chosen, zero, tensor(NAN, NAN, shape)], [tensor(0.5, 0.0, shape)])),
    ]


def replaced(shape: Sequence[int]) -> Records:
    """A ratio with empty counts, replaced at once."""
    ratio = tensor(INF, 0.5, shape)
    return [
        ("Tensor.__truediv__", _record([tensor(2.0, 1.0, shape), tensor(2.0, 0.0, shape)], [ratio])),
        ("Torch.nan_to_num", _record([ratio], [tensor(2.0, 0.0, shape)])),
    ]


def saturated(shape: Sequence[int]) -> Records:
    """exp of a large argument, taken back by a reciprocal (a sigmoid by hand)."""
    grown = tensor(INF, 1.0, shape)
    return [
        ("Torch.exp", _record([tensor(120.0, 0.0, shape)], [grown])),
        ("Torch.reciprocal", _record([grown], [tensor(1.0, 0.0, shape)])),
    ]


def scores_with_a_mask(shape: Sequence[int]) -> Records:
    """What every causal attention does."""
    masked = tensor(1.0, -INF, shape)
    constant = {"type": "float", "value": -INF}
    return [
        (
            "Tensor.masked_fill",
            _record([tensor(1.0, -1.0, shape), tensor(True, False, shape, "bool"), constant], [masked]),
        ),
        ("Functional.softmax", _record([masked], [tensor(0.7, 0.0, shape)], dim={"type": "int", "value": -1})),
    ]


def fresh_memory(shape: Sequence[int]) -> Records:
    """A buffer that is filled before anybody reads it."""
    sizes = [{"type": "int", "value": size} for size in shape]
    garbage = tensor(NAN, NAN, shape)
    return [
        ("Torch.empty", _record(sizes, [garbage])),
        ("Tensor.zero_", _record([garbage], [tensor(0.0, 0.0, shape)])),
        (
            "Tensor.__add__",
            _record([tensor(0.0, 0.0, shape), {"type": "float", "value": 1.0}], [tensor(1.0, 1.0, shape)]),
        ),
    ]


def metric(shape: Sequence[int]) -> Records:
    """The perplexity of a model that has not learnt anything yet; nothing reads it."""
    del shape
    return [("Torch.exp", _record([tensor(100.0, 100.0, ())], [tensor(INF, INF, ())]))]


DROPPED: dict[str, Callable[[Sequence[int]], Records]] = {
    kind.__name__: kind for kind in (masked_row, replaced, saturated, scores_with_a_mask, fresh_memory)
}
"""Kinds whose value is dropped with proof."""


def put_in(folder: Path, kind: Callable[[Sequence[int]], Records], chance: random.Random, times: int = 3) -> bool:
    """Puts a kind of records into one rank's dump, at some places between operators of the forward pass.

    False: the file cannot be rewritten, or has no such place.
    """
    path = folder / "dump.json"
    try:
        document = json.loads(path.read_bytes())
        construct = json.loads((folder / "construct.json").read_bytes())
    except (OSError, ValueError):
        return False
    data: dict[str, Json] = document["data"]
    places = _places(data, construct)
    if not places:
        return False
    chosen = {chance.choice(places): number for number in range(times)}
    anew: dict[str, Json] = {}
    for name, record in data.items():
        if name in chosen:
            for api, content in kind(_free_shape(data, chosen[name])):
                added = f"{api}.{_FIRST_CALL + chosen[name]}.forward"
                anew[added] = content
                construct[added] = construct.get(name)
        anew[name] = record
    document["data"] = anew
    path.write_text(json.dumps(document, indent=1))
    (folder / "construct.json").write_text(json.dumps(construct, indent=1))
    return True


def _places(data: dict[str, Json], construct: dict[str, Json]) -> list[str]:
    """Operators of forward that stand directly behind another operator of the same module: nothing is between them."""
    found = []
    before = ""
    for name in data:
        if name.endswith(".backward") or ".backward." in name:
            break
        is_operator = name.split(".")[0] in ("Torch", "Tensor", "Functional") and name.endswith(".forward")
        if is_operator and before and construct.get(name) == construct.get(before) and construct.get(name):
            found.append(name)
        before = name if is_operator else ""
    return found


def _free_shape(data: dict[str, Json], number: int) -> tuple[int, int]:
    """A shape whose number of elements no tensor of the dump has."""
    taken = set()
    stack: list[Json] = list(data.values())
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            shape = value.get("shape")
            if isinstance(shape, list) and all(isinstance(size, int) for size in shape):
                count = 1
                for size in shape:
                    count *= size
                taken.add(count)
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
    columns = 7 + number
    while 11 * columns in taken:
        columns += 1
    return 11, columns


PLACES = ("start", "forward", "loss", "backward", "update", "end")
"""Where a number may be computed, outside of all modules."""
NUMBERS: tuple[tuple[str, float, float], ...] = (
    ("Torch.exp", 100.0, INF),
    ("Torch.log", -1.0, NAN),
    ("Torch.log", 0.0, -INF),
)
"""Operator, argument, result."""


def put_number(folder: Path, place: str, chance: random.Random) -> bool:
    """Puts one number that is not finite and that nothing reads into one rank's dump: a perplexity, an entropy.

    False: the file cannot be rewritten, holds no operators, or its operators end before its records do.
    """
    path = folder / "dump.json"
    try:
        document = json.loads(path.read_bytes())
        construct = json.loads((folder / "construct.json").read_bytes())
    except (OSError, ValueError):
        return False
    names = list(document["data"])
    if not names or any(name.endswith(".debug") for name in names):
        return False
    if not any(name.split(".")[0] in ("Torch", "Tensor", "Functional") for name in names):
        return False
    if place == "end" and names[-1].split(".")[0] in ("Module", "Cell"):
        return False
    backward = [at for at, name in enumerate(names) if ".backward" in name] or [len(names)]
    at = {
        "start": 0,
        "forward": chance.randrange(1, max(2, backward[0])),
        "loss": backward[0],
        "backward": chance.choice(backward),
        "update": backward[-1] + 1,
        "end": len(names),
    }[place]
    api, argument, result = chance.choice(NUMBERS)
    added = f"{api}.{_FIRST_CALL + chance.randrange(1000)}.forward"
    record = _record([tensor(argument, argument, ())], [tensor(result, result, ())])
    items = list(document["data"].items())
    document["data"] = dict([*items[:at], (added, record), *items[at:]])
    construct[added] = None
    path.write_text(json.dumps(document, indent=1))
    (folder / "construct.json").write_text(json.dumps(construct, indent=1))
    return True
