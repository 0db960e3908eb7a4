"""What an entry is: a bad value that no record wrote. A parameter, the batch, memory that nothing filled, or something
between two records.

Rules, each tested under its name:

``the_batch_is_at_the_door``
    Input data is an argument of the outermost module that needs no gradient; not where modules alone are recorded and
    one before took in finite data and gave a tensor of this size; what the module that opens the pass takes in was
    made by none, whatever an earlier micro-batch gave.
``the_batch_may_be_read_again``
    ... and the same numbers of the same shape once more, further on: a mask or a memory that every layer reads.
``a_weight_that_was_finite_here_is_written_here``
    A parameter that an earlier call of the same module read finite in this step is no parameter that was bad before:
    an update within the step wrote it (two optimizers, a local step before ranks average).
``a_spread_vector_is_a_weight``
    A vector that needs a gradient, that no record wrote and that an operator spreads over a larger tensor is a weight:
    the scale of a normalisation that the model writes out (``weight * x``).
``a_weight_is_read_again_by_the_optimizer``
    An infinite weight whose product an activation swallowed is bad all the same: what the update, or a message to other
    ranks, reads with its very numbers is the weight.
``a_flat_vector_that_is_cut_up_is_no_batch``
    Sharded training lays weights and gradients of a layer side by side in one vector, and cuts it up.
``a_flat_shard_is_a_parameter``
    A vector that needs no gradient, that no record wrote and that an all_gather takes in is a shard of the weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from firstnan.dump.records import Direction, Record, RecordKind, TensorStat
from firstnan.dump.values import ValueState
from firstnan.operators.communication import CallKind, Result, role
from firstnan.operators.table import STORED_STATISTICS, WEIGHT_KEYWORDS, Computes, short_api
from firstnan.rank.taint.def_use import Flow
from firstnan.rank.taint.events import Event, EventKind, Origin
from firstnan.rank.taint.islands import VIEWS
from firstnan.rank.taint.links import is_at_the_door, is_distinct, same_values
from firstnan.rank.taint.writers import FiniteWriters

NEAR_FORWARD = 64
"""Records within which the batch of a later micro-batch reaches the model."""
NEAR_VECTOR = 512
"""Records before a reader among which the one that gave it a vector is looked for."""
MAX_EARLIER = 32
"""Entries before one among which the same value of the batch is looked for, from the first one on."""
FIRST_RECORDS = 8
"""The batch is read by the first few records of a pass."""


def opens_micro_batch(flow: Flow, event: Event) -> bool:
    """At the first record of forward or backward, or at another call of that record's module (a later micro-batch)."""
    first = flow.structure.first_backward if event.direction is Direction.BACKWARD else 0
    if first is None or event.index == first:
        return event.index == first
    start = flow.records.get(first)
    name = event.record.name
    if start is None or start.name.kind is not name.kind:
        return False
    return bool(name.path) and (start.name.path, start.name.api) == (name.path, name.api)


def origin_of(flow: Flow, event: Event, pending: Iterable[int]) -> tuple[Origin, str | None, Record | None]:
    """Parameter, batch, uninitialised memory, or something between two records."""
    record = event.record
    if event.is_of_a_copy:
        return Origin.BETWEEN_RECORDS, None, _finite_writer(flow, record.index, event.bad_inputs)
    for tensor in event.bad_inputs:
        parameter = parameter_name(flow, record, tensor) or _known_parameter(flow, event, tensor)
        if parameter is not None:
            before = _read_finite_before(flow, record, parameter)
            return (Origin.PARAMETER if before is None else Origin.BETWEEN_RECORDS), parameter, before
    if record.index in flow.memory:
        return Origin.UNINITIALISED, None, flow.records[flow.memory[record.index]]
    if _was_sent(flow, event, pending):
        return Origin.BETWEEN_RECORDS, None, None
    excluded = _excluded_writer(flow, event)
    if excluded is not None:
        return Origin.BETWEEN_RECORDS, None, excluded
    is_forward = record.name.direction is Direction.FORWARD
    if is_forward and any(_is_batch(flow, event, t) or _is_read_again(flow, event, t) for t in event.bad_inputs):
        return Origin.INPUT_DATA, None, None
    writer = _finite_writer(flow, record.index, event.bad_inputs)
    if writer is None and record.index == 0:
        return Origin.BEFORE_DUMP, None, None
    return Origin.BETWEEN_RECORDS, None, writer


def _excluded_writer(flow: Flow, event: Event) -> Record | None:
    """The record that the user ruled out and that wrote the value all the same."""
    found = None
    for record in flow.records if flow.excluded else ():
        if record.index >= event.index:
            break
        written = {(t.state, t.numel) for t in record.outputs if record.name.full in flow.excluded}
        if any((tensor.state, tensor.numel) in written for tensor in event.bad_inputs):
            found = record
    return found


