"""Records that only look at values: they drop nothing, and nothing is computed from what they give.

Rules, each tested under its name:

``a_selection_for_the_eye``
    A selection without gradient whose results only checks read (comparisons, isfinite) is a look: this is how a tensor
    is printed, in the message of the exception that ends a run too. Its finite elements are picked out, their
    smallest and largest are compared with constants, and that is all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from firstnan.dump.records import Direction, Record, RecordKind, TensorStat
from firstnan.dump.values import ValueState
from firstnan.operators.table import OperatorKind, Rulebook
from firstnan.rank.taint.links import same_values
from firstnan.rank.taint.record_table import Table

_CHOICES = (OperatorKind.CARRIER, OperatorKind.SELECTOR)
CHOOSING = 8
"""Records between a view for a selection and the selection itself."""
LONGEST = 256
"""Most records behind a selection that are looked at; so many that read only its elements are a print of whole
numbers, which looks at each."""


@dataclass
class Looks:
    """Finds looks, and remembers all records that belong to one."""

    records: Table
    book: Rulebook
    indices: set[int] = field(default_factory=set)
    """Records of which the whole life is known: a selection for the eye, and what was computed for it."""

    def is_one(self, record: Record) -> bool:
        """a_selection_for_the_eye"""
        if record.index in self.indices:
            return True
        is_call = record.name.kind is RecordKind.API and record.name.direction is Direction.FORWARD
        if not is_call or not record.outputs:
            return False
        if self.book.is_(record.name, OperatorKind.CARRIER):
            return self._is_made_flat(record)
        if not self.book.is_(record.name, OperatorKind.SELECTOR):
            return False
        if any(t.requires_grad or t.state.is_bad for t in record.outputs):
            return False
        chain = self._chain(record)
        if chain:
            self.indices |= chain | self._choosing(record)
        return bool(chain)

    def _is_made_flat(self, view: Record) -> bool:
        """A view that only a selection for the eye reads, and the checks before it that choose."""
        for index in range(view.index + 1, view.index + 1 + CHOOSING):
            later = self.records.get(index)
            if later is None:
                return False
            if passes_truth(later) or self.book.is_(later.name, OperatorKind.OBSERVER):
                continue
            numbers = [tensor for tensor in later.inputs if tensor.is_floating]
            same = any(n.shape == t.shape and same_values(n, t) for n in numbers for t in view.outputs)
            if not same or self.book.is_(later.name, OperatorKind.CARRIER) or not self.is_one(later):
                return False
            self.indices.add(view.index)
            return True
        return False

    def _choosing(self, record: Record) -> set[int]:
        """What told right before a selection which elements to take: so many checks as there are truth values to join.

        They belong to the look: what a run ended because of is a check before it.
        """
        found: set[int] = set()
        missing = 1
        for index in range(record.index - 1, -1, -1):
            earlier = self.records.get(index)
            if earlier is None or not missing:
                break
            if passes_truth(earlier):
                missing += len(earlier.inputs) - 1
            elif self.book.is_(earlier.name, OperatorKind.OBSERVER):
                missing -= 1
            else:
                break
            found.add(index)
        return found

    def _chain(self, record: Record) -> set[int]:
        """The selection and all that reads its results, directly or not; empty where somebody else uses them."""
        given = [(tensor, record.index) for tensor in record.outputs if _has_numbers(tensor)]
        read: set[int] = set()
        chain = {record.index}
        for index in range(record.index + 1, record.index + 1 + LONGEST):
            later = self.records.get(index)
            if later is None and index < len(self.records):
                return set()  # what was not looked at may use them
            if later is None or not _may_belong(later):
                break
            sources = {at for tensor, at in given if any(_is_of(t, tensor) for t in later.inputs)}
            observes = self.book.is_(later.name, OperatorKind.OBSERVER)
            if not sources and not passes_truth(later):
                break
            if any(tensor.requires_grad for tensor in later.outputs):
                return set()
            chain.add(index)
            results = [tensor for tensor in later.outputs if _has_numbers(tensor)]
            if any(self.book.is_(later.name, kind) for kind in _CHOICES):  # some of them may be read, and others not
                given += [(tensor, at) for tensor in results for at in sources]
                continue
            read |= sources
            if not observes:
                given += [(tensor, index) for tensor in results]
        used = {at for _, at in given}
        if len(chain) > LONGEST:
            return chain
        return chain if used == read and (used or _is_empty(record)) else set()


def _may_belong(record: Record) -> bool:
    """A call of forward on finite values: gradients may hold the same numbers by chance."""
    is_call = record.name.kind is RecordKind.API and record.name.direction is Direction.FORWARD
    return is_call and not any(tensor.state.is_bad for tensor in record.tensors)


def passes_truth(record: Record) -> bool:
    """It only passes on what checks found (``any``, ``item``, ``a & b``)."""
    return bool(record.inputs) and all(tensor.dtype == "bool" for tensor in record.tensors)


def _has_numbers(tensor: TensorStat) -> bool:
    return tensor.is_floating and tensor.state is ValueState.FINITE and tensor.max is not None


def _is_of(tensor: TensorStat, given: TensorStat) -> bool:
    """A tensor with the numbers of another one, or one element of it."""
    if not _has_numbers(tensor):
        return False
    if tensor.numel == given.numel:
        return (tensor.max, tensor.min) == (given.max, given.min)
    high, low, value = given.max, given.min, tensor.max
    return tensor.numel == 1 and None not in (high, low, value) and low <= value <= high  # type: ignore[operator]


def _is_empty(record: Record) -> bool:
    """Nothing was selected: there is nothing that anybody could use."""
    return all(tensor.state is ValueState.EMPTY for tensor in record.outputs)
