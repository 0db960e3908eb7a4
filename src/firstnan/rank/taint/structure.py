"""Where a record stands: the modules around it, the passes of the step, the loss.

Rules, each tested under its name:

``a_pass_that_died_is_no_update``
    What stands behind the last backward record is the update, up to the first record inside a module whose result needs
    a gradient: the run died in the forward pass of the next micro-batch.
``code_in_backward_begins_no_pass``
    What hooks compute between two backward records has no graph: the backward record behind it does not start from a
    loss.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from firstnan.dump.names import parse_name
from firstnan.dump.records import Direction, Record, RecordKind
from firstnan.dump.view import RankView
from firstnan.operators.communication import CallKind, CommCall, is_communication
from firstnan.rank.taint.record_table import Names, Table

MAX_LEFT_OUT = 12
NEAREST = 64
"""Records next to a call among which one of backward or forward is looked for."""
MAX_DEPTH = 1000
"""Longest call chain that is followed; construct.json may hold cycles (dump format, section 10)."""


@dataclass(frozen=True)
class Structure:
    """Nesting and passes of one rank's records."""

    parents: Mapping[str, str | None]
    by_name: Mapping[str, Record]
    inner: Set[str]
    """Names of module records that have a record of their own inside."""
    first_backward: int | None
    last_backward: int | None
    losses: Set[str]
    """Forward records from whose output a backward pass starts."""
    tops: frozenset[int]
    """Indices of forward records that give the result of a pass: the last outermost module before
    backward begins, before a new pass, or at the end."""
    has_apis: bool
    """False for level L0: modules are the operators."""
    resumed: int | None = None
    """Index of the first record behind the last backward record that belongs to another forward pass."""
    unfinished: str | None = None
    """The innermost module (or the call) in which the run ended: the last record stands in a module that never
    returned, or is a call without a result; None: the run ended at the top, or that is not known."""
    inferred: bool = False
    """True: no construct.json; nesting of modules was taken from their paths, operators have no known module."""
    _has_slices: bool = False
    _listing: Mapping[str, str | None] = field(default_factory=dict, compare=False, repr=False)
    """construct.json as it is, whether it tells callers or not."""
    _unrecorded: dict[str | None, frozenset[str]] = field(default_factory=dict, compare=False, repr=False)
    """Module -> operators inside it that have no record."""
    _chains: dict[str, tuple[str, ...]] = field(default_factory=dict, compare=False, repr=False)
    """Caller -> itself and those around it: one chain for all that it calls."""
    left_out_asked: dict[tuple[str, ...], frozenset[str]] = field(default_factory=dict, compare=False, repr=False)
    """What was answered about operators that the dump leaves out."""
    _updates: dict[tuple[str, ...], bool] = field(default_factory=dict, compare=False, repr=False)

    def ancestors(self, name: str) -> tuple[str, ...]:
        """Parents of a record, innermost first; guarded against cycles."""
        parent = self.parents.get(name)
        if not parent:
            return ()
        known = self._chains.get(parent)
        if known is None:
            known = self._chains[parent] = self._chain(parent)
            if not self.parents.get(known[-1]):
                for place, caller in enumerate(known[1:], 1):
                    if caller in self._chains:
                        break  # and all around it
                    self._chains[caller] = known[place:]
        if self.parents.get(known[-1]):  # a cycle, or too deep: the name itself may be in it
            return known[: known.index(name)] if name in known else known
        return known

    def _chain(self, caller: str | None) -> tuple[str, ...]:
        chain: dict[str, None] = {}
        while caller and caller not in chain and len(chain) < MAX_DEPTH:
            known = self._chains.get(caller)
            if known is not None and not self.parents.get(known[-1]):
                return (*chain, *known)[:MAX_DEPTH]
            chain[caller] = None
            caller = self.parents.get(caller)
        return tuple(chain)

    def module_of(self, name: str) -> str | None:
        """The innermost module record around a record."""
        return next((p for p in self.ancestors(name) if p.split(".", 1)[0] in ("Module", "Cell")), None)

    def module_path(self, name: str) -> str | None:
        """Path of the innermost module around a record, or of the module record itself, where it is dumped."""
        inside = (name, *self.ancestors(name))
        records = (self.by_name[n].name for n in inside if n in self.by_name)
        return next((r.path for r in records if r.kind is not RecordKind.API and r.path), None)

    def left_out_around(self, name: str) -> frozenset[str]:
        """Operators (without number) that the modules around a record call and the dump leaves out."""
        return self.left_out_of(self.ancestors(name))

    def left_out_of(self, chain: tuple[str, ...]) -> frozenset[str]:
        """The same of a chain of callers."""
        known = self.left_out_asked.get(chain)
        if known is None:
            known = frozenset().union(*(self._left_out_of(module) for module in (*chain, None)))
            self.left_out_asked[chain] = known
        return known

    @property
    def lists_calls(self) -> bool:
        """construct.json tells which calls have no record."""
        return bool(self._listing)

    @property
    def lists_slices(self) -> bool:
        """The dump lists ``x[...]``, with or without a record; newer versions do not."""
        return any("__getitem__" in apis for apis in self._unrecorded.values()) or self._has_slices

    def _left_out_of(self, module: str | None) -> frozenset[str]:
        if not self._unrecorded and self._listing:
            self._unrecorded.update(_unrecorded(self._listing, self.by_name))
            self._unrecorded.setdefault(None, frozenset())  # where there is none it is not looked for again
        return self._unrecorded.get(module, frozenset())

    def left_out(self, name: str) -> tuple[str, ...]:
        """Calls inside the record's own module that construct.json lists and dump.json does not hold (risk level,
        filters), at most :data:`MAX_LEFT_OUT`."""
        if self.inferred:
            return ()
        module = name if name in self.inner else self.parents.get(name)
        found = (n for n, parent in self.parents.items() if parent == module and module and n not in self.by_name)
        return tuple(itertools.islice(found, MAX_LEFT_OUT))

    def after_backward(self, index: int) -> bool:
        """Behind the last backward record, in the update."""
        return self.last_backward is not None and index > self.last_backward and not self.in_last_forward(index)

    def in_last_forward(self, index: int) -> bool:
        """In a forward pass behind which no backward record stands."""
        begin = 0 if self.last_backward is None else self.resumed
        return begin is not None and index >= begin

    def in_update(self, name: str) -> bool:
        """Inside gradient clipping or the optimizer, as construct.json tells (dump format, section 10)."""
        chain = self.ancestors(name)
        known = self._updates.get(chain)
        if known is None:
            known = self._updates[chain] = not {"optimizer", "clip_grad"}.isdisjoint(chain)
        return known

    def is_outside_forward(self, name: str) -> bool:
        """Whether no module that runs forward is around a record; what hooks and autograd functions compute in backward
        has the module whose backward runs around it, or none."""
        module = self.module_of(name)
        return module is None or parse_name(module).direction is Direction.BACKWARD

    def in_backward(self, index: int) -> bool:
        """Between the first and the last backward record."""
        return self.first_backward is not None and self.first_backward < index <= (self.last_backward or 0)

    def is_call_in_backward(self, call: CommCall, records: Table) -> bool:
        """Whether a communication call moves gradients of the backward pass, as far as the records around it tell.

        What a rank sends was made by the record before the call, what it receives is used by the record behind it:
        micro-batches interleave. A call inside a module belongs to the pass of the module's own record.
        """
        module = self.module_of(call.name)
        if module is not None:
            return parse_name(module).direction is Direction.BACKWARD
        if not self.in_backward(call.index):
            return False
        step = 1 if call.kind is CallKind.RECEIVE else -1
        for distance in range(1, NEAREST):
            record = records.get(call.index + step * distance)
            if record is None:
                return True
            if not is_communication(record) and record.name.kind is not RecordKind.PARAMETERS_GRAD:
                return record.name.direction is Direction.BACKWARD
        return True

    def twin(self, record: Record) -> Record | None:
        """The forward record of a backward record's call.

        The number is the same in every version for APIs (dump format, section 6).
        """
        name = record.name.full.replace(".backward", ".forward")
        return self.by_name.get(name) if name != record.name.full else None


