"""What no content of a dump may do to the verdict: answers to changed inputs are held against each other."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any

from promises import promise

import firstnan
from firstnan.answer.model import Report, Verdict
from firstnan.dump.errors import InputError

Json = Any
_SHAPE = [89, 97]
"""A size that no tensor of the seeds has."""
_folders: list[tempfile.TemporaryDirectory[str]] = []


def verdict(data: bytes) -> None:
    """Another layout of the text changes nothing; a fault at the end is never clean; harmless noise is no anomaly."""
    top = _dump_of(data)
    if top is None:
        return
    first = _analyzed(json.dumps(top, indent=1))
    other = _analyzed(json.dumps(top))
    promise((first is None) is (other is None), "readable in one layout and not in the other")
    if first is None or other is None:
        return
    promise(_answer(first) == _answer(other), f"one layout gives {_answer(first)}, the other {_answer(other)}")
    records = dict(top["data"])
    faulty = _analyzed(json.dumps({**top, "data": records | _FAULT}, indent=1))
    promise(faulty is not None and faulty.exit_code != 0, "clean with a NaN that is sampled from at the end")
    noisy = _analyzed(json.dumps({**top, "data": _NOISE | records}, indent=1))
    if first.verdict is Verdict.CLEAN and noisy is not None:
        promise(noisy.verdict is not Verdict.ANOMALY, "an anomaly made of a masked row that was dropped")
    if first.verdict is Verdict.ANOMALY and noisy is not None:
        promise(noisy.exit_code != 0, "harmless noise makes an anomaly clean and complete")


def _dump_of(data: bytes) -> dict[str, Json] | None:
    """The input as a dump with records that are objects; None where it is none."""
    try:
        top = json.loads(data)
    except (ValueError, RecursionError):
        return None
    records = top.get("data") if isinstance(top, dict) else None
    if not isinstance(records, dict) or not records or not all(isinstance(r, dict) for r in records.values()):
        return None
    return top if not set(records) & {*_FAULT, *_NOISE} else None


def _analyzed(text: str) -> Report | None:
    """The report on one rank with this dump.json; None: nothing could be read."""
    if not _folders:
        _folders.append(tempfile.TemporaryDirectory(prefix="firstnan-fuzz-"))
    path = Path(_folders[0].name)
    (path / "dump.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        return firstnan.analyze(path, firstnan.Options(jobs=1))
    except InputError:
        return None


def _answer(report: Report) -> tuple[object, ...]:
    causes = [(c.rank, c.op_name, c.where, c.mechanism.kind) for c in report.root_causes]
    return report.verdict, report.complete, causes


def _tensor(high: float, low: float, dtype: str = "float32") -> Json:
    shape = {"type": "torch.Tensor", "dtype": f"torch.{dtype}", "shape": _SHAPE, "requires_grad": False}
    return {**shape, "Max": high, "Min": low, "Mean": high, "Norm": abs(high)}


def _record(inputs: list[Json], output: Json) -> Json:
    return {"input_args": inputs, "input_kwargs": {}, "output": [output]}


_BAD = _tensor(math.nan, math.nan)
_MASKED = _tensor(1.0, -math.inf)
_FAULT = {
    "Torch.log.90001.forward": _record([_tensor(1.0, -1.0)], _BAD),
    "Torch.multinomial.90001.forward": _record([_BAD], _tensor(3, 0, "int64")),
}
_NOISE = {
    "Tensor.masked_fill.90001.forward": _record([_tensor(1.0, -1.0), _tensor(True, False, "bool")], _MASKED),
    "Functional.softmax.90001.forward": _record([_MASKED], _BAD),
    "Torch.nan_to_num.90001.forward": _record([_BAD], _tensor(0.5, 0.0)),
}
