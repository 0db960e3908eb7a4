"""Records whose results are not recorded, where the bad value of an event may come from one of them.

Rules, each tested under its name:

``a_blind_record_may_hold_the_cause``
    A weight of -Inf makes ``exp`` 0 and ``0 / 0`` NaN. Where the result of ``exp`` has no statistics, the division is
    the first that shows something bad, and its clean inputs prove nothing of what made them.
``the_same_operator_may_have_failed_before``
    Of two calls of one operator in one module the first has no recorded result, the second makes NaN: the first may
    have made one too.
``the_forward_call_is_not_recorded``
    A backward record multiplies with what its forward call saved: a call without statistics may have saved anything.
``the_last_writer_is_blind``
    A record reads a bad value that no record wrote, and the last one that gave a tensor of this size has no statistics
    of it: that one is the answer, before an operator that is not in the dump.
``what_a_module_gave_is_blind_inside``
    ... and where the result of a module is bad while nothing inside is: the last record inside that gave a tensor of
    this size.
``a_swallowed_value_may_be_a_zero``
    A weight of -Inf, of which ``exp`` makes a recorded 0, stands behind ``0 / 0`` as well: where the run ended before
    backward, nothing shows it but that the value was swallowed on the way.
``an_unknown_input_may_be_bad``
    A record makes NaN, and an input without statistics comes from a record without statistics: either may be the first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from firstnan.dump.records import Direction, Record, RecordKind, TensorStat
from firstnan.operators.table import OperatorKind, short_api
from firstnan.rank.taint.def_use import OVERWRITES, Flow
from firstnan.rank.taint.events import BlindSpot, Event, EventKind, Origin
from firstnan.rank.taint.writers import NEAREST

MAX_STEPS = 256
"""Records on the way back that are looked at."""
SOON = 64
"""Records on the way back within which a value that was swallowed is thought of."""

_K = TypeVar("_K", bound=Hashable)
_Key = tuple[Direction, int | None, object, object]
_Size = tuple[Direction, int | None]


class BlindSpots:
    """The records that gave something of which nothing is known."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self.is_cut = False
        """The last search ended before all records on the way were looked at."""
        self._clear: set[int] = set()
        """Records whose inputs come from none of these, by any way."""
        self._writers: dict[_Key, list[int]] = {}
        self._sizes: dict[_Size, list[int]] = {}
        """Size of a result -> records that gave a known one of this size"""
        self._blind: dict[_Size, list[int]] = {}
        """Size of a result -> records that gave one of this size and have no statistics of it"""
        self._silent: dict[_Size, list[int]] = {}
        """Size of an argument -> records that took one of this size and have no recorded result"""
        self._codes: dict[tuple[str, Direction, str | None], int] = {}
        """Operator and module -> the first record of it without a recorded result"""
        self._swallowing = frozenset(i for i, kind in flow.absorbed.items() if kind is not OperatorKind.SELECTOR)
        holds_silent = any(not record.outputs and _is_silent(record, flow) for record in flow.records)
        if flow.holds_blanks or holds_silent or self._swallowing:
            for record in flow.records:
                if record.name.full not in flow.structure.inner and record.name.full not in flow.excluded:
                    self._put(record)

    def _put(self, record: Record) -> None:
        if record.name.kind is RecordKind.PARAMETERS_GRAD:
            return
        direction, index = record.name.direction, record.index
        given = [tensor for tensor in record.outputs if tensor.is_floating]
        for tensor in given:
            if tensor.state.is_unknown:
                _add(self._blind, (direction, tensor.numel), index)
            else:
                _add(self._writers, _key(direction, tensor), index)
                _add(self._sizes, (direction, tensor.numel), index)
        silent = not given and _is_silent(record, self._flow)
        if silent:
            for tensor in record.inputs:
                if tensor.is_floating:
                    _add(self._silent, (direction, tensor.numel), index)
        if silent or any(tensor.state.is_unknown for tensor in given):
            self._codes.setdefault(self._code(record), index)

    def _code(self, record: Record) -> tuple[str, Direction, str | None]:
        name = record.name
        return name.api or name.path, name.direction, self._flow.structure.module_path(name.full)

    def of(self, event: Event) -> BlindSpot | None:
        """The record without a recorded result that the event's value may come from, the nearest first."""
        self.is_cut = False
        if event.kind is EventKind.RECEIVE or not self._codes:
            return None
        if event.kind is EventKind.ENTRY:
            return self._written(event, event.bad_inputs)
        structure = self._flow.structure
        is_around = structure.inferred and structure.has_apis and event.record.name.kind is RecordKind.MODULE
        if is_around or event.record.name.full in structure.inner:
            spot = self._written(event, event.bad_outputs)
            return spot if spot is not None and self._is_inside(spot.record, event.record) else None
        twin = event.forward_twin
        if twin is not None and (
            not twin.outputs or any(t.state.is_unknown for t in (*twin.inputs, *twin.outputs) if t.is_floating)
        ):
            return self._spot(twin.index)
        before = self._before(twin or event.record)
        if before is not None:
            return self._spot(before)
        unknown = [tensor for tensor in event.record.inputs if tensor.is_floating and tensor.state.is_unknown]
        before = max((self._last_of(event.direction, tensor, event.index) for tensor in unknown), default=-1)
        if before >= 0:
            return self._spot(before)
        same = self._codes.get(self._code(event.record))
        return self._spot(same) if same is not None and same < event.index else None

    def swallowed(self, event: Event) -> Record | None:
        """a_swallowed_value_may_be_a_zero: the record from which an input of a birth comes, as 0 or at its limit."""
        if not self._swallowing or event.kind is not EventKind.BIRTH:
            return None
        queue, seen = [event.record], {event.index}
        while queue and len(seen) <= SOON:
            current = queue.pop(0)
            for tensor in current.inputs:
                key = _key(current.name.direction, tensor)
                writer = _last(self._writers.get(key), current.index) if tensor.is_floating else -1
                if writer in self._swallowing:
                    return self._flow.records[writer]
                if writer >= 0 and writer not in seen:
                    seen.add(writer)
                    queue.append(self._flow.records[writer])
        return None

    def _is_inside(self, record: Record, module: Record) -> bool:
        """Where construct.json does not tell, what stands directly before the module's record."""
        if self._flow.structure.inferred:
            return record.index == module.index - 1
        return module.name.full in self._flow.structure.ancestors(record.name.full)

    def _spot(self, index: int, *, is_writer: bool = False) -> BlindSpot:
        record = self._flow.records[index]
        return BlindSpot(record, self._flow.structure.module_path(record.name.full), is_writer)

    def _before(self, record: Record) -> int | None:
        """The nearest one from which an input of ``record`` can come, by way of recorded results."""
        queue, seen = deque([record]), {record.index}
        while queue and len(seen) <= MAX_STEPS:
            current = queue.popleft()
            for tensor in current.inputs:
                if not tensor.is_floating or tensor.state.is_unknown:
                    continue
                direction = current.name.direction
                writer = _last(self._writers.get(_key(direction, tensor)), current.index)
                blind = self._last_of(direction, tensor, current.index)
                if blind > writer:
                    return blind
                if writer >= 0 and writer not in seen and writer not in self._clear:
                    seen.add(writer)
                    queue.append(self._flow.records[writer])
        self.is_cut = bool(queue)
        if not self.is_cut:
            self._clear |= seen
        return None

    def _last_of(self, direction: Direction, tensor: TensorStat, index: int) -> int:
        size = direction, tensor.numel
        return max(_last(self._blind.get(size), index), _last(self._silent.get(size), index))

    def _written(self, event: Event, bad: Sequence[TensorStat]) -> BlindSpot | None:
        """the_last_writer_is_blind, what_a_module_gave_is_blind_inside"""
        direction, index = event.direction, event.index
        found = max((self._last_of(direction, tensor, index) for tensor in bad), default=-1)
        if found < 0 or index - found > NEAREST:
            return None
        sizes = [(direction, tensor.numel) for tensor in bad]
        is_last = all(_last(self._sizes.get(size), index) < found for size in sizes)
        is_sized = any(_last(self._blind.get(size), index) == found for size in sizes)
        return self._spot(found, is_writer=is_last and is_sized)


