"""What has to be known about a recorded operator before it is run again."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from msgspec import Struct

from firstnan.answer.replay import NotRun
from firstnan.dump.records import RecordName
from firstnan.replaying.operators.find import find
from firstnan.replaying.refusal import RefusedError

_RANDOM = frozenset(
    {"alpha_dropout", "feature_alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout", "rrelu",
     "rrelu_", "rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "randperm", "bernoulli",
     "bernoulli_", "multinomial", "normal", "normal_", "uniform_", "random_", "exponential_", "gumbel_softmax",
     "poisson", "geometric_", "cauchy_", "log_normal_", "native_dropout", "fractional_max_pool2d", "binomial",
     "fractional_max_pool3d", "npu_dropout", "_npu_dropout"}
)  # fmt: skip
_UNWRITTEN = re.compile(r"(_npu_|npu_|new_)?empty(_\w+)?|resize_(as_)?|_npu_empty\w*")
_COPIES = frozenset({"to", "type", "half", "float", "double", "bfloat16", "type_as", "cpu", "cuda", "npu", "xpu",
                     "contiguous", "clone", "detach", "int", "long", "short", "char", "byte", "bool"})  # fmt: skip
_POSITIONS = frozenset(
    {"argmax", "argmin", "argsort", "sort", "msort", "topk", "kthvalue", "median", "nanmedian", "mode", "max", "min",
     "searchsorted", "bucketize", "cummax", "cummin", "aminmax", "unique", "unique_consecutive", "max_pool2d",
     "max_pool1d", "max_pool3d", "adaptive_max_pool2d", "ctc_loss"}
)  # fmt: skip
_PRODUCT = re.compile(
    r"matmul|linear|bmm|\bmm|einsum|conv|addmv|addmm|addbmm|\bmv\b|\bdot\b|vdot|scaled_dot|bilinear|tensordot|inner|attention"
    r"|gru|lstm|rnn|chain_|multi_dot|cdist|outer|\bger\b|kron"
)
_IN_PLACE = re.compile(r"(?!__)\w+(?<!_)_|__(set|delete)item__|__i(?!nvert)\w+__")
_CHANCE = {"dropout": ("p", 1, "training", 2), "dropout_": ("p", 1, "training", 2),
           "scaled_dot_product_attention": ("dropout_p", 4, None, 0),
           "multi_head_attention_forward": ("dropout_p", 11, "training", 14),
           "lstm": ("dropout", 5, "train", 6), "gru": ("dropout", 5, "train", 6),
           "rnn_tanh": ("dropout", 5, "train", 6), "rnn_relu": ("dropout", 5, "train", 6),
           "npu_fusion_attention": ("keep_prob", None, None, 0)}  # fmt: skip
"""Operators that draw random numbers only with a probability: its name and place, those of the switch."""


class Operator(Struct, frozen=True):
    """An operator that can be run, and what has to be known to judge its result."""

    api: str
    call: Callable[..., Any]
    is_product: bool = False
    """Sums of products: devices may compute them in a shorter format (TF32, HF32)."""
    is_copy: bool = False
    """The result is the first argument in the recorded dtype."""
    gives_positions: bool = False
    """Its integer results are places of elements; of equal elements any may be meant."""
    writes_first: bool = False
    """Gives nothing back: the result is the first argument."""
    works_in_place: bool = False
    """Writes into its arguments."""
    has_nodes: bool = True
    """False: gradients come in another order than that of the recorded operator."""


def resolve(name: RecordName, framework: str | None) -> Operator:
    """The operator of an API record.

    Raises:
        RefusedError: it is random, gives unwritten memory, or there is no such operator here.
    """
    api = name.api
    last = api.rpartition(".")[2]
    if last in _RANDOM:
        raise RefusedError(NotRun.RANDOM, api)
    if _UNWRITTEN.fullmatch(last):
        raise RefusedError(NotRun.MEMORY, api)
    call = find(name.prefix, api, framework)
    if call is None:
        raise RefusedError(NotRun.NO_OPERATOR, f"{name.prefix}.{api} in torch {torch.__version__}")
    return Operator(
        api,
        call,
        is_product=bool(_PRODUCT.search(last)),
        is_copy=name.prefix == "Tensor" and last in _COPIES,
        gives_positions=last in _POSITIONS,
        works_in_place=bool(_IN_PLACE.fullmatch(last)),
        has_nodes=name.prefix not in ("NPU", "MindSpeed"),
        writes_first=last == "__setitem__" or (last.startswith(("_foreach_", "_fused_")) and last.endswith("_")),
    )


def check_chance(api: str, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
    """Whether a call of an operator that may draw random numbers drew none.

    Raises:
        RefusedError: it did.
    """
    chance = _CHANCE.get(api)
    if chance is None:
        return
    probability, place, switch, at = chance
    off = 1 if probability == "keep_prob" else 0
    given = kwargs.get(probability, args[place] if place is not None and len(args) > place else _default(api, off))
    on = switch is None or kwargs.get(switch, args[at] if len(args) > at else True)
    if on and given != off:
        raise RefusedError(NotRun.RANDOM, f"{api} with {probability}={given}")


def _default(api: str, off: int) -> object:
    return 0.5 if api in ("dropout", "dropout_") else off
