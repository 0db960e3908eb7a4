"""Dumps of small training runs whose numbers are made up, laid out as MSProbe writes them.

Every number follows from what it stands for, so that two ranks have the same one exactly where a real run would.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import firstnan
from firstnan.answer.model import Report

Json = dict[str, Any]
Edit = Callable[[int, int, Json], None]
"""Changes the records of one rank: step, rank, record name -> record."""
WIDTH = 16
MODULES = ("embed", "layers.0.fc1", "layers.0.fc2", "layers.1.fc1", "layers.1.fc2", "head")
NORMS = ("layers.0.norm", "layers.1.norm")


def single(value: float) -> float:
    """The nearest float32."""
    number: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return number


def tensor(*what: object, shape: tuple[int, ...] = (WIDTH, WIDTH), constant: float | None = None) -> Json:
    """A tensor whose statistics follow from ``what`` it stands for."""
    made = random.Random(repr(what))
    numbers = [made.uniform(0.5, 1), -made.uniform(0.5, 1), made.uniform(-0.1, 0.1), made.uniform(2, 9)]
    if constant is not None:
        numbers = [constant, constant, constant, abs(constant) * 4]
    high, low, mean, norm = map(single, numbers)
    return {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": list(shape),
        "Max": high,
        "Min": low,
        "Mean": mean,
        "Norm": norm,
        "requires_grad": True,
    }


def group(ranks: tuple[int, ...]) -> Json:
    return {"group": {"type": "torch.ProcessGroup", "group_ranks": list(ranks), "group_id": "77849d8c"}}


def call(sent: Json, got: Json, ranks: tuple[int, ...]) -> Json:
    """One all_reduce."""
    over = group(ranks)
    return {"input_args": [sent], "input_kwargs": over, "output": [got, over["group"]]}


def module(taken: Json, given: Json, parameters: Mapping[str, Json]) -> Json:
    return {"input_args": [taken], "input_kwargs": {}, "output": [given], "parameters": dict(parameters)}


def data_parallel(step: int, rank: int, world: int) -> Json:
    """Every rank has its own data; gradients are reduced after backward, so that parameters stay equal."""
    records: Json = {}
    everyone = tuple(range(world))
    taken = tensor("batch", step, rank, shape=(4, WIDTH))
    for at, name in enumerate((*MODULES, *NORMS)):
        weight = tensor("weight", name, step)
        bias = tensor("bias", name, step, shape=(WIDTH,), constant=0.0 if step == 0 else None)
        given = tensor("activation", name, step, rank, shape=(4, WIDTH))
        records[f"Functional.linear.{at}.forward"] = {
            "input_args": [taken, weight, bias],
            "input_kwargs": {},
            "output": [given],
        }
        records[f"Module.{name}.Linear.forward.0"] = module(taken, given, {"weight": weight, "bias": bias})
        taken = given
    for at, name in enumerate((*MODULES, *NORMS)):
        gradient = tensor("gradient", name, step, rank, shape=(4, WIDTH))
        records[f"Functional.linear.{at}.backward"] = {"input": [gradient], "output": [gradient]}
        records[f"Module.{name}.Linear.parameters_grad.0"] = {"weight": [tensor("gradient of", name, step, rank)]}
    for at, name in enumerate((*MODULES, *NORMS)):
        own = tensor("gradient of", name, step, rank)
        records[f"Distributed.all_reduce.{at}.forward"] = call(own, tensor("sum of", name, step), everyone)
    return records


def tensor_parallel(step: int, rank: int, world: int, *, one_seed: bool = False) -> Json:
    """All ranks have the same data and parts of the weights; norms and the embedding are whole on each."""
    records: Json = {}
    everyone = tuple(range(world))
    part = 0 if one_seed and step == 0 else rank
    taken = tensor("batch", step, shape=(4, WIDTH))
    at = 0
    for name in MODULES:
        is_whole = name in ("embed", "head")
        own = () if is_whole else (part,)
        weight = tensor("weight", name, step, *own)
        partial = tensor("part of", name, step, *(() if is_whole else (rank,)), shape=(4, WIDTH))
        given = tensor("activation", name, step, shape=(4, WIDTH))
        if is_whole:
            given = partial
        else:
            records[f"Distributed.all_reduce.{at}.forward"] = call(partial, given, everyone)
            at += 1
        records[f"Module.{name}.Linear.forward.0"] = module(taken, given, {"weight": weight})
        scale = tensor("scale", name, step, shape=(WIDTH,), constant=1.0 if step == 0 else None)
        normed = tensor("normed", name, step, shape=(4, WIDTH))
        records[f"Functional.layer_norm.{at}.forward"] = {
            "input_args": [given, scale],
            "input_kwargs": {},
            "output": [normed],
        }
        records[f"Module.{name}_norm.Norm.forward.0"] = module(given, normed, {"weight": scale})
        taken = normed
    records["Functional.linear.0.backward"] = {"input": [taken], "output": [taken]}
    return records


Program = Callable[[int, int, int], Json]


def write(
    root: Path,
    program: Program = data_parallel,
    *,
    world: int = 3,
    steps: int = 3,
    edit: Edit | None = None,
    compact: frozenset[int] = frozenset(),
) -> Path:
    """The dump of a run; ranks in ``compact`` are written in another layout, for the reader of any JSON."""
    for step in range(steps):
        for rank in range(world):
            records = json.loads(json.dumps(program(step, rank, world)))  # nothing is shared between records
            if edit is not None:
                edit(step, rank, records)
            folder = root / f"step{step}" / f"rank{rank}"
            folder.mkdir(parents=True)
            document = {
                "task": "statistics",
                "level": "mix",
                "framework": "pytorch",
                "dump_data_dir": None,
                "data": records,
            }
            indent = None if rank in compact else 1
            (folder / "dump.json").write_text(json.dumps(document, indent=indent), "utf-8")
    return root


def analysed(root: Path) -> Report:
    return firstnan.analyze(root, firstnan.Options(jobs=1))


def nudge(held: Json, key: str = "Mean") -> None:
    """The smallest visible change of one statistic."""
    held[key] = single(held[key] * (1 + 2**-20))
