"""Breaking inputs at random: by bytes, and by the structure of JSON. Everything follows from the seed."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from typing import Any

BYTES = (
    b'"', b"\\", b"{", b"}", b"[", b"]", b":", b",", b"\0", b"\n", b"\r\n", b"\xef\xbb\xbf", b"\xff\xfe",
    b"\xed\xa0\x80", b"NaN", b"Infinity", b"-Infinity", b"null", b"true", b"1e999", b"-1e-999", b"9" * 400, b"0x1F",
    b"1_0", b"-0", b"00", b"\\ud800", b"\\udfff\\ud800", b"\\ud83d\\ude00", b"\\u0000", b"[" * 600, b'{"a":' * 600,
    b"\xc3", b"/", b"'", b"+1",
)  # fmt: skip
"""What parsers stumble over."""

KEYS = (
    "type", "dtype", "shape", "Max", "Min", "Mean", "Norm", "requires_grad", "md5", "is_nan", "value", "format",
    "input", "input_args", "input_kwargs", "output", "parameters", "group_ranks", "group_id", "class_type", "op",
    "peer", "tag", "tensor", "data", "task", "level", "framework", "is_recompute", "tensor_stat_index", "src", "dst",
    "group", "async_op",
)  # fmt: skip

NAMES = (
    "Functional.linear.0.forward", "Functional.linear.0.backward", "Tensor.add.18446744073709551616.forward",
    "Module.layers.0.fc.Linear.forward.0", "Module.layers.0.fc.Linear.backward.0", "Module.fc.Linear.parameters_grad",
    "Distributed.all_reduce.0.forward", "Distributed.broadcast.0.forward", "Distributed.send.0.forward",
    "Distributed.recv.0.forward", "Distributed.all_to_all_single.0.forward",
    "Distributed.batch_isend_irecv.0.forward", "Distributed.reduce_scatter_tensor.0.forward",
    "Distributed.all_gather.0.forward", "Distributed.all_reduce_0_0", "Primitive.matmul.MatMul.0.forward",
    "Torch.softmax.0.forward", "Tensor.masked_fill_.1.forward", "..", "", ".forward", "Torch.exp.0.forward",
    "Torch.where.0.forward", "Cell.net.Net.forward.0", "Mint.add.0.forward", "Torch.empty.0.forward",
)  # fmt: skip

VALUES: tuple[object, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**64), 10**400, 0.5, -0.0, 1e308, 65504.0, 65519.0, 65520.0, 3.4e38,
    float("nan"), float("inf"), float("-inf"), "nan", "-inf", " Infinity\t", "1e999", "x" * 300, "", "\ud800",
    "torch.float16", "torch.bfloat16", "torch.int64", "Float32", "torch.float64", "torch.Tensor", "numpy.ndarray",
    "mindspore.Tensor", "int", "torch.ProcessGroup", "torch.distributed.P2POp", "isend", "irecv", "slice", [], {},
    [[]], [0], [0, 1], [-1], [2, 3], [0, 2**70], [1] * 100, {"type": "int", "value": 1},
    {"type": "torch.ProcessGroup", "group_ranks": [0, 1, 2], "group_id": "d0d3ee1a"},
    {"type": "torch.Tensor", "dtype": "torch.float16", "shape": [2, 3], "Max": 65504.0, "Min": -1.0},
    {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], "Max": float("nan"), "Min": float("nan")},
    {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], "Max": None, "Min": None, "Mean": None},
)  # fmt: skip
"""What a value may be replaced by."""

MAX_BYTES = 1 << 16


def mutate(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """One to five changes; half of the time to the structure, where the input has one."""
    for _ in range(chance.choice((1, 1, 2, 3, 5))):
        changed = structure(data, others, chance) if chance.random() < 0.6 else None
        data = (changed if changed is not None else by_bytes(data, others, chance))[:MAX_BYTES]
    return data


# --- bytes ------------------------------------------------------------------------------------------------------


def by_bytes(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """Insert, delete, overwrite, flip, repeat, cut, or splice with another input."""
    begin = chance.randint(0, len(data))
    end = min(len(data), begin + int(chance.expovariate(0.1)) + 1)
    kind = chance.randrange(8)
    if kind == 0:
        return data[:begin] + chance.choice(BYTES) + data[begin:]
    if kind == 1:
        return data[:begin] + data[end:]
    if kind == 2:
        return data[:begin] + chance.choice(BYTES) + data[end:]
    if kind == 3 and begin < len(data):
        return data[:begin] + bytes([data[begin] ^ (1 << chance.randrange(8))]) + data[begin + 1 :]
    if kind == 4:
        return data[:end] + data[begin:end] * chance.randint(1, 20) + data[end:]
    if kind == 5:
        return data[:begin]
    if kind == 6 and others:
        other = chance.choice(others)
        return data[:begin] + other[chance.randint(0, len(other)) :]
    return data[:begin] + bytes(chance.randrange(256) for _ in range(chance.randint(1, 4))) + data[begin:]


# --- structure --------------------------------------------------------------------------------------------------


def structure(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes | None:
    """Change one place of a JSON text; None when it is none."""
    top = _parsed(data)
    if not isinstance(top, (dict, list)):
        return None
    top = copy.deepcopy(top)
    places = list(_places(top))
    if not places:
        return None
    holder, key = chance.choice(places)
    kind = chance.randrange(7)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        _rename(holder, key, chance.choice(NAMES if str(key).count(".") else KEYS))
    elif kind == 2 and isinstance(holder, dict):
        holder[chance.choice((*KEYS, *NAMES))] = copy.deepcopy(holder[key])
    elif kind == 3:
        donor = _parsed(chance.choice(others)) if others else None
        found = list(_places(donor)) if isinstance(donor, (dict, list)) else []
        if not found:
            return None
        there, at = chance.choice(found)
        holder[key] = copy.deepcopy(there[at])
    elif kind == 4 and isinstance(holder, list):
        holder.insert(chance.randint(0, len(holder)), copy.deepcopy(chance.choice(holder)))
    else:
        holder[key] = copy.deepcopy(chance.choice(VALUES))
    text = json.dumps(top, indent=chance.choice((None, None, 1)))
    return text.encode("utf-8", "surrogatepass")


def _parsed(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _places(value: object) -> list[tuple[Any, Any]]:
    """Every place below a value, as its container and its key."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        if isinstance(holder, dict):
            found += [(holder, key) for key in holder]
            waiting += holder.values()
        elif isinstance(holder, list):
            found += [(holder, index) for index in range(len(holder))]
            waiting += holder
    return found


def _rename(holder: dict[Any, Any], key: object, name: str) -> None:
    """In its place: the order of keys is the order of execution."""
    items = [(name if k == key else k, v) for k, v in holder.items()]
    holder.clear()
    holder.update(items)
