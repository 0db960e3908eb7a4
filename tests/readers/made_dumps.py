"""Small dumps for the tests of readers, written as the dumping tool writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from firstnan.dump.folders import RankFolder
from firstnan.dump.problems import Problem, ProblemKind

DATA = Path(__file__).parents[1] / "data" / "readers"
SHARED = Path(__file__).parents[3] / "shared"
NAN = float("nan")
INF = float("inf")


def tensor(
    high: Any = 1.0, low: Any = -1.0, dtype: str = "torch.float32", shape: tuple[int, ...] = (2, 3), **more: Any
) -> dict[str, Any]:
    """A tensor as PyTorch dumps hold it."""
    return {
        "type": "torch.Tensor",
        "dtype": dtype,
        "shape": list(shape),
        "Max": high,
        "Min": low,
        "Mean": None if high is None else 0.5,
        "Norm": None if high is None else 2.0,
        "requires_grad": True,
        **more,
    }


def bare(dtype: str = "torch.float32", **more: Any) -> dict[str, Any]:
    """A tensor without statistics, with whatever else stands in their place."""
    return {"type": "torch.Tensor", "dtype": dtype, "shape": [2, 3], "requires_grad": True, **more}


def scalar(value: Any, kind: str | None = None) -> dict[str, Any]:
    return {"type": kind or type(value).__name__, "value": value}


def group(*ranks: int) -> dict[str, Any]:
    return {"type": "torch.ProcessGroup", "group_ranks": list(ranks), "group_id": "77849d8c"}


def forward(args: Any = (), kwargs: dict[str, Any] | None = None, output: Any = (), **more: Any) -> dict[str, Any]:
    """A forward record; tuples become lists."""
    return {"input_args": args, "input_kwargs": kwargs or {}, "output": output, **more}


def backward(gradients: Any = (), output: Any = ()) -> dict[str, Any]:
    return {"input": gradients, "output": output}


def text(data: Any, **header: Any) -> str:
    """dump.json around ``data``, as the tool formats it."""
    top = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None, **header, "data": data}
    return json.dumps(top, indent=1)


def rank_folder(path: Path, content: str | bytes | None, step: int = 0, rank: int = 0) -> RankFolder:
    """A rank folder with this dump.json (None: without)."""
    path.mkdir(parents=True, exist_ok=True)
    if content is not None:
        write(path / "dump.json", content)
    return RankFolder(step, rank, path, path.name, 0 if content is None else len(content))


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)


def kinds(problems: tuple[Problem, ...]) -> list[ProblemKind]:
    return [problem.kind for problem in problems]


SMALL: dict[str, Any] = {
    "Functional.linear.0.forward": forward([tensor(), tensor(0.1, -0.1)], {"bias": tensor()}, [tensor()]),
    "Distributed.all_reduce.0.forward": forward([tensor(), group(0, 1)], {}, [tensor(NAN, NAN), group(0, 1)]),
    "Module.fc.Linear.forward.0": forward([tensor()], {}, [tensor(INF, 0.0)], parameters={"weight": tensor()}),
    "Functional.linear.0.backward": backward([tensor()], [None, tensor(NAN, NAN)]),
    "Module.fc.Linear.parameters_grad.0": {"weight": [tensor()]},
}
"""One record of each kind."""
