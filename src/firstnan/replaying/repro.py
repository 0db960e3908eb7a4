"""A folder that runs one record on any device: a fixed program, the record as data, its tensors.

Nothing of the dump becomes code: ``repro.py`` and the operator modules beside it are copies of files of firstnan, names
and arguments are JSON that they read, and a name only ever selects an operator of torch.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from firstnan.answer.replay import NotRun
from firstnan.replaying.arguments import Place
from firstnan.replaying.experiment import Experiment, RankTensors, experiment
from firstnan.replaying.refusal import RefusedError

_PROGRAM = "repro_script.py"
_MODULES = ("__init__.py", "find.py", "npu.py")


def write(name: str, rank: RankTensors, folder: Path) -> None:
    """Write the folder, which has to be there and empty.

    Raises:
        RefusedError: the record cannot be run again.
        OSError: it cannot be written.
    """
    made = experiment(name, rank)
    if made.operator.is_copy:
        raise RefusedError(NotRun.NO_OPERATOR, "a copy or cast: there is nothing to compute")
    here = resources.files("firstnan.replaying")
    (folder / "operators").mkdir()
    (folder / "repro.py").write_text((here / _PROGRAM).read_text("utf-8"), "utf-8")
    for module in _MODULES:
        (folder / "operators" / module).write_text((here / "operators" / module).read_text("utf-8"), "utf-8")
    (folder / "record.json").write_text(json.dumps(_record(made, rank.framework), indent=1) + "\n", "utf-8")
    torch.save(_tensors(made), folder / "tensors.pt")


def _record(made: Experiment, framework: str | None) -> dict[str, object]:
    return {
        "name": made.name.full,
        "prefix": made.name.prefix,
        "api": made.name.api,
        "framework": framework,
        "backward": made.gradients is not None,
        "in_place": made.operator.works_in_place,
        "args": _plain(made.args.tree, 0),
        "kwargs": _plain(made.kwargs.tree, len(made.args.leaves)),
        "requires_grad": [leaf.requires_grad for leaf in (*made.args.leaves, *made.kwargs.leaves)],
    }


def _tensors(made: Experiment) -> dict[str, list[torch.Tensor]]:
    return {
        "arguments": [leaf.tensor.clone() for leaf in (*made.args.leaves, *made.kwargs.leaves)],
        "gradients": [leaf.tensor.clone() for leaf in made.gradients or () if leaf is not None],
        "recorded": [leaf.tensor.clone() for leaf in made.recorded],
    }


def _plain(value: Any, offset: int) -> Any:
    """An argument as JSON: what JSON does not have is an object of its kind and value."""
    if isinstance(value, Place):
        return {"kind": "tensor", "value": value.number + offset}
    if isinstance(value, torch.Size):
        return {"kind": "size", "value": list(value)}
    if isinstance(value, list):
        return [_plain(item, offset) for item in value]
    if isinstance(value, dict):
        return {"kind": "dict", "value": [[key, _plain(item, offset)] for key, item in value.items()]}
    if isinstance(value, slice):
        return {"kind": "slice", "value": [value.start, value.stop, value.step]}
    if isinstance(value, (torch.dtype, torch.memory_format)):
        kind = "dtype" if isinstance(value, torch.dtype) else "memory_format"
        return {"kind": kind, "value": str(value).removeprefix("torch.")}
    if value is Ellipsis:
        return {"kind": "ellipsis", "value": None}
    if isinstance(value, float) and value - value != 0:
        return {"kind": "float", "value": str(value)}
    return None if isinstance(value, torch.device) else value
