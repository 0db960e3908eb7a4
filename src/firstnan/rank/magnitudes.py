"""The largest value of every module, parameter and gradient of one rank and step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from msgspec import Struct

from firstnan.answer.growth import GrowthKind
from firstnan.dump.records import Direction, Record, RecordKind, TensorStat
from firstnan.dump.values import magnitude
from firstnan.dump.view import RankView
from firstnan.rank.summary import module_name

_CHUNK = 512
"""Records that are held at once."""

Key = tuple[GrowthKind, str]


class Magnitudes(Struct, frozen=True):
    """What is kept of one rank and step."""

    step: int
    rank: int
    largest: Mapping[Key, float]
    """In the order in which they come first; infinite: not finite. What has no statistics is left out."""


def magnitudes(view: RankView) -> Magnitudes:
    """Reads all records of a rank, some at a time.

    Modules stand for their operators; where there are none, operators are told apart by their number.
    """
    found: dict[Key, float] = {}
    apis: dict[Key, float] = {}
    folder, end = view.overview.folder, view.overview.end
    for start in range(0, end, _CHUNK):
        for record in view.records(start, min(start + _CHUNK, end)):
            if record.name.kind is RecordKind.API:
                if record.name.direction is Direction.FORWARD:
                    _take(apis, (GrowthKind.ACTIVATION, record.name.full), record.outputs)
                continue
            _of_module(found, record)
    activations = any(kind is GrowthKind.ACTIVATION for kind, _ in found)
    return Magnitudes(folder.step, folder.rank, found if activations else {**apis, **found})


def _of_module(found: dict[Key, float], record: Record) -> None:
    if record.name.kind is RecordKind.PARAMETERS_GRAD:
        for tensor in (*record.inputs, *record.outputs, *record.parameters):
            _take(found, (GrowthKind.GRADIENT, _parameter(record, tensor)), (tensor,))
        return
    if record.name.direction is Direction.FORWARD:
        for tensor in record.parameters:
            _take(found, (GrowthKind.PARAMETER, _parameter(record, tensor)), (tensor,))
        _take(found, (GrowthKind.ACTIVATION, module_name(record.name)), record.outputs)


def _parameter(record: Record, tensor: TensorStat) -> str:
    """``layers.0.fc.weight``, whichever slot it stands in (``parameters.weight``, ``grad.weight``)."""
    return f"{record.name.path}.{tensor.slot.partition('.')[2] or tensor.slot}"


def _take(found: dict[Key, float], key: Key, tensors: Iterable[TensorStat]) -> None:
    for tensor in tensors:
        if tensor.state.is_bad:
            found[key] = math.inf
        elif tensor.is_floating and (size := magnitude(tensor.max, tensor.min)) is not None:
            found[key] = max(found.get(key, 0.0), float(size))
