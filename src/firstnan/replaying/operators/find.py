"""Which function of torch a recorded operator's name stands for. Imports nothing of firstnan: a repro takes it along.

A name comes from a file, and may be any text: only operators are found, never a function that reads, writes or loads.
What torch lets tensor subclasses override (``torch.overrides``) is what works on tensors; a few functions that make
tensors, the ``_foreach`` family and ``torch.ops.aten`` come on top.

====================  =================================================================================
prefix                where its operators are
====================  =================================================================================
Functional            torch.nn.functional
Tensor                torch.Tensor
Torch                 torch; ``linalg.``, ``fft.`` and ``special.`` with or without the name of the part
VF                    torch._VF (recurrent layers)
Aten                  torch.ops.aten
Mint, MintFunctional  MindSpore's API that follows torch: as Torch and Functional
NPU, MindSpeed        formulas of :mod:`.npu`
====================  =================================================================================

MindSpore's other operators are found where their first arguments mean the same as those of their torch twin.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import get_overridable_functions

from . import npu

_PARTS = {"linalg": torch.linalg, "fft": torch.fft, "special": torch.special}
_MAKERS = frozenset(
    {"arange", "zeros", "ones", "full", "eye", "linspace", "logspace", "tril_indices", "triu_indices", "hann_window",
     "hamming_window", "scalar_tensor"}
)  # fmt: skip
_NO_OPERATORS = frozenset(
    {"apply_", "map_", "map2_", "backward", "share_memory_", "register_hook", "storage", "storage_type", "numpy",
     "register_post_accumulate_grad_hook", "retain_grad", "resize_as_", "set_", "data_ptr", "module_load"}
)  # fmt: skip
_TWINS = frozenset(
    {"add", "sub", "mul", "div", "matmul", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "square", "abs", "neg",
     "tanh", "sigmoid", "relu", "sin", "cos", "erf", "reciprocal", "floor", "ceil", "maximum", "minimum", "bmm",
     "isnan", "isfinite", "sign", "pow", "__add__", "__sub__", "__mul__", "__truediv__", "__matmul__", "__neg__",
     "__radd__", "__rsub__", "__rmul__", "__rtruediv__", "__pow__", "silu"}
)  # fmt: skip
_PRIMITIVES = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "RealDiv": "div", "Exp": "exp", "Log": "log",
               "Sqrt": "sqrt", "Rsqrt": "rsqrt", "Square": "square", "Abs": "abs", "Neg": "neg", "Tanh": "tanh",
               "Sigmoid": "sigmoid", "Pow": "pow", "Maximum": "maximum", "Minimum": "minimum"}  # fmt: skip


def find(prefix: str, api: str, framework: str | None = None) -> Callable[..., Any] | None:
    """The function; None when there is none, or none that is an operator."""
    if prefix in ("NPU", "MindSpeed"):
        return npu.FORMULAS.get(api.rpartition(".")[2])
    if prefix == "Aten":
        return _aten(api)
    if prefix in ("Mint", "MintFunctional"):
        api = api.removeprefix("nn.functional.")
        return _torch(api) or _among(functional, api) if prefix == "Mint" else _among(functional, api)
    if framework == "mindspore":
        if prefix == "Primitive":
            twin = _PRIMITIVES.get(api.rpartition(".")[2])
        else:
            twin = api if prefix in ("Functional", "Tensor") and api in _TWINS else None
        home = torch.Tensor if twin is not None and twin.startswith("__") else torch
        return None if twin is None else _among(home, twin) or _among(functional, twin)
    if prefix == "Functional":
        return _among(functional, api)
    if prefix == "Tensor":
        return _among(torch.Tensor, api)
    if prefix == "Torch":
        return _torch(api)
    if prefix == "VF" and api in ("lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell"):
        found: Callable[..., Any] = getattr(torch._VF, api)
        return found
    return None


def _torch(api: str) -> Callable[..., Any] | None:
    part, dot, rest = api.partition(".")
    if dot:
        home = _PARTS.get(part)
        return None if home is None else _among(home, rest)
    if api in _MAKERS or api.startswith(("_foreach_", "_fused_")):
        made: Callable[..., Any] | None = getattr(torch, api, None)
        return made
    homes: tuple[ModuleType, ...] = (torch, *_PARTS.values())
    return next((found for home in homes if (found := _among(home, api)) is not None), None)


def _among(home: object, api: str) -> Callable[..., Any] | None:
    """An attribute of a module or class, if it is an operator."""
    if api in _NO_OPERATORS or not api.isidentifier():
        return None
    found = getattr(home, api, None)
    if found is None or not callable(found) or inspect.isclass(found):
        return None
    if home is torch.Tensor and api.startswith("new_") and api in ("new_zeros", "new_ones", "new_full"):
        return found  # type: ignore[no-any-return]
    return found if found in _operators(home) else None


@cache
def _operators(home: Any) -> frozenset[Callable[..., Any]]:
    every = get_overridable_functions()
    homes = [home, torch.functional] if home is torch else [home]
    own = set() if home is not torch.Tensor else {torch.Tensor.unflatten, torch.Tensor.split}
    return frozenset(function for one in homes for function in every.get(one, ()) if callable(function)) | own


def _aten(api: str) -> Callable[..., Any] | None:
    packet_name = api.partition(".")[0]
    if packet_name == "from_file" or not packet_name.isidentifier():
        return None
    packet: Callable[..., Any] | None = getattr(torch.ops.aten, packet_name, None)
    return packet