class Nesting:
    """Makes the structure of one rank from those of its records that are looked at, and makes it again where more of
    them are.

    Without construct.json, nesting of modules is taken from their paths: ``layers.0.attn`` is inside ``layers.0``.
    """

    def __init__(self, view: RankView, records: Table) -> None:
        self._first, self._last = view.passes()
        self._has_apis = view.overview.has_apis
        self._records = records
        self._names = Names(records, view)
        self._inner: set[str] = set()
        self._paths = _Paths()
        self._losses: set[str] = set()
        self._tops: set[int] = set()
        self._previous: Record | None = None
        self._top: int | None = None
        self._resumed: int | None = None
        self._expected = 0
        self._has_slices = False
        self._has_modules = False
        """A module that returned is recorded."""
        self._was_told: bool | None = None
        """construct.json told callers, of what was looked at before."""

    def grown(
        self, new: Sequence[Record], parents: Mapping[str, str | None], final: Record | None = None
    ) -> Structure | None:
        """The structure with some more records, which are in the table already.

        ``final`` is the last record of a file that is whole. None: what told the nesting so far does not tell it any
        more, or the other way round; all has to be looked at again.
        """
        is_told = any(parents.values())
        if self._was_told is not None and is_told != self._was_told:
            return None
        self._was_told = is_told
        usable = parents if is_told else self._paths.grown(new)
        if is_told:
            callers = (usable.get(record.name.full) for record in new)
            self._inner.update(caller for caller in callers if caller)
        else:
            self._inner.update(caller for caller in usable.values() if caller)
        for record in new:
            self._follow(record, usable)
        return Structure(
            usable,
            self._names,
            self._inner,
            self._first,
            self._last,
            self._losses,
            self._all_tops(),
            self._has_apis,
            self._resumed,
            _unfinished(usable, self._names, final, has_modules=self._has_modules) if is_told else None,
            not is_told,
            self._has_slices,
            parents,
        )

    def _follow(self, record: Record, usable: Mapping[str, str | None]) -> None:
        name = record.name
        kind, direction = name.kind, name.direction
        if record.index != self._expected:
            self._previous = self._top = None  # what stands in a gap may have come between
        self._expected = record.index + 1
        if not self._has_slices and name.api == "__getitem__":
            self._has_slices = True
        if kind is RecordKind.MODULE and record.has_output:
            self._has_modules = True
        if kind is RecordKind.PARAMETERS_GRAD:
            return  # its place is not its time in 1.2 to 8.3 (dump format, section 8)
        if is_communication(record):
            return  # recorded as forward in backward too: what follows it there is no new beginning
        is_behind = self._last is not None and record.index > self._last
        if is_behind and self._resumed is None and _is_forward_pass(record, usable):
            self._resumed = record.index
        if self._is_code_in_backward(record):
            return
        if direction is Direction.BACKWARD:
            previous = self._previous
            begins = previous is not None and previous.name.direction is Direction.FORWARD
            scalar = kind is RecordKind.API and bool(record.inputs) and all(t.shape == () for t in record.inputs)
            if begins or scalar:  # a scalar with a gradient is a part of the loss, of any micro-batch
                self._losses.add(name.full.replace(".backward", ".forward"))
            if begins and self._top is not None:
                self._tops.add(self._top)
                self._top = None
        elif kind is RecordKind.MODULE and not usable.get(name.full):
            self._top = record.index
        self._previous = record

    def _is_code_in_backward(self, record: Record) -> bool:
        """code_in_backward_begins_no_pass"""
        is_behind = self._first is not None and record.index > self._first
        is_call = record.name.kind is RecordKind.API and record.name.direction is Direction.FORWARD
        return is_behind and is_call and bool(record.outputs) and all(t.requires_grad is False for t in record.outputs)

    def _all_tops(self) -> frozenset[int]:
        """Those that are known, and the last ones where no backward pass follows."""
        tops = set(self._tops)
        is_last_pass = self._last is None or (
            self._resumed is not None and self._top is not None and self._top >= self._resumed
        )
        if self._top is not None and is_last_pass and self._records.has_end:
            tops.add(self._top)
        if not tops and self._last is None and self._records:
            tops.add(len(self._records) - 1)
        return frozenset(tops)


