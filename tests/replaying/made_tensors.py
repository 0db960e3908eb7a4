"""Small dumps with tensors, written as MSProbe writes them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: make torch")

from firstnan.replaying.experiment import RankTensors  # noqa: E402


class TensorDump:
    """One rank's dump of ``task: tensor``."""

    def __init__(self, root: Path, rank: int = 0, step: int = 0) -> None:
        self.root = root
        self.folder = root / f"step{step}" / f"rank{rank}"
        self.tensors = self.folder / "dump_tensor_data"
        self.tensors.mkdir(parents=True)
        self.records: dict[str, Any] = {}

    def forward(self, name: str, args: Sequence[Any], output: Any, kwargs: Mapping[str, Any] | None = None) -> None:
        """A forward record; tensors that need a gradient are recorded as such."""
        given = dict(kwargs or {})
        self.records[name] = {
            "input_args": [self.value(one, f"{name}.input.{at}") for at, one in enumerate(args)],
            "input_kwargs": {key: self.value(one, f"{name}.kwargs.{key}") for key, one in given.items()},
            "output": self._listed(output, f"{name}.output"),
        }

    def backward(self, name: str, gradients: Sequence[Any], output: Sequence[Any]) -> None:
        """A backward record: gradients of the results, gradients that the node gives."""
        self.records[name] = {
            "input": self._listed(list(gradients), f"{name}.input"),
            "output": self._listed(list(output), f"{name}.output"),
        }

    def _listed(self, values: Any, name: str) -> list[Any]:
        listed = list(values) if isinstance(values, (list, tuple)) else [values]
        return [self.value(one, f"{name}.{at}") for at, one in enumerate(listed)]

    def value(self, value: Any, name: str) -> Any:
        """An argument as MSProbe records it, its tensor saved beside."""
        if isinstance(value, torch.Tensor):
            return self.tensor(value, name)
        if isinstance(value, (list, tuple)):
            return [self.value(one, f"{name}.{at}") for at, one in enumerate(value)]
        if value is None:
            return None
        if isinstance(value, torch.dtype):
            return {"type": "torch.dtype", "value": str(value)}
        if isinstance(value, slice):
            return {"type": "slice", "value": [value.start, value.stop, value.step]}
        if isinstance(value, dict):
            return value
        return {"type": type(value).__name__, "value": value}

    def tensor(self, tensor: torch.Tensor, name: str) -> dict[str, Any]:
        torch.save(tensor.detach().clone(), self.tensors / f"{name}.pt")
        floats = tensor.detach().float() if tensor.dtype != torch.bool else tensor.int()
        bad = bool(torch.isnan(floats).any()) if floats.is_floating_point() else False
        empty = not tensor.numel()
        ends = (math.nan, math.nan) if bad else () if empty else (float(floats.max()), float(floats.min()))
        high, low = ends or (None, None)
        return {
            "type": "torch.Tensor",
            "dtype": str(tensor.dtype),
            "shape": list(tensor.shape),
            "Max": high,
            "Min": low,
            "Mean": float(floats.float().mean()) if high is not None else None,
            "Norm": float(floats.float().norm()) if high is not None else None,
            "requires_grad": tensor.requires_grad,
            "data_name": f"{name}.pt",
        }

    def write(self) -> Path:
        """Write the files; gives the dump's root."""
        top = {"task": "tensor", "level": "mix", "framework": "pytorch", "dump_data_dir": "/x", "data": self.records}
        (self.folder / "dump.json").write_text(json.dumps(top), "utf-8")
        (self.folder / "construct.json").write_text(json.dumps(dict.fromkeys(self.records)), "utf-8")
        (self.folder / "stack.json").write_text("{}", "utf-8")
        return self.root

    def rank(self) -> RankTensors:
        """What is written, as the replay takes it."""
        self.write()
        records = json.loads((self.folder / "dump.json").read_text("utf-8"))["data"]
        return RankTensors.of(records, "pytorch", self.folder)


def gradients_at_node(result: torch.Tensor, gradient: torch.Tensor) -> list[torch.Tensor | None]:
    """What the node of a result gives, in its order: where MSProbe takes it."""
    found: list[torch.Tensor | None] = []
    assert result.grad_fn is not None
    result.grad_fn.register_hook(lambda inputs, _: found.extend(inputs))
    result.backward(gradient)
    return found
