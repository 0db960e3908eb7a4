"""Where the chain of values that an event started ends, and with that whether the event matters.

A value that every reader drops (``where``, a saturating function) ends in ``SELECTED`` or ``SATURATED``; what counts is
:data:`firstnan.rank.taint.events.LIVE_ENDINGS`. Rules, each tested under its name:

``an_unread_scalar_is_a_metric``
    In a run without backward (evaluation), a scalar that needs no gradient, was made of finite values and is read by
    nobody is a metric: open, and no output of the model.
``a_scalar_of_scalars_behind_backward_is_a_metric``
    ... and behind backward, outside the optimizer and clipping, one that was made of finite scalars alone (a perplexity
    of the loss); what is made of gradients or weights takes tensors.
``a_bad_weight_lives_on``
    A weight is read again in the next step: that this one's result is finite (no token chose the bad row of an
    embedding) drops nothing. A -Inf that its reader absorbs may be a mask.
``a_cast_to_integers_drops``
    What a cast without a record turned into the largest or smallest integer is none any more: the next reader of that
    size shows it (the buckets of relative positions, log(0) among them).
``a_weight_is_no_garbage``
    A trial on uninitialised memory reads the weights that the run reads: a bad one counts there as everywhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from firstnan.dump.records import Direction, Record, RecordKind
from firstnan.dump.values import ValueState
from firstnan.operators.communication import Result, may_be_stale, role
from firstnan.operators.table import OperatorKind
from firstnan.rank.taint.carriers import as_found
from firstnan.rank.taint.def_use import Flow
from firstnan.rank.taint.entries import leads_to_forward, named_parameter, opens_micro_batch, origin_of
from firstnan.rank.taint.events import LIVE_ENDINGS, LONG, Ending, Event, EventKind, GuessedLink, Origin
from firstnan.rank.taint.gradients import Producers, shows_a_second_run
from firstnan.rank.taint.links import FAR
from firstnan.rank.taint.module_dumps import module_around

INTEGER_LIMITS = frozenset({2**31 - 1, 2**31, 2**63 - 1, 2**63})
"""Absolute values of the largest and the smallest integers, which an infinity becomes."""
READ_SOON = 64
"""Records within which what a cast made of a value is read."""
BLIND_RECORDS = 4
"""So many records without any statistics at the end of a dump are a blanked part, not odd operators."""
MAX_EVENTS = 400
"""Most events that go on somewhere and are finished, the first ones, besides the first into each call; later ones are
consequences."""
MAX_HARMLESS = 400
"""Most events that end in selection or are not read and are finished, the first ones."""
MAX_NEXT_CALLS = 64
"""Most communication calls that one value is followed into."""
PENDING_CALLS = 32
"""How many earlier receives with a possibly stale result an entry remembers."""


DROPPED = frozenset({Ending.SELECTED, Ending.SATURATED})
"""Every reader has a recorded, finite result."""


class Outcome(Struct, frozen=True):
    """Where a value goes from one record on, on its own rank."""

    endings: frozenset[Ending] = frozenset()
    calls: frozenset[int] = frozenset()
    """Record indices of the next communication that it enters; what lies behind is the other members' matter."""
    closer: str | None = None
    """The first record that dropped or swallowed it."""
    swallowed: bool = False
    """True: somewhere it was absorbed by saturation, not by selection."""
    is_sure: bool = False
    """It reaches an ending that matters, or a call, by links that are no guesses."""


