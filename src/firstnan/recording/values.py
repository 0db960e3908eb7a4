"""From the arguments and results of a call to the values that dump.json holds (dump format, section 4)."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import torch
import torch.distributed as dist

from firstnan.recording.statistics import TensorEntry

Value: TypeAlias = "TensorEntry | Mapping[str, Value] | Sequence[Value] | str | int | float | bool | None"
"""A value as JSON has it, with tensors still on their device."""

_DEEPEST = 50
_PLAIN: Mapping[type, str] = {bool: "bool", int: "int", float: "float", str: "str"}


def value_of(value: object, tensor: Callable[[torch.Tensor], TensorEntry], depth: int = 0) -> Value:
    """One argument or result, containers included; ``tensor`` looks at a tensor. What has no form in a dump is null."""
    if isinstance(value, torch.Tensor):
        return tensor(value)
    if value is None or depth > _DEEPEST:
        return None
    if isinstance(value, bool | int | float | str) and type(value) in _PLAIN:
        return {"type": _PLAIN[type(value)], "value": value}
    if isinstance(value, torch.Size):
        return {"type": "torch.Size", "value": list(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: value_of(getattr(value, name), tensor, depth + 1) for name in value._fields}
    if isinstance(value, list | tuple):
        return [value_of(one, tensor, depth + 1) for one in value]
    if isinstance(value, Mapping):
        return {str(key): value_of(one, tensor, depth + 1) for key, one in value.items()}
    if isinstance(value, slice):
        ends = (value.start, value.stop, value.step)
        return {"type": "slice", "value": [end if isinstance(end, int) else None for end in ends]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: value_of(getattr(value, field.name), tensor, depth + 1) for field in fields}
    return _object(value)


def _object(value: object) -> Value:
    if value is Ellipsis:
        return {"type": "ellipsis", "value": "..."}
    if isinstance(value, torch.dtype):
        return {"type": "torch.dtype", "value": str(value)}
    if isinstance(value, torch.device):
        return {"type": "torch.device", "value": str(value)}
    if isinstance(value, torch.memory_format):
        return {"type": "torch.memory_format", "format": str(value).removeprefix("torch.")}
    if type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "shape", None) == ():
        item = value.item()
        return {"type": type(value).__name__, "value": item} if type(item) in _PLAIN else None
    return None


def group_value(ranks: Sequence[int]) -> Value:
    """A process group with these global ranks, in group order."""
    number = zlib.crc32(str(list(ranks)).encode())
    return {"type": "torch.ProcessGroup", "group_ranks": list(ranks), "group_id": f"{number:08x}"}


def reduction_value(name: str) -> Value:
    """A reduction: ``SUM``, ``MAX`` ..."""
    return {"type": "torch.distributed.ReduceOp", "value": f"RedOpType.{name}"}


def is_distributed() -> bool:
    """Whether there is a process group."""
    return bool(dist.is_available() and dist.is_initialized())


def own_rank() -> int:
    """The global rank of this process; 0 without a process group."""
    return dist.get_rank() if is_distributed() else 0
