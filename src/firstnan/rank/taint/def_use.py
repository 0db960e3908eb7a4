"""Follows bad values through one rank: who wrote them, who read them, where they end.

It goes through the records once, and on where more of them are looked at.

Rules (docs/architecture.md, "On one rank"), each tested under its name:

``nearest_open_writer``
    A reader takes its value from the open writers with the same shape and the same Max/Min (all of them),
    else from those with the same number of elements, else from the nearest value that nobody read yet.
    Example: ``div -> NaN [8,2]``, then ``add`` reads NaN ``[16]``: written by ``div`` through an undumped view.
``forward_never_writes_gradient``
    A backward record reads only what backward records and communication wrote; gradients of parameters are
    not read by gradients of activations.
``code_in_backward_makes_gradients``
    ... except that what custom autograd functions and hooks compute is recorded as forward calls in the middle of
    backward: such a result, outside forward modules and without a graph of its own, is a gradient until a forward pass
    runs again.
``clipping_scales_every_gradient``
    Clipping multiplies all gradients by one number without a record: once the norm of the gradients is bad, so is what
    the optimizer reads, however far behind.
``closed_inside_module``
    What was written inside a module whose floating outputs are all finite cannot be read outside. A module that
    returns no floating tensor proves nothing: it may keep the value as an attribute.
``carried_out_by_attribute``
    ... except a scalar or an infinity that nothing inside read, when a later record reads the very same value and
    nothing else wrote it: an auxiliary loss that a module keeps for the end of the step.
``used_beside_selection``
    ... and a value that ``where`` dropped is still there for another operator of the same module, a few records on.
``received_beside_an_overwrite``
    ... and what a communication brought, when only records that write over their own memory (``x[:] = ...``, whose
    memory may have held any garbage of that size) seemed to read it.
``a_weight_follows_from_nothing_in_its_step``
    A bad tensor in the place of a weight that no record wrote, before the first backward record, is an entry of its own
    beside a bad activation.
``a_gather_fills_its_parts``
    The parts of a buffer that the call right behind writes over in full hold what lay in its memory: a bad value that
    no record surely wrote is none.
``no_result_proves_nothing``
    A record without a recorded result drops nothing: the call raised, the module never returned, statistics are null.
``an_unfinished_module_reads_its_input``
    ... a module too that the run died in, where no construct.json tells which records inside read the value.
``what_was_not_dumped_passes_the_value_on``
    ... and where no result was dumped at all, the next bad input may be this record's result: NaN stays NaN, an
    infinity may have become either.
``what_it_took_in_was_not_dumped``
    ... nor does a record that shows no arguments at all (``data_mode: ["output"]``) make anything of its own where a
    bad value came before that it may follow from.
``overwritten_in_part``
    ``x[mask] = 0`` with a NaN in x drops what the mask selects; that nothing was left is proven by the next record that
    reads a finite tensor of that size.
``the_nearest_of_what_looks_alike``
    Of several writers of nothing but Inf the nearest is the reader's, and the others are guesses.
``what_nothing_tells_apart_proves_no_birth``
    A birth of NaN behind a NaN of the same size that was read: which of the two the next reader takes in is open,
    so that the birth reaches it by a guess.
``a_graph_has_no_gap``
    Who reads a tensor that requires a gradient reads it of a record whose result requires one, where there is one; a
    number that nothing else tells apart, of no other.
``a_number_is_no_gradient``
    Nor is a single number guessed to be in what ranks exchange and update once backward has begun.
``a_number_of_numbers_is_a_guess``
    Behind backward a single infinite number that was computed of single finite ones (a perplexity) is told from the
    gradient of a parameter of one element by nothing. A factor of larger tensors is what it was computed for.
``a_guess_does_not_cross_backward``
    What was computed before backward is not guessed to be in what ranks reduce behind it.
``a_blind_record_between``
    Where a record without statistics gave a tensor of this size in between, that NaN is the earlier one is a guess.
``negation_has_no_record``
    Of a +Inf with no other writer the nearest -Inf with the mirrored numbers is the writer: ``-log(0)``.
``written_in_place``
    ``x[i] = bad`` has no output (dump format, section 9): the value is in the first argument from then on.
``a_number_that_was_read_later``
    A tensor without dimensions that is NaN, while nothing that was computed of it is: its statistics are those of a
    later time (8.1.x: a learnt temperature after the update), and say nothing of what the call took in.
``absorbed_by_selection``
    ``where``/indexing with a bad input and a clean output dropped the value: its writer is closed.
``it_ended_because_of_what_it_saw``
    Where a run that never came to backward ends directly behind a check (a look that gives a truth value: isnan, a
    comparison) of a bad value, that value was in flight.
``gradients_hold_no_masks``
    A -Inf in a norm, in the optimizer or in what the ranks add up once backward has begun is as bad as a +Inf.
``an_unread_log_of_zero_is_no_mask``
    ... and where one that is no mask was written and nobody read it, a communication of -Inf behind an operator
    without a record that can have joined it with others sends that one.
``nothing_before_needs_a_gradient``
    A tensor that requires a gradient, while no record before gave one that does, is a weight: its -Inf is no mask.
``a_module_gives_what_was_not_swallowed``
    Of several values that a module's result may repeat, one that a finite result swallowed is the last to be taken.
``own_parameters_take_the_gradient``
    A bad gradient that a module's backward takes in, and whose own parameters have one too, is not dropped by a finite
    gradient of its input: the parameters stand in ``parameters_grad``, right before it or, without a number, anywhere
    (dump format, section 8).
``a_module_reads_its_own_weights``
    ... and where nothing bad was written inside although the module's own parameter is bad, something without a record
    read that: the kernel of a GRU, between views that have records.
``module_repeats``
    A module's record repeats values written inside it; it is an event of its own only when nothing bad was
    written inside.
``what_is_ruled_out_is_ruled_out_around_it``
    ... nor when it repeats what a record inside gave that the user ruled out: the next candidate lies behind both.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from firstnan.dump.records import Direction, Record, RecordKind, TensorStat
from firstnan.dump.values import INFINITE, ValueState
from firstnan.operators.communication import CommCall, Result, role
from firstnan.operators.table import Computes, OperatorKind, Rulebook, short_api
from firstnan.rank.taint.contents import Contents
from firstnan.rank.taint.events import Event, EventKind, Value
from firstnan.rank.taint.islands import VIEWS, Beginning, Trial, end_of_call
from firstnan.rank.taint.legality import PARTIAL_OVERWRITES, Legality, read_tensors, sums_up, written_tensors
from firstnan.rank.taint.links import (
    BESIDE,
    NEAR,
    is_distinct,
    is_mirrored,
    is_weight,
    keeps_the_class,
    may_be_guessed,
    same_values,
)
from firstnan.rank.taint.looks import Looks, passes_truth
from firstnan.rank.taint.record_table import Table
from firstnan.rank.taint.shelf import SEARCH, Shelf
from firstnan.rank.taint.structure import Structure
from firstnan.rank.taint.writers import FiniteWriters, FirstWritten

OVERWRITES = ("__setitem__", "index_put", "copy", "masked_scatter")
"""Operators that write into their first argument."""
LINKS = 16
"""Most writers that one read is linked to: after contamination every tensor of a shape is NaN."""
LAST_LOOKS = 8
"""Last records among which the check is looked for behind which the run ended."""


class _Recorded(NamedTuple):
    """A module with a record of its own, and those around it."""

    name: str
    place: int
    outer: _Recorded | None
    is_in_order: bool
    """The record of each stands before that of the one around it."""


@dataclass
class Flow:
    """All bad values of one rank and their links, by record index."""

    records: Table
    structure: Structure
    book: Rulebook
    calls: Mapping[int, tuple[CommCall, ...]]
    excluded: frozenset[str] = frozenset()
    horizon: int | None = None
    """Index from which on bad values were not looked at; None: all of them were."""
    beginning: Beginning | None = None
    """What the rank does before it exchanges a tensor with a peer."""
    untold_trial: int | None = None
    """Index before which everything may be an island: what it repeats was not looked for to the end."""
    island: int = 0
    """Index before which everything is an island of garbage (:mod:`islands`)."""
    legality: Legality = field(init=False)
    looks: Looks = field(init=False)
    events: list[Event] = field(default_factory=list)
    late: list[Event] = field(default_factory=list)
    """Bad gradients of parameters that no record made; events only when no backward record hands a bad value on."""
    spoils: set[int] = field(default_factory=set)
    """Indices of backward records of modules, and of calls in hooks, that a parameter has its bad gradient from."""
    _spoiled: dict[str, bool] = field(default_factory=dict)
    """Paths of modules with a bad gradient of a parameter that their backward record is still to come for -> whether it
    is that of the next one alone."""
    readers: dict[int, list[int]] = field(default_factory=dict)
    """writer index -> indices of records that read its bad values"""
    memory: dict[int, int] = field(default_factory=dict)
    """Readers of memory that nothing wrote -> the record that gave the memory."""
    absorbed: dict[int, OperatorKind | None] = field(default_factory=dict)
    """Indices of records with a bad input and clean outputs -> how they swallow it."""
    bad_inputs: dict[str, int] = field(default_factory=dict)
    """Names of records that take in a bad value -> index."""
    sends_bad: dict[int, bool] = field(default_factory=dict)
    """Communication records: whether what the rank sent is bad."""
    receives_bad: dict[int, bool] = field(default_factory=dict)
    bad_backward: dict[str, int] = field(default_factory=dict)
    """Names of backward records that take in or give a bad value -> index."""
    inputs_only: bool = False
    """Results were not dumped."""
    holds_blanks: bool = False
    """Some tensors have no statistics."""
    illegal: dict[int, tuple[TensorStat, ...]] = field(default_factory=dict)
    """Record index -> its bad tensors that are not legal."""
    unlinked: int | None = None
    """The oldest writer of the very values of some read that is one more than LINKS."""
    last_check: int | None = None
    """Index of the check behind which the run ended, when it saw a bad value."""
    unfilled: set[int] = field(default_factory=set)
    """Indices of records that only look at memory which nothing has written yet."""
    unproven: set[int] = field(default_factory=set)
    """Indices of records with a bad input and no recorded result."""
    _blind: dict[tuple[Direction, int | None], int] = field(default_factory=dict)
    """Size -> the last record that gave a tensor of this size without statistics"""
    guesses: set[tuple[int, int]] = field(default_factory=set)
    """Pairs of writer and reader whose link is no more than a guess."""
    births: set[int] = field(default_factory=set)
    """Records that made a bad value of what was not."""
    closed: set[int] = field(default_factory=set)
    """Writers whose values ended inside a module with finite outputs, or were selected away."""
    _call: tuple[Trial, int] | None = None
    """What the first call of a module was that is under way, and the index behind it."""
    writers: FiniteWriters | None = None
    """Made when the first one is asked for."""
    _sizes: tuple[FirstWritten, FirstWritten] | None = None
    """Of all records, and of those that are no communication; made when the first one is asked for."""
    _norm: Value | None = None
    """The last bad norm of gradients that the step goes on with."""
    _forward_again: int = -1
    """Index of the last record in backward so far that built a graph."""
    became_integers: dict[int, bool] = field(default_factory=dict)
    """Index of a record -> whether a cast without a record made integers of its value, where that is known for good."""
    _is_begun: bool = False
    _last_event: Event | None = None
    """The bad gradient of parameters that is an event as long as no further record is looked at."""
    _seen_from_start: int = 0
    """First records without a result that requires a gradient."""
    _first_gradient: int | None = None
    """Index of the first record with a result that requires a gradient; None: it stands where nothing was read."""
    _patched: dict[int | None, list[tuple[int, Value]]] = field(default_factory=dict)
    """Size -> values of which a record overwrote a part, and that record; the next reader tells what is left."""
    _unsearched: int | None = None
    """The oldest writer of a value that was dropped and that a search for a value carried out did not come to."""
    _values: Shelf = field(default_factory=Shelf)
    _by_size: dict[int | None, Shelf] = field(default_factory=lambda: defaultdict(Shelf))
    _shut: dict[int | None, list[Value]] = field(default_factory=dict)
    """Values that were closed, in that order."""
    _ruled_out: dict[str, list[TensorStat]] = field(default_factory=dict)
    """Modules around records that the user ruled out -> the bad results of these."""
    _inside: dict[str, Contents] = field(default_factory=lambda: defaultdict(Contents))
    """module record name -> values written inside it, until its record hands them on to the module around it"""
    _around: dict[tuple[str, int], _Recorded | None] = field(default_factory=dict)
    """Innermost of a chain of callers and its length -> the innermost of them that has a record of its own."""
    _written: int = 0

    def __post_init__(self) -> None:
        self.legality = Legality(self.book, is_gradient=self._is_gradient, is_leaf=self.is_leaf)
        self.legality.follows_illegal = self._follows_illegal
        self.looks = Looks(self.records, self.book)
        self.legality.left_out_around = lambda record: self.structure.left_out_around(record.name.full)

    def _is_gradient(self, record: Record) -> bool:
        """gradients_hold_no_masks: what is added up over the ranks once backward has begun, norms and the optimizer."""
        index, structure = record.index, self.structure
        if record.index in self.calls:
            summed = sums_up(self.calls[index])
            return summed and (
                structure.after_backward(index)
                or (structure.in_backward(index) and structure.module_of(record.name.full) is None)
            )
        if structure.in_update(record.name.full):
            return True
        api = short_api(record.name)
        return structure.after_backward(index) and (
            self.book.computes(api, Computes.NORM) or api.startswith("_foreach")
        )

    def is_leaf(self, record: Record, tensor: TensorStat) -> bool:
        """nothing_before_needs_a_gradient: such a tensor is a weight."""
        return bool(tensor.requires_grad) and self._first_gradient is not None and self._first_gradient >= record.index

    def _follows_illegal(self, record: Record, tensor: TensorStat) -> bool:
        """an_unread_log_of_zero_is_no_mask: a guess that a -Inf which is none of the masks leaves the rank here."""
        if record.index not in self.calls:
            return False
        unread = (
            value
            for value in self._values.latest()
            if value.stat.state is ValueState.NEG_INF and not value.readers and self._readable(record, value)
        )
        return any(
            may_be_guessed(self.structure, self.book, self.records[value.writer], value.stat, record, tensor)
            for value in unread
        )

    def was_given(self, size: int | None, before: int, *, computed: bool = False) -> bool:
        """Whether a record before this index gave a tensor of this size; ``computed``: one that is no communication."""
        if self._sizes is None:
            self._sizes = FirstWritten(), FirstWritten()
            self._measure(self._sizes, self.records)
        return self._sizes[computed].is_before(before, size)

    def _measure(self, sizes: tuple[FirstWritten, FirstWritten], records: Sequence[Record]) -> None:
        sizes[0].extend(records)
        sizes[1].extend(record for record in records if record.index not in self.calls)

    def ends_near(self, index: int) -> bool:
        """Whether what stands at this index may be read where nothing was looked at any more."""
        return self.horizon is not None and index >= self.horizon - NEAR

    @property
    def unsearched(self) -> int | None:
        """The oldest writer of a value that some search for a read's writer did not come to."""
        shelves = (self._values, *self._by_size.values())
        known = [self._unsearched, *(shelf.left_out for shelf in shelves)]
        return min((writer for writer in known if writer is not None), default=None)

    @property
    def in_flight(self) -> list[int]:
        """Records whose values may still be read, in order."""
        return sorted({value.writer for value in self._values.open_ones()})

    @cached_property
    def origins(self) -> Mapping[int, int]:
        """Record with a bad value -> the first event that a chain of links to it begins with; complete after a run."""
        found = {event.index: event.index for event in self.events}
        for writer in sorted(self.readers):  # links only point forward
            origin = found.get(writer, writer)
            for reader in self.readers[writer]:
                found[reader] = min(found.get(reader, reader), origin)
        return found

    def go_on(self, records: Sequence[Record], structure: Structure, horizon: int | None) -> None:
        """Goes through some more records, in execution order: the last ones of those that are known. ``structure`` and
        ``horizon`` are what they are with these records."""
        if self._last_event is not None:
            self.events = [event for event in self.events if event is not self._last_event]
            self._last_event = None
        is_first, self.structure, self.horizon = not self._is_begun, structure, horizon
        self._is_begun = True
        self.__dict__.pop("origins", None)
        if self.writers is not None:
            self.writers.extend(records)
        if self._sizes is not None:
            self._measure(self._sizes, records)
        if self._first_gradient is None:
            self._first_gradient = self._where_gradients_begin()
        if not is_first:
            self._sort_in(records)
        for record in records:
            if self._call is not None or self.beginning is not None:
                self._begun(record.index)
            if structure.in_backward(record.index) and _builds_a_graph(record):
                self._forward_again = record.index
            if not self._says_nothing(record):
                self._follow(record)
                self._hand_on(record)
            if self.holds_blanks:
                for tensor in record.outputs:
                    if tensor.state.is_unknown and tensor.is_floating:
                        self._blind[record.name.direction, tensor.numel] = record.index
        if self.late and self.horizon is None and not any(map(self._explains_gradients, self.events)):
            self._last_event = self.late[0]
            timely = self._last_event.record.name.call is not None  # otherwise not at its time (dump format, section 8)
            at = bisect(self.events, self._last_event.index, key=lambda e: e.index) if timely else len(self.events)
            self.events.insert(at, self._last_event)
        if records and self.structure.in_last_forward(len(self.records) - 1) and self.records.has_end:
            self._at_the_end()

    def _explains_gradients(self, event: Event) -> bool:
        """A bad backward value that goes on, or that the gradients of its own module show; or what a hook made of a
        parameter's gradient, which some versions read only behind the hook."""
        if event.direction is Direction.BACKWARD:
            return event.index not in self.absorbed or event.index in self.spoils
        name, shown = event.record.name, self.late[0].bad_inputs
        in_hook = self.structure.in_backward(event.index) and self.structure.is_outside_forward(name.full)
        explains = any(g.numel == t.numel and same_values(g, t) for g in event.bad_outputs for t in shown)
        if in_hook and explains:
            self.spoils.add(event.index)
        return in_hook and explains

    def _says_nothing(self, record: Record) -> bool:
        """A record with a result, without a bad value, while no value waits for a proof, inside it or elsewhere: most
        records, of each window."""
        is_clean = not self.records.is_bad(record.index) and bool(record.outputs)
        return is_clean and not self._patched and record.name.full not in self._inside

    def _follow(self, record: Record) -> None:
        if record.name.full in self.excluded:
            self._rule_out(record)
        elif self.book.is_(record.name, OperatorKind.IGNORED) or self._repeats_what_is_ruled_out(record):
            return
        elif record.name.kind is RecordKind.PARAMETERS_GRAD:
            self._parameters_grad(record)
        elif record.name.kind is RecordKind.MODULE and self._is_context(record):
            self._context(record)
        else:
            self._operator(record)
        if record.name.kind is RecordKind.MODULE and record.name.direction is Direction.BACKWARD:
            self._spoil(record)

    def _spoil(self, record: Record) -> None:
        """own_parameters_take_the_gradient"""
        is_next_alone = self._spoiled.get(record.name.path)
        if is_next_alone is None:
            return
        self.spoils.add(record.index)
        if is_next_alone:
            del self._spoiled[record.name.path]

    def _at_the_end(self) -> None:
        """it_ended_because_of_what_it_saw; what only passes the truth on (``any``, ``item``) may stand behind."""
        for record in islice(self._before_the_end(), LAST_LOOKS):
            if record.name.full in self.excluded or not self.book.is_(record.name, OperatorKind.OBSERVER):
                return
            bad = [t for t in record.inputs if t.state.is_bad and not self.legality.legal_input(record, t, count=False)]
            if bad and _gives_truth(record):
                self.last_check = record.index
                writers = [value for tensor in bad for value in self._writers(record, tensor)]
                for value in writers:
                    self._link(value.writer, record.index)
                if not writers:
                    self._event(record, EventKind.ENTRY, tuple(bad), ())
            if bad:
                return

    def _before_the_end(self) -> Iterator[Record]:
        """The last records, the very last first; without those that belong to a look, or only pass truth on."""
        for index in range(len(self.records) - 1, -1, -1):
            record = self.records.get(index)
            if record is None:
                return
            if index not in self.looks.indices and not passes_truth(record):
                yield record

    def _rule_out(self, record: Record) -> None:
        bad = [tensor for tensor in record.outputs if tensor.state.is_bad]
        for module in self.structure.ancestors(record.name.full) if bad else ():
            self._ruled_out.setdefault(module, []).extend(bad)

    def _repeats_what_is_ruled_out(self, record: Record) -> bool:
        """what_is_ruled_out_is_ruled_out_around_it"""
        known = self._ruled_out.get(record.name.full)
        if not known or any(tensor.state.is_bad for tensor in record.inputs):
            return False
        bad = [tensor for tensor in record.outputs if tensor.state.is_bad]
        return all(any(tensor.numel == one.numel and same_values(tensor, one) for one in known) for tensor in bad)

    def _begun(self, index: int) -> None:
        """Whether what came before this record was an island: nothing that was written there is read any more."""
        if self._call is not None and index >= self._call[1]:
            self._leave(*self._call)
            self._call = None
        message = self.beginning.end if self.beginning is not None else None
        if self.beginning is None or message is None or index < message:
            return
        at_top = message not in self.calls or self.structure.module_of(self.records[message].name.full) is None
        if at_top and self.events:
            large = (event.record for event in self.events if any(t.numel != 1 for t in event.record.outputs))
            first = next(large, self.events[0].record)  # a number that is computed once is of no stage
            self._leave(self.beginning.trial(self.structure, first), message)
            self.untold_trial = message if self.beginning.left_out else None
        self.beginning = None

    def _is_behind_trials(self, last: Event) -> bool:
        return last.is_trial or last.index < self.island

    def _leave(self, trial: Trial, end: int) -> None:
        if trial is Trial.NO:
            return
        if trial is Trial.PROVEN:
            self.island = end
        else:
            self.events = [replace(event, is_trial=True) for event in self.events]
        self._values.close()
        self.late.clear()

    def _where_gradients_begin(self) -> int | None:
        for record in self.records[self._seen_from_start :]:
            if record.index != self._seen_from_start:
                return None
            if any(tensor.requires_grad for tensor in record.outputs):
                return record.index
            self._seen_from_start += 1
        return None

    # -- one record ------------------------------------------------------------------------------------

    def _operator(self, record: Record) -> None:
        calls = self.calls.get(record.index, ())
        taken = read_tensors(record, calls)
        if self.book.is_(record.name, OperatorKind.INITIALISER):
            self._initialiser(record)
            return
        if self.book.is_(record.name, OperatorKind.OBSERVER) or (not calls and _only_looks(record)):
            return
        given = written_tensors(record, calls)
        if not calls and self.looks.is_one(record):
            return
        if self._patched:
            self._proven(record, taken)
        if not record.outputs and short_api(record.name) in PARTIAL_OVERWRITES:
            self.legality.filled(record)
        bad_in = [t for t in taken if t.state.is_bad and not self.legality.legal_input(record, t)]
        if bad_in and self._was_read_later(record, bad_in):
            bad_in = []
        bad_out = [t for t in given if t.state.is_bad and not self.legality.legal_output(record, t, taken)]
        if not bad_in and bad_out and self._reads_flagged(record, taken):
            bad_in = [t for t in taken if t.state.is_unknown]
        if calls:
            self.sends_bad[record.index] = bool(bad_in)
            self.receives_bad[record.index] = bool(bad_out)
        if not bad_in and not bad_out:
            return
        self.illegal[record.index] = (*bad_in, *bad_out)
        if record.name.direction is Direction.BACKWARD:
            self.bad_backward[record.name.full] = record.index
        if bad_in:
            self.bad_inputs[record.name.full] = record.index
            self._read(record, bad_in, bad_out, bool(calls))
        elif calls:
            self._event(record, EventKind.RECEIVE, (), bad_out)
        elif shows_no_arguments(record) and (before := self._nearest(record, bad_out)) is not None:
            self.guesses.add((before.writer, record.index))
            self._link(before.writer, record.index)
            before.readers.append(record.index)
        else:
            legal = tuple(t for t in taken if t.state.is_bad)
            if any(t.state.is_unknown and t.is_floating for t in taken):
                self.bad_inputs[record.name.full] = record.index
            self._event(record, EventKind.BIRTH, legal, bad_out)
        for tensor in bad_out or self._written_in_place(record, bad_in):
            value = self._write(record, tensor)
            if self.structure.after_backward(record.index) and self.book.computes(
                short_api(record.name), Computes.NORM
            ):
                self._norm = value

    def _nearest(self, record: Record, given: Sequence[TensorStat]) -> Value | None:
        """what_it_took_in_was_not_dumped: the nearest value that what a record gave can follow from."""
        is_nan = any(tensor.state is ValueState.NAN for tensor in given)
        near = (v for v in islice(self._values.latest(), SEARCH) if self._readable(record, v) and not v.uninitialised)
        return next((value for value in near if is_nan or value.stat.state is not ValueState.NAN), None)

    def _was_read_later(self, record: Record, bad_in: Sequence[TensorStat]) -> bool:
        """a_number_that_was_read_later"""
        given = [tensor for tensor in record.outputs if tensor.is_floating]
        is_call = record.name.kind is RecordKind.API and record.index not in self.calls
        if not is_call or not given or any(t.shape != () or t.state is not ValueState.NAN for t in bad_in):
            return False
        if any(t.state is ValueState.NAN or t.state.is_unknown for t in given):
            return False
        kinds = (OperatorKind.SELECTOR, OperatorKind.SINK, OperatorKind.INITIALISER, OperatorKind.CARRIER)
        return not any(self.book.is_(record.name, kind) for kind in kinds)

    def _written_in_place(self, record: Record, bad_in: Sequence[TensorStat]) -> list[TensorStat]:
        """written_in_place: the first argument, when bad values went into it and no output shows it."""
        if record.outputs or short_api(record.name) not in OVERWRITES:
            return []
        target = record.inputs[0] if record.inputs else None
        written = [t for t in bad_in if target is not None and t.slot != target.slot]
        return [replace(target, state=t.state, max=t.max, min=t.min) for t in written[:1] if target is not None]

    def _read(self, record: Record, bad_in: list[TensorStat], bad_out: list[TensorStat], sending: bool) -> None:
        writers: list[Value] = []
        sizes = Counter(t.numel for t in bad_in if not is_distinct(t))
        weights: list[TensorStat] = []
        for tensor in bad_in:
            found = self._writers(record, tensor, alike=sizes[tensor.numel])
            if not found and self._is_second_weight(record, tensor):
                weights.append(tensor)
            writers += found
        live = [w for w in writers if not w.uninitialised]
        unfilled = bool(writers) and not live and short_api(record.name) in VIEWS
        surely = [w for w in live if (w.writer, record.index) not in self.guesses]
        unfilled = unfilled or (not surely and self._is_filled_next(record))
        if unfilled or (not live and self.book.is_(record.name, OperatorKind.BUFFER_VIEW)):
            for tensor in bad_out:
                self._write(record, tensor, uninitialised=True)
            bad_out.clear()
            self.unfilled.add(record.index)
            return
        for value in writers:
            self._link(value.writer, record.index)
            value.readers.append(record.index)
            if value.uninitialised:
                self.memory.setdefault(record.index, value.writer)
        if not live or weights:
            self._event(record, EventKind.ENTRY, tuple(weights or bad_in), bad_out)
        if not bad_out and not sending and not self._written_in_place(record, bad_in) and proves_a_drop(record):
            if short_api(record.name) in PARTIAL_OVERWRITES and not record.outputs:
                self._patched.setdefault(record.inputs[0].numel, []).extend((record.index, value) for value in live)
                return
            selector = self.book.is_(record.name, OperatorKind.SELECTOR)
            saturator = self.book.is_(record.name, OperatorKind.SATURATOR)
            kind = OperatorKind.SELECTOR if selector else OperatorKind.SATURATOR if saturator else None
            self.absorbed[record.index] = kind
            if kind is OperatorKind.SELECTOR:
                whole = short_api(record.name) == "copy"  # writes over all of its memory, garbage too
                for value in writers if whole else live:
                    self._close(value) if value.uninitialised else self._shut_away(value)
        elif not bad_out and not sending and not proves_a_drop(record):
            self.unproven.add(record.index)
            if self.inputs_only:
                self._write(record, _may_have_become(bad_in))

    def _is_second_weight(self, record: Record, tensor: TensorStat) -> bool:
        """a_weight_follows_from_nothing_in_its_step"""
        is_before = self.structure.first_backward is None or record.index < self.structure.first_backward
        is_call = record.name.kind is RecordKind.API and record.name.direction is Direction.FORWARD
        return is_before and is_call and record.index not in self.calls and is_weight(record, tensor, self.book)

    def _is_filled_next(self, record: Record) -> bool:
        """a_gather_fills_its_parts."""
        if short_api(record.name) not in VIEWS:
            return False
        parts = sorted(t.numel or 0 for t in record.outputs if t.is_floating)
        return any(
            call.api == "all_gather"
            and sorted(t.numel or 0 for t in call.received) == parts
            and all(t.state is ValueState.FINITE for t in call.received)
            for call in self.calls.get(record.index + 1, ())
        )

    def _proven(self, record: Record, taken: Sequence[TensorStat]) -> None:
        """overwritten_in_part: the next reader of a tensor of this size shows whether anything bad was left."""
        for tensor in taken:
            patched = self._patched.get(tensor.numel)
            if not patched or not tensor.is_floating or tensor.state is not ValueState.FINITE:
                continue
            at, value = patched[-1]
            if tensor.dtype != value.stat.dtype or record.index <= at:
                continue
            for at, value in self._patched.pop(tensor.numel):
                self.absorbed[at] = OperatorKind.SELECTOR
                self._shut_away(value)

    def _reads_flagged(self, record: Record, taken: Sequence[TensorStat]) -> bool:
        """Dumps with device flags for whole records hold no inputs: after a flagged record the next one follows."""
        if not taken or not all(t.state.is_unknown for t in taken if t.is_floating):
            return False
        near = self._values.latest()
        return any(v.stat.state is ValueState.NON_FINITE and self._readable(record, v) for v in near)

    def _initialiser(self, record: Record) -> None:
        bad = [t for t in record.outputs if t.state.is_bad]
        if not bad:
            self._overwrite(record)
            return
        self.legality.initialised(record)
        for tensor in bad:
            if not self.legality.legal_output(record, tensor, ()):
                self._write(record, tensor, uninitialised=True)

    def _overwrite(self, record: Record) -> None:
        """``zero_`` and its kind: what stood in the memory before is gone."""
        for tensor in record.inputs:
            if tensor.state.is_bad:
                for value in self._by_size[tensor.numel].latest():
                    if value.uninitialised and same_values(value.stat, tensor):
                        self._close(value)
                        break

    def _parameters_grad(self, record: Record) -> None:
        bad = [t for t in record.outputs if t.state.is_bad]
        if not bad:
            return
        self.bad_inputs[record.name.full] = record.index
        self.illegal[record.index] = tuple(bad)
        self._spoiled[record.name.path] = record.name.call is not None
        for tensor in bad:
            for value in self._writers(record, tensor):
                self._link(value.writer, record.index)
                value.readers.append(record.index)
        if not self.late and all(at in self.absorbed for at in self.bad_backward.values()):
            self.late.append(Event(EventKind.ENTRY, record, tuple(bad), tuple(bad)))
        for tensor in bad:
            self._write(record, tensor)

    # -- modules ---------------------------------------------------------------------------------------

    def _is_context(self, record: Record) -> bool:
        """A module with records inside, or any module of a dump that has operators but no construct.json."""
        if record.name.full in self.structure.inner:
            return True
        return self.structure.has_apis and self.structure.inferred

    def _context(self, record: Record) -> None:
        bad_out = [t for t in record.outputs if t.state.is_bad and not self._legal_module_output(record, t)]
        inside = self._inside.get(record.name.full) or Contents()
        bad_in = [t for t in record.inputs if t.state.is_bad and not self.legality.legal_input(record, t)]
        if bad_in:
            self.bad_inputs[record.name.full] = record.index
        if bad_in or bad_out:
            self.illegal[record.index] = (*bad_in, *bad_out)
        if not bad_out:
            given = [t for t in record.outputs if t.is_floating]
            finite = record.has_output and given and all(not t.state.is_unknown for t in given)
            if finite and record.name.direction is Direction.FORWARD:
                for value in inside.open_ones():
                    self._shut_away(value)
                inside.clear()
            if bad_in and not record.has_output and self.structure.inferred:
                self._read(record, bad_in, [], sending=False)
            return
        if record.name.direction is Direction.BACKWARD:
            self.bad_backward[record.name.full] = record.index
        if self.structure.inferred:
            sources = [v for tensor in bad_out for v in self._writers(record, tensor)]
        else:
            sources = self._given_by(record, bad_out, inside, entered=bool(bad_in))
        if not bad_in and self._is_blind_inside(record, bad_out, sources):
            sources = []
        for value in sources:
            self._link(value.writer, record.index)
        self._doubt_all_but_the_last(record, bad_out, sources)
        if not sources:
            weights = [tensor for tensor in record.parameters if tensor.state.is_bad]
            self.illegal[record.index] = (*self.illegal[record.index], *weights)
            if bad_in:
                self._read(record, bad_in, bad_out, sending=False)
            elif weights:
                self._read(record, weights, bad_out, sending=False)
            else:
                self._event(record, EventKind.BIRTH, (), bad_out)
        for tensor in bad_out:
            result = self._write(record, tensor)
            if sources and record.index not in self.calls:
                inside.repeated_by(result, sources)

    def _doubt_all_but_the_last(self, record: Record, bad_out: Sequence[TensorStat], sources: Sequence[Value]) -> None:
        """the_nearest_of_what_looks_alike, inside a module: as many as its results of this size."""
        if not self.structure.has_apis:
            return  # what puts several values together has no record
        blurred = [tensor for tensor in bad_out if not is_distinct(tensor)]
        left = Counter(tensor.numel for tensor in bad_out)
        for value in sorted(sources, key=lambda value: -value.order):
            size = value.stat.numel
            left[size] -= 1
            if left[size] < 0 and any(size == t.numel and same_values(value.stat, t) for t in blurred):
                self.guesses.add((value.writer, record.index))

    def _is_blind_inside(self, record: Record, bad_out: Sequence[TensorStat], sources: Sequence[Value]) -> bool:
        """a_blind_record_between: what a module gave has the size of a result without statistics inside, and nothing
        else inside has its numbers and its size."""
        if any(
            v.stat.numel == t.numel and (same_values(v.stat, t) or is_mirrored(v.stat, t))
            for v in sources
            for t in bad_out
        ):
            return False
        last = max((self._blind.get((record.name.direction, tensor.numel), -1) for tensor in bad_out), default=-1)
        return last >= 0 and record.name.full in self.structure.ancestors(self.records[last].name.full)

    def _given_by(
        self, record: Record, bad_out: Sequence[TensorStat], inside: Contents, *, entered: bool
    ) -> list[Value]:
        """a_module_gives_what_was_not_swallowed: the values written inside a module that its output repeats: those with
        its numbers or their negation, else those that can have become it; any, where nothing bad entered the module."""
        infinite = any(t.state in INFINITE for t in bad_out)

        def fits(value: Value) -> bool:
            return self._readable(record, value)

        def stays(value: Value) -> bool:
            return self._readable(record, value) and not self._is_swallowed(value)

        def mirrors(stat: TensorStat) -> bool:
            return any(stat.numel == t.numel and is_mirrored(stat, t) for t in bad_out)

        def is_alike(stat: TensorStat) -> bool:
            return any(keeps_the_class(stat, t) for t in bad_out)

        def is_signed(stat: TensorStat) -> bool:
            return infinite and stat.state in INFINITE

        def is_any(_: TensorStat) -> bool:
            return not entered

        same = [value for t in bad_out for value in inside.same(t, fits if is_distinct(t) else stays)]
        if same:
            return same
        for holds in (mirrors, is_alike, is_signed, is_any):
            kept = inside.where(holds, stays)
            if kept:
                return kept
        return inside.where(is_alike, fits) or inside.where(is_any, fits)

    def _is_swallowed(self, value: Value) -> bool:
        """Every reader has a finite result."""
        return bool(value.readers) and all(reader in self.absorbed for reader in value.readers)

    def _legal_module_output(self, record: Record, tensor: TensorStat) -> bool:
        return self.legality.legal_output(record, tensor, record.inputs)

    # -- values ----------------------------------------------------------------------------------------

    def _write(self, record: Record, tensor: TensorStat, *, uninitialised: bool = False) -> Value:
        communication = record.index in self.calls
        gradient = record.name.direction is Direction.BACKWARD
        value = Value(
            writer=record.index,
            stat=tensor,
            forward=not gradient or self.structure.last_backward is not None,
            backward=(gradient and record.name.kind is not RecordKind.PARAMETERS_GRAD) or communication,
            uninitialised=uninitialised,
            order=self._written,
        )
        self._written += 1
        self.legality.mirrored(tensor)
        self._values.put(value)
        self._by_size[tensor.numel].put(value)
        self._put_inside(record, value)
        return value

    def _put_inside(self, record: Record, value: Value, begun: int = -1) -> None:
        """Into the modules around its record that are still to come; ``begun``: the first index behind which they are
        looked for."""
        later = self._modules_behind(record, begun)
        innermost = self._recorded_around(record)
        if innermost is None or innermost.is_in_order:
            for module in islice(later, 1):
                self._inside[module].put(value)
        else:
            for module in later:
                self._inside[module].put_apart(value)

    def _sort_in(self, records: Sequence[Record]) -> None:
        """Puts what is open into the modules that are to come, now that more of these are known."""
        self._around.clear()
        self._inside.clear()
        repeated: set[int] = set()
        waiting = [value for one in self._values.open_ones() for value in one.repeats]
        while waiting:
            value = waiting.pop()
            if id(value) not in repeated:
                repeated.add(id(value))
                waiting += value.repeats
        for value in self._values.open_ones() if records else ():
            if id(value) not in repeated:
                self._put_inside(self.records[value.writer], value, records[0].index - 1)

    def _modules_behind(self, record: Record, begun: int = -1) -> Iterator[str]:
        """The modules around a record whose own records stand behind it, the innermost first."""
        module = self._recorded_around(record)
        while module is not None:
            if module.place > max(record.index, begun):
                yield module.name
            module = module.outer

    def _recorded_around(self, record: Record) -> _Recorded | None:
        """The innermost module around a record that has a record of its own."""
        chain = self.structure.ancestors(record.name.full)
        depth = len(chain)
        at = next((at for at in range(depth) if (chain[at], depth - at) in self._around), depth)
        known = self._around[chain[at], depth - at] if at < depth else None
        for place in range(at - 1, -1, -1):
            module = self.records.by_name.get(chain[place]) if chain[place] in self.structure.inner else None
            if module is not None:
                in_order = known is None or (known.is_in_order and module.index < known.place)
                known = _Recorded(chain[place], module.index, known, in_order)
            self._around[chain[place], depth - place] = known
        return known

    def _hand_on(self, record: Record) -> None:
        """What was written inside a module was written inside the module around it too."""
        inside = self._inside.pop(record.name.full, None)
        if inside is None:
            return
        for module in islice(self._modules_behind(record), 1):
            self._inside[module] = inside.joined(self._inside[module])

    def _readable(self, record: Record, value: Value) -> bool:
        """forward_never_writes_gradient; forward records read gradients only after backward began, and these are filled
        in by then, whatever memory they were given."""
        if record.name.direction is Direction.BACKWARD:
            return value.backward or self._is_made_in_backward(value)
        if not value.forward or (value.uninitialised and self._reads_gradients(record)):
            return False
        writer = self.records[value.writer]
        return writer.name.direction is Direction.FORWARD or self._reads_gradients(record)

    def _is_made_in_backward(self, value: Value) -> bool:
        """code_in_backward_makes_gradients"""
        if value.stat.requires_grad or value.writer <= self._forward_again:
            return False
        if not self.structure.in_backward(value.writer):
            return False
        writer = self.records[value.writer]
        if writer.name.kind is not RecordKind.API or value.writer in self.calls:
            return False
        return self.structure.is_outside_forward(writer.name.full)

    def _reads_gradients(self, record: Record) -> bool:
        """Communication, and everything outside modules once backward has begun."""
        if record.index in self.calls:
            return True
        return self.structure.after_backward(record.index) or (
            self.structure.in_backward(record.index) and self.structure.is_outside_forward(record.name.full)
        )

    def _writers(self, record: Record, tensor: TensorStat, alike: int = 1) -> list[Value]:
        """nearest_open_writer; at most LINKS writers are linked, and SEARCH values are looked at.

        ``alike``: so many arguments of this size hold nothing that tells them apart.
        """
        size = tensor.numel
        same = self._same(record, tensor, alike, graph=True)
        if not same and (is_distinct(tensor) or size != 1):
            same = self._same(record, tensor, alike, graph=False)
        if same:
            exact = [v for v in same if v.stat.shape == tensor.shape]
            blind = self._blind.get((record.name.direction, size), -1)
            for place, value in enumerate(exact or same):
                if is_distinct(tensor):
                    break
                is_guess = place >= alike or blind > value.writer or self._is_far(record, value)
                is_guess = is_guess or self._is_of_numbers(record, value)
                if is_guess or self._has_a_double(record, value):
                    self.guesses.add((value.writer, record.index))
            return exact or same
        mirrored = self._mirrored(record, tensor)
        if mirrored:
            self.guesses |= {(v.writer, record.index) for v in mirrored if self._is_of_numbers(record, v)}
            return mirrored
        carried = self._carried_out(record, tensor)
        return carried or self._guessed(record, tensor)

    def _same(self, record: Record, tensor: TensorStat, alike: int, *, graph: bool) -> list[Value]:
        """Values with the same numbers, the nearest first; ``graph``: a_graph_has_no_gap."""
        same: list[Value] = []
        is_nan, has_graph = tensor.state is ValueState.NAN, graph and bool(tensor.requires_grad)
        for value in self._by_size[tensor.numel].latest():
            if has_graph and value.stat.requires_grad is False:
                continue
            if same_values(value.stat, tensor) and self._readable(record, value):
                if not is_nan and len(same) == LINKS:
                    self.unlinked = value.writer if self.unlinked is None else min(self.unlinked, value.writer)
                    break
                same.append(value)
                if is_nan and len(same) == alike:
                    break
        return same

    def _has_a_double(self, record: Record, value: Value) -> bool:
        """what_nothing_tells_apart_proves_no_birth"""
        if value.writer not in self.births:
            return False
        for other in self._by_size[value.stat.numel].latest():
            is_used = other.readers or value.stat.numel == 1
            if other.writer < value.writer and is_used and not self._is_swallowed(other):
                return same_values(other.stat, value.stat) and self._readable(record, other)
        return False

    def _is_of_numbers(self, record: Record, value: Value) -> bool:
        """a_number_of_numbers_is_a_guess"""
        if value.stat.numel != 1 or value.writer not in self.births or not self.structure.after_backward(value.writer):
            return False
        tensors = (*self.records[value.writer].tensors, *record.tensors)
        return all(tensor.numel == 1 for tensor in tensors if tensor.is_floating)

    def _is_far(self, record: Record, value: Value) -> bool:
        """Many records behind its writer, or behind backward although that stands before it."""
        return record.index - value.writer > NEAR or self._crosses(record, value)

    def _crosses(self, record: Record, value: Value) -> bool:
        crosses = self.structure.after_backward(record.index) and not self._reads_gradients(self.records[value.writer])
        return crosses and value.writer < (self.structure.first_backward or 0)

    def _mirrored(self, record: Record, tensor: TensorStat) -> list[Value]:
        """negation_has_no_record: the nearest value whose negation this one is."""
        near = self._by_size[tensor.numel].latest()
        found = (v for v in near if is_mirrored(v.stat, tensor) and self._readable(record, v))
        return list(islice(found, 1))

    def _guessed(self, record: Record, tensor: TensorStat) -> list[Value]:
        """The nearest value that can have become this one: an unread one, one that was read too, an infinity last."""
        fallback: Value | None = None
        infinity: Value | None = None
        gradient = record.name.direction is Direction.BACKWARD
        for value in self._values.latest():
            if gradient and (value.writer in self.calls or not value.backward):
                continue  # what forward communication and code in backward made has the shape it had
            if value.uninitialised or not self._readable(record, value) or self._crosses(record, value):
                continue
            if tensor.requires_grad and value.stat.requires_grad is False and value.stat.numel == 1:
                continue  # a_graph_has_no_gap
            if value.stat.numel == 1 != tensor.numel and self._reads_gradients(record):
                continue  # a_number_is_no_gradient
            gathers = any(role(call.api).result is Result.GATHERED for call in self.calls.get(value.writer, ()))
            writer = self.records[value.writer]
            arrived = bool(self.receives_bad.get(value.writer)) and not value.readers
            if not may_be_guessed(
                self.structure, self.book, writer, value.stat, record, tensor, gathers=gathers, arrived=arrived
            ):
                continue
            if not keeps_the_class(value.stat, tensor):
                infinity = infinity or value
                continue
            if not value.readers:
                fallback = value
                break
            fallback = fallback or value
        fallback = fallback or infinity
        if fallback is None and self.structure.after_backward(record.index):
            fallback = self._norm
        if fallback is None:
            return []
        self.guesses.add((fallback.writer, record.index))
        return [fallback]

    def _carried_out(self, record: Record, tensor: TensorStat) -> list[Value]:
        """carried_out_by_attribute, used_beside_selection, received_beside_an_overwrite."""
        distinct = tensor.numel == 1 or tensor.state is not ValueState.NAN
        shut = self._shut.get(tensor.numel, [])
        if len(shut) > SEARCH and distinct:
            self._unsearched = shut[0].writer if self._unsearched is None else min(self._unsearched, shut[0].writer)
        for value in islice(reversed(shut), SEARCH):
            if not same_values(value.stat, tensor) or not self._readable(record, value):
                continue
            if (distinct and not value.readers) or self._is_beside(record, value, tensor) or self._is_received(value):
                return [value]
        return []

    def _is_received(self, value: Value) -> bool:
        """received_beside_an_overwrite."""
        if not value.readers or not self.receives_bad.get(value.writer):
            return False
        return all(short_api(self.records[reader].name) in OVERWRITES for reader in value.readers)

    def _is_beside(self, record: Record, value: Value, tensor: TensorStat) -> bool:
        """Written by the same module a few records before, the same kind of tensor."""
        parents = self.structure.parents
        writer = self.records[value.writer].name.full
        same = value.stat.shape == tensor.shape and value.stat.requires_grad == tensor.requires_grad
        near = record.index - value.writer <= BESIDE
        return (
            same and near and parents.get(writer) is not None and parents.get(writer) == parents.get(record.name.full)
        )

    def _shut_away(self, value: Value) -> None:
        self._shut.setdefault(value.stat.numel, []).append(value)
        self._close(value)

    def _close(self, value: Value) -> None:
        value.is_open = False
        self.closed.add(value.writer)

    def _link(self, writer: int, reader: int) -> None:
        links = self.readers.setdefault(writer, [])
        if not links or links[-1] != reader:
            links.append(reader)

    def _event(
        self, record: Record, kind: EventKind, bad_in: tuple[TensorStat, ...], bad_out: Sequence[TensorStat]
    ) -> None:
        if not self.structure.has_apis and (not self.events or self._is_behind_trials(self.events[-1])):
            self._call = end_of_call(self.structure, record)
        if kind is EventKind.BIRTH:
            self.births.add(record.index)
        self.events.append(Event(kind=kind, record=record, bad_inputs=bad_in, bad_outputs=tuple(bad_out)))