def outcomes(flow: Flow, *, truncated: bool) -> dict[int, Outcome]:
    """The outcome at every record that holds a bad value, in one pass from the last record to the first
    (links only point forward)."""
    found: dict[int, Outcome] = {}
    blind_from = _blind_from(flow, truncated)
    producers = Producers(flow)
    holders = set(flow.readers) | set(flow.absorbed) | {e.index for e in flow.events}
    holders |= {i for i, bad in flow.sends_bad.items() if bad} | {i for i, bad in flow.receives_bad.items() if bad}
    holders |= {reader for readers in flow.readers.values() for reader in readers}
    keeps = flow.spoils | _bad_weights(flow)
    for index in sorted(holders, reverse=True):
        record = flow.records[index]
        if index < flow.island and record.name.kind is not RecordKind.PARAMETERS_GRAD:
            found[index] = Outcome(frozenset({Ending.ISLAND}))
            continue
        if index in flow.absorbed and index not in keeps and not flow.book.is_(record.name, OperatorKind.SINK):
            selected = flow.absorbed[index] is OperatorKind.SELECTOR
            ending = Ending.SELECTED if selected else Ending.SATURATED
            found[index] = Outcome(frozenset({ending}), closer=record.name.full, swallowed=not selected)
            continue
        is_kept = index in keeps and record.name.direction is Direction.FORWARD
        here = Ending.UPDATE if is_kept else _ending_here(flow, record)
        endings = {here} if here else set()
        calls: set[int] = set()
        closer, swallowed, sure = None, False, bool(flow.sends_bad.get(index)) or here in LIVE_ENDINGS
        readers = [r for r in flow.readers.get(index, ()) if r > index]
        if not readers and here is None and record.name.direction is Direction.BACKWARD:
            readers = producers.readers(record)
        for reader in readers:
            after = found[reader]
            strong = (index, reader) not in flow.guesses
            sure = sure or (strong and (after.is_sure or bool(flow.sends_bad.get(reader))))
            if flow.sends_bad.get(reader):
                endings.add(Ending.COMMUNICATION)
                calls.add(reader)
                continue
            endings |= after.endings
            if len(calls) < MAX_NEXT_CALLS:
                calls |= after.calls
            closer = closer or after.closer
            swallowed = swallowed or after.swallowed
        if not readers and here is None and not flow.sends_bad.get(index):
            unread = _unread(flow, record)
            endings.add(unread)
            sure = sure or unread in LIVE_ENDINGS
        in_flight = here is None and not endings <= DROPPED
        if in_flight and blind_from is not None and _may_be_read_later(flow, record, blind_from):
            endings.add(Ending.CUT)
        found[index] = Outcome(frozenset(endings), frozenset(calls), closer, swallowed, sure)
    return found


def _bad_weights(flow: Flow) -> set[int]:
    """a_bad_weight_lives_on: indices of records that take in such a weight and give finite results."""
    return {
        event.index
        for event in flow.events
        if event.kind is EventKind.ENTRY
        and event.index in flow.absorbed
        and event.direction is Direction.FORWARD
        and any(
            tensor.state is not ValueState.NEG_INF and named_parameter(flow, event.record, tensor) is not None
            for tensor in event.bad_inputs
        )
    }


def finish(flow: Flow, found: Mapping[int, Outcome]) -> tuple[Event, ...]:
    """The flow's first events with their endings, origins and surroundings, in execution order."""
    calls, stale = sorted(flow.calls), _stale_receives(flow)
    begun = (as_found(event, flow.book) for event in _kept(flow, found))
    ended = (_finish(flow, event, found, calls, stale) for event in begun)
    events = [replace(event, around=module_around(event, flow.structure, flow.excluded)) for event in ended]
    return tuple(_with_recompute(flow, events))


def left_out(flow: Flow, found: Mapping[int, Outcome], events: Sequence[Event]) -> bool:
    """Some that go on are not among ``events``, and what can decide stands among these: none of the kept ones matters,
    or one of the others is made of finite values and does."""
    kept = {event.index for event in events}
    others = [e for e in flow.events if e.index not in kept and _goes_on(flow, found[e.index], e)]
    if not others:
        return False
    is_settled = any(event.is_live for event in events)
    births = (event for event in others if event.kind is EventKind.BIRTH and event.direction is Direction.FORWARD)
    return not is_settled or any(found[event.index].endings & LIVE_ENDINGS for event in births)


def is_settled(flow: Flow, index: int) -> bool:
    """Whether it shows that a value which nobody reads is gone: by the module around it, or by a backward pass."""
    last = flow.structure.last_backward
    return index in flow.closed or (last is not None and index < last)


def _goes_on(flow: Flow, outcome: Outcome, event: Event) -> bool:
    """Somewhere, or it stands where values go on by what the records do not tell."""
    goes_on = outcome.calls or outcome.swallowed or outcome.endings - {Ending.SELECTED, Ending.UNREAD, Ending.ISLAND}
    return bool(goes_on or flow.sends_bad.get(event.index) or flow.structure.in_backward(event.index))