def at_its_blind_writer(event: Event) -> Event:
    """the_last_writer_is_blind; other events as they are."""
    spot = event.blind
    is_of_nobody = event.kind is EventKind.BIRTH or (
        event.origin is Origin.BETWEEN_RECORDS and not event.follows_ruled_out and not event.is_of_a_copy
    )
    if spot is None or not spot.is_writer or not is_of_nobody:
        return event
    return replace(
        event,
        kind=EventKind.BIRTH,
        record=spot.record,
        bad_inputs=(),
        bad_outputs=(),
        origin=None,
        writer=None,
        forward_twin=None,
        module=spot.module,
        around=None,
        hidden=(),
    )


def _is_silent(record: Record, flow: Flow) -> bool:
    """No result is recorded of a call that gave one, as far as the record tells: no number and no text either."""
    if record.name.kind is RecordKind.PARAMETERS_GRAD or record.outputs:
        return False
    if flow.book.is_(record.name, OperatorKind.OBSERVER):
        return False
    if flow.book.is_(record.name, OperatorKind.INITIALISER) or short_api(record.name) in OVERWRITES:
        return False
    return not any(scalar.slot.startswith("output") for scalar in record.scalars)


def _key(direction: Direction, tensor: TensorStat) -> _Key:
    return direction, tensor.numel, tensor.max, tensor.min


def _add(places: dict[_K, list[int]], key: _K, index: int) -> None:
    places.setdefault(key, []).append(index)


def _last(ascending: Sequence[int] | None, before: int) -> int:
    """The last of some ascending indices before a record; -1: there is none."""
    place = bisect_left(ascending or (), before)
    return ascending[place - 1] if ascending and place else -1
