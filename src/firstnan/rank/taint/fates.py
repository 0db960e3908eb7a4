"""What became of every non-finite value of one rank, as far as the rank alone can tell.

The decisions are those of :mod:`.def_use` and :mod:`.endings`; here each recorded value is put under one of them.

Rules, each tested under its name:

``a_record_shares_its_fate``
    What a record took in and gave that is not legal goes where the record's outcome says.
``a_repeated_value_shares_its_fate``
    What a module's record only repeats has the fate of the record inside that holds the same value.
``what_begins_behind_a_cause_follows_from_nothing``
    What comes from a record with clean inputs behind the first cause, or from a weight or a batch, and from nothing
    else, is not said to follow from the cause unless that record is named too.
``an_unread_value_needs_a_backward_pass``
    That nobody reads a value is harmless where a backward pass follows: it would show it. Otherwise it is open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from firstnan.answer.accounts import Account, Fate
from firstnan.dump.records import Direction, Record, RecordKind, TensorStat
from firstnan.dump.values import ValueState
from firstnan.operators.table import OperatorKind
from firstnan.rank.taint.def_use import Flow
from firstnan.rank.taint.endings import Outcome, is_settled
from firstnan.rank.taint.events import LIVE_ENDINGS, Ending, Event, EventKind, Origin, Tally
from firstnan.rank.taint.legality import BUFFER_ARGUMENT, fate_of_passed

FIRST_LOOK = "first_look"
"""Stands for the rules of the first look (:mod:`firstnan.rank.suspects`), where it passed values over one by one."""


MAX_TALLIES = 32
"""Groups of values that are told apart by the calls that they enter."""
NAMED = 3
"""Records with open values that are named."""


class Totals(Struct, frozen=True):
    """What is counted of a rank whose records were not all followed."""

    all: int
    """All non-finite values of the rank."""
    beyond: int
    """Those behind the horizon."""


class _Known(NamedTuple):
    """What values of one tally have in common."""

    fate: Fate
    rule: str = ""
    calls: tuple[int, ...] = ()
    own: bool = False
    origin: int = -1


_MORE = _Known(Fate.CAUSE, calls=(-1,))
"""Values that enter other calls than those that are told apart."""


class _Counts:
    """Values by what they have in common, with the names of the first ones."""

    def __init__(self) -> None:
        self._counts: dict[_Known, int] = {}
        self._first: dict[_Known, int] = {}
        self._names: dict[_Known, list[str]] = {}
        self._more_calls: set[int] = set()
        """Calls of values that are no longer told apart by them."""

    @property
    def total(self) -> int:
        return sum(self._counts.values())

    def add(self, known: _Known, name: str, index: int, count: int = 1) -> None:
        if known.calls and known not in self._counts and len(self._counts) >= MAX_TALLIES:
            self._more_calls.update(known.calls)
            known = _MORE
        names = self._names.setdefault(known, [])
        if len(names) < (NAMED if known.fate.account is Account.OPEN else 1) and name and name not in names:
            names.append(name)
        self._first.setdefault(known, index)
        self._counts[known] = self._counts.get(known, 0) + count

    def tallies(self) -> tuple[Tally, ...]:
        return tuple(
            Tally(
                one.fate,
                count,
                one.rule,
                ", ".join(self._names[one]),
                self._first[one],
                one.own,
                tuple(sorted(self._more_calls)) if one is _MORE else one.calls,
                one.origin,
            )
            for one, count in self._counts.items()
        )


def tallies(flow: Flow, found: Mapping[int, Outcome], events: Sequence[Event], totals: Totals) -> tuple[Tally, ...]:
    """The rank's non-finite values by their fate; :attr:`Fate.CAUSE` stands for what matters on this rank."""
    counts = _Counts()
    finished = {event.index: event for event in events}
    apart = _apart(events)
    by_value: dict[tuple[object, ...], _Known] = {}
    repeated: list[tuple[Record, TensorStat]] = []
    for record in flow.records.bad:
        bad = [tensor for tensor in record.tensors if tensor.is_recorded_bad]
        if not bad:
            continue
        illegal = flow.illegal.get(record.index, ())
        own = _of_record(flow, record, found.get(record.index), finished.get(record.index))
        origin = flow.origins.get(record.index, -1) if apart else -1
        if own is not None and own.fate is Fate.CAUSE and origin in apart:
            own = own._replace(origin=origin)
        for tensor in bad:
            known = own if any(tensor is one for one in illegal) else _legal(flow, record, tensor, own)
            if known is None:
                repeated.append((record, tensor))
                continue
            counts.add(known, record.name.full, record.index)
            by_value[_key(tensor)] = known
    for record, tensor in repeated:
        counts.add(by_value.get(_key(tensor)) or _unread(flow, record.index), record.name.full, record.index)
    left = totals.all - totals.beyond - counts.total
    if left:
        counts.add(_Known(Fate.RULE, FIRST_LOOK), "", 0, left)
    if totals.beyond:
        counts.add(_Known(Fate.BEHIND), "", flow.horizon or 0, totals.beyond)
    return counts.tallies()


