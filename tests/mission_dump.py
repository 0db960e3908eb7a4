"""A small dump in exactly the form of the mission text: four ranks, float16 overflow on rank 2.

The mission text is the skill text that skills/nan-overflow-detection implements (dump format, section 14).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

RANKS = 4
SOURCE = 2
FINITE = ("0.5", "-0.25")
INF = ("inf", "-0.25")
NAN = ("nan", "nan")

Extremes = tuple[str, str]


def write(root: Path) -> Path:
    """``rank0`` to ``rank3``, each with its three files; gives the root."""
    for rank in range(RANKS):
        folder = root / f"rank{rank}"
        folder.mkdir(parents=True)
        files = {
            "dump.json": {"framework": "pytorch", "data": _records(overflows=rank == SOURCE)},
            "construct.json": {
                "Torch.ops.aten.matmul_0_0": "Torch.ops.aten.linear_0_0",
                "Torch.ops.aten.linear_0_0": "Torch.nn.functional.linear_0_0",
            },
            "stack.json": {"Torch.ops.aten.matmul_0_0": ["linear", "forward.py", 123]},
        }
        for name, content in files.items():
            (folder / name).write_text(json.dumps(content, indent=2), "utf-8")
    return root


def _records(*, overflows: bool) -> dict[str, object]:
    product = INF if overflows else FINITE
    return {
        "Torch.full_0_0": _record([], INF),  # memory: ruled out
        "Torch.masked_fill_0_0": _record([_tensor(FINITE)], ("0.5", "-inf")),  # a mask: legal
        "Torch.ops.aten.gelu_0_0": _record([_tensor(FINITE)], FINITE),
        "Torch.ops.aten.matmul_0_0": _record([_tensor(("300.0", "-1.0")), _tensor(("400.0", "0.0"))], product),
        "Distributed.all_reduce_0_0": _record([_tensor(product)], INF),
        "Torch.ops.aten.softmax_0_0": _record([_tensor(INF)], NAN),
        "Distributed.all_reduce_1_0": _record([_tensor(NAN)], NAN),
    }


def _record(inputs: list[Mapping[str, object]], output: Extremes) -> dict[str, object]:
    return {"input": [], "input_args": inputs, "input_kwargs": {}, "output": {"0": _tensor(output)}}


def _tensor(extremes: Extremes) -> dict[str, object]:
    return {"shape": [4096, 4096], "Max": extremes[0], "Min": extremes[1], "dtype": "float16"}


CROSS_RANK = {
    "Distributed.all_reduce_0_0": {
        "source_ranks": [2],
        "propagated_ranks": [0, 1, 3],
        "normal_ranks": [],
        "total_ranks": 4,
    },
    "Distributed.all_reduce_1_0": {
        "source_ranks": [0, 1, 2, 3],
        "propagated_ranks": [],
        "normal_ranks": [],
        "total_ranks": 4,
    },
}
"""What cross_rank_analysis.json has to hold for it."""

SINGLE_RANK = {
    "rank": 2,
    "first_anomaly": {
        "op_name": "Torch.ops.aten.matmul_0_0",
        "exec_order": 3,
        "output": {"0": {"Max": "inf", "Min": "-0.25"}},
        "input_info": [
            {"shape": [4096, 4096], "Max": "300.0", "Min": "-1.0", "dtype": "float16"},
            {"shape": [4096, 4096], "Max": "400.0", "Min": "0.0", "dtype": "float16"},
        ],
        "construct_chain": [
            "Torch.ops.aten.matmul_0_0",
            "Torch.ops.aten.linear_0_0",
            "Torch.nn.functional.linear_0_0",
        ],
        "stack_info": ["linear", "forward.py", 123],
    },
}
"""What single_rank_trace.json has to hold for its rank 2."""


PLACES = ("input", "input_args", "input_kwargs")
"""Where the text's format puts what goes into an operator."""
ARGUMENTS = {"all_reduce": ("tensor",), "matmul": ("input", "other")}
"""Names of the arguments, where they are given by keyword."""


def one_operator(api: str, tensors: Sequence[Mapping[str, object]], output: object, forms: Forms) -> dict[str, object]:
    """A record in one of the forms that the text leaves open."""
    record: dict[str, object] = {} if forms.absent else {"input": [], "input_args": [], "input_kwargs": {}}
    named = dict(zip(ARGUMENTS[api], tensors, strict=True))
    for place in forms.places:
        record[place] = named if place == "input_kwargs" else list(tensors)
    return {**record, "output": {"0": output} if forms.output_is_object else [output]}


@dataclass(frozen=True)
class Forms:
    """One combination of what the text's format leaves open."""

    places: tuple[str, ...]
    absent: bool
    """Places that hold nothing are not written at all."""
    output_is_object: bool
    values_are_text: bool
    stack_has_three_parts: bool
    """Else a list of frames, as MSProbe writes it."""

    @classmethod
    def all(cls) -> Iterator[Forms]:
        for places in (("input",), ("input_args",), ("input_kwargs",), ("input", "input_args")):
            for flags in itertools.product((False, True), repeat=4):
                yield cls(places, *flags)

    def tensor(self, extremes: Extremes) -> dict[str, object]:
        high, low = extremes if self.values_are_text else map(float, extremes)
        return {"shape": [4, 4], "dtype": "float16", "Max": high, "Min": low}


def write_two_ranks(root: Path, forms: Forms) -> Path:
    """Rank 1 overflows in a product and puts the result into an all_reduce; rank 0 receives it."""
    for rank in (0, 1):
        folder = root / f"rank{rank}"
        folder.mkdir(parents=True)
        product = INF if rank else FINITE
        factors = [forms.tensor(("300.0", "-1.0")), forms.tensor(("400.0", "0.0"))]
        records = {
            "Torch.ops.aten.matmul_0_0": one_operator("matmul", factors, forms.tensor(product), forms),
            "Distributed.all_reduce_0_0": one_operator("all_reduce", [forms.tensor(product)], forms.tensor(INF), forms),
        }
        chain = {"Torch.ops.aten.matmul_0_0": "Torch.nn.functional.linear_0_0"}
        frame = "File forward.py, line 123, in linear, \n x = a @ b"
        stack: object = ["linear", "forward.py", 123] if forms.stack_has_three_parts else [frame]
        files = {
            "dump.json": {"framework": "pytorch", "data": records},
            "construct.json": chain,
            "stack.json": {"Torch.ops.aten.matmul_0_0": stack},
        }
        for name, content in files.items():
            (folder / name).write_text(json.dumps(content), "utf-8")
    return root
