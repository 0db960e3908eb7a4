"""All communication calls of one rank, compact: what :mod:`firstnan.step.every_call` puts together across ranks."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import overload

from msgspec import Struct, field

from firstnan.dump.problems import BLIND
from firstnan.dump.ranges import unpacked
from firstnan.dump.records import Record, TensorStat
from firstnan.dump.values import ValueState
from firstnan.dump.view import RankView
from firstnan.operators.communication import CallKey, CommCall, Freshness, calls
from firstnan.rank.sides import recorded_sides
from firstnan.rank.summary import Side
from firstnan.rank.window import CallLog

_NUMBERED = re.compile(r"(.*?)(0|[1-9][0-9]{0,17})([^0-9]*)", re.DOTALL)
"""Up to the last number, the number, and the rest."""


class Content(Enum):
    """What one side of a call holds, before anything is known about the rest of the run."""

    CLEAN = "clean"
    """Finite or empty."""
    MASK = "mask"
    """-Inf beside finite values: legal where the analysis names no fault that it can come from."""
    BAD = "bad"
    """NaN, +Inf, or nothing but -Inf."""
    UNKNOWN = "unknown"
    """No statistics, not finished or stale."""
    NONE = "none"
    """The rank has no such side."""


Sides = tuple[Content, Content]
"""What the rank sent, and what it received."""

_SIDES = {
    Side.CLEAN: Content.CLEAN,
    Side.BAD: Content.BAD,
    Side.UNKNOWN: Content.UNKNOWN,
    Side.NONE: Content.NONE,
}


class NameList(Sequence[str]):
    """Names that mostly differ in a number, as twelve bytes each.

    >>> names = NameList(["Distributed.send.0.forward", "Distributed.send.1.forward", "odd"])
    >>> names.patterns, list(names)[1:]
    ([('Distributed.send.', '.forward'), ('odd', None)], ['Distributed.send.1.forward', 'odd'])
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.patterns: list[tuple[str, str | None]] = []
        """What stands before and behind the last number; behind is None where a name has no number."""
        self.pattern_of, self.numbers = array("L"), array("Q")
        self._known: dict[tuple[str, str | None], int] = {}
        for name in names:
            self.append(name)

    def append(self, name: str) -> None:
        found = _NUMBERED.fullmatch(name)
        before, number, behind = (found[1], int(found[2]), found[3]) if found else (name, 0, None)
        self.add((before, behind), number)

    def add(self, pattern: tuple[str, str | None], number: int) -> None:
        at = self._known.get(pattern)
        if at is None:
            at = self._known[pattern] = len(self.patterns)
            self.patterns.append(pattern)
        self.pattern_of.append(at)
        self.numbers.append(number)

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        before, behind = self.patterns[self.pattern_of[index]]
        return before if behind is None else f"{before}{self.numbers[index]}{behind}"


class CallForm(Struct, frozen=True):
    """What calls of one form have in common: one element of a record."""

    key: CallKey
    stale: bool
    """The recorded result may be older than the call."""
    usual: Sides
    """Its sides when its record holds nothing non-finite."""


class Roster(Struct, frozen=True):
    """Every communication record of one rank, in order."""

    step: int
    rank: int
    forms: Sequence[tuple[CallForm, ...]] = ()
    """The forms of records; ``batch_isend_irecv`` has several elements."""
    places: Sequence[int] = ()
    """Index in dump.json of each record."""
    form_of: Sequence[int] = ()
    """Position in ``forms`` of each record."""
    names: Sequence[str] = ()
    """Name of each record."""
    unusual: Mapping[int, tuple[Sides, ...]] = field(default_factory=dict)
    """Position of a record -> the sides of its elements, where they are not the usual ones."""
    mentioned: frozenset[int] = frozenset()
    """Ranks that the calls name."""

    def sides(self, position: int, element: int) -> Sides:
        """What one call holds."""
        told = self.unusual.get(position)
        return self.forms[self.form_of[position]][element].usual if told is None else told[element]


def read_roster(view: RankView) -> Roster:
    """Goes once through the communication records of a rank; only those that hold something unusual are read whole."""
    over = view.overview
    rank, recorded = over.folder.rank, over.groups_recorded
    blind = any(problem.kind in BLIND for problem in over.problems)
    forms: list[tuple[CallForm, ...]] = []
    places = array("Q")
    names = NameList()
    unusual: dict[int, tuple[Sides, ...]] = {}
    held = view.calls()
    for like in held.likes:
        forms.append(tuple(_form(call) for call in calls(like, rank, groups_recorded=recorded)))
    for at, kind in enumerate(held.kind_of):
        if blind or held.likes[kind].distrusted or held.is_bad(at):
            record = held.record(at)
            own = calls(record, rank, groups_recorded=recorded)
            unusual[at] = tuple(_sides(record, call) for call in own)
        places.append(held.index(at))
        names.append(held.name(at))
    mentioned = frozenset(unpacked(CallLog(view).ranks))
    return Roster(over.folder.step, rank, tuple(forms), places, held.kind_of, names, unusual, mentioned)


def _form(call: CommCall) -> CallForm:
    sent = Side.CLEAN if call.sent else Side.NONE
    received = Side.CLEAN if call.received else Side.NONE
    sent, received = recorded_sides(call, sent, received, distrusted=False)
    return CallForm(CallKey.of(call), call.freshness is not Freshness.FRESH, (_SIDES[sent], _SIDES[received]))


def _sides(record: Record, call: CommCall) -> Sides:
    held = _content(call.sent), _content(call.received)
    plain = (Side.CLEAN if one is Content.MASK else Side(one.value) for one in held)
    told = recorded_sides(call, *plain, distrusted=record.distrusted)
    masked = zip(held, told, strict=True)
    sent, received = (
        Content.MASK if one is Content.MASK and side is Side.CLEAN else _SIDES[side] for one, side in masked
    )
    return sent, received


def _content(tensors: Sequence[TensorStat]) -> Content:
    if not tensors:
        return Content.NONE
    if any(t.state.is_bad and not _is_mask(t) for t in tensors):
        return Content.BAD
    if any(_is_mask(t) for t in tensors):
        return Content.MASK
    return Content.UNKNOWN if any(t.state.is_unknown and t.is_floating for t in tensors) else Content.CLEAN


def _is_mask(tensor: TensorStat) -> bool:
    return tensor.state is ValueState.NEG_INF and tensor.max is not None and tensor.max > float("-inf")