def parameter_name(flow: Flow, record: Record, tensor: TensorStat) -> str | None:
    """The name of the parameter that a bad input is; None when it is none."""
    return named_parameter(flow, record, tensor) or ("weight" if _is_spread(flow, record, tensor) else None)


def named_parameter(flow: Flow, record: Record, tensor: TensorStat) -> str | None:
    """The same, where more than the tensor's own shape tells it.

    Told by a module's recorded parameters (same shape, as bad), or by a weight's place among the
    arguments when the tensor requires a gradient or the dump does not say.
    """
    if record.name.direction is Direction.BACKWARD:
        return None
    if record.index in flow.calls:
        return _flat_shard(flow, record, tensor)
    place, _, key = tensor.slot.partition(".")
    if place == "parameters":
        return key
    for name in (record.name.full, *flow.structure.ancestors(record.name.full)):
        module = flow.structure.by_name.get(name)
        if module is None:
            continue
        for parameter in module.parameters:
            if parameter.state.is_bad and parameter.shape == tensor.shape:
                return parameter.slot.partition(".")[2]
    position = key.split(".", 1)[0]
    if short_api(record.name) in STORED_STATISTICS and key in ("1", "2"):
        return "running_mean" if key == "1" else "running_var"
    if tensor.requires_grad is False and _was_written(flow, record, tensor):
        return None
    if place in ("input_args", "input") and position.isdigit():
        named = flow.book.weight_name(short_api(record.name), int(position))
        if named is not None:
            return named
    if place == "input_kwargs" and position in WEIGHT_KEYWORDS:
        return position
    if tensor.state is ValueState.NEG_INF and flow.is_leaf(record, tensor):
        return "weight"
    product = flow.book.computes(short_api(record.name), Computes.PRODUCT)
    if product and tensor.requires_grad and len(tensor.shape or ()) == 2 and position != "0":
        return None if _was_written(flow, record, tensor) else "weight"
    return None


def _is_spread(flow: Flow, record: Record, tensor: TensorStat) -> bool:
    """a_spread_vector_is_a_weight"""
    if record.name.direction is Direction.BACKWARD or record.index in flow.calls or not tensor.requires_grad:
        return False
    size = _length(tensor)
    others = [t for t in record.inputs if t.slot != tensor.slot and t.is_floating and size in (t.shape or ())]
    if not size or not any((other.numel or 0) > size for other in others):
        return False
    before = flow.records[max(0, record.index - NEAR_VECTOR) : record.index]
    return not any(given.is_floating and _length(given) == size for r in before for given in r.outputs)


def _length(tensor: TensorStat) -> int:
    """The number of elements of a vector, whatever dimensions of one element it has; 0: it is none."""
    size = tensor.numel or 0
    return size if size > 1 and size in (tensor.shape or ()) else 0


def _read_finite_before(flow: Flow, record: Record, parameter: str) -> Record | None:
    """a_weight_that_was_finite_here_is_written_here: the nearest earlier call of the module, when it read the parameter
    finite."""
    for name in (record.name.full, *flow.structure.ancestors(record.name.full)):
        module = flow.structure.by_name.get(name)
        slot = f"parameters.{parameter}"
        if module is None or all(tensor.slot != slot for tensor in module.parameters):
            continue
        stem, _, number = name.rpartition(".")
        before = flow.structure.by_name.get(f"{stem}.{int(number) - 1}") if number.isdigit() else None
        known = [tensor for tensor in before.parameters if tensor.slot == slot] if before is not None else []
        return before if any(tensor.state is ValueState.FINITE for tensor in known) else None
    return None


def _flat_shard(flow: Flow, record: Record, tensor: TensorStat) -> str | None:
    """a_flat_shard_is_a_parameter: what sharded training gathers before it uses its weights."""
    gathers = all(role(call.api).result is Result.GATHERED for call in flow.calls[record.index])
    flat = len(tensor.shape or ()) == 1 and tensor.requires_grad is False
    made = flat and flow.was_given(tensor.numel, record.index, computed=True)
    return "flat_param" if gathers and flat and not made else None


def _was_written(flow: Flow, record: Record, tensor: TensorStat) -> bool:
    """Some earlier record gave a tensor of this size: it may be computed, a frozen weight never is."""
    return flow.was_given(tensor.numel, record.index)


def _is_batch(flow: Flow, event: Event, tensor: TensorStat) -> bool:
    """No gradient required, and an argument of the outermost module around the record, or of a record that
    stands before every module and every other operator that reads this shape. A single number is a setting."""
    record = event.record
    if tensor.requires_grad or record.index in flow.calls or tensor.shape == () or _is_cut_up(record, tensor):
        return False
    chain = flow.structure.ancestors(record.name.full)
    if record.name.kind is RecordKind.MODULE:
        chain = (record.name.full, *chain)
    outer = flow.structure.by_name.get(chain[-1]) if chain else None
    if outer is not None:
        if not is_at_the_door(flow.structure, record, tensor):
            return False
        return opens_micro_batch(flow, event) or not _comes_from_a_sibling(flow, outer, tensor)
    updates = flow.structure.in_update(record.name.full) or not leads_to_forward(flow, record)
    return tensor.requires_grad is False and not updates and _opens_a_pass(flow, record, tensor)


