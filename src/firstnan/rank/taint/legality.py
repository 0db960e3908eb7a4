"""Which non-finite values are legal: pure functions, each saying what it removes and why.

=====================  ====================================================================================
function               removes
=====================  ====================================================================================
:func:`read_tensors`   receive buffers, `out=` buffers and the inputs of initialisers: content before the call
:class:`Legality`      -Inf that masks wrote or that came from outside in mask form, and what inherits it
=====================  ====================================================================================

Rules, each tested under its name:

``a_buffer_of_minus_inf_is_filled``
    A tensor of nothing but -Inf, which needs no gradient and into which a record writes: the scores of all tokens but
    some, in generation. The ``full`` that made it leaves no record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from msgspec import Struct, field

from firstnan.answer.accounts import Fate
from firstnan.dump.records import Direction, Record, RecordKind, TensorStat
from firstnan.dump.values import ValueState, limits
from firstnan.operators.communication import CommCall, Freshness
from firstnan.operators.table import ABSORBS, UNMASKED, OperatorKind, Rulebook, short_api

MAX_ILLEGAL = 32
"""Illegal -Inf tensors that are remembered for recognising them after a cast."""
PARTIAL_OVERWRITES = ("__setitem__", "index_put", "masked_scatter")
"""Operators that write into chosen places of their first argument."""
INHERITED = "inherited_minus_inf"
"""The rule of a -Inf that is passed on."""
IMPOSSIBLE = "holds_no_such_value"
"""The rule of what was recorded of integers and of tensors without elements."""
BUFFER_ARGUMENT = "input_kwargs.out"


def read_tensors(record: Record, calls: Sequence[CommCall]) -> tuple[TensorStat, ...]:
    """The tensors a record really takes in.

    Communication: what this rank sends. Otherwise all inputs and parameters except an ``out=`` buffer,
    whose old content nobody reads.
    """
    if calls:
        return tuple(t for call in calls for t in call.sent)
    kept = tuple(t for t in record.inputs if not f"{t.slot}.".startswith(f"{BUFFER_ARGUMENT}."))
    return kept + record.parameters


def written_tensors(record: Record, calls: Sequence[CommCall]) -> tuple[TensorStat, ...]:
    """The tensors a record really gives: results of communication, or all outputs."""
    if calls:
        return tuple(t for call in calls if call.freshness is not Freshness.WORTHLESS for t in call.received)
    return record.outputs


FILLERS = frozenset(
    ["full", "full_like", "new_full", "fill", "masked_fill", "masked_fill_", "index_fill", "__setitem__", "where"]
)
"""Operators that write a chosen constant."""


def _nothing(_: Record) -> Collection[str]:
    return ()


def _is_absorbed(record: Record, book: Rulebook) -> bool:
    """A maximum or an exponential whose result is finite: what a running maximum that starts at -Inf is for."""
    if not book.computes(short_api(record.name), *ABSORBS) or not record.has_output:
        return False
    given = [tensor for tensor in record.outputs if tensor.is_floating]
    return bool(given) and all(tensor.state is ValueState.FINITE for tensor in given)


def _is_filled_buffer(record: Record, tensor: TensorStat) -> bool:
    """a_buffer_of_minus_inf_is_filled."""
    is_target = tensor is record.inputs[0] and short_api(record.name) in PARTIAL_OVERWRITES and not record.outputs
    return is_target and tensor.max == -math.inf and not tensor.requires_grad


def _never(*_: object) -> bool:
    return False


class Legality(Struct):
    """Decides which -Inf are legal, record by record in execution order.

    -Inf is legal by inheritance: written by a mask-like operator, given as a constant, or come from
    outside the dump with evidence (:meth:`_from_outside`), and passed on by any operator that turns it into
    nothing worse. log(0) and -Inf in gradients are not legal.

    Example: ``masked_fill -> add -> amax`` stays legal; the ``softmax`` that makes NaN of it is a birth.
    """

    book: Rulebook
    suppressed: dict[str, tuple[int, str]] = field(default_factory=dict)
    """rule name -> (count, first example)"""
    count_from: int = 0
    """Records before this index were counted by whoever read them."""
    is_gradient: Callable[[Record], bool] = field(default=_never)
    """Whether a forward record computes with gradients or optimizer state: no mask is ever among these."""
    is_leaf: Callable[[Record, TensorStat], bool] = field(default=_never)
    """Whether a tensor is a weight, as far as its place tells: no mask either."""
    left_out_around: Callable[[Record], Collection[str]] = field(default=_nothing)
    """Operators that the modules around a record call without a record."""
    follows_illegal: Callable[[Record, TensorStat], bool] = field(default=_never)
    """Whether a -Inf that is not legal and that nothing has read can have become a tensor that a record reads."""
    masks: Collection[int] = ()
    """Indices of receives that brought -Inf which is a mask where it was made."""
    forgot: bool = False
    """There are more than MAX_ILLEGAL."""
    _known: dict[tuple[object, ...], bool] = field(default_factory=dict)
    _illegal: list[TensorStat] = field(default_factory=list)

    def legal_input(self, record: Record, tensor: TensorStat, *, count: bool = True) -> bool:
        """A -Inf input is legal when its writer's was, or when it has mask form, no writer, and an operator that
        reads masks: one that comes from nowhere into a normalisation or a linear layer is an activation gone bad, and
        one behind a -Inf that is not legal may be that one, joined with others by an operator without a record."""
        if tensor.state not in (ValueState.NEG_INF, ValueState.NON_FINITE):
            return False
        if record.name.direction is Direction.BACKWARD or is_parameter(tensor) or self.is_gradient(record):
            return False
        known = self._known.get(_key(tensor))
        if known is None and any(_rounded(tensor, one) for one in self._illegal):
            known = False
        if tensor.state is ValueState.NON_FINITE:
            return bool(known)
        if tensor.state is not ValueState.NEG_INF:
            return False
        if known is None:
            if self.follows_illegal(record, tensor):
                self._known[_key(tensor)] = False
                return False
            known = not self.is_leaf(record, tensor) and self._from_outside(record, tensor)
            if known and count:
                self._count("mask_from_outside", record)
                if tensor.max == -math.inf:
                    self._known[_key(tensor)] = True
        return known

    def _from_outside(self, record: Record, tensor: TensorStat) -> bool:
        """Whether a -Inf that no record wrote is a mask: an operator without a record may have filled it in, its reader
        absorbs it, or it stands beside finite elements in an operator that reads masks."""
        api = short_api(record.name)
        if self.book.computes(api, *UNMASKED):
            return False
        if not FILLERS.isdisjoint(self.left_out_around(record)) or _is_absorbed(record, self.book):
            return True
        if _is_filled_buffer(record, tensor):
            return True
        return tensor.max != -math.inf and not self.book.is_mask_free(api)

    def legal_output(self, record: Record, tensor: TensorStat, inputs: Sequence[TensorStat]) -> bool:
        """Whether a -Inf output is legal; remembers the answer for its readers."""
        if tensor.state is ValueState.NON_FINITE:
            legal = self.book.is_(record.name, OperatorKind.MASK)
            self._known[_key(tensor)] = legal
            if legal:
                self._count("legal_minus_inf", record)
            return legal
        if tensor.state is not ValueState.NEG_INF or record.name.direction is Direction.BACKWARD:
            return False
        legal = not self.is_gradient(record) and self._judge(record, tensor, inputs)
        self._known[_key(tensor)] = legal
        if not legal and len(self._illegal) < MAX_ILLEGAL:
            self._illegal.append(tensor)
        elif not legal:
            self.forgot = True
        return legal

    def _judge(self, record: Record, tensor: TensorStat, inputs: Sequence[TensorStat]) -> bool:
        if record.index in self.masks:
            self._count("mask_from_outside", record)
            return True
        constant = any(s.value == -math.inf for s in record.scalars if isinstance(s.value, float))
        negative = [t for t in inputs if t.state is ValueState.NEG_INF]
        legal = [self.legal_input(record, t) for t in negative]
        rule = self.book.find(record.name, OperatorKind.MASK)
        if rule is not None and (constant or not all(self._is_known_illegal(t) for t in negative) or not negative):
            self._count(rule.name, record)
            return True
        rule = self.book.find(record.name, OperatorKind.INITIALISER)
        if rule is not None:
            self._count(rule.name, record)
            return True
        if constant:
            self._count("minus_inf_constant", record)
            return True
        if is_mask_sum(record, inputs):
            self._count("mask_sum", record)
            return True
        if tensor.max == -math.inf and self.book.is_plain_sum(short_api(record.name)):
            return False  # a sum or mean over masked elements: the mask got where it does not belong
        if negative:
            is_passed_on = all(legal) and not _is_spoilt(tensor, inputs, negative)
            if is_passed_on:
                self._count(INHERITED, record)
            return is_passed_on
        if record.name.kind is RecordKind.MODULE:
            return self._known.get(_key(tensor), False)
        return False

    def _is_known_illegal(self, tensor: TensorStat) -> bool:
        """Written by a record whose -Inf is not legal, log(0) say; a mask-like operator only passes it on."""
        return self._known.get(_key(tensor)) is False or any(_rounded(tensor, one) for one in self._illegal)

    def filled(self, record: Record) -> None:
        """A -Inf that a record without an output writes into its first argument (``x[mask] = -inf``)."""
        target = record.inputs[0] if record.inputs else None
        written = any(s.value == -math.inf for s in record.scalars if isinstance(s.value, float))
        if written and target is not None and target.state is ValueState.FINITE:
            self._known[target.numel, target.max] = True
            self._known[target.numel, -math.inf] = True

    def mirrored(self, tensor: TensorStat) -> None:
        """A +Inf that is not legal: its negation, should an undumped operator make it, is not legal either."""
        if tensor.state is ValueState.POS_INF and tensor.min is not None:
            self._known[tensor.numel, -tensor.min] = False

    def initialised(self, record: Record) -> None:
        """Counts an initialiser whose output was not looked at."""
        rule = self.book.find(record.name, OperatorKind.INITIALISER)
        if rule is not None:
            self._count(rule.name, record)

    def _count(self, rule: str, record: Record) -> None:
        if record.index < self.count_from:
            return
        count, example = self.suppressed.get(rule, (0, record.name.full))
        self.suppressed[rule] = (count + 1, example)


def is_parameter(tensor: TensorStat) -> bool:
    """One of a module's own parameters."""
    return tensor.slot.startswith("parameters.")