def _kept(flow: Flow, found: Mapping[int, Outcome]) -> Iterator[Event]:
    """The first events that were dropped, and the first of those that were not: what can decide stands among these,
    however many harmless ones stand before it. Of those behind them each that is the first to enter a call is kept,
    since the other members tell whether it matters."""
    harmless = others = 0
    entered: set[int] = set()
    for event in flow.events:
        outcome = found[event.index]
        if _goes_on(flow, outcome, event):
            calls = {*outcome.calls, event.index} if flow.sends_bad.get(event.index) else outcome.calls
            others += 1
            if others <= MAX_EVENTS or not calls <= entered:
                entered |= calls
                yield event
        else:
            harmless += 1
            if harmless <= MAX_HARMLESS:
                yield event


def _with_recompute(flow: Flow, events: Sequence[Event]) -> Iterator[Event]:
    """recomputed_forward_feeds_backward: a forward record in the middle of backward (activation checkpointing) is
    read by the backward of its own layer, whose records carry the number of the first, clean call.

    Example: ``gelu.2.forward`` (recomputed) gives NaN, then ``linear.3.backward`` makes NaN of a finite gradient.
    """
    last: dict[str | None, int] = {}
    for event in events:
        if event.kind is EventKind.BIRTH and event.direction is Direction.BACKWARD:
            layer = _outermost_path(flow, event.record)
            last[layer] = max(event.index, last.get(layer, -1))
    for event in events:
        forward = event.kind is EventKind.BIRTH and event.direction is Direction.FORWARD
        is_read = forward and not event.is_live and event.index not in flow.closed
        if last and is_read and flow.structure.in_backward(event.index):
            layer = _outermost_path(flow, event.record)
            if layer is not None and last.get(layer, -1) > event.index:
                event = replace(event, endings=event.endings | {Ending.GRADIENT})
        yield event


def _outermost_path(flow: Flow, record: Record) -> str | None:
    chain = flow.structure.ancestors(record.name.full)
    modules = (flow.structure.by_name[n].name.path for n in reversed(chain) if n in flow.structure.by_name)
    return next((path for path in modules if path), None)


def _finish(
    flow: Flow, event: Event, found: Mapping[int, Outcome], calls: Sequence[int], stale: Sequence[int]
) -> Event:
    """``calls``: indices of all communication records, in order; ``stale``: those of receives that may be stale."""
    structure = flow.structure
    outcome = found[event.index]
    endings, communications = outcome.endings, outcome.calls
    if flow.sends_bad.get(event.index):
        endings, communications = endings | {Ending.COMMUNICATION}, communications | {event.index}
    forward = event.direction is Direction.FORWARD
    if event.index < flow.island:
        communications = frozenset()
    if forward and outcome.swallowed:
        endings = endings | _own_backward(flow, found, event.record.name.full, outcome.closer)
    twin = structure.twin(event.record) if event.direction is Direction.BACKWARD else None
    origin, parameter, writer = None, None, None
    pending: tuple[int, ...] = ()
    hidden: tuple[str, ...] = ()
    if event.kind is EventKind.BIRTH and event.record.name.kind is RecordKind.MODULE:
        hidden = structure.left_out(event.record.name.full)
    if event.kind is EventKind.BIRTH and event.bad_inputs:
        pending = tuple(_received_masks(flow, event, _latest(calls, event.index)))
    if event.kind is EventKind.ENTRY:
        pending = _latest(stale, event.index)
        origin, parameter, writer = origin_of(flow, event, pending)
        if origin is Origin.BETWEEN_RECORDS:
            hidden = structure.left_out(event.record.name.full)
    return replace(
        event,
        endings=endings,
        communications=tuple(sorted(communications)),
        closer=outcome.closer,
        forward_twin=twin,
        guess=None if outcome.is_sure else _guess(flow, event, outcome),
        origin=origin,
        parameter=parameter,
        by_shape=parameter is not None and not any(named_parameter(flow, event.record, t) for t in event.bad_inputs),
        writer=writer,
        follows_ruled_out=writer is not None and writer.name.full in flow.excluded,
        pending=pending,
        hidden=hidden,
        is_open=Ending.OPEN in endings or (Ending.UNREAD in endings and not is_settled(flow, event.index)),
        opens_pass=opens_micro_batch(flow, event),
        after_backward=_reads_gradients(flow, event),
        module=structure.module_path(event.record.name.full),
        is_trial=event.is_trial and origin is not Origin.PARAMETER,
        is_later=event.kind is EventKind.ENTRY and not forward and shows_a_second_run(flow, event.record),
    )


