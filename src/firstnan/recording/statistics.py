"""Max, Min, Mean and Norm of tensors, computed on their device and brought to the host all at once.

The output of one operator is the input of the next: each version of a tensor is looked at once.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

Number = float | int | bool
Four = tuple[Number | None, Number | None, Number | None, Number | None]
_UNKNOWN: Four = (None, None, None, None)

_TENSOR_CLASSES = (torch.Tensor, torch.nn.Parameter)
_WIDE_INTEGERS = frozenset(
    dtype for name in ("uint16", "uint32", "uint64") if (dtype := getattr(torch, name, None)) is not None
)
"""Unsigned integers without a Max and Min of their own in PyTorch."""
_COMPARED = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})


@dataclass(slots=True, eq=False)
class TensorEntry:
    """One tensor at one moment, as dump.json describes it."""

    type: str
    """``torch.Tensor``, or the full name of a subclass."""
    dtype: str
    shape: tuple[int, ...]
    requires_grad: bool
    on_device: tuple[Any, ...] | None
    """Max, Min and, for float16, bfloat16 and float32, Mean and Norm: 0-dim tensors. None: not known."""
    numbers: Four = _UNKNOWN
    """The same on the host, after :func:`bring_to_host`."""
    mesh: tuple[object, tuple[object, ...]] | None = None
    """Device mesh and placements of a DTensor; the numbers are those of the local shard."""
    data_name: str = ""
    """Name of the file with its elements; empty: they are not kept."""
    data: torch.Tensor | None = None
    """Its elements, on the host."""


class _Seen(NamedTuple):
    """The last look at a tensor object."""

    owner: Callable[[], Any]
    version: tuple[int, int]
    entry: TensorEntry

    def is_of(self, tensor: torch.Tensor, version: tuple[int, int] | None) -> bool:
        """Whether this is what the tensor holds now."""
        return self.owner() is tensor and self.version == version and self.entry.requires_grad is tensor.requires_grad


class Statistics:
    """Looks at tensors while a step runs. It changes nothing: no gradients, no random numbers, no waiting."""

    def __init__(self) -> None:
        self._seen: dict[int, _Seen] = {}

    def of(self, tensor: torch.Tensor) -> TensorEntry:
        """The tensor as it is now."""
        version = _version(tensor)
        seen = self._seen.get(id(tensor))
        if seen is not None and version is not None and seen.is_of(tensor, version):
            return seen.entry
        entry = _look_at(tensor)
        if version is not None:
            self._seen[id(tensor)] = _Seen(weakref.ref(tensor), version, entry)
        return entry

    def kept(self, tensor: torch.Tensor, data_name: str) -> TensorEntry:
        """The tensor as it is now, with its elements. Waits for the device."""
        entry = replace(self.of(tensor))
        local = getattr(tensor, "_local_tensor", tensor).detach()
        if entry.on_device is not None:
            # numpy has no bfloat16, and needs no pickle
            kind = torch.float32 if local.dtype is torch.bfloat16 else local.dtype
            entry.data_name, entry.data = data_name, local.to("cpu", kind, copy=True)
        return entry

    def same_elements(self, source: torch.Tensor, result: torch.Tensor) -> None:
        """``result`` holds the elements of ``source`` in another shape: nothing has to be computed for it."""
        seen, version = self._seen.get(id(source)), _version(result)
        if seen is None or version is None or not seen.is_of(source, _version(source)):
            return
        if (
            type(source) not in _TENSOR_CLASSES
            or type(result) not in _TENSOR_CLASSES
            or source.dim() * result.dim() == 0
        ):
            return  # 0-dim tensors have a Norm of their own kind
        if source.dtype is result.dtype and source.numel() == result.numel():
            entry = TensorEntry(
                "torch.Tensor", str(result.dtype), tuple(result.shape), result.requires_grad, seen.entry.on_device
            )
            self._seen[id(result)] = _Seen(weakref.ref(result), version, entry)

    def forget(self) -> None:
        """Memory was written by something that leaves no version behind (communication)."""
        self._seen.clear()


def _version(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Changes with every write that PyTorch knows of; None where it keeps no account."""
    if type(tensor) not in _TENSOR_CLASSES or tensor.is_inference() or tensor.layout is not torch.strided:
        return None
    return tensor._version, tensor.data_ptr()