def _is_forward_pass(record: Record, parents: Mapping[str, str | None]) -> bool:
    """a_pass_that_died_is_no_update: an operator directly inside a module, with a result that needs a gradient."""
    caller = parents.get(record.name.full) or ""
    is_inside = record.name.kind is RecordKind.API and caller.startswith(("Module.", "Cell."))
    return is_inside and any(tensor.requires_grad for tensor in record.outputs)


def just_entered(records: Table, end: int) -> frozenset[int]:
    """Modules at the end of the file that never returned.

    construct.json lists a module with the first record that ends after it was entered (dump format, section 10): of
    those that a dying run entered last there may be no such record.
    """
    found: set[int] = set()
    for index in range(end - 1, -1, -1):
        record = records.get(index)
        if record is None or record.name.kind is not RecordKind.MODULE or record.has_output:
            break
        found.add(index)
    return frozenset(found)


def with_entered(
    parents: Mapping[str, str | None], records: Table, entered: Collection[int]
) -> Mapping[str, str | None]:
    """The callers of records, with those of modules that construct.json may not list: each stands inside the one that
    was entered before it, the first inside the nearest unfinished module whose path is a part of its own."""
    unlisted = [records[index] for index in sorted(entered) if records[index].name.full not in parents]
    if not parents or not unlisted:
        return parents
    around = [r for r in records if r.name.kind is RecordKind.MODULE and not r.has_output and r not in unlisted]
    found = dict(parents)
    for record in unlisted:
        inside = (r for r in reversed(around) if record.name.path.startswith(f"{r.name.path}."))
        found[record.name.full] = next((r.name.full for r in inside), None)
        around.append(record)
    return found