def _guess(flow: Flow, event: Event, outcome: Outcome) -> GuessedLink | None:
    """The first guessed link on the way of a value that matters by no other way."""
    if not outcome.calls and not outcome.endings & LIVE_ENDINGS:
        return None
    queue, seen = [event.index], {event.index}
    while queue:
        index = queue.pop(0)
        for reader in flow.readers.get(index, ()):
            if (index, reader) in flow.guesses:
                return GuessedLink(flow.records[reader].name.full, reader)
            if reader not in seen:
                seen.add(reader)
                queue.append(reader)
    return None


def _reads_gradients(flow: Flow, event: Event) -> bool:
    """After backward; or while it runs, outside modules and not on the way to a loss: what hooks do with gradients."""
    index, structure = event.index, flow.structure
    if structure.after_backward(index):
        return True
    is_call = event.direction is Direction.FORWARD and event.record.name.kind is RecordKind.API
    hook = is_call and structure.in_backward(index) and structure.is_outside_forward(event.record.name.full)
    return hook and index not in flow.calls and not leads_to_forward(flow, event.record)


def _ending_here(flow: Flow, record: Record) -> Ending | None:
    """A record that is itself what the user sees."""
    name, structure = record.name, flow.structure
    if record.index == flow.last_check:
        return Ending.CUT
    if name.full in structure.losses:
        return Ending.LOSS
    if flow.book.is_(name, OperatorKind.SINK):
        return Ending.SINK
    if name.kind is RecordKind.PARAMETERS_GRAD or record.index in flow.spoils:
        return Ending.GRADIENT
    if name.direction is Direction.BACKWARD:
        return None
    if structure.after_backward(record.index) or structure.in_update(name.full):
        return None if _is_late_metric(flow, record) else Ending.UPDATE
    if record.index in structure.tops:
        return None if _is_metric(flow, record) else Ending.OUTPUT
    return None


def _is_metric(flow: Flow, record: Record) -> bool:
    """an_unread_scalar_is_a_metric."""
    if not flow.structure.in_last_forward(record.index) or record.index in flow.calls:
        return False
    given = [tensor for tensor in record.outputs if tensor.is_floating and record.name.kind is RecordKind.API]
    is_scalar = bool(given) and all(t.shape == () and t.requires_grad is False for t in given)
    taken = [tensor for tensor in record.inputs if tensor.is_floating]
    return is_scalar and bool(taken) and all(tensor.state is ValueState.FINITE for tensor in taken)


def _is_late_metric(flow: Flow, record: Record) -> bool:
    """a_scalar_of_scalars_behind_backward_is_a_metric."""
    if record.index in flow.calls or flow.structure.in_update(record.name.full):
        return False
    if any((record.index, reader) not in flow.guesses for reader in flow.readers.get(record.index, ())):
        return False
    tensors = [tensor for tensor in (*record.inputs, *record.outputs) if tensor.is_floating]
    if record.name.kind is not RecordKind.API or not all(t.shape == () and t.requires_grad is False for t in tensors):
        return False
    taken = [tensor for tensor in record.inputs if tensor.is_floating]
    return bool(record.outputs and taken) and all(tensor.state is ValueState.FINITE for tensor in taken)


def _unread(flow: Flow, record: Record) -> Ending:
    """No reader: a gradient in itself, a result at the top, or dropped."""
    if record.name.direction is Direction.BACKWARD:
        return Ending.BEYOND if flow.ends_near(record.index) else Ending.GRADIENT
    if record.index in flow.unproven:
        return Ending.OPEN
    if _starts_backward(flow, record):
        return Ending.LOSS
    is_near = flow.ends_near(record.index)
    if is_near and record.index - flow.origins.get(record.index, record.index) < LONG:
        return Ending.BEYOND  # what was not looked at may read it, and drop it
    structure = flow.structure
    if structure.module_of(record.name.full) is None:
        if record.name.kind is RecordKind.MODULE:
            return Ending.OUTPUT
        slots = any(role(call.api).result is Result.EXCHANGED for call in flow.calls.get(record.index, ()))
        # unwritten slots of exchanges are dropped later
        ends_forward = structure.in_last_forward(record.index) and not slots
        if ends_forward and _became_integers(flow, record):
            return Ending.SELECTED
        if ends_forward and not _is_metric(flow, record):
            seen = None if flow.horizon is None else flow.horizon - record.index
            may_be_read = seen is not None and seen < FAR and record.index in flow.births
            return Ending.BEYOND if may_be_read else Ending.OUTPUT
    return Ending.BEYOND if is_near else Ending.UNREAD


