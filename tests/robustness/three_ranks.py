"""A dump of three ranks with one known fault, written as the dumping tool writes it; the sound base of every damage.

Rank 1 is the source: ``Torch.exp`` overflows float16, and the all_reduce behind it brings the result to ranks 0 and 2.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from firstnan.operators.communication import group_id

SOURCE, OTHER, BESIDE = 1, 2, 0
"""The rank with the fault; the one that is damaged; one that is left alone."""
ROOT = (SOURCE, "Torch.exp.0.forward")
"""Rank and record of the only root cause."""
FILES = ("dump.json", "construct.json", "stack.json")
RANKS = (0, 1, 2)
GOOD = (3.5, -3.5)
INF = (math.inf, 0.25)
NAN = (math.nan, math.nan)

Json = Any


def tensor(
    extremes: tuple[float, float] = GOOD, shape: tuple[int, ...] = (4, 8), dtype: str = "float16"
) -> dict[str, Json]:
    high, low = extremes
    return {
        "type": "torch.Tensor",
        "dtype": f"torch.{dtype}",
        "shape": list(shape),
        "Max": high,
        "Min": low,
        "Mean": (high + low) / 2,
        "Norm": abs(high) * 2,
        "requires_grad": True,
    }


def group() -> dict[str, Json]:
    return {"type": "torch.ProcessGroup", "group_ranks": list(RANKS), "group_id": group_id(RANKS)}


def _forward(inputs: list[Json], outputs: list[Json], **kwargs: Json) -> dict[str, Json]:
    return {"input_args": inputs, "input_kwargs": kwargs, "output": outputs}


def records(rank: int, *, faulty: bool = True) -> dict[str, Json]:
    """What ``data`` of one rank holds, in execution order."""
    bad = faulty and rank == SOURCE
    made = INF if bad else GOOD
    got = INF if faulty else GOOD
    lost = NAN if faulty else GOOD
    logits = (12.0, -1.5) if bad else (1.25, -1.5)
    t = tensor
    return {
        "Functional.linear.0.forward": _forward([t(), t(shape=(8, 8)), t(shape=(8,))], [t(logits)]),
        "Module.net.up.Linear.forward.0": _forward([t()], [t(logits)])
        | {"parameters": {"weight": t(shape=(8, 8)), "bias": t(shape=(8,))}},
        "Tensor.mul.0.forward": _forward([t(logits), {"type": "float", "value": 1.0}], [t(logits)]),
        "Torch.exp.0.forward": _forward([t(logits)], [t(made)]),
        "Distributed.all_reduce.0.forward": _forward([t(made)], [t(got), group()], group=group()),
        "Functional.softmax.0.forward": _forward([t(got)], [t(lost)], dim={"type": "int", "value": -1}),
        "Module.net.Net.forward.0": _forward([t()], [t(lost)]) | {"parameters": {}},
        "Tensor.mean.0.forward": _forward([t(lost)], [t(lost, shape=())]),
        "Tensor.mean.0.backward": {"input": [t(shape=())], "output": [t(lost)]},
        "Functional.softmax.0.backward": {"input": [t(lost)], "output": [t(lost)]},
        "Torch.exp.0.backward": {"input": [t(lost)], "output": [t(lost)]},
        "Functional.linear.0.backward": {"input": [t(lost)], "output": [t(lost), t(lost, (8, 8)), t(lost, (8,))]},
        "Module.net.up.Linear.backward.0": {"input": [t(lost)], "output": [None]},
        "Module.net.up.Linear.parameters_grad.0": {"weight": [t(lost, (8, 8))], "bias": [t(lost, (8,))]},
        "Distributed.all_reduce.1.forward": _forward([t(lost, (8, 8))], [t(lost, (8, 8)), group()], group=group()),
    }


def construct(rank: int) -> dict[str, str | None]:
    up, net = "Module.net.up.Linear.forward.0", "Module.net.Net.forward.0"
    inside = {"Functional.linear.0.forward": up, up: net}
    inside |= dict.fromkeys(("Tensor.mul.0.forward", ROOT[1], "Distributed.all_reduce.0.forward"), net)
    inside |= {"Functional.softmax.0.forward": net, "Functional.linear.0.backward": "Module.net.up.Linear.backward.0"}
    return {name: inside.get(name) for name in records(rank)}


def stack(rank: int) -> dict[str, Json]:
    frame = "File /train/model.py, line {}, in forward, \n h = torch.exp(h)"
    wrapper = (
        "File /opt/lib/python3.11/site-packages/torch/nn/modules/module.py, line 9, in _call_impl, \n forward(*args)"
    )
    names = [name for name in records(rank) if ".forward" in name]
    return {str(at): [[name], [wrapper, frame.format(40 + at)]] for at, name in enumerate(names)}


def contents(rank: int, *, faulty: bool = True) -> dict[str, Json]:
    """The three files of one rank as JSON values."""
    top = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None}
    return {
        "dump.json": {**top, "data": records(rank, faulty=faulty)},
        "construct.json": construct(rank),
        "stack.json": stack(rank),
    }


def write(root: Path, *, faulty: bool = True) -> Path:
    """``step0/rank0`` to ``step0/rank2``; gives the root."""
    for rank in RANKS:
        folder = root / "step0" / f"rank{rank}"
        folder.mkdir(parents=True)
        for name, content in contents(rank, faulty=faulty).items():
            (folder / name).write_text(json.dumps(content, indent=1), "utf-8")
    return root


def rank_folder(root: Path, rank: int) -> Path:
    return root / "step0" / f"rank{rank}"