def _known_parameter(flow: Flow, event: Event, tensor: TensorStat) -> str | None:
    """a_weight_is_read_again_by_the_optimizer: the parameter that an earlier record read with these numbers."""
    if not tensor.requires_grad or not is_distinct(tensor) or event.direction is not Direction.FORWARD:
        return None
    earlier = (e for e in flow.events if e.kind is EventKind.ENTRY and e.index < event.index)
    names = (
        parameter_name(flow, one.record, known)
        for one in islice(earlier, MAX_EARLIER)
        for known in one.bad_inputs
        if known.requires_grad and known.shape == tensor.shape and same_values(known, tensor)
    )
    return next((name for name in names if name is not None), None)


def _is_read_again(flow: Flow, event: Event, tensor: TensorStat) -> bool:
    """the_batch_may_be_read_again"""
    if tensor.requires_grad is not False or event.index in flow.calls:
        return False
    earlier = (e for e in flow.events if e.kind is EventKind.ENTRY and e.index < event.index)
    return any(
        known.shape == tensor.shape and same_values(known, tensor) and _is_batch(flow, one, known)
        for one in islice(earlier, MAX_EARLIER)
        for known in one.bad_inputs
        if one.direction is Direction.FORWARD
    )


def _is_cut_up(record: Record, tensor: TensorStat) -> bool:
    """a_flat_vector_that_is_cut_up_is_no_batch."""
    return len(tensor.shape or ()) == 1 and short_api(record.name) in VIEWS and not record.name.path


def leads_to_forward(flow: Flow, record: Record) -> bool:
    """Once backward has begun: results that need a gradient follow before the next backward record."""
    index, structure = record.index, flow.structure
    if structure.after_backward(index):
        return False
    if not structure.in_backward(index):
        return True
    for later in flow.records[index : index + NEAR_FORWARD]:
        if later.name.direction is Direction.BACKWARD:
            return False
        if any(tensor.requires_grad for tensor in later.outputs):
            return True
    return False


def _comes_from_a_sibling(flow: Flow, outer: Record, tensor: TensorStat) -> bool:
    """the_batch_is_at_the_door: a module before the outer one took in finite data and gave a tensor of this size: the
    value came into being between the two."""
    if flow.structure.has_apis:
        return False
    for record in flow.records[max(0, outer.index - 200) : outer.index]:
        is_sibling = record.name.kind is RecordKind.MODULE and record.name.direction is Direction.FORWARD
        same = is_sibling and any(t.is_floating and t.numel == tensor.numel for t in record.outputs)
        if same and all(t.state is ValueState.FINITE for t in (*record.inputs, *record.outputs) if t.is_floating):
            return True
    return False


def _opens_a_pass(flow: Flow, record: Record, tensor: TensorStat) -> bool:
    """Without modules: among the first records of a pass, and no record wrote such a tensor without gradient."""
    begin = record.index
    while begin and record.index - begin < FIRST_RECORDS:
        before = flow.records.get(begin - 1)
        if before is None or before.name.direction is Direction.BACKWARD or before.index in flow.calls:
            break
        begin -= 1
    earlier = flow.records[begin : record.index]  # what another micro-batch made of its own batch says nothing
    made = any(t.numel == tensor.numel and t.requires_grad is False for r in earlier for t in r.outputs)
    return record.index - begin < FIRST_RECORDS and not made


def _finite_writer(flow: Flow, index: int, tensors: Iterable[TensorStat]) -> Record | None:
    """X of "between X and Y": the nearest earlier record with an output of one of these shapes."""
    if flow.writers is None:
        flow.writers = FiniteWriters(flow.records, inputs_only=flow.inputs_only)
    shapes = {t.shape for t in tensors if t.shape is not None}
    sizes = {t.numel for t in tensors if t.shape is not None}
    found = flow.writers.before(index, flow.records[index].name.direction, shapes, sizes)
    return None if found is None else flow.records[found]


def _was_sent(flow: Flow, event: Event, pending: Iterable[int]) -> bool:
    """A message of this size, whose content the dump does not show, came before: not the batch, where nothing tells
    that the tensor needs no gradient (MindSpore)."""
    sizes = {t.numel for t in event.bad_inputs if t.requires_grad is None}
    receives = (c for at in pending for c in flow.calls[at] if c.kind is CallKind.RECEIVE)
    return any(t.numel in sizes for c in receives for t in c.received)
