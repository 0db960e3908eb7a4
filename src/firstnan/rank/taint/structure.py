"""Where a record stands: the modules around it, the passes of the step, the loss."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
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
    inner: frozenset[str]
    """Names of module records that have a record of their own inside."""
    first_backward: int | None
    last_backward: int | None
    losses: frozenset[str]
    """Forward records from whose output a backward pass starts."""
    tops: frozenset[int]
    """Indices of forward records that give the result of a pass: the last outermost module before
    backward begins, before a new pass, or at the end."""
    has_apis: bool
    """False for level L0: modules are the operators."""
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
    _left_out_around: dict[tuple[str, ...], frozenset[str]] = field(default_factory=dict, compare=False, repr=False)
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
        chain = self.ancestors(name)
        known = self._left_out_around.get(chain)
        if known is None:
            known = frozenset().union(*(self._left_out_of(module) for module in (*chain, None)))
            self._left_out_around[chain] = known
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
        return self.last_backward is not None and index > self.last_backward

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
        return self.by_name.get(record.name.full.replace(".backward", ".forward"))


def build(records: Table, parents: Mapping[str, str | None], view: RankView, final: Record | None = None) -> Structure:
    """Structure of one rank from those of its records that are looked at and construct.json's parents.

    ``final`` is the last record of a file that is whole.

    Without construct.json, nesting of modules is taken from their paths: ``layers.0.attn`` is inside
    ``layers.0``.
    """
    by_name = Names(records, view)
    looked_at = frozenset(by_name)
    usable = parents if any(parents.values()) else _parents_from_paths(records)
    inner = {p for name, p in usable.items() if p and name in looked_at}
    first, last = view.passes()
    losses: set[str] = set()
    tops: set[int] = set()
    previous: Record | None = None
    top: int | None = None
    expected = 0
    for record in records:
        kind, direction = record.name.kind, record.name.direction
        if record.index != expected:
            previous = top = None  # what stands in a gap may have come between
        expected = record.index + 1
        if kind is RecordKind.PARAMETERS_GRAD:
            continue  # its place is not its time in 1.2 to 8.3 (dump format, section 8)
        if is_communication(record):
            continue  # recorded as forward in backward too: what follows it there is no new beginning
        if direction is Direction.BACKWARD:
            begins = previous is not None and previous.name.direction is Direction.FORWARD
            scalar = kind is RecordKind.API and bool(record.inputs) and all(t.shape == () for t in record.inputs)
            if begins or scalar:  # a scalar with a gradient is a part of the loss, of any micro-batch
                losses.add(record.name.full.replace(".backward", ".forward"))
            if begins and top is not None:
                tops.add(top)
                top = None
        elif kind is RecordKind.MODULE and not usable.get(record.name.full):
            top = record.index
        previous = record
    if top is not None and last is None and records.has_end:
        tops.add(top)
    if not tops and last is None and records:
        tops.add(len(records) - 1)
    inferred = usable is not parents
    has_apis = view.overview.has_apis
    return Structure(
        usable,
        by_name,
        frozenset(inner),
        first,
        last,
        frozenset(losses),
        frozenset(tops),
        has_apis,
        None if inferred else _unfinished(usable, by_name, final),
        inferred,
        any(".__getitem__." in name for name in looked_at),
        parents,
    )


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


def _unfinished(parents: Mapping[str, str | None], by_name: Mapping[str, Record], final: Record | None) -> str | None:
    """Where the run ended, when it ended inside something: a record that has no output, or a module around the last
    forward record that has none or is not there, while other modules are recorded."""
    if final is None or final.name.direction is Direction.BACKWARD:
        return None
    if not final.has_output:
        return final.name.full
    has_modules = any(r.name.kind is RecordKind.MODULE and r.has_output for r in by_name.values())
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


def _parents_from_paths(records: Iterable[Record]) -> dict[str, str | None]:
    """Module nesting by path, for dumps without construct.json: a module's record stands after its
    children's, so each open child is closed by the next record whose path is a prefix of its own."""
    parents: dict[str, str | None] = {}
    open_children: list[Record] = []
    for record in records:
        name = record.name
        if name.kind is not RecordKind.MODULE or name.direction is not Direction.FORWARD:
            continue
        inside = name.path + "."
        while open_children and open_children[-1].name.path.startswith(inside):
            parents[open_children.pop().name.full] = name.full
        open_children.append(record)
        if len(open_children) > MAX_DEPTH:
            open_children = open_children[-MAX_DEPTH:]
    return parents
