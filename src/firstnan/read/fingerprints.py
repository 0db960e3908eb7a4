"""Fingerprints of one rank: what must be equal on its replicas, in a few bytes for each value.

A rank keeps the four statistics of each parameter at its first use in the step, and for every communication call a
digest (CRC-32) of the result, or of the message that it sends. Digests only tell where to look: whatever is reported is
read again.

A digest covers the shape and the four numbers of one tensor; :data:`UNUSABLE` stands where there is nothing to compare:
no statistics, integers, a value that is not finite, a result that may be stale.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Iterable, Sequence
from zlib import crc32

from msgspec import Struct

from firstnan.dump.records import Direction, Record, RecordKind, TensorStat
from firstnan.dump.values import ValueState
from firstnan.operators.communication import (
    CallKey,
    CallKind,
    CommCall,
    Freshness,
    Result,
    Root,
    calls,
    is_communication,
    role,
)

UNUSABLE = 0
"""In place of a digest: nothing to compare."""
NUMBERS = struct.Struct("<4d")
STATISTICS = NUMBERS.size
"""Bytes of the four numbers of one parameter."""
_ABSENT = NUMBERS.pack(*(math.nan,) * 4)


class ParameterPrints(Struct, frozen=True, omit_defaults=True):
    """The parameters of one rank at their first use in the step, in that order; columns of one length.

    There may be thousands on each of thousands of ranks: texts are joined by line ends, numbers are packed.
    """

    names: str = ""
    """Module record without direction and number, and the parameter: ``Module.layers.0.fc.Linear.weight``."""
    forms: str = ""
    """dtype and shape: ``float32[16,8]``."""
    indices: bytes = b""
    """Record in which it is first used (``<I``)."""
    numbers: bytes = b""
    """Max, Min, Mean, Norm of each (:data:`STATISTICS` bytes); NaN where they are absent."""
    checksums: str = ""
    """Empty: the dump holds none."""
    outputs: bytes = b""
    """Digest of the first result of the module that owns it, one of each parameter (``<I``)."""
    affine: bytes = b""
    """1: the module maps a tensor to one of the same shape, with vectors of its last dimension alone (a norm)."""

    def __len__(self) -> int:
        return len(self.numbers) // STATISTICS


class CallPrints(Struct, frozen=True, omit_defaults=True):
    """The calls of one series on one rank, in order; columns of one length, or empty."""

    stem: str
    """``Distributed.all_reduce``: the names of the series' records up to their numbers."""
    key: CallKey
    places: bytes
    """Where each record is (``<Q``): see :attr:`RankPrints.regions`."""
    sent: bytes = b""
    """Digests of the messages that it sends (``<I``)."""
    received: bytes = b""
    """Digests of the results (``<I``)."""
    checksums: bytes = b""
    """Digests of the checksums of each result or message (``<I``); empty: the dump holds none."""
    activations: int = 0
    """Calls before the first backward record with a floating tensor of two or more dimensions."""
    inconsistent: tuple[int, ...] = ()
    """Positions of calls whose input and result contradict each other on this very rank."""

    @property
    def count(self) -> int:
        return len(self.places) // 8

    @property
    def is_message(self) -> bool:
        """Point to point."""
        return self.key.kind is not CallKind.COLLECTIVE

    def place(self, at: int) -> int:
        """Where the record of the call at a position is."""
        return int.from_bytes(self.places[8 * at : 8 * at + 8], "little")


class RankPrints(Struct, frozen=True, omit_defaults=True):
    """Everything that one rank keeps for being compared."""

    parameters: ParameterPrints = ParameterPrints()
    calls: tuple[CallPrints, ...] = ()
    on_device: bool = False
    """Records name a device: checksums were taken of copies, and count."""
    regions: tuple[tuple[int, int, int], ...] = ()
    """Offset, size and index of the first record of each part of the file: places are offsets. Empty: places are
    indices of records."""


class OperatorPrints(Struct, frozen=True):
    """The operators of one rank whose output their recorded inputs determine; columns of one length."""

    names: tuple[str, ...] = ()
    """Record names, in execution order."""
    inputs: bytes = b""
    """Digests of all inputs and settings (``<I``)."""
    outputs: bytes = b""
    """Digests of the outputs (``<I``)."""
    aligned: tuple[bool, ...] = ()
    """The output depends on how the elements of several inputs stand to each other, which statistics do not tell."""
    left_out: int = 0
    """Operators of which equal statistics prove nothing."""


# -- columns and digests -------------------------------------------------------------------------------------