def fate_of_passed(
    record: Record, tensors: Sequence[TensorStat], book: Rulebook, excluded: Collection[str] = ()
) -> tuple[Fate, str]:
    """Why some non-finite values of a record are not suspected, and the rule that says so."""
    name = record.name
    if name.full in excluded:
        return Fate.REJECTED, ""
    rule = book.find(name, OperatorKind.IGNORED)
    if rule is not None:
        return Fate.RULE, rule.name
    if book.is_(name, OperatorKind.OBSERVER):
        return Fate.LOOKED_AT, ""
    states = {tensor.state for tensor in tensors}
    if not any(state.is_bad for state in states):
        return (Fate.UNUSABLE, "") if ValueState.UNKNOWN in states else (Fate.RULE, IMPOSSIBLE)
    if states != {ValueState.NEG_INF}:
        return Fate.MEMORY, ""
    rule = book.find(name, OperatorKind.MASK) or book.find(name, OperatorKind.INITIALISER)
    return Fate.RULE, rule.name if rule else INHERITED


def sums_up(calls: Sequence[CommCall]) -> bool:
    """Whether a communication adds up what its members put in: legal -Inf is only ever compared (MAX)."""
    return any(call.reduces and call.reduce_op in (None, "SUM", "AVG", "PREMUL_SUM") for call in calls)


