"""Garbage that is computed with and thrown away.

Rules, each tested under its name:

``a_stage_is_tried_on_garbage``
    ``torch.distributed.pipelining`` runs every later stage once on uninitialised buffers, to infer shapes, before the
    first tensor arrives; newer versions run its backward too. What a rank computes before its first message of a
    tensor is an island when the same module, or the same operators, run again behind it on finite data: nothing in it
    leaves the rank or is read behind it.
``a_stage_computes_on_what_it_received``
    ... or, whatever arrives then, when it runs again on a tensor of the size that the first message brings, and began
    on one that requires a gradient although no record made it: neither a batch nor a message.
``what_is_thrown_away_leaves_no_gradient``
    ... and where messages leave no record, a first call of the outermost module is one when its backward is done
    before the module runs again on finite data, and the recorded gradients of its parameters are finite: those of the
    call, which are not, were added to none.
``absurd_numbers_look_like_a_trial``
    Where a fault behind it spoils that proof, a first call that began with absurd numbers, no batch, is still not the
    cause as long as anything else is.
``views_of_unfilled_memory_are_unfilled``
    Cuts of a buffer that nothing has written yet hold the same garbage; sharded training hands them to a collective.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from firstnan.dump.records import Direction, Record, RecordKind
from firstnan.dump.values import ValueState, magnitude
from firstnan.dump.view import RankView
from firstnan.operators.communication import CallKind, is_communication, kinds
from firstnan.rank.taint.structure import Structure

ENOUGH_OPERATORS = 32
"""So many operators in a row that come again are the same program; fewer than :data:`MIN_OPERATORS` different ones
prove nothing."""
MIN_OPERATORS = 2
MAX_BEHIND = 1024
"""Records behind the first message among which they are looked for."""
ABSURD = 1e8
"""No activation of a model that trains is as large."""
VIEWS = frozenset(
    ["split", "split_with_sizes", "chunk", "unbind", "view", "view_as", "reshape", "flatten", "narrow", "as_strided",
     "__getitem__", "select", "transpose", "t", "detach", "unflatten"]
)  # fmt: skip
"""Other looks at the same memory."""


class Trial(Enum):
    """Whether what a rank did first was garbage that it threw away."""

    NO = "no"
    LIKELY = "likely"
    """absurd_numbers_look_like_a_trial."""
    PROVEN = "proven"


class Beginning:
    """What a rank does before the first tensor that it exchanges with a peer."""

    def __init__(self, view: RankView) -> None:
        self._view = view
        self.end = _first_message(view)
        """Index of that message; None: there is none, or it holds something bad that the rank sends."""
        self.left_out = False
        """What a trial would have repeated was not found, and not looked for to the end."""

    def trial(self, structure: Structure, first: Record) -> Trial:
        """Whether the outermost module around a bad record, or the operators around it, run again behind the first
        message, on finite data. A record of backward stands for the call whose derivative it is."""
        if self.end is None:
            return Trial.NO
        first = structure.twin(first) or first
        module = _outermost(structure, first)
        again = _next_call(structure, module) if module is not None and module.index < self.end else None
        if module is not None and again is not None and again.index > self.end:
            return self._judged(module, [again], self.end)
        return self._operators_repeat(first, self.end)

    def _judged(self, first: Record, again: Sequence[Record], end: int) -> Trial:
        if any(map(_reads_finite, again)) or self._takes_the_place_of_a_message(first, again, end):
            return Trial.PROVEN
        return Trial.LIKELY if again and _reads_absurd(first) else Trial.NO

    def _takes_the_place_of_a_message(self, first: Record, again: Sequence[Record], end: int) -> bool:
        """a_stage_computes_on_what_it_received."""
        taken = next((tensor for tensor in first.inputs if tensor.is_floating), None)
        if taken is None or not taken.requires_grad or not again:
            return False
        message = self._view.records(end, end + 1)[0]
        brought = {tensor.numel for tensor in message.outputs if tensor.is_floating}
        read = {next((tensor.numel for tensor in one.inputs if tensor.is_floating), None) for one in again}
        is_like_it = taken.numel in brought and read == {taken.numel}
        return is_like_it and not any(
            taken.numel in self._given_in(at, first.index) for at in range(0, first.index, MAX_BEHIND)
        )

    def _given_in(self, start: int, end: int) -> set[int | None]:
        """Sizes that some records gave."""
        records = self._view.records(start, min(start + MAX_BEHIND, end))
        return {tensor.numel for record in records for tensor in record.outputs if tensor.is_floating}

    def _operators_repeat(self, first: Record, end: int) -> Trial:
        before = self._view.records(max(0, first.index - MAX_BEHIND), min(end, first.index + MAX_BEHIND))
        tried = _around(before, first.index)[:ENOUGH_OPERATORS]
        last = self._view.overview.end
        behind = [r for r in self._view.records(end, min(end + MAX_BEHIND, last)) if _computes(r)]
        names, wanted = [_operator(record) for record in behind], [_operator(record) for record in tried]
        if len(set(wanted)) < MIN_OPERATORS:
            return Trial.NO
        starts = [at for at in range(len(names) - len(wanted) + 1) if names[at : at + len(wanted)] == wanted]
        self.left_out = not starts and end + MAX_BEHIND < last
        return self._judged(tried[0], [behind[at] for at in starts], end)


def _around(records: Sequence[Record], index: int) -> list[Record]:
    """The operators of forward around a record, between the communication before and behind it."""
    found: list[Record] = []
    for record in records:
        if is_communication(record):
            if record.index > index:
                break
            found.clear()
        elif _computes(record):
            found.append(record)
    return found


def _computes(record: Record) -> bool:
    is_call = record.name.kind is RecordKind.API and record.name.direction is Direction.FORWARD
    gives = any(tensor.is_floating and tensor.numel != 1 for tensor in record.outputs)  # numbers may be told once only
    return is_call and not is_communication(record) and gives


def _operator(record: Record) -> tuple[str, str]:
    return record.name.prefix, record.name.api


def _reads_finite(record: Record) -> bool:
    taken = [tensor for tensor in record.inputs if tensor.is_floating]
    return bool(taken) and all(tensor.state is ValueState.FINITE for tensor in taken)


def _reads_absurd(record: Record) -> bool:
    """What it takes in is no batch, and not of this world."""
    taken = [tensor for tensor in record.inputs if tensor.is_floating]
    sizes = [magnitude(tensor.max, tensor.min) for tensor in taken if tensor.state is ValueState.FINITE]
    is_absurd = len(sizes) < len(taken) or any(size is not None and size >= ABSURD for size in sizes)
    return is_absurd and not any(tensor.requires_grad is False for tensor in taken[:1])


def _first_message(view: RankView) -> int | None:
    held = view.calls()
    found = [kinds(like) for like in held.likes]
    messages = (at for at, kind in enumerate(held.kind_of) if not found[kind] <= {CallKind.COLLECTIVE})
    for at in messages:
        record = held.record(at)
        if any(t.is_floating for t in (*record.inputs, *record.outputs)):
            sent = [t for t in record.inputs if t.is_floating] if CallKind.SEND in found[held.kind_of[at]] else []
            return None if any(t.state is not ValueState.FINITE for t in sent) else record.index
    return None


def _outermost(structure: Structure, record: Record) -> Record | None:
    """The forward record of the outermost module around a record."""
    chain = structure.ancestors(record.name.full)
    is_module = record.name.kind is RecordKind.MODULE and not chain
    outer = record.name.full if is_module else chain[-1] if chain else None
    return structure.by_name.get(outer.replace(".backward.", ".forward.")) if outer else None


def _next_call(structure: Structure, module: Record) -> Record | None:
    stem, _, number = module.name.full.rpartition(".")
    return structure.by_name.get(f"{stem}.{int(number) + 1}") if number.isdigit() else None


def end_of_call(structure: Structure, first: Record) -> tuple[Trial, int]:
    """what_is_thrown_away_leaves_no_gradient: what the first call of the outermost module around a bad record was, and
    the index of the first record behind it."""
    module = _outermost(structure, first)
    again = _next_call(structure, module) if module is not None and module.name.full.endswith(".0") else None
    if module is None or again is None:
        return Trial.NO, 0
    backward = structure.by_name.get(module.name.full.replace(".forward.", ".backward."))
    if backward is None or not module.index < backward.index < again.index:
        return Trial.NO, 0
    if _reads_finite(again) and _gradients_are_finite(structure, module):
        return Trial.PROVEN, backward.index + 1
    return Trial.LIKELY if _reads_absurd(module) else Trial.NO, backward.index + 1


def _gradients_are_finite(structure: Structure, module: Record) -> bool:
    """Of the parameters of all modules inside that have recorded ones; there is one at least."""
    inside = (name for name in structure.by_name if name.startswith(f"{module.name.prefix}.") and ".forward." in name)
    known = []
    for name in list(inside):
        if name == module.name.full or module.name.full in structure.ancestors(name):
            gradients = structure.by_name.get(name.replace(".forward.", ".parameters_grad."))
            known += [] if gradients is None else [tensor for tensor in gradients.outputs if tensor.is_floating]
    return bool(known) and all(tensor.state is ValueState.FINITE for tensor in known)