def packed_column(numbers: Sequence[int]) -> bytes:
    """Numbers as a column (``<I``)."""
    return struct.pack(f"<{len(numbers)}I", *numbers)


def column(numbers: bytes) -> tuple[int, ...]:
    """All numbers of a column (``<I``)."""
    return struct.unpack(f"<{len(numbers) // 4}I", numbers)


def packed(values: Sequence[float]) -> bytes:
    """Max, Min, Mean and Norm of a parameter as :attr:`ParameterPrints.numbers` holds them."""
    numbers = [float(value) + 0.0 for value in values]  # -0.0 and 0.0 are one number
    return NUMBERS.pack(*numbers) if len(numbers) == 4 and all(map(math.isfinite, numbers)) else _ABSENT


def written(shape: Sequence[int] | None) -> str:
    """``8,2``"""
    return ",".join(map(str, shape or ()))


def canonical(tensor: TensorStat) -> bytes | None:
    r"""Shape and numbers of a tensor as MSProbe writes those of an argument; None where they cannot be compared.

    >>> canonical(TensorStat("output.0", "float32", (2,), 1.5, 0.0, 0.75, 1.5, ValueState.FINITE))
    b'\n      2\n     ],\n     "Max": 1.5,\n     "Min": 0.0,\n     "Mean": 0.75,\n     "Norm": 1.5,\n     '
    """
    values = (tensor.max, tensor.min, tensor.mean, tensor.norm)
    if tensor.shape is None or tensor.state is not ValueState.FINITE or not tensor.is_floating:
        return None
    if not all(isinstance(value, float) and math.isfinite(value) for value in values):
        return None
    shape = ",".join(f"\n      {size}" for size in tensor.shape)
    numbers = (f'"{key}": {value!r}' for key, value in zip(("Max", "Min", "Mean", "Norm"), values, strict=True))
    return (",\n     ".join((f"{shape}\n     ]" if shape else "]", *numbers)) + ",\n     ").encode()


def digest_of(tensors: Sequence[TensorStat]) -> int:
    """One digest for the tensors of one side of a call."""
    texts = [text for text in map(canonical, tensors) if text is not None]
    return crc32(b"".join(texts)) if texts and len(texts) == len(tensors) else UNUSABLE


# -- collecting them -----------------------------------------------------------------------------------------


class PrintsBuilder:
    """Collects the fingerprints of one rank, record by record, in the order of the file."""

    def __init__(self, rank: int, *, groups_recorded: bool = True) -> None:
        self.rank = rank
        self.groups_recorded = groups_recorded
        self.backward = False
        """A backward record was passed."""
        self.on_device = False
        self._names: dict[str, None] = {}
        self._indices: list[int] = []
        self._forms: list[str] = []
        self._numbers: list[bytes] = []
        self._checksums: list[str | None] = []
        self._outputs: list[int] = []
        self._affine: list[bool] = []
        self._series: dict[tuple[str, CallKey], SeriesBuilder] = {}

    def module(self, record: Record) -> None:
        """The parameters of a module's forward record, unless they were used before."""
        if not record.parameters:
            return
        path = ".".join(part for part in (record.name.prefix, record.name.path, record.name.api) if part)
        given, affine = digest_of(record.outputs[:1]), is_affine(record)
        for tensor in record.parameters:
            name = f"{path}.{tensor.slot.removeprefix('parameters.')}"
            form = f"{tensor.dtype}[{written(tensor.shape)}]"
            values = [value for value in (tensor.max, tensor.min, tensor.mean, tensor.norm) if value is not None]
            numbers = packed(values if tensor.state is ValueState.FINITE and tensor.is_floating else ())
            self.parameter(name, record.index, form, numbers, tensor.checksum, given, affine=affine)

    def parameter(
        self, name: str, index: int, form: str, numbers: bytes, checksum: str | None, given: int, *, affine: bool
    ) -> None:
        """One parameter (:class:`ParameterPrints`), unless it was used before."""
        if name in self._names or "\n" in name:
            return
        self._names[name] = None
        self._indices.append(index)
        self._forms.append(form)
        self._numbers.append(numbers)
        self._checksums.append(checksum)
        self._outputs.append(given)
        self._affine.append(affine)

    def series(self, stem: str, key: CallKey) -> SeriesBuilder:
        """The series that calls of these names and this key belong to."""
        found = self._series.get((stem, key))
        if found is None:
            found = self._series[stem, key] = SeriesBuilder(stem, key)
        return found

    def call(self, record: Record, place: int) -> None:
        """The communication calls of one record."""
        for call in calls(record, self.rank, groups_recorded=self.groups_recorded):
            self.series(stem_of(record), CallKey.of(call)).add(place, call, early=not self.backward, rank=self.rank)

    def finish(self, regions: Sequence[tuple[int, int, int]] = ()) -> RankPrints:
        """What was collected; ``regions`` see :attr:`RankPrints.regions`."""
        parameters = ParameterPrints(
            "\n".join(self._names),
            "\n".join(self._forms),
            packed_column(self._indices),
            b"".join(self._numbers),
            "\n".join(one or "" for one in self._checksums) if any(self._checksums) else "",
            packed_column(self._outputs),
            bytes(self._affine),
        )
        return RankPrints(
            parameters, tuple(series.finish() for series in self._series.values()), self.on_device, tuple(regions)
        )