def is_mask_sum(record: Record, inputs: Sequence[TensorStat]) -> bool:
    """Masks of (about) the dtype's most negative value added up: -Inf where both mask, harmless in itself.

    An activation that is merely large overflows for real: a mask has no positive element, or stands at the limit.
    """
    if short_api(record.name) not in ("add", "__add__", "__radd__", "__iadd__", "sub", "__sub__", "baddbmm"):
        return False
    for tensor in inputs:
        limit = limits(tensor.dtype)
        if limit is None or tensor.state is not ValueState.FINITE or tensor.min is None:
            continue
        is_mask = tensor.max is not None and tensor.max <= 0
        if tensor.min <= (-0.5 if is_mask else -0.99) * limit.largest:
            return True
    return False


def _is_spoilt(tensor: TensorStat, inputs: Sequence[TensorStat], masks: Sequence[TensorStat]) -> bool:
    """Something worse than a mask went in too, and the result has the numbers of none of the masks: ``mask - inf`` is
    -Inf everywhere, and no mask any more."""
    worse = any(one.state.is_bad and one not in masks for one in inputs)
    return worse and not any(tensor.max == one.max for one in masks)


def _rounded(tensor: TensorStat, other: TensorStat) -> bool:
    """The same tensor after an undumped cast: as many elements, Max equal up to bfloat16's rounding."""
    if tensor.state is not ValueState.NEG_INF or tensor.numel != other.numel:
        return False
    if not isinstance(tensor.max, float) or not isinstance(other.max, float):
        return False
    return math.isclose(tensor.max, other.max, rel_tol=2.0**-7)


def _key(tensor: TensorStat) -> tuple[object, ...]:
    return tensor.numel, tensor.max