def _apart(events: Sequence[Event]) -> frozenset[int]:
    """what_begins_behind_a_cause_follows_from_nothing: those behind the first that matters."""
    live = [event.index for event in events if event.is_live or event.communications]
    forward = [event for event in events if event.direction is Direction.FORWARD]
    made = (event for event in forward if _is_clean_birth(event) or event.origin in _FROM_OUTSIDE)
    return frozenset(event.index for event in made if live and event.index > live[0])


_FROM_OUTSIDE = (Origin.PARAMETER, Origin.INPUT_DATA)


def _is_clean_birth(event: Event) -> bool:
    taken = [tensor for tensor in event.record.inputs if tensor.is_floating]
    return event.kind is EventKind.BIRTH and bool(taken) and all(t.state is ValueState.FINITE for t in taken)


def _of_record(flow: Flow, record: Record, outcome: Outcome | None, event: Event | None) -> _Known | None:
    """a_record_shares_its_fate; None: its values are in no chain."""
    if record.name.full in flow.excluded:
        return _Known(Fate.REJECTED)
    rule = flow.book.find(record.name, OperatorKind.IGNORED)
    if rule is not None:
        return _Known(Fate.RULE, rule.name)
    if record.index in flow.unfilled:
        return _Known(Fate.MEMORY)
    if record.index in flow.looks.indices:
        return _Known(Fate.LOOKED_AT)
    if outcome is None:
        return _Known(Fate.CAUSE) if record.name.kind is RecordKind.PARAMETERS_GRAD else None
    endings = outcome.endings if event is None else event.endings | outcome.endings
    calls = {*outcome.calls, record.index} if flow.sends_bad.get(record.index) else outcome.calls
    if endings & LIVE_ENDINGS:
        return _Known(Fate.CAUSE)
    if calls:
        return _Known(Fate.CAUSE, calls=tuple(sorted(calls)))
    if Ending.OPEN in endings:
        return _Known(Fate.NO_RESULT, own=event is not None and event.kind is EventKind.BIRTH)
    if Ending.BEYOND in endings:
        return _Known(Fate.BEHIND)
    if Ending.ISLAND in endings:
        return _Known(Fate.ISLAND)
    if Ending.UNREAD in endings:
        return _unread(flow, record.index)
    return _Known(Fate.SELECTED if Ending.SELECTED in endings else Fate.SATURATED)


def _unread(flow: Flow, index: int) -> _Known:
    """an_unread_value_needs_a_backward_pass."""
    if index in flow.closed:
        return _Known(Fate.IN_MODULE)
    return _Known(Fate.UNREAD if is_settled(flow, index) else Fate.NO_READER)


def _legal(flow: Flow, record: Record, tensor: TensorStat, own: _Known | None) -> _Known | None:
    """A value that stands in no chain, or is legal."""
    if own is not None and own.fate in (Fate.REJECTED, Fate.RULE, Fate.LOOKED_AT):
        return own
    if flow.book.is_(record.name, OperatorKind.INITIALISER) and own is not None and own.fate is Fate.CAUSE:
        return own  # somebody read the memory before it was written
    if (
        tensor.state is ValueState.NEG_INF
        or not tensor.state.is_bad
        or flow.book.is_(record.name, OperatorKind.OBSERVER)
    ):
        return _Known(*fate_of_passed(record, (tensor,), flow.book))
    if flow.book.is_(record.name, OperatorKind.INITIALISER) or record.index in flow.calls or _is_buffer(tensor):
        return _Known(Fate.MEMORY)
    return None


def _is_buffer(tensor: TensorStat) -> bool:
    return f"{tensor.slot}.".startswith(f"{BUFFER_ARGUMENT}.")


def _key(tensor: TensorStat) -> tuple[object, ...]:
    """What a value and its repetition have in common."""
    is_nan = tensor.state is ValueState.NAN
    return tensor.state, tensor.numel, None if is_nan else tensor.max, None if is_nan else tensor.min
