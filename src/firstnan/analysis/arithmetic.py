"""Bounds: the largest result that arithmetic allows for the recorded inputs of an operator.

A result beyond the dtype that the bound allows is an overflow; a non-finite result that the bound
forbids points away from arithmetic (device, memory, a kernel's own fault).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from firstnan.dump import Record, TensorStat
from firstnan.numerics import magnitude
from firstnan.rulebook import short_api

PRODUCTS = frozenset({"matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "baddbmm", "addmm", "addmv", "mv", "dot", "einsum",
                      "linear", "bilinear", "inner", "outer", "tensordot", "conv1d", "conv2d", "conv3d", "_grouped_mm",
                      "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "npu_linear", "npu_grouped_matmul",
                      "npu_quant_matmul", "npu_bmmV2", "grouped_matmul", "scaled_mm", "_scaled_mm", "batch_matmul",
                      "scaled_dot_product_attention", "npu_fusion_attention", "npu_prompt_flash_attention", "dense",
                      "multi_head_attention_forward", "lstm", "gru", "rnn_tanh"})  # fmt: skip
"""Sums of products of two tensors."""
SUMS = frozenset({"sum", "nansum", "cumsum", "logsumexp", "trace", "add", "__add__", "__iadd__", "__radd__", "sub", "__sub__",
                  "__isub__", "__rsub__", "subtract", "rsub", "mean", "index_add", "scatter_add", "lerp", "avg_pool2d"})  # fmt: skip
"""Sums of elements of one tensor, or of several tensors."""
SCALES = frozenset({"mul", "__mul__", "__rmul__", "__imul__", "multiply", "addcmul", "_foreach_mul", "square", "pow", "__pow__",
                    "float_power", "norm", "vector_norm", "matrix_norm", "_foreach_norm", "var", "std", "mse_loss", "prod",
                    "cumprod", "dist", "cdist", "pairwise_distance", "clip_grad_norm", "var_mean", "std_mean"})  # fmt: skip
"""Products of elements, squares inside."""


def largest(tensors: Sequence[TensorStat]) -> float | None:
    """The largest absolute value among the finite ones of these tensors."""
    values = [m for t in tensors if t.is_floating and (m := magnitude(t.max, t.min)) is not None and math.isfinite(m)]
    return max(values, default=None)


def magnitudes(tensors: Sequence[TensorStat]) -> list[float]:
    """Largest absolute values of the floating tensors that are known, in order of the slots."""
    return [m for t in tensors if t.is_floating and (m := magnitude(t.max, t.min)) is not None]


def result_bound(record: Record) -> float | None:
    """An upper bound of the result's absolute value; None when the operator or its inputs are not known.

    Products: |a| * |b| * K with K the length of the contracted dimension (the largest it can be).
    Sums of several tensors: the sum of their bounds; sums inside a tensor: |a| * number of elements.
    """
    api = short_api(record.name)
    floating = [t for t in record.inputs if t.is_floating]
    known = magnitudes(record.inputs)
    if not known or any(magnitude(t.max, t.min) is None for t in floating):
        return None
    scalars = [abs(float(s.value)) for s in record.scalars if isinstance(s.value, (int, float)) and _is_operand(s.slot)]
    if api in PRODUCTS:
        return _product_bound(floating)
    if api in SCALES:
        return _scale_bound(api, record, floating, known, scalars)
    if api in SUMS:
        if len(known) > 1 or (scalars and api not in ("sum", "mean", "cumsum", "logsumexp", "nansum")):
            return sum(known) + (max(scalars, default=0.0) if len(known) == 1 else 0.0)
        return known[0] if api == "mean" else known[0] * (floating[0].numel or 1)
    return None


def _is_operand(slot: str) -> bool:
    return slot in ("input_args.0", "input_args.1", "input_kwargs.other", "input_kwargs.exponent", "input_kwargs.value")


def _product_bound(tensors: Sequence[TensorStat]) -> float | None:
    if len(tensors) < 2:
        return None
    values = [magnitude(t.max, t.min) for t in tensors[:3]]
    first, second = values[0], values[1]
    if first is None or second is None:
        return None
    bias = values[2] if len(values) > 2 and values[2] is not None else 0.0
    return first * second * contracted(tensors[0], tensors[1]) + bias


def contracted(one: TensorStat, other: TensorStat) -> int:
    """The largest number of products in one sum: a dimension that both tensors have, for convolutions the
    number of elements of one filter.

    ``[8, 2, 16] x [48, 16]`` contracts 16; ``[2, 4, 8, 4] x [2, 4, 4, 8]`` at most 8.
    """
    if not one.shape or not other.shape:
        return max(t.numel or 1 for t in (one, other))
    shared = [size for size in one.shape if size in other.shape]
    filters = math.prod(other.shape[1:]) if len(other.shape) > 2 else 1
    return max([*shared, one.shape[-1], *([filters] if len(one.shape) == len(other.shape) else [])])


def _scale_bound(
    api: str, record: Record, tensors: Sequence[TensorStat], known: Sequence[float], scalars: Sequence[float]
) -> float | None:
    if api in ("square", "mse_loss"):
        return known[0] ** 2 if len(known) == 1 else (known[0] + known[1]) ** 2
    if api in ("pow", "__pow__", "float_power"):
        exponent = scalars[0] if scalars else None
        if exponent is None or len(known) != 1:
            return None
        return _power(known[0], exponent)
    if api in ("norm", "vector_norm", "matrix_norm", "_foreach_norm", "dist", "cdist", "pairwise_distance", "var", "std",
               "var_mean", "std_mean", "clip_grad_norm"):  # fmt: skip
        return max(known) ** 2 * sum(t.numel or 1 for t in tensors)
    if api in ("prod", "cumprod"):
        return None
    bound = 1.0
    for value in [*known, *scalars]:
        bound = bound * value
    return bound


def _power(base: float, exponent: float) -> float:
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf


def holds_zero(tensor: TensorStat) -> bool:
    """Max and Min do not exclude a zero among the elements."""
    if tensor.max is None or tensor.min is None:
        return False
    return tensor.min <= 0 <= tensor.max


def touches_zero(tensor: TensorStat) -> bool:
    """A zero is an extreme value: the tensor certainly holds one."""
    return tensor.max == 0 or tensor.min == 0