def _became_integers(flow: Flow, record: Record) -> bool:
    """a_cast_to_integers_drops."""
    known = flow.became_integers.get(record.index)
    if known is None:
        known = _is_read_as_integers(flow, record)
        if known or flow.records.last > record.index + READ_SOON:  # no further record changes that
            flow.became_integers[record.index] = known
    return known


def _is_read_as_integers(flow: Flow, record: Record) -> bool:
    sizes = {tensor.numel for tensor in record.outputs if tensor.state.is_bad}
    for later in flow.records[record.index + 1 : record.index + 1 + READ_SOON]:
        for tensor in later.inputs:
            is_integer = tensor.dtype.startswith("int") and tensor.numel in sizes
            if is_integer and any(abs(n) in INTEGER_LIMITS for n in (tensor.max, tensor.min) if n is not None):
                return True
    return False


def _starts_backward(flow: Flow, record: Record) -> bool:
    """A scalar with a gradient of its own: a part of the loss, also where its backward record stands far behind."""
    if record.name.kind is not RecordKind.API or not record.outputs or any(t.shape != () for t in record.outputs):
        return False
    backward = flow.structure.by_name.get(record.name.full.replace(".forward", ".backward"))
    is_gradient = backward is not None and backward.name.direction is Direction.BACKWARD
    return is_gradient and backward is not None and all(t.shape == () for t in backward.inputs)


def _may_be_read_later(flow: Flow, record: Record, blind_from: int) -> bool:
    """Where the dump stops being readable, what a module that is still running wrote may be read by what follows:
    a residual is added only at the end of its layer."""
    if record.index in flow.closed or record.name.direction is Direction.BACKWARD:
        return False
    chain = flow.structure.ancestors(record.name.full)
    outer = flow.structure.by_name.get(chain[-1]) if chain else None
    return outer is None or outer.distrusted or not outer.has_output or outer.index >= blind_from


def _blind_from(flow: Flow, truncated: bool) -> int | None:
    """Index from which nothing more can be seen: the cut, or the first of the records without statistics at the end."""
    end = len(flow.records)
    index = end
    while (last := flow.records.get(index - 1)) is not None and is_blind(last):
        index -= 1
    if end - index >= BLIND_RECORDS:
        return index
    return end if truncated or flow.structure.unfinished is not None else None


def is_blind(record: Record) -> bool:
    """No tensor that could hold a bad value has statistics."""
    return all(t.state.is_unknown for t in (*record.inputs, *record.outputs) if t.is_floating)


def _own_backward(flow: Flow, found: Mapping[int, Outcome], *names: str | None) -> frozenset[Ending]:
    """Swallowed by saturation, but the derivative of the operator that made the value, or of the one that swallowed
    it, is bad: where that goes on, the forward value is the cause."""
    endings: set[Ending] = set()
    for name in names:
        index = flow.bad_backward.get(name.replace(".forward", ".backward")) if name is not None else None
        outcome = found.get(index) if index is not None else None
        if outcome is None:
            endings |= {Ending.GRADIENT} if index is not None else set()
        elif outcome.calls or outcome.endings - {Ending.SELECTED, Ending.SATURATED, Ending.BEYOND}:
            endings.add(Ending.GRADIENT)
        else:
            endings |= outcome.endings & {Ending.BEYOND}
    return frozenset(endings)


# -- what an entry is ----------------------------------------------------------------------------------


def _latest(indices: Sequence[int], before: int) -> tuple[int, ...]:
    """The last of some ascending indices before a record, at most PENDING_CALLS, the latest first."""
    end = bisect_left(indices, before)
    return tuple(reversed(indices[max(0, end - PENDING_CALLS) : end]))


def _received_masks(flow: Flow, event: Event, calls: Iterable[int]) -> Iterable[int]:
    """Receives that brought a -Inf which looks like a mask here; its sender may know better."""
    sizes = {t.numel for t in event.bad_inputs}
    for at in calls:
        if any(t.state is ValueState.NEG_INF and t.numel in sizes for c in flow.calls[at] for t in c.received):
            yield at


def _stale_receives(flow: Flow) -> list[int]:
    """Receives whose recorded result may be older than the data (dump format, section 7.3)."""
    return [at for at in sorted(flow.calls) if not flow.receives_bad.get(at) and any(map(may_be_stale, flow.calls[at]))]
