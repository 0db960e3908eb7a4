"""The files of one rank, in MSProbe's layout, whole or not at all."""

from __future__ import annotations

import json
import linecache
import os
import shutil
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import numpy

from firstnan.dump.errors import OutputError
from firstnan.recording.recorder import Place, StepRecords
from firstnan.recording.statistics import Number, TensorEntry, bring_to_host
from firstnan.recording.values import Value

_HEAD = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None}
_TENSORS = "dump_tensor_data"
_SPELLED = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def write(step: StepRecords, folder: Path, more: Mapping[str, str] | None = None) -> None:
    """Write dump.json, construct.json and stack.json, and ``more`` files by name, into a new ``folder``.

    Elements that were kept go into files of numpy beside them.

    Raises:
        OutputError: it is there already, or could not be written; nothing is left behind.
    """
    temporary = folder.with_name(f".{folder.name}.{os.urandom(4).hex()}.tmp")
    try:
        if folder.exists():
            raise OutputError(f"'{folder}' is there already")
        temporary.mkdir(parents=True)
        for name, pieces in _files(step):
            with (temporary / name).open("w", encoding="ascii") as stream:
                stream.writelines(pieces)
        for entry in step.tensors():
            if entry.data is not None:
                (temporary / _TENSORS).mkdir(exist_ok=True)
                numpy.save(temporary / _TENSORS / entry.data_name, entry.data.numpy(), allow_pickle=False)
        for name, content in (more or {}).items():
            (temporary / name).write_text(content, encoding="utf-8")
        temporary.rename(folder)
    except OSError as error:
        raise OutputError(f"'{folder}' could not be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _files(step: StepRecords) -> Iterator[tuple[str, Iterator[str]]]:
    bring_to_host({id(entry): entry for entry in step.tensors()}.values())
    yield "dump.json", _dump(step)
    yield "construct.json", iter([_Texts().of(step.callers, 0)])
    yield "stack.json", iter([_Texts().of(_stacks(step.stacks), 0)])


def _dump(step: StepRecords) -> Iterator[str]:
    head, texts = json.dumps(_HEAD, indent=1).removesuffix("\n}"), _Texts()
    yield f'{head},\n "data": {{'
    before = "\n  "
    for name, record in step.records.items():
        yield f"{before}{json.dumps(name)}: {texts.of(record, 2)}"
        before = ",\n  "
    yield "\n }\n}"


class _Texts:
    """JSON as Python's ``json`` writes it with an indent of 1; much faster for tensors, the bulk of a dump."""

    def __init__(self) -> None:
        self._tensors: dict[tuple[int, int], str] = {}

    def of(self, value: Value, depth: int) -> str:
        """The text of a value that stands at this depth."""
        if isinstance(value, TensorEntry):  # a result and the argument that it becomes are one entry
            key = (id(value), depth)
            if key not in self._tensors:
                self._tensors[key] = _tensor(value, "\n" + " " * (depth + 1))
            return self._tensors[key]
        inner, outer = "\n" + " " * (depth + 1), "\n" + " " * depth
        if isinstance(value, dict):
            entries = f",{inner}".join([f"{_quoted(k)}: {self.of(v, depth + 1)}" for k, v in value.items()])
            return f"{{{inner}{entries}{outer}}}" if value else "{}"
        if isinstance(value, list):
            entries = f",{inner}".join([self.of(v, depth + 1) for v in value])
            return f"[{inner}{entries}{outer}]" if value else "[]"
        return _quoted(value) if isinstance(value, str) else json.dumps(value)


_quoted = lru_cache(maxsize=4096)(json.dumps)


def _tensor(entry: TensorEntry, inner: str) -> str:
    high, low, mean, norm = map(_number, entry.numbers)
    sizes = f",{inner} ".join(map(str, entry.shape))
    shape = f"[{inner} {sizes}{inner}]" if entry.shape else "[]"
    data = f',{inner}"data_name": {json.dumps(entry.data_name)}' if entry.data_name else ""
    mesh = ""
    if entry.mesh is not None:
        placements = json.dumps([_placement(p) for p in entry.mesh[1]])
        mesh = f',{inner}"device_mesh": {json.dumps(entry.mesh[0])},{inner}"placements": {placements}'
    return (
        f'{{{inner}"type": "{entry.type}",{inner}"dtype": "{entry.dtype}",{inner}"shape": {shape},'
        f'{inner}"Max": {high},{inner}"Min": {low},{inner}"Mean": {mean},{inner}"Norm": {norm},'
        f'{inner}"requires_grad": {"true" if entry.requires_grad else "false"}{mesh}{data}{inner[:-1]}}}'
    )


def _number(number: Number | None) -> str:
    if number is None:
        return "null"
    if isinstance(number, bool):
        return "true" if number else "false"
    text = repr(number)
    return _SPELLED.get(text, text)


def _placement(placement: object) -> dict[str, dict[str, object]]:
    fields = {"Shard": ("dim",), "Partial": ("reduce_op",)}.get(type(placement).__name__, ())
    return {type(placement).__name__: {name: getattr(placement, name, None) for name in fields}}


def _stacks(stacks: Mapping[str, tuple[Place, ...]]) -> dict[str, list[list[str]]]:
    """Calls from the same place stand together (dump format, section 10)."""
    groups: dict[tuple[Place, ...], list[str]] = {}
    for name, places in stacks.items():
        groups.setdefault(places, []).append(name)
    lines = _Lines()
    return {str(n): [names, lines.of(places)] for n, (places, names) in enumerate(groups.items())}


class _Lines:
    """Frames as stack.json spells them; those without source are left out."""

    def __init__(self) -> None:
        self._known: dict[Place, str | None] = {}

    def of(self, places: tuple[Place, ...]) -> list[str]:
        return [line for place in places if (line := self._line(place)) is not None]

    def _line(self, place: Place) -> str | None:
        if place not in self._known:
            code, number = place
            source = linecache.getline(code.co_filename, number).strip()
            self._known[place] = (
                f"File {code.co_filename}, line {number}, in {code.co_name}, \n {source}" if source else None
            )
        return self._known[place]
