"""Bounds: the largest result that arithmetic allows for the recorded inputs of an operator.

A result beyond the dtype that the bound allows is an overflow; a non-finite result that the bound
forbids points away from arithmetic (device, memory, a kernel's own fault).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from firstnan.dump.records import Record, TensorStat
from firstnan.dump.values import limits, magnitude
from firstnan.operators.table import SCALES, Computes, Rulebook, short_api


def largest(tensors: Sequence[TensorStat]) -> float | None:
    """The largest absolute value among the finite ones of these tensors."""
    return max((m for m in magnitudes(tensors) if math.isfinite(m)), default=None)


def largest_operand(tensors: Sequence[TensorStat]) -> float | None:
    """As :func:`largest`, where masks say nothing of the size of what is computed with.

    ``the_lowest_number_is_a_mask``: ``finfo(dtype).min`` stands for "not allowed"; its tensor counts by its Max.
    """
    return largest([replace(t, min=t.max) if is_mask(t) else t for t in tensors])


def is_mask(tensor: TensorStat) -> bool:
    """the_lowest_number_is_a_mask: Min is the dtype's lowest number, and Max is nowhere near its largest."""
    limit = limits(tensor.dtype)
    if limit is None or tensor.max is None or tensor.min != -limit.largest:
        return False
    return abs(tensor.max) < math.sqrt(limit.largest)


def magnitudes(tensors: Sequence[TensorStat]) -> list[float]:
    """Largest absolute values of the floating tensors that are known, in order of the slots."""
    return [m for t in tensors if t.is_floating and (m := magnitude(t.max, t.min)) is not None]


def result_bound(record: Record, book: Rulebook) -> float | None:
    """An upper bound of the result's absolute value; None when the operator or its inputs are not known.

    Products: |a| * |b| * K with K the length of the contracted dimension (the largest it can be).
    Sums of several tensors: the sum of their bounds; sums inside a tensor, means too (the sum comes first, some
    kernels keep it in the tensor's dtype): |a| * number of elements.
    """
    api = short_api(record.name)
    floating = [t for t in record.inputs if t.is_floating]
    known = magnitudes(record.inputs)
    if not known or len(known) != len(floating):
        return None
    numbers = [float(s.value) for s in record.scalars if _is_operand(s.slot) and isinstance(s.value, (int, float))]
    scalars = [abs(value) for value in numbers]
    if book.computes(api, Computes.PRODUCT):
        return _product_bound(api, floating, book)
    if api == "mse_loss":
        summed = any(s.value == "sum" for s in record.scalars)
        return sum(known) ** 2 * ((floating[0].numel or 1) if summed else 1)
    if book.computes(api, *SCALES) and api != "addcmul":
        return _scale_bound(api, floating, known, numbers, book)
    if book.computes(api, Computes.REDUCTION):
        return known[0] * (floating[0].numel or 1)
    if api in ("index_add", "scatter_add"):  # one place may be hit by every element
        return known[0] + sum(m * (t.numel or 1) for m, t in zip(known[1:], floating[1:], strict=True))
    if api == "addcmul":
        return known[0] + math.prod(known[1:]) * _scaling(record)
    if book.computes(api, Computes.SUM):
        factor = _scaling(record)
        return known[0] + factor * (sum(known[1:]) + (max(scalars, default=0.0) if len(known) == 1 else 0.0))
    return None


def _scaling(record: Record) -> float:
    """``alpha`` of add and sub, ``value`` of addcmul: what the second operand is multiplied by."""
    found = (s.value for s in record.scalars if s.slot in ("input_kwargs.alpha", "input_kwargs.value"))
    return max([1.0, *(abs(float(v)) for v in found if isinstance(v, (int, float)))])


def backward_bound(record: Record, forward: Record, book: Rulebook) -> float | None:
    """A bound for the gradients of a product: |gradient| * |other factor| * elements summed over.

    None for other operators.
    """
    api = short_api(record.name)
    gradient, factor = largest(record.inputs), largest(forward.inputs)
    if gradient is None or factor is None or not record.inputs:
        return None
    if book.computes(api, Computes.PRODUCT):
        return gradient * factor * max(record.inputs[0].numel or 1, 1)
    if api in ("mul", "__mul__", "__rmul__", "__imul__"):
        scalars = [abs(float(s.value)) for s in forward.scalars if isinstance(s.value, (int, float))]
        return gradient * max([factor, *scalars]) * max(record.inputs[0].numel or 1, 1)
    return None


