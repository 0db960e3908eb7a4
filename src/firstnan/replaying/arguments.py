"""A record's arguments as Python values, with its tensors beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from msgspec import Struct

from firstnan.answer.replay import NotRun
from firstnan.dump.values import normalise_dtype
from firstnan.replaying.refusal import RefusedError
from firstnan.replaying.tensors import DTYPES, TensorFolder

_DEEPEST = 100


class Place(Struct, frozen=True):
    """Stands for the n-th tensor in a tree of arguments."""

    number: int


class Leaf(Struct, frozen=True):
    """One tensor among the arguments or results."""

    slot: str
    tensor: torch.Tensor
    requires_grad: bool
    raw: Mapping[str, object]
    """The entry of dump.json."""


class Arguments(Struct, frozen=True):
    """Values of one slot group (``input_args``, ``output`` ...): a tree with places, and the tensors in their order."""

    tree: Any
    leaves: tuple[Leaf, ...]

    def filled(self, tensors: Sequence[torch.Tensor]) -> Any:
        """The tree with tensors in their places."""
        return _filled(self.tree, tensors)


def is_tensor(raw: object) -> bool:
    """Whether an entry of dump.json is a tensor's."""
    return isinstance(raw, dict) and isinstance(raw.get("type"), str) and "shape" in raw and "dtype" in raw


def raw_tensors(raw: object, depth: int = 0) -> Iterator[dict[str, object]]:
    """All tensor entries below a value, in order."""
    if isinstance(raw, dict):
        if is_tensor(raw):
            yield raw
        elif depth < _DEEPEST and not isinstance(raw.get("type"), str):
            for item in raw.values():
                yield from raw_tensors(item, depth + 1)
    elif isinstance(raw, list) and depth < _DEEPEST:
        for item in raw:
            yield from raw_tensors(item, depth + 1)


def decode(raw: object, slot: str, folder: TensorFolder) -> Arguments:
    """The values below an entry of a record.

    Raises:
        RefusedError: a tensor cannot be read, or an argument is not recorded.
    """
    reading = _Reading(folder)
    tree = reading.value(raw, slot, 0)
    return Arguments(tree, tuple(reading.leaves))


class _Reading:
    def __init__(self, folder: TensorFolder) -> None:
        self._folder = folder
        self.leaves: list[Leaf] = []

    def value(self, raw: object, slot: str, depth: int) -> Any:
        if depth > _DEEPEST:
            raise RefusedError(NotRun.ARGUMENT, f"{slot} is nested too deeply")
        if isinstance(raw, list):
            return [self.value(item, f"{slot}.{index}", depth + 1) for index, item in enumerate(raw)]
        if not isinstance(raw, dict):
            return raw
        if is_tensor(raw):
            tensor = self._folder.load(raw)
            self.leaves.append(Leaf(slot, tensor, raw.get("requires_grad") is True, raw))
            return Place(len(self.leaves) - 1)
        if not raw and depth:  # what the writer does not know it writes so; without arguments the top is empty
            raise RefusedError(NotRun.ARGUMENT, slot)
        kind = raw.get("type")
        if not isinstance(kind, str):
            return {str(key): self.value(item, f"{slot}.{key}", depth + 1) for key, item in raw.items()}
        return _scalar(kind, raw, slot)


def _scalar(kind: str, raw: Mapping[str, object], slot: str) -> Any:
    value = raw.get("value")
    if kind.endswith(".dtype"):
        dtype = DTYPES.get(normalise_dtype(str(value)))
        if dtype is None:
            raise RefusedError(NotRun.ARGUMENT, slot)
        return dtype
    if kind.endswith(".device"):
        return torch.device("cpu")
    if kind == "slice" and isinstance(value, list) and len(value) == 3:
        return slice(*value)
    if kind == "ellipsis":
        return Ellipsis
    if kind.endswith(".Size") and isinstance(value, list):
        return torch.Size(value)
    if kind.endswith(".memory_format"):
        found = getattr(torch, str(raw.get("format")), None)
        if isinstance(found, torch.memory_format):
            return found
    elif kind in ("int", "float", "bool", "str") or isinstance(value, (int, float)):
        return value
    raise RefusedError(NotRun.ARGUMENT, slot)


def _filled(tree: Any, tensors: Sequence[torch.Tensor]) -> Any:
    if isinstance(tree, Place):
        return tensors[tree.number]
    if isinstance(tree, list):
        return [_filled(item, tensors) for item in tree]
    if isinstance(tree, dict):
        return {key: _filled(item, tensors) for key, item in tree.items()}
    return tree


def tensors_of(value: object) -> list[torch.Tensor]:
    """All tensors of a result, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in tensors_of(item)]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_of(item)]
    return []


Change = Callable[[torch.Tensor], torch.Tensor]
"""What is done to each floating tensor before a run: nothing, another dtype, a little noise, a cut."""
