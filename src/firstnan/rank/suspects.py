"""Where in a rank's records anything that matters can begin.

A record is a *suspect* when it holds a bad value that is not legal so far: before the first suspect nothing but
legal -Inf and memory that nobody filled was seen, so that nothing before it can be an event. Suspecting too much costs
time; suspecting too little would cost the answer. Both readers ask the same questions in the same order, so that they
agree on the first suspect and on what was left out as harmless.

Rules, each tested under its name:

``legal_minus_inf_is_no_suspect``
    A -Inf beside a finite Max in a forward record: written by a mask-like operator, passed on, or from outside.
``nothing_but_minus_inf``
    A tensor of nothing but -Inf is legal where a mask-like operator wrote it, and nowhere else.
``minus_inf_from_nowhere``
    An output with -Inf, no -Inf among the inputs, no -Inf constant, and no rule for the operator: log(0).
``gradient_of_a_parameter_comes_last``
    Its place is not its time in 1.2 to 8.3 (dump format, section 8): it counts when nothing else is suspected.
``unfilled_memory_is_no_suspect``
    What an initialiser returns, and a view of a buffer that nothing filled; who reads it is one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from firstnan.answer.accounts import Fate
from firstnan.dump.records import Direction, Record, RecordKind, RecordName, TensorStat
from firstnan.dump.values import Number, ValueState, limits
from firstnan.dump.view import MaskRole
from firstnan.operators.bounds import result_bound
from firstnan.operators.communication import COMMUNICATION_PREFIXES, calls
from firstnan.operators.table import UNMASKED, Computes, OperatorKind, Rulebook, short_api
from firstnan.rank.taint.legality import (
    INHERITED,
    fate_of_passed,
    is_mask_sum,
    is_parameter,
    read_tensors,
    sums_up,
    written_tensors,
)

MAX_GARBAGE = 256
"""Records with unfilled memory that are kept, the latest ones."""
MAX_MASKS = 4096
"""Largest elements of legal masks that are remembered, the latest ones."""

FROM_OUTSIDE = "mask_from_outside"

_NEG_INF = ValueState.NEG_INF
_FINE = (ValueState.FINITE, ValueState.UNKNOWN, ValueState.EMPTY)


class Lookout:
    """Implements :class:`firstnan.dump.view.Watch` for one rank; keeps what was harmless before the first suspect."""

    def __init__(self, book: Rulebook, rank: int, excluded: frozenset[str] = frozenset()) -> None:
        self.book = book
        self.rank = rank
        self.excluded = excluded
        self.benign: dict[str, tuple[int, str]] = {}
        """rule -> (records, first example); up to the first suspect."""
        self.passed = 0
        """Non-finite tensors in these records."""
        self.fates: dict[tuple[Fate, str], tuple[int, str]] = {}
        """Why they do not matter, and the rule -> (tensors, first example)."""
        self.garbage: deque[Record] = deque(maxlen=MAX_GARBAGE)
        """Records whose output is memory that nothing filled."""
        self.lost_memory = False
        """More of these were seen than are kept."""
        self.late: int | None = None
        self.counting = True
        self._whole: set[int | None] = set()
        """Sizes of legal tensors of nothing but -Inf."""
        self._masks: dict[float, None] = {}
        """Largest elements of the latest legal outputs with -Inf."""
        self._wrote = False
        self._rules: dict[str, str] = {}
        """Name of a record of an operator -> rule under which its records write -Inf."""

    # -- Watch -----------------------------------------------------------------------------------------

    def is_suspect(self, record: Record) -> bool:
        for tensors in (record.inputs, record.outputs, record.parameters):
            for tensor in tensors:
                state = tensor.state
                if state is not _FINE[0] and state is not _FINE[1] and state is not _FINE[2]:
                    if self._is_suspect(record):
                        return True
                    self._account(record)
                    return False
        self._account(record)
        return False

    def is_saturated(self, record: Record) -> bool:
        """Hardware that clamps instead of overflowing leaves the largest finite value where Inf would stand."""
        return self.may_saturate(record.name) and saturated(record, self.book) is not None

    def may_saturate(self, name: RecordName) -> bool:
        return name.direction is Direction.FORWARD and self.book.computes(short_api(name), Computes.PRODUCT)

    def mask_role(self, name: RecordName) -> MaskRole:
        book = self.book
        if name.kind is not RecordKind.API or name.direction is Direction.BACKWARD:
            return MaskRole.OPEN
        if book.is_(name, OperatorKind.IGNORED):
            return MaskRole.IGNORES
        if book.computes(short_api(name), *UNMASKED, Computes.NORM):
            return MaskRole.OPEN
        if name.prefix in COMMUNICATION_PREFIXES or book.is_(name, OperatorKind.INITIALISER):
            return MaskRole.OPEN
        if book.is_(name, OperatorKind.OBSERVER):
            return MaskRole.IGNORES
        if book.is_(name, OperatorKind.BUFFER_VIEW):
            return MaskRole.OPEN
        return MaskRole.WRITES if book.is_(name, OperatorKind.MASK) else MaskRole.PASSES

    def wrote_mask(self, operator: RecordName, full: str, largest: Sequence[float], count: int) -> None:
        rule = self._rules.get(operator.full)
        if rule is None:
            found = self.book.find(operator, OperatorKind.MASK)
            rule = self._rules[operator.full] = found.name if found else INHERITED
        self._written(rule, full)
        self._settle(Fate.RULE, rule, full, count)
        for value in largest:
            self._remember(value)

    def knows_mask(self, largest: Number | None) -> bool:
        """Whether a legal -Inf was written beside this largest element."""
        return largest in self._masks

    def read_mask(self, full: str, count: int) -> None:
        self._settle(Fate.RULE, INHERITED if self._wrote else FROM_OUTSIDE, full, count)
        self._read(full)

    def ignored_mask(self, operator: RecordName, full: str, count: int) -> None:
        rule = self.book.find(operator, OperatorKind.IGNORED)
        self._settle(Fate.RULE if rule else Fate.LOOKED_AT, rule.name if rule else "", full, count)

    def _read(self, full: str) -> None:
        if not self._wrote:
            self._count(FROM_OUTSIDE, full)

    # -- what becomes of values that are no suspects -----------------------------------------------------

    def _account(self, record: Record) -> None:
        """The account of a record that is none."""
        bad = [tensor for tensor in record.tensors if tensor.is_recorded_bad] if self.counting else []
        if bad:
            fate, rule = fate_of_passed(record, bad, self.book, self.excluded)
            self._settle(fate, rule, record.name.full, len(bad))

    def _settle(self, fate: Fate, rule: str, full: str, count: int) -> None:
        if self.counting:
            self.passed += count
            known, example = self.fates.get((fate, rule), (0, full))
            self.fates[fate, rule] = (known + count, example)

    # -- one record with a bad value ---------------------------------------------------------------------

    def _is_suspect(self, record: Record) -> bool:
        name = record.name
        if self.book.is_(name, OperatorKind.IGNORED):
            return False
        if name.kind is RecordKind.PARAMETERS_GRAD:
            if self.late is None and name.full not in self.excluded:
                self.late = record.index
            return False
        rule = self.book.find(name, OperatorKind.INITIALISER)
        if rule is not None:
            self._count(rule.name, name.full)
            self._initialised(record)
            return False
        if self.book.is_(name, OperatorKind.OBSERVER):
            return False
        communication = calls(record, self.rank)
        taken, given = read_tensors(record, communication), written_tensors(record, communication)
        summed = sums_up(communication)
        illegal_in = any(_is_bad(t) and (summed or not self._legal_input(record, t)) for t in taken)
        if illegal_in and self.book.is_(name, OperatorKind.BUFFER_VIEW):
            self._keep(record)
            return False
        if illegal_in or any(_is_bad(t) and self._legal_output(record, t, taken) is None for t in given):
            return name.full not in self.excluded
        self._passed(record, taken, given)
        return False

    def _keep(self, record: Record) -> None:
        self.lost_memory = self.lost_memory or len(self.garbage) == MAX_GARBAGE
        self.garbage.append(record)

    def _initialised(self, record: Record) -> None:
        for tensor in record.outputs:
            if tensor.state is _NEG_INF and record.name.direction is Direction.FORWARD:
                self._remember(tensor.max, tensor.numel)
        if any(_is_bad(t) and t.state is not _NEG_INF for t in record.outputs):
            self._keep(record)

    def _passed(self, record: Record, taken: Sequence[TensorStat], given: Sequence[TensorStat]) -> None:
        written = [t for t in given if t.state is _NEG_INF]
        if written:
            self._written(self._legal_output(record, written[0], taken) or INHERITED, record.name.full)
        elif any(t.state is _NEG_INF for t in taken):
            self._read(record.name.full)
        for tensor in written:
            self._remember(tensor.max, tensor.numel)

    def _written(self, rule: str, full: str) -> None:
        self._count(FROM_OUTSIDE if rule == INHERITED and not self._wrote else rule, full)

    def _legal_input(self, record: Record, tensor: TensorStat) -> bool:
        if record.name.direction is Direction.BACKWARD or tensor.state is not _NEG_INF:
            return False
        api = short_api(record.name)
        if self.book.computes(api, *UNMASKED, Computes.NORM) or is_parameter(tensor):
            return False
        if tensor.requires_grad and not self.knows_mask(tensor.max):
            return False
        return tensor.max != -math.inf or tensor.numel in self._whole

    def _legal_output(self, record: Record, tensor: TensorStat, inputs: Sequence[TensorStat]) -> str | None:
        """The rule under which a -Inf output is legal."""
        if record.name.direction is Direction.BACKWARD or tensor.state is not _NEG_INF:
            return None
        rule = self.book.find(record.name, OperatorKind.MASK)
        if rule is not None:
            return rule.name
        if any(t.state is _NEG_INF for t in inputs):
            summed = tensor.max == -math.inf and self.book.is_plain_sum(short_api(record.name))
            return None if summed else INHERITED
        if any(s.value == -math.inf for s in record.scalars if isinstance(s.value, float)):
            return "minus_inf_constant"
        if is_mask_sum(record, inputs):
            return "mask_sum"
        if record.name.kind is RecordKind.MODULE and tensor.max in self._masks:
            return INHERITED
        return None

    def _remember(self, largest: float | None, numel: int | None = None) -> None:
        self._wrote = True
        if largest == -math.inf:
            self._whole.add(numel)
        elif largest is not None:
            self._masks.pop(largest, None)
            self._masks[largest] = None
            if len(self._masks) > MAX_MASKS:
                del self._masks[next(iter(self._masks))]

    def _count(self, rule: str, full: str) -> None:
        if self.counting:
            count, example = self.benign.get(rule, (0, full))
            self.benign[rule] = (count + 1, example)


def _is_bad(tensor: TensorStat) -> bool:
    return tensor.state.is_bad


def saturated(record: Record, book: Rulebook) -> TensorStat | None:
    """The float16 result that stands at 65504 although the bound of the arithmetic is beyond it."""
    for tensor in record.outputs:
        limit = limits(tensor.dtype)
        if limit is None or limit.name != "float16" or limit.largest not in (tensor.max, -(tensor.min or 0)):
            continue
        bound = result_bound(record, book)
        if bound is not None and bound > limit.largest:
            return tensor
    return None
