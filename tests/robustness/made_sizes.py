"""Dumps that grow in one direction, for counting the work they make."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from three_ranks import GOOD, INF, NAN, group, records, tensor

from firstnan.operators.communication import group_id

Json = Any
Ranks = dict[int, dict[str, Json]]


def forward(inputs: list[Json], outputs: list[Json], **kwargs: Json) -> dict[str, Json]:
    return {"input_args": inputs, "input_kwargs": kwargs, "output": outputs}


def members(ranks: range | tuple[int, ...]) -> dict[str, Json]:
    return {"type": "torch.ProcessGroup", "group_ranks": list(ranks), "group_id": group_id(ranks)}


def number(value: int) -> dict[str, Json]:
    return {"type": "int", "value": value}


def births(n: int) -> Ranks:
    """Every record makes a bad value of its own."""
    shapes = [(4, i + 1) for i in range(n)]
    return {0: {f"Torch.exp.{i}.forward": forward([tensor(GOOD, s)], [tensor(INF, s)]) for i, s in enumerate(shapes)}}


def carriers(n: int) -> Ranks:
    """One bad value through all records."""
    return {0: {f"Torch.exp.{i}.forward": forward([tensor(NAN if i else GOOD)], [tensor(NAN)]) for i in range(n)}}


def entries(n: int) -> Ranks:
    """Every record reads a bad value that nobody wrote."""
    return {
        0: {f"Torch.exp.{i}.forward": forward([tensor(NAN, (i + 1,))], [tensor(NAN, (i + 1, 2))]) for i in range(n)}
    }


def masks(n: int) -> Ranks:
    """Legal -Inf everywhere, and a fault at the end."""
    made = {f"Tensor.masked_fill.{i}.forward": forward([tensor()], [tensor((1.0, -math.inf))]) for i in range(n)}
    return {0: made | {"Torch.exp.0.forward": forward([tensor((12.0, -1.0))], [tensor(INF)])}}


def readers(n: int) -> Ranks:
    """One record with many results, each read by a record."""
    first = forward([tensor()], [tensor(NAN, (i + 1,)) for i in range(n)])
    rest = {f"Torch.relu.{i}.forward": forward([tensor(NAN, (i + 1,))], [tensor(NAN, (i + 1,))]) for i in range(n)}
    return {0: {"Torch.exp.0.forward": first, **rest}}


def gradients(n: int) -> Ranks:
    """Bad gradients of as many parameters."""
    made = {f"Module.m{i}.L.parameters_grad.0": {"weight": [tensor(NAN)]} for i in range(n)}
    return {0: {"Torch.exp.0.forward": forward([tensor()], [tensor(NAN)]), **made}}


def backward(n: int) -> Ranks:
    """Every backward record makes a bad gradient."""
    data = {f"Torch.exp.{i}.forward": forward([tensor()], [tensor()]) for i in range(n)}
    for i in reversed(range(n)):
        data[f"Torch.exp.{i}.backward"] = {"input": [tensor()], "output": [tensor(NAN, (i + 1,))]}
    return {0: data}


def calls(n: int) -> Ranks:
    """The same three ranks add up a bad value again and again."""
    return {
        rank: {
            f"Distributed.all_reduce.{i}.forward": forward(
                [tensor(NAN if rank == 0 else GOOD)], [tensor(NAN), group()], group=group()
            )
            for i in range(n)
        }
        for rank in (0, 1, 2)
    }


def groups(n: int) -> Ranks:
    """Every call in a group of its own."""
    return {
        rank: {
            f"Distributed.all_reduce.{i}.forward": forward(
                [tensor(NAN if rank == 0 else GOOD)], [tensor(NAN)], group=members((0, 1, 2, 3 + i))
            )
            for i in range(n)
        }
        for rank in (0, 1, 2)
    }


def sends(n: int) -> Ranks:
    """As many bad values sent from rank 0 to rank 1."""
    return {
        0: {f"Distributed.send.{i}.forward": forward([tensor(NAN)], [], dst=number(1)) for i in range(n)},
        1: {f"Distributed.recv.{i}.forward": forward([tensor()], [tensor(NAN)], src=number(0)) for i in range(n)},
    }


def batches(n: int) -> Ranks:
    """One call with as many point-to-point operations."""

    def one(op: str, peer: int, tag: int) -> dict[str, Json]:
        kind = "torch.distributed.P2POp"
        return {"class_type": kind, "tensor": tensor(NAN), "op": op, "peer": peer, "tag": tag, "group_id": "d0d3ee1a"}

    name = "Distributed.batch_isend_irecv.0.forward"
    return {
        0: {name: forward([[one("isend", 1, i) for i in range(n)]], [None])},
        1: {name: forward([[one("irecv", 0, i) for i in range(n)]], [None])},
    }


def many_ranks(n: int) -> Ranks:
    """Ranks beside the group of three."""
    return {rank: records(rank) for rank in range(n)}


def deep(n: int) -> Ranks:
    """As many records with NaN in the innermost of as many modules, each of which gives NaN."""
    inside = {f"Torch.mul.{i}.forward": forward([tensor(NAN if i else GOOD)], [tensor(NAN)]) for i in range(n)}
    return {0: inside | {f"Module.m{i}.M.forward.0": forward([tensor()], [tensor(NAN)]) for i in reversed(range(n))}}


def one_in_the_other(names: list[str]) -> dict[str, str | None]:
    """Each module is called by the next one, everything else by the first."""
    modules = [name for name in names if name.startswith("Module.")]
    chain: dict[str, str | None] = dict(zip(modules, [*modules[1:], None], strict=True))
    return chain | {name: modules[0] for name in names if name not in chain}


def write(root: Path, ranks: Ranks, chain: Callable[[list[str]], dict[str, str | None]] | None = None) -> Path:
    for rank, data in ranks.items():
        folder = root / "step0" / f"rank{rank}"
        folder.mkdir(parents=True)
        top = {"task": "statistics", "level": "mix", "framework": "pytorch", "data": data}
        (folder / "dump.json").write_text(json.dumps(top, indent=1))
        (folder / "construct.json").write_text(json.dumps(chain(list(data)) if chain else {}, indent=1))
        frames = [f"File /train/model.py, line {i}, in forward, \n y" for i in range(len(data))]
        (folder / "stack.json").write_text(json.dumps({"0": [list(data), frames]}, indent=1))
    return root