def _unrecorded(parents: Mapping[str, str | None], by_name: Mapping[str, Record]) -> dict[str | None, frozenset[str]]:
    """Caller -> operators that it calls and that have no record.

    Told without a search of the file: no call of the operator is known, or this call's number lies between those of
    two that are.
    """
    known: dict[str, list[int]] = {}
    for name in by_name:
        stem, number = _call(name)
        if number is not None:
            known.setdefault(stem, []).append(number)
    spans = {stem: (min(numbers), max(numbers), frozenset(numbers)) for stem, numbers in known.items()}
    found: dict[str | None, set[str]] = {}
    for name, parent in parents.items():
        stem, number = _call(name)
        if number is None:
            continue
        low, high, numbers = spans.get(stem, (number, number, frozenset()))
        if low <= number <= high and number not in numbers:
            api = stem.rsplit(".", 1)[-1]
            api = api if api.endswith("__") else api.rstrip("_") or api
            found.setdefault(parent, set()).add(api)
    return {parent: frozenset(apis) for parent, apis in found.items()}


def _call(name: str) -> tuple[str, int | None]:
    """Operator and number of a forward call of an operator; no number for other records."""
    stem, _, direction = name.rpartition(".")
    stem, _, number = stem.rpartition(".")
    is_call = direction == "forward" and number.isdigit() and not name.startswith(("Module.", "Cell."))
    return stem, int(number) if is_call else None


def _unfinished(
    parents: Mapping[str, str | None], by_name: Mapping[str, Record], final: Record | None, *, has_modules: bool
) -> str | None:
    """Where the run ended, when it ended inside something: a record that has no output, or a module around the last
    forward record that has none or is not there, while other modules are recorded (``has_modules``)."""
    if final is None or final.name.direction is Direction.BACKWARD:
        return None
    if not final.has_output:
        return final.name.full
    seen, name = {final.name.full}, parents.get(final.name.full)
    while name and name not in seen and len(seen) < MAX_DEPTH:
        if name.split(".", 1)[0] in ("Module", "Cell"):
            module = by_name.get(name)
            if module is None and has_modules:
                return name
            if module is not None and not module.has_output:
                return name
        seen.add(name)
        name = parents.get(name)
    return None


class _Paths:
    """Module nesting by path, for dumps without construct.json: a module's record stands after its
    children's, so each open child is closed by the next record whose path is a prefix of its own."""

    def __init__(self) -> None:
        self._parents: dict[str, str | None] = {}
        self._open: list[Record] = []

    def grown(self, records: Iterable[Record]) -> Mapping[str, str | None]:
        """The nesting, with some more records."""
        waiting = self._open
        for record in records:
            name = record.name
            if name.kind is not RecordKind.MODULE or name.direction is not Direction.FORWARD:
                continue
            inside = name.path + "."
            while waiting and waiting[-1].name.path.startswith(inside):
                self._parents[waiting.pop().name.full] = name.full
            waiting.append(record)
            if len(waiting) > MAX_DEPTH:
                del waiting[:-MAX_DEPTH]
        return self._parents
