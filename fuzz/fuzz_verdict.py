"""What no content of a dump may do to the verdict: answers to changed inputs are held against each other."""

from __future__ import annotations

import json
import math
import re
import tempfile
from pathlib import Path
from typing import Any

from promises import promise

import firstnan
from firstnan.answer.model import Confidence, Report, Verdict
from firstnan.dump.errors import InputError

Json = Any
_LENIENT = re.compile(rb"\d{300}|\de\+?\d{3}|\"(Max|Min)\": *[\"\[{]", re.IGNORECASE)
"""Numbers and texts that the scan reader takes for finite statistics (``read/scan/sweep.py``)."""
_SHAPE = [89, 97]
"""A size that no tensor of the seeds has."""
_folders: list[tempfile.TemporaryDirectory[str]] = []


def verdict(data: bytes) -> None:
    """Another layout of the text changes nothing; a fault at the end is never clean; harmless noise is no anomaly and
    changes no cause; a valid cut is like a raw one; without the statistics of a causing record no other is certain.
    """
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
    has_results = any("output" in record for record in records.values())  # else results were left out on purpose
    if first.verdict is Verdict.ANOMALY and noisy is not None and has_results:
        promise(_causes(noisy) == _causes(first), f"noise makes {_causes(noisy)} of {_causes(first)}")
    _cut(top)
    _nulled(top, first)


def _cut(top: dict[str, Json]) -> None:
    """A file that ends in forward is cut, whether its JSON is valid or not."""
    records = dict(list(top["data"].items())[: (len(top["data"]) + 1) // 2])
    if any("backward" in name or "grad" in name for name in records):
        return
    closed = json.dumps({key: value for key, value in top.items() if key != "data"} | {"data": records}, indent=1)
    valid, raw = _analyzed(closed), _analyzed(closed.rstrip().removesuffix("}").rstrip().removesuffix("}") + ",\n")
    if valid is None or raw is None:
        return
    if Verdict.ANOMALY in (valid.verdict, raw.verdict):
        promise(_causes(valid) == _causes(raw), f"a valid cut gives {_causes(valid)}, a raw one {_causes(raw)}")


def _nulled(top: dict[str, Json], first: Report) -> None:
    """A causing record without statistics: less sure, not clean and complete, and nothing else for certain."""
    known = {cause.op_name for cause in first.root_causes}
    blank = {name: _blank(record) if name in known else record for name, record in top["data"].items()}
    if blank == top["data"]:
        return
    after = _analyzed(json.dumps({**top, "data": blank}, indent=1))
    if after is None:
        return
    promise(after.exit_code != 0, f"clean and complete without the statistics of {known}")
    sure = [c.op_name for c in after.root_causes if c.mechanism.confidence is Confidence.CERTAIN]
    fresh = [name for name in sure if _operator(name) not in map(_operator, known)]
    promise(not fresh, f"without the statistics of {known}, {fresh} is certain")


def _operator(name: str) -> str:
    """The operator of a record: the same fault may come again in the next call."""
    return ".".join(part for part in name.split(".")[1:] if not part.isdigit())


def _blank(value: Json) -> Json:
    if isinstance(value, list):
        return [_blank(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: _blank(item) for key, item in value.items()}
    return found | dict.fromkeys(("Max", "Min", "Mean", "Norm")) if "Max" in value else found


def _causes(report: Report) -> tuple[object, ...]:
    return report.verdict, [(c.rank, c.op_name) for c in report.root_causes]


def _dump_of(data: bytes) -> dict[str, Json] | None:
    """The input as a dump with records that are objects; None where it is none, or holds numbers that the scan reader
    takes for finite (``read/scan/sweep.py``)."""
    if _LENIENT.search(data):
        return None
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
