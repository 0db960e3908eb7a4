"""From the functions that PyTorch hands to a ``TorchFunctionMode`` to the names of their records.

==========================  =====================================
``F.gelu(x)``               ``Functional.gelu``
``torch.exp(x)``            ``Torch.exp``
``torch.linalg.norm(x)``    ``Torch.linalg.norm``
``x.exp()``                 ``Tensor.exp``
``x + y``, ``x += y``       ``Tensor.__add__``, ``Tensor.__iadd__``
``torch.ops.npu.f(x)``      ``NPU.f``
==========================  =====================================
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import FrameType, ModuleType
from typing import NamedTuple

import torch

Function = Callable[..., object]


class ApiName(NamedTuple):
    """The first two parts of a record name: ``Torch`` and ``linalg.norm``."""

    prefix: str
    api: str


_OPERATORS: Mapping[str, str] = {
    "add": "__add__",
    "sub": "__sub__",
    "mul": "__mul__",
    "div": "__truediv__",
    "matmul": "__matmul__",
    "remainder": "__mod__",
    "neg": "__neg__",
    "gt": "__gt__",
    "ge": "__ge__",
    "lt": "__lt__",
    "le": "__le__",
    "ne": "__ne__",
    "add_": "__iadd__",
    "sub_": "__isub__",
    "mul_": "__imul__",
    "div_": "__itruediv__",
}
"""Methods that PyTorch calls for an operator: ``x + y`` arrives as ``Tensor.add``."""

_OPERATOR_CODES = ("BINARY_", "INPLACE_", "UNARY_", "COMPARE_")
_NAMESPACES: Mapping[str, str] = {"aten": "Aten", "npu": "NPU", "mindspeed": "MindSpeed"}
"""Namespaces of ``torch.ops`` with a prefix of their own; others keep their name."""

_INTERNAL = frozenset(
    ["_c10d_functional", "_c10d_functional_autograd", "c10d", "fsdp", "higher_order", "inductor", "prims", "symm_mem"]
)
"""Namespaces in which PyTorch keeps its own bookkeeping: buffers that are not filled yet, calls that are recorded as
communication."""

_SILENT = frozenset(
    [
        "__bool__",
        "__bytes__",
        "__complex__",
        "__contains__",
        "__deepcopy__",
        "__dlpack__",
        "__dlpack_device__",
        "__float__",
        "__format__",
        "__hash__",
        "__index__",
        "__int__",
        "__len__",
        "__repr__",
        "__reduce_ex__",
        "__setstate__",
        "apply_",
        "as_subclass",
        "backward",
        "can_cast",
        "compiled_with_cxx11_abi",
        "data_ptr",
        "dense_dim",
        "dim",
        "element_size",
        "get_autocast_dtype",
        "get_device",
        "has_names",
        "is_autocast_enabled",
        "is_coalesced",
        "is_complex",
        "is_conj",
        "is_contiguous",
        "is_distributed",
        "is_floating_point",
        "is_inference",
        "is_neg",
        "is_nonzero",
        "is_pinned",
        "is_same_size",
        "is_set_to",
        "is_shared",
        "is_signed",
        "is_storage",
        "is_tensor",
        "item",
        "map_",
        "ndimension",
        "nelement",
        "nonzero_static",
        "numel",
        "numpy",
        "pin_memory",
        "promote_types",
        "register_hook",
        "register_post_accumulate_grad_hook",
        "rename",
        "rename_",
        "requires_grad_",
        "result_type",
        "retain_grad",
        "set_",
        "set_num_threads",
        "share_memory_",
        "size",
        "sparse_dim",
        "storage",
        "storage_offset",
        "storage_type",
        "stride",
        "to_mkldnn",
        "tolist",
        "typename",
        "untyped_storage",
    ]
)
"""Functions that compute no values: they describe a tensor, or hand it to Python."""


def _functions(home: object) -> Iterator[tuple[str, Function]]:
    for name in dir(home):
        if name.startswith("_") and not name.startswith(("__", "_foreach_", "_fused_")):
            continue
        function = getattr(home, name, None)
        if name not in _SILENT and callable(function) and not isinstance(function, type | ModuleType):
            yield name, function


@cache
def _known() -> Mapping[Function, ApiName]:
    """Every public function of PyTorch that computes values, with its name."""
    found: dict[Function, ApiName] = {}
    homes: tuple[tuple[str, str, object], ...] = (
        ("Tensor", "", torch.Tensor),
        ("Torch", "", torch),
        ("Torch", "linalg.", torch.linalg),
        ("Torch", "special.", torch.special),
        ("Torch", "fft.", torch.fft),
        ("Functional", "", torch.nn.functional),  # last: a function with two names has this one
    )
    for prefix, inside, home in homes:
        for name, function in _functions(home):
            found[function] = ApiName(prefix, inside + name)
    found[torch.lstm] = ApiName("VF", "lstm")
    return found


def api_name(function: Function, caller: FrameType | None) -> ApiName | None:
    """The name of a function that was called from ``caller``; None: it computes no values, or is not public."""
    try:
        name = _known().get(function)
    except TypeError:  # not hashable: no function of PyTorch
        return None
    if name is None:
        return _op_name(function)
    if name.prefix == "Tensor" and name.api in _OPERATORS and caller is not None and _is_operator(caller):
        return ApiName("Tensor", _OPERATORS[name.api])
    return name


def _op_name(function: Function) -> ApiName | None:
    """A function of ``torch.ops``, with or without its overload."""
    if not isinstance(function, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return None
    packet = function.overloadpacket if isinstance(function, torch._ops.OpOverload) else function
    namespace, _, name = packet._qualified_op_name.partition("::")
    return None if name in _SILENT or namespace in _INTERNAL else ApiName(_NAMESPACES.get(namespace, namespace), name)


def _is_operator(caller: FrameType) -> bool:
    """Whether the frame is at an operator (``x + y``), not at a call (``x.add(y)``)."""
    return (caller.f_lasti, caller.f_code) in _operator_places or _look_up_place(caller)


_operator_places: set[tuple[int, object]] = set()
_call_places: set[tuple[int, object]] = set()


def _look_up_place(caller: FrameType) -> bool:
    place = (caller.f_lasti, caller.f_code)
    if place in _call_places:
        return False
    found = dis.opname[caller.f_code.co_code[caller.f_lasti]].startswith(_OPERATOR_CODES)
    (_operator_places if found else _call_places).add(place)
    return found
