"""One record out of its JSON value, and what a reader keeps account of meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from firstnan.dump.names import parse_name
from firstnan.dump.records import Direction, Record, RecordKind, RecordName, TensorStat
from firstnan.dump.values import ValueState
from firstnan.read.records.values import Reader, flag_of

FILLS = ("fill_", "zero_")
"""Operators whose result is the constant that they are given."""


class RecordBuilder:
    """Makes the records of one file and counts what could not be judged."""

    def __init__(self) -> None:
        self.reader = Reader()
        self.blank: list[str] = []
        """Names of records with tensors that could not be judged."""
        self.settled: list[str] = []
        """Names of those whose result tells that nothing bad was in these tensors, or was dropped."""
        self.on_its_way: list[tuple[int, str]] = []
        """Indices and names of those that look at a result that nobody waited for yet."""
        self.seen = 0
        """Floating tensors that could be judged."""
        self.wide: list[int] = []
        """Indices of records with an infinite float64 tensor."""
        self.odd: list[str] = []
        """Names of records with parts of no known form."""

    def build(self, full: str, raw: dict[str, object], index: int, *, distrusted: bool = False) -> Record:
        """The record with this name and value; ``distrusted``: the file is cut inside it."""
        name = parse_name(full)
        reader = self.reader
        reader.start(communication=name.prefix.endswith("Distributed"))
        flagged: bool | None = None
        parameters: list[TensorStat] = []
        inputs: list[TensorStat] = []
        positional = n_kwargs = 0
        kwargs: tuple[str, ...] = ()
        has_output = True
        if name.kind is RecordKind.PARAMETERS_GRAD:
            outputs = reader.named(raw, "grad")
            n_outputs = len(raw)
            peers, groups = [], []
        else:
            get = raw.get
            value = get("input")
            if value is not None:
                inputs, positional = reader.top(value, "input")
            value = get("input_args")
            if value is not None:
                more, count = reader.top(value, "input_args")
                inputs = inputs + more if inputs else more
                positional = max(positional, count)
            value = get("input_kwargs")
            if value:
                more, n_kwargs = reader.top(value, "input_kwargs")
                inputs = inputs + more
                if type(value) is dict:
                    kwargs = tuple(value)
                else:
                    reader.odd += 1
            value = get("parameters")
            if value is not None:
                parameters = reader.named(value, "parameters")
            peers, groups = reader.peers, reader.groups
            if "is_nan" in raw:
                flagged = flag_of(raw["is_nan"])
                if flagged is not None:  # it covers what the call produced, not what went in
                    reader.blank = 0
                    reader.default = ValueState.NON_FINITE if flagged else ValueState.FINITE
            has_output = "output" in raw
            reader.peers, reader.groups = [], []  # those among outputs only repeat the arguments
            outputs, n_outputs = reader.top(get("output"), "output")
        if reader.blank and not distrusted:
            if _is_settled(name, outputs, n_outputs):
                self.settled.append(full)
            elif _is_on_its_way(raw):
                self.on_its_way.append((index, full))
            else:
                self.blank.append(full)
        if reader.odd:
            self.odd.append(full)
        self.seen += reader.seen
        if reader.wide:
            self.wide.append(index)
        return Record(
            name, index, tuple(inputs), tuple(outputs), tuple(parameters),
            tuple(reader.scalars), tuple(groups), tuple(peers),
            (positional, n_kwargs, n_outputs), kwargs, has_output, distrusted,
            raw.get("is_recompute") is True, flagged,
        )  # fmt: skip

    def settle(self, records: int) -> None:
        """Once all ``records`` of the file were built: what is on its way in the last one, nobody shows."""
        for index, full in self.on_its_way:
            (self.settled if index < records - 1 else self.blank).append(full)
        self.on_its_way.clear()


def _is_settled(name: RecordName, outputs: Sequence[TensorStat], results: int) -> bool:
    """An operand without statistics says nothing where the record's results are finite, or are no tensors (``stride``);
    memory that is filled with a constant holds it."""
    if name.prefix.endswith("Distributed"):
        return False
    if name.kind is RecordKind.API and name.api.rsplit(".", 1)[-1] in FILLS:
        return True
    if results and not outputs:
        return True
    floating = [tensor for tensor in outputs if tensor.is_floating]
    return bool(floating) and all(tensor.state is ValueState.FINITE for tensor in floating)


def _is_on_its_way(raw: dict[str, object]) -> bool:
    """A view of the result of a functional collective (``AsyncCollectiveTensor``) has no statistics anywhere: the
    operator that waits for it shows what came of it."""
    tensors = [*_listed(raw.get("input_args")), *_listed(raw.get("output"))]
    blank = [t for t in tensors if isinstance(t, dict) and "Max" in t and t["Max"] is None]
    return bool(blank) and all(str(tensor.get("type")).endswith(".AsyncCollectiveTensor") for tensor in blank)


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def settled_detail(builder: RecordBuilder, records: int) -> str:
    """How many records hold operands without statistics that their results settle."""
    return f"{some(builder.settled)} of {records}"


def holds_inputs_only(unfinished: Sequence[RecordName], records: int) -> bool:
    """Whether results were left out on purpose: most of ``records`` have none, and not because the run died in the
    innermost of calls that stand one inside the other."""
    if 2 * len(unfinished) <= records:
        return False
    return not all(_is_inside(inner, outer) for outer, inner in itertools.pairwise(unfinished))


def has_gradient(unfinished: Iterable[RecordName], names: Iterable[RecordName]) -> bool:
    """Whether one of these calls has a backward record: it gave a result, whatever its record says."""
    gradients = {
        name.full.replace(".forward", ".backward")
        for name in unfinished
        if name.kind is RecordKind.API and name.direction is Direction.FORWARD
    }
    return bool(gradients) and any(name.full in gradients for name in names)


def _is_inside(inner: RecordName, outer: RecordName) -> bool:
    if outer.kind is not RecordKind.MODULE or inner.direction is not outer.direction:
        return False
    return inner.kind is RecordKind.API or not outer.path or inner.path.startswith(outer.path + ".")


def blank_detail(builder: RecordBuilder, records: int) -> str:
    """Why records could not be judged, and how many of all."""
    absences = builder.reader.absences
    causes = sorted(absences, key=lambda why: -absences[why])
    return f"{', '.join(why.value for why in causes)}: {some(builder.blank)} of {records}"


def some(names: list[str]) -> str:
    """How many, and an example: ``3 records (first: Tensor.add.0.forward)``."""
    return f"{len(names)} record{'s' if len(names) != 1 else ''} (first: {names[0]})"
