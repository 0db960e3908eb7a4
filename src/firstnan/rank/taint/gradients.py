"""Where a gradient goes whose reader the values do not show.

Rules, each tested under its name:

``gradient_goes_to_the_producer``
    Autograd adds up the gradients of a tensor that several operators read, and the sum is no record: the value of one
    of them alone is read by nobody. It goes to the backward of the operator that gave the tensor.
    Example: ``q = add(p, 1e-5)``, then ``mul(q, log(q))``: ``mul.backward`` and ``log.backward`` both end in
    ``add.backward``.
``a_second_backward_writes_over_the_first``
    A gradient penalty runs backward through what ran backward already: the same records show their second run in the
    place of the first. A bad gradient that comes in although everything that read the forward result handed back a
    finite one is of the second run: what began behind it came first.
"""

from __future__ import annotations

from firstnan.dump.records import Direction, Record, RecordKind, TensorStat
from firstnan.dump.values import ValueState
from firstnan.rank.taint.def_use import Flow

NEAR = 200
"""Records before an operator among which the one that gave its input is looked for."""


class Producers:
    """Finds the backward records that take in what other backward records gave."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._known = flow.records.by_name

    def readers(self, record: Record) -> list[int]:
        """Indices of backward records behind this one that its bad gradients end in; empty where that is not known.

        gradient_goes_to_the_producer. Among the records that were looked at only.
        """
        twin = self._known.get(record.name.full.replace(".backward", ".forward"))
        if twin is None or record.name.kind is not RecordKind.API:
            return []
        sizes = {tensor.numel for tensor in record.outputs if tensor.state.is_bad}
        found: list[int] = []
        for tensor in twin.inputs:
            if tensor.numel not in sizes or not tensor.is_floating:
                continue
            producer = self._producer(twin, tensor)
            backward = self._known.get(producer.name.full.replace(".forward", ".backward")) if producer else None
            if backward is None or backward.index <= record.index or backward.name.full not in self._flow.bad_backward:
                return []
            found.append(backward.index)
        return found

    def _producer(self, reader: Record, tensor: TensorStat) -> Record | None:
        """The nearest operator before a record that gave the very same values."""
        for record in reversed(self._flow.records[max(0, reader.index - NEAR) : reader.index]):
            api = record.name.kind is RecordKind.API and record.name.direction is Direction.FORWARD
            if api and any(_is_same(given, tensor) for given in record.outputs):
                return record
        return None


def shows_a_second_run(flow: Flow, record: Record) -> bool:
    """a_second_backward_writes_over_the_first."""
    twin = flow.structure.twin(record)
    if twin is None or record.name.kind is not RecordKind.API:
        return False
    given = [tensor for tensor in twin.outputs if tensor.is_floating]
    consumers = [
        reader
        for reader in flow.records[twin.index + 1 : flow.structure.first_backward or 0]
        if reader.name.kind is RecordKind.API and reader.name.direction is Direction.FORWARD
        if any(_is_same(tensor, one) for tensor in reader.inputs for one in given)
    ]
    turned = [flow.records.by_name.get(one.name.full.replace(".forward", ".backward")) for one in consumers]
    sizes = {tensor.numel for tensor in given}
    return bool(turned) and all(
        one is not None
        and one.index < record.index
        and any(tensor.numel in sizes for tensor in one.outputs)
        and all(tensor.state is ValueState.FINITE for tensor in one.outputs if tensor.is_floating)
        for one in turned
    )


def _is_same(one: TensorStat, other: TensorStat) -> bool:
    known = not one.state.is_unknown and one.max is not None
    return known and (one.shape, one.max, one.min, one.norm) == (other.shape, other.max, other.min, other.norm)