def _look_at(tensor: torch.Tensor) -> TensorEntry:
    kind, local, mesh = "torch.Tensor", tensor.detach(), None
    if type(tensor) not in _TENSOR_CLASSES:
        kind = f"{type(tensor).__module__}.{type(tensor).__qualname__}"
        if hasattr(tensor, "_local_tensor") and hasattr(tensor, "placements"):
            local = tensor._local_tensor.detach()
            mesh = (tensor.device_mesh.mesh.tolist(), tuple(tensor.placements))
        elif type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__:  # a subclass that only adds methods
            kind, local = "torch.Tensor", local.as_subclass(torch.Tensor)
        else:
            return TensorEntry(kind, str(tensor.dtype), tuple(tensor.shape), tensor.requires_grad, None)
    on_device = _numbers(local) if _is_readable(local) else None
    return TensorEntry(kind, str(tensor.dtype), tuple(local.shape), tensor.requires_grad, on_device, mesh=mesh)


def _is_readable(tensor: torch.Tensor) -> bool:
    """A plain tensor with memory behind it."""
    return (
        tensor.device.type != "meta"
        and tensor.layout is torch.strided
        and not tensor.is_quantized
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        and tensor.numel() > 0
        and tensor.data_ptr() != 0  # FSDP frees the memory of parameters that it gathers again
    )


def _numbers(tensor: torch.Tensor) -> tuple[torch.Tensor, ...] | None:
    dtype = tensor.dtype
    if dtype in _COMPARED:
        if tensor.dim() == 0:
            own = tensor.clone()
            return (own, own) if dtype is torch.float64 else (own, own, own, own)
        flat = _flat(tensor)
        low, high = torch.aminmax(flat)
        if dtype is torch.float64:
            return high, low
        norm = torch.dot(flat, flat).sqrt() if dtype is torch.float32 else torch.linalg.vector_norm(flat)
        return high, low, flat.mean(), norm
    if dtype is torch.bool:
        return tensor.any(), tensor.all()
    if dtype.is_complex:
        low, high = torch.aminmax(tensor.abs())
        return high, low
    if dtype.is_floating_point:
        return None  # float8 and smaller
    if dtype in _WIDE_INTEGERS:
        tensor = tensor.to(torch.int64)
    low, high = torch.aminmax(tensor)
    return high, low


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """All elements, in the order of memory where they fill it: a transposed tensor takes ten times as long."""
    if not tensor.is_contiguous():
        order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
        tensor = tensor.permute(order)
    return tensor.reshape(-1)


def bring_to_host(entries: Iterable[TensorEntry]) -> None:
    """Fill in ``numbers``: one copy for each device and dtype, however many tensors there are."""
    waiting: defaultdict[tuple[torch.device, torch.dtype], list[tuple[TensorEntry, int]]] = defaultdict(list)
    found: dict[int, list[Number | None]] = {}
    every = [entry for entry in entries if entry.on_device is not None]
    for entry in every:
        found[id(entry)] = [None] * 4
        for slot, number in enumerate(entry.on_device or ()):
            waiting[number.device, number.dtype].append((entry, slot))
    for places in waiting.values():
        together = torch.stack([(entry.on_device or ())[slot] for entry, slot in places])
        for (entry, slot), value in zip(places, together.tolist(), strict=True):
            found[id(entry)][slot] = value
    for entry in every:
        high, low, mean, norm = found[id(entry)]
        entry.numbers = (high, low, mean, norm)
