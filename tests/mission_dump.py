"""A small dump in exactly the illustrative format of the mission text: four ranks, float16 overflow on rank 2."""

from __future__ import annotations

import json
from collections.abc import Mapping
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
            {"shape": [4096, 4096], "Max": "300.0", "dtype": "float16"},
            {"shape": [4096, 4096], "Max": "400.0", "dtype": "float16"},
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
