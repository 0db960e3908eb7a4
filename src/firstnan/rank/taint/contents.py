"""Bad values that were written inside a module, each kept once however deep the chain of callers is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from firstnan.dump.records import TensorStat
from firstnan.dump.values import ValueState
from firstnan.rank.taint.events import Value
from firstnan.rank.taint.links import same_values


class Contents:
    """The values by what their statistics say. What a module's result repeats stands behind that result: around the
    module the result is asked first, and what it repeats only where it does not fit."""

    def __init__(self) -> None:
        self._groups: dict[tuple[object, ...], list[Value]] = {}
        self._size = 0
        self._apart: list[Value] = []
        """Values that are not handed on."""

    def put(self, value: Value) -> None:
        """One more value, for this module and those around it."""
        self._groups.setdefault(_key(value.stat), []).append(value)
        self._size += 1

    def put_apart(self, value: Value) -> None:
        """One more value, for this module alone."""
        self._apart.append(value)

    def joined(self, other: Contents) -> Contents:
        """What is handed on of both; the larger one takes in the smaller one."""
        large, small = (self, other) if self._size >= other._size else (other, self)
        for key, values in small._groups.items():
            known = large._groups.setdefault(key, values)
            if known is not values:
                more, fewer = (known, values) if len(known) >= len(values) else (values, known)
                more.extend(fewer)
                large._groups[key] = more
        large._size += small._size
        large._apart = other._apart
        return large

    def same(self, tensor: TensorStat, fits: Callable[[Value], bool]) -> list[Value]:
        """The open values of this size with these numbers that fit."""
        if tensor.state is ValueState.NON_FINITE:  # whatever numbers they have
            return self.where(lambda stat: stat.numel == tensor.numel and same_values(stat, tensor), fits)
        apart = [v for v in self._apart if v.stat.numel == tensor.numel and same_values(v.stat, tensor)]
        group = self._groups.get(_key(tensor), [])
        if group and not same_values(group[0].stat, tensor):
            group = []
        return [*_fitting(group, fits), *_open(apart, fits)]

    def where(self, holds: Callable[[TensorStat], bool], fits: Callable[[Value], bool]) -> list[Value]:
        """The open values whose statistics hold, and that fit."""
        groups = [values for values in self._groups.values() if values and holds(values[0].stat)]
        found = [value for values in groups for value in _fitting(values, fits)]
        return found + list(_open((v for v in self._apart if holds(v.stat)), fits))

    def repeated_by(self, result: Value, sources: Sequence[Value]) -> None:
        """The module's result has the numbers of these values, and is linked to them."""
        group = self._groups.get(_key(result.stat))
        if not group or result.stat.state is ValueState.NON_FINITE or not same_values(group[0].stat, result.stat):
            return
        linked = {id(value) for value in sources}
        result.repeats = [value for value in group if id(value) in linked]
        group[:] = [value for value in group if id(value) not in linked]
        self._size -= len(result.repeats)

    def open_ones(self) -> list[Value]:
        """All that are open, in the order in which they were written; none of the others is kept."""
        found = list(_open(self._apart, _any))
        stack = [value for values in self._groups.values() for value in values]
        while stack:
            value = stack.pop()
            stack.extend(value.repeats)
            if value.is_open:
                found.append(value)
        return sorted(found, key=lambda value: value.order)

    def clear(self) -> None:
        """All were closed."""
        self._groups.clear()
        self._size = 0


def _any(_: Value) -> bool:
    return True


def _open(values: Iterable[Value], fits: Callable[[Value], bool]) -> Iterator[Value]:
    return (value for value in values if value.is_open and fits(value))


def _fitting(group: list[Value], fits: Callable[[Value], bool]) -> list[Value]:
    """Those that fit; in place of one that does not, what it repeats is asked. Closed ones are put away."""
    found: list[Value] = []
    others: list[Value] = []
    stack = list(group)
    while stack:
        value = stack.pop()
        if value.is_open and fits(value):
            found.append(value)
            continue
        stack.extend(value.repeats)
        value.repeats = []
        if value.is_open:
            others.append(value)
    group[:] = others + found
    return found


def _key(tensor: TensorStat) -> tuple[object, ...]:
    """The same for all values that no module's result can tell apart."""
    numbers = () if tensor.state is ValueState.NAN else (tensor.max, tensor.min)
    return tensor.state, tensor.numel, *numbers