def proves_a_drop(record: Record) -> bool:
    """no_result_proves_nothing: whether a record shows that what it took in did not come out.

    A call that raised, a module that never returned, ``output: []`` and null statistics show nothing. An operator that
    writes into its first argument has no output of its own.
    """
    if not record.has_output or record.distrusted:
        return False
    if any(tensor.state.is_unknown and tensor.is_floating for tensor in record.outputs):
        return False
    return bool(record.outputs) or short_api(record.name) in OVERWRITES


def shows_no_arguments(record: Record) -> bool:
    """Neither a tensor nor a plain value went in, as far as the record tells."""
    return not record.inputs and not any(scalar.slot.startswith("input") for scalar in record.scalars)


def _may_have_become(taken: Sequence[TensorStat]) -> TensorStat:
    """what_was_not_dumped_passes_the_value_on: a result whose size and numbers nobody knows."""
    nan = next((tensor for tensor in taken if tensor.state is ValueState.NAN), None)
    return replace(nan or taken[0], shape=None, state=ValueState.NAN if nan else ValueState.NON_FINITE)


def _builds_a_graph(record: Record) -> bool:
    return record.name.direction is Direction.FORWARD and any(tensor.requires_grad for tensor in record.outputs)


def _gives_truth(record: Record) -> bool:
    """All that it gave are truth values, in a tensor or as one of Python's."""
    tensors = [tensor.dtype == "bool" for tensor in record.outputs]
    return all(tensors) and (bool(tensors) or any(s.type == "bool" for s in record.scalars if s.slot[:6] == "output"))


def _only_looks(record: Record) -> bool:
    """A call that returned no tensor (``stride``, ``tolist``): its reading the value says nothing of where it went."""
    looked = record.name.kind is RecordKind.API and record.name.direction is Direction.FORWARD
    return looked and record.has_output and not record.outputs and short_api(record.name) not in OVERWRITES