def _is_operand(slot: str) -> bool:
    positional = ("input_args.0", "input_args.1", "input.0", "input.1")
    return slot in (*positional, "input_kwargs.other", "input_kwargs.exponent", "input_kwargs.value")


def _product_bound(api: str, tensors: Sequence[TensorStat], book: Rulebook) -> float | None:
    """Bias first for ``addmm`` and its relatives, last for ``linear`` and convolutions."""
    if api == "bilinear":
        return None  # three factors
    order = (
        [*tensors[1:3], tensors[0]]
        if book.computes(api, Computes.BIAS_FIRST) and len(tensors) > 2
        else list(tensors[:3])
    )
    if len(order) < 2:
        return None
    first, second, *rest = [magnitude(t.max, t.min) for t in order]
    if first is None or second is None:
        return None
    bias = rest[0] if rest and rest[0] is not None else 0.0
    if api in ("einsum", "tensordot"):  # any dimensions may be summed over
        length = min(t.numel or 1 for t in order[:2])
    elif api.startswith("conv_transpose"):
        length = math.prod(order[1].shape or (1,))
    else:
        length = contracted(order[0], order[1])
    return first * second * length + bias


def contracted(one: TensorStat, other: TensorStat) -> int:
    """The largest number of products in one sum: a dimension that both tensors have, for convolutions the
    number of elements of one filter.

    ``[8, 2, 16] x [48, 16]`` contracts 16; ``[2, 4, 8, 4] x [2, 4, 4, 8]`` (the same batches) at most 8;
    ``[1, 3, 32, 32] x [64, 3, 7, 7]`` 3 * 7 * 7.
    """
    if not one.shape or not other.shape:
        return max(t.numel or 1 for t in (one, other))
    if len(one.shape) > 2 and one.shape[:-2] == other.shape[:-2]:
        return max(one.shape[-1], *(size for size in one.shape[-2:] if size in other.shape[-2:]))
    shared = [size for size in one.shape if size in other.shape]
    filters = [math.prod(other.shape[1:])] if len(other.shape) > 2 else []
    return max([*shared, one.shape[-1], *filters])


def _scale_bound(
    api: str, tensors: Sequence[TensorStat], known: Sequence[float], numbers: Sequence[float], book: Rulebook
) -> float | None:
    """``numbers`` stand among the operands: factors, or the exponent of a power."""
    if api == "square":
        return known[0] ** 2
    if book.computes(api, Computes.POWER):
        if not numbers or len(known) != 1:
            return None
        return _power(known[0] if numbers[0] >= 0 else _smallest(tensors[0]), numbers[0])
    if book.computes(api, Computes.NORM):
        return max(known) ** 2 * sum(t.numel or 1 for t in tensors)
    if api in ("prod", "cumprod"):
        return None
    bound = math.prod([*known, *map(abs, numbers)])
    return None if math.isnan(bound) else bound


def _smallest(tensor: TensorStat) -> float:
    """The smallest absolute value that an element can have, as far as Max and Min tell."""
    ends = [abs(float(end)) for end in (tensor.max, tensor.min) if end is not None]
    return 0.0 if holds_zero(tensor) else min(ends, default=0.0)


def _power(base: float, exponent: float) -> float:
    try:
        return float(base**exponent)
    except (OverflowError, ZeroDivisionError):
        return math.inf


def holds_zero(tensor: TensorStat) -> bool:
    """Max and Min do not exclude a zero among the elements."""
    return tensor.max is not None and tensor.min is not None and tensor.min <= 0 <= tensor.max


def touches_zero(tensor: TensorStat) -> bool:
    """A zero is an extreme value: the tensor certainly holds one."""
    return tensor.max == 0 or tensor.min == 0