class SeriesBuilder:
    """The calls of one series while they are collected."""

    def __init__(self, stem: str, key: CallKey) -> None:
        self.stem = stem
        self.key = key
        self.places = array("Q")
        self.received = array("I")
        self.activations = 0
        self.sent = array("I")
        self._checksums = array("I")
        self._inconsistent: list[int] = []

    def add(self, place: int, call: CommCall, *, early: bool, rank: int) -> None:
        """One more call, read in full."""
        received = UNUSABLE
        if call.finished and call.freshness is Freshness.FRESH:
            received = digest_of(call.received)
            if not is_consistent(call, rank):
                self._inconsistent.append(len(self.places))
        if call.kind is CallKind.SEND:
            self.sent.append(digest_of(call.sent))
        compared = call.sent if call.kind is CallKind.SEND else call.received
        known = [one.checksum for one in compared if one.checksum is not None]
        if known or self._checksums:
            self._checksums.extend([UNUSABLE] * (len(self.places) - len(self._checksums)))
            self._checksums.append(crc32(" ".join(known).encode()))
        self.places.append(place)
        self.received.append(received)
        tensors = call.sent or call.received
        self.activations += bool(early and tensors and tensors[0].is_floating and len(tensors[0].shape or ()) > 1)

    def finish(self) -> CallPrints:
        return CallPrints(
            self.stem,
            self.key,
            struct.pack(f"<{len(self.places)}Q", *self.places),
            packed_column(self.sent) if any(self.sent) else b"",
            packed_column(self.received) if any(self.received) else b"",
            packed_column(self._checksums),
            self.activations,
            tuple(self._inconsistent),
        )


def stem_of(record: Record) -> str:
    """What the names of a series' records begin with."""
    return f"{record.name.prefix}.{record.name.api}"


def gives_list(family: str) -> bool:
    """Whether all members get a list with the tensor of each."""
    known = role(family)
    return known.result is Result.GATHERED and (known.receives or "").endswith("_list")


def is_consistent(call: CommCall, rank: int) -> bool:
    """What one rank alone can tell: the source of a broadcast keeps its values, a gathered list holds the own input."""
    if call.api == "broadcast" and call.rooted is Root.SENDS and call.root == rank:
        pairs = list(zip(call.sent, call.received, strict=False))
    elif gives_list(call.api) and call.group is not None and rank in call.group and len(call.sent) == 1:
        at = call.group.index(rank)
        pairs = list(zip(call.sent, call.received[at : at + 1], strict=False))
    else:
        return True
    texts = [(canonical(given), canonical(got)) for given, got in pairs]
    return all(given is None or got is None or given == got for given, got in texts)


def is_affine(record: Record) -> bool:
    """See :attr:`ParameterPrints.affine`."""
    if not record.inputs or not record.outputs or not record.outputs[0].shape:
        return False
    shape = record.outputs[0].shape
    return record.inputs[0].shape == shape and all(tensor.shape == shape[-1:] for tensor in record.parameters)


def of_records(records: Iterable[Record], rank: int, *, groups_recorded: bool) -> RankPrints:
    """The fingerprints of a rank whose records are in memory."""
    builder = PrintsBuilder(rank, groups_recorded=groups_recorded)
    for record in records:
        name = record.name
        if name.direction is Direction.BACKWARD:
            builder.backward = builder.backward or name.kind is not RecordKind.PARAMETERS_GRAD
        elif name.kind is RecordKind.MODULE:
            builder.module(record)
        elif is_communication(record) and not record.distrusted:
            builder.call(record, record.index)
        elif name.prefix == "NPU":
            builder.on_device = True
    return builder.finish()
