"""One rank's dump in, one small picklable summary out: what the cross-rank analysis needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from firstnan.answer.model import RunUp, SymptomKind
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.dump.records import Direction, Record, RecordKind, TensorStat
from firstnan.dump.values import ValueState
from firstnan.dump.view import RankView
from firstnan.operators.communication import (
    CommCall,
    calls,
    is_communication,
    may_be_stale,
    without_stale,
)
from firstnan.operators.table import OperatorKind, Rulebook, short_api
from firstnan.rank.sides import recorded_sides
from firstnan.rank.summary import CallWindow, CommFact, ParentsOf, RankSummary, Side, SymptomFact, module_name
from firstnan.rank.surroundings import neighbours
from firstnan.rank.surroundings.blind_spots import BlindSpots
from firstnan.rank.surroundings.jumps import jump_inside
from firstnan.rank.surroundings.run_up import run_up
from firstnan.rank.suspects import Lookout, saturated
from firstnan.rank.taint import endings, limits, structure
from firstnan.rank.taint.def_use import LAST_LOOKS, Flow
from firstnan.rank.taint.earlier import earlier
from firstnan.rank.taint.events import Ending, Event, EventKind
from firstnan.rank.taint.fates import Totals, tallies
from firstnan.rank.taint.islands import Beginning
from firstnan.rank.taint.links import FAR, NEAR
from firstnan.rank.taint.record_table import Table
from firstnan.rank.window import SMALL, CallLog, Focus, far_windows

MAX_RUN_UP = 1000
"""Records before a birth in which its largest input is followed back."""
_STRIDE = 16
"""Records that are asked for together where the first or the last of a kind is looked for: mostly it is near."""
MAX_READ = 8
"""Tensors read behind a receive that are kept, to hold them against what was sent."""


def suspected(
    view: RankView,
    watch: Lookout,
    parents_of: ParentsOf,
    clean: RankSummary,
    *,
    whole: bool,
    disproved: frozenset[int] = frozenset(),
    nearby: bool = True,
) -> RankSummary:
    """The summary of a rank on which something is suspected (see :func:`firstnan.rank.survey.look`)."""
    over = view.overview
    log = CallLog(view)
    first_bad = log.first_bad(over.end if over.suspect is None else over.suspect)
    focus = Focus(view, whole=whole or log.by_name or _ends_blind(view))

    following = Following(view, watch, parents_of, disproved)

    def follow() -> Flow:
        memory = [record for record in watch.garbage if focus.horizon is None or record.index < focus.horizon]
        return following.go_on([*memory, *focus.records()], focus.horizon)

    def followed() -> tuple[Flow, dict[int, endings.Outcome], tuple[Event, ...]]:
        flow = follow()
        if focus.lengthen(flow.in_flight, list(flow.illegal)):
            flow = follow()
        found = endings.outcomes(flow, truncated=over.truncated)
        return flow, found, endings.finish(flow, found)

    flow, found, events = followed()
    while True:
        decision = _decision(events, focus.horizon)
        grows = (
            focus.extend(lengthen=decision.is_blocked) if decision.event is None else focus.widen(decision.event.index)
        )
        if not grows and decision.event is None and _ends_with_a_check(view, flow):
            grows = focus.look_at_end(LAST_LOOKS)
        if not grows and not following.corrected(focus.horizon):
            break
        flow, found, events = followed()
    far = far_windows(focus, first_bad, flow.structure.last_backward)
    facts, symptoms = facts_of(flow, found), _symptoms(flow)
    bad_inputs = dict(flow.bad_inputs)
    if far:
        records = [record for window in far for record in view.records(window.start, window.stop)]
        beyond = flow_of(view, watch, parents_of, records, focus.horizon, disproved)
        facts += facts_of(beyond, endings.outcomes(beyond, truncated=over.truncated))
        symptoms += [s for s in _symptoms(beyond) if s.kind not in {known.kind for known in symptoms}]
        bad_inputs = {**beyond.bad_inputs, **bad_inputs}
    shown, cut = _with_surroundings(view, flow, events, nearby=nearby)
    reached = limits.reached(flow, found, events, lost_memory=watch.lost_memory, cut=cut)
    windows = sorted((*focus.windows, *far), key=lambda window: window.start)
    return replace(
        clean,
        calls=tuple(sorted(facts, key=lambda fact: fact.call.index)),
        windows=tuple(CallWindow(window.start, log.before(window.start)) for window in windows),
        made=log.made(),
        mentioned=log.ranks,
        suspect=over.suspect,
        problems=(*clean.problems, *_open_ends(view, flow, events, reached)),
        horizon=focus.horizon,
        events=shown,
        tallies=tallies(flow, found, events, _totals(view, focus)),
        saturated=None if any(e.is_live for e in events) else saturated_event(view, over.saturated, watch.book),
        bad_inputs=bad_inputs,
        benign=dict(flow.legality.suppressed),
        symptoms=tuple(sorted(symptoms, key=lambda symptom: symptom.index)),
        loss_is_finite=_loss_is_finite(flow),
        last_backward=flow.structure.last_backward,
        disproved=disproved,
        last_api=_last_api(view),
        first_module=_first_module(view),
    )


def _totals(view: RankView, focus: Focus) -> Totals:
    beyond = 0 if focus.horizon is None else view.nonfinite_from(focus.horizon)
    return Totals(view.overview.nonfinite, beyond)


def _first_module(view: RankView) -> str:
    """Path and class of the first module record: what reads a stage's input."""
    end = min(SMALL, view.overview.end)
    for start in range(0, end, _STRIDE):
        for record in view.records(start, min(start + _STRIDE, end)):
            if record.name.kind is RecordKind.MODULE and record.name.direction is Direction.FORWARD:
                return module_name(record.name)
    return ""


def _last_api(view: RankView) -> int | None:
    """Index of the last record of an operator: what stands behind it was dumped by modules alone."""
    stop = view.overview.end
    while stop > 0:
        start = max(stop - _STRIDE, 0)
        for record in reversed(view.records(start, stop)):
            if record.name.kind is RecordKind.API:
                return record.index
        stop = start
    return None


def flow_of(
    view: RankView, watch: Lookout, parents_of: ParentsOf, records: Sequence[Record], horizon: int | None,
    disproved: frozenset[int] = frozenset(),
) -> Flow:  # fmt: skip
    """The flow of some records of a rank, once for all."""
    return Following(view, watch, parents_of, disproved).go_on(records, horizon)


class Following:
    """The flow of one rank, which goes on as more of its records are looked at."""

    def __init__(
        self, view: RankView, watch: Lookout, parents_of: ParentsOf, disproved: frozenset[int] = frozenset()
    ) -> None:
        self._view = view
        self._watch = watch
        self._parents_of = parents_of
        self._disproved = disproved
        self._begin()

    def _begin(self) -> None:
        self._table = Table((), self._view.overview.end)
        self._calls: dict[int, tuple[CommCall, ...]] = {}
        self._nesting = structure.Nesting(self._view, self._table)
        self._answered: dict[tuple[str, ...], frozenset[str]] = {}
        """What the flow was told of operators that the dump leaves out."""
        self._flow: Flow | None = None
        self._masks: set[int] = set()
        """Disproved receives of nothing worse than -Inf."""

    def go_on(self, records: Iterable[Record], horizon: int | None) -> Flow:
        """The flow with some more records. Where they stand behind the known ones, only they are followed."""
        known = self._table
        new = sorted({r.index: r for r in records if known.get(r.index) is None}.values(), key=lambda r: r.index)
        if new and new[0].index < known.last:
            return self._start_over(new, horizon)
        known.extend(new)
        self._find_calls(new)
        nesting = self._nested(new)
        if nesting is None:
            return self._start_over((), horizon)
        if self._flow is None:
            self._flow = self._made(nesting)
        else:
            self._answered = {**self._flow.structure.left_out_asked, **self._answered}
        self._flow.go_on(new, nesting, horizon)
        return self._flow

    def corrected(self, horizon: int | None) -> bool:
        """Whether all had to be followed once more: the dump leaves out other operators than it seemed to before all
        these records were known."""
        flow = self._flow
        if flow is None or all(flow.structure.left_out_of(c) == apis for c, apis in self._answered.items()):
            return False
        self._start_over((), horizon)
        return True

    def _start_over(self, new: Sequence[Record], horizon: int | None) -> Flow:
        records = [*self._table, *new]
        self._begin()
        return self.go_on(records, horizon)

    def _find_calls(self, new: Sequence[Record]) -> None:
        over = self._view.overview
        for record in new:
            if is_communication(record):
                found = calls(record, over.folder.rank, groups_recorded=over.groups_recorded)
                if record.index in self._disproved and all(map(_brings_masks, found)):
                    self._masks.add(record.index)
                elif record.index in self._disproved:
                    found = tuple(map(without_stale, found))
                self._calls[record.index] = found

    def _nested(self, new: Sequence[Record]) -> structure.Structure | None:
        over, table = self._view.overview, self._table
        final = None if over.truncated or not over.end else self._view.records(over.end - 1, over.end)[0]
        entered = structure.just_entered(table, over.end)
        names = [record.name.full for record in new if record.index not in entered]
        names += [final.name.full] if final and final.index not in entered else []
        return self._nesting.grown(new, structure.with_entered(self._parents_of(names), table, entered), final)

    def _made(self, nesting: structure.Structure) -> Flow:
        view, watch = self._view, self._watch
        over = view.overview
        flow = Flow(self._table, nesting, watch.book, self._calls, watch.excluded)
        flow.beginning = Beginning(view)
        flow.inputs_only = any(problem.kind is ProblemKind.INPUTS_ONLY for problem in over.problems)
        flow.holds_blanks = _is_partly_blind(view)
        flow.legality.count_from = over.end if over.suspect is None else over.suspect
        flow.legality.masks = self._masks
        flow.legality.suppressed = dict(watch.benign)
        return flow


def _brings_masks(call: CommCall) -> bool:
    """Nothing in its result is worse than -Inf: where that is disproved, it is a mask of another rank's making."""
    bad = [tensor.state for tensor in call.received if tensor.state.is_bad]
    return bool(bad) and set(bad) == {ValueState.NEG_INF}


def _ends_with_a_check(view: RankView, flow: Flow) -> bool:
    """Whether the run never came to backward, and looked at a bad value last. Such a record is no suspect."""
    if flow.structure.last_backward is not None or flow.records.has_end:
        return False
    end = view.overview.end
    looks = (r for r in view.records(end - LAST_LOOKS, end) if flow.book.is_(r.name, OperatorKind.OBSERVER))
    return any(tensor.state.is_bad for record in looks for tensor in record.inputs)


def _ends_blind(view: RankView) -> bool:
    """The last records have no statistics: what is not read before them may have been read there."""
    over = view.overview
    if not _is_partly_blind(view):
        return False
    return all(endings.is_blind(record) for record in view.records(over.end - endings.BLIND_RECORDS, over.end))


def _open_ends(
    view: RankView, flow: Flow, events: Sequence[Event], reached: Iterable[limits.Limit]
) -> Iterator[Problem]:
    """Where the run ended with values in flight, and where the analysis did."""
    folder = view.overview.folder
    if flow.structure.unfinished is not None and any(event.is_live for event in events):
        yield Problem(ProblemKind.ENDED_INSIDE, folder.step, folder.rank, folder.label, flow.structure.unfinished)
    if flow.last_check is not None:
        name = flow.records[flow.last_check].name.full
        yield Problem(ProblemKind.ENDED_AT_CHECK, folder.step, folder.rank, folder.label, name)
    for limit in reached:
        yield Problem(ProblemKind.LIMIT, folder.step, folder.rank, folder.label, limit.value, judged=False)


class _Decision(Struct, frozen=True):
    """The first event that matters, where nothing before it is still open."""

    event: Event | None = None
    is_blocked: bool = False
    """There is one, and a value before it may still be read."""


def _decision(events: Sequence[Event], horizon: int | None) -> _Decision:
    is_open = False
    for event in events:
        # of what was received its sender tells more than what follows here
        is_sure = event.guess is None or event.kind is EventKind.RECEIVE
        if is_sure and (event.is_live or event.communications):
            return _Decision(None if is_open else event, is_open)
        unread = bool(event.endings & {Ending.UNREAD, Ending.BEYOND})
        is_open = is_open or (unread and horizon is not None and horizon - event.index < FAR)
    return _Decision()


def saturated_event(view: RankView, index: int | None, book: Rulebook) -> Event | None:
    """Hardware that clamps instead of overflowing leaves the largest finite value where Inf would stand."""
    if index is None:
        return None
    record = view.records(index, index + 1)[0]
    tensor = saturated(record, book)
    return Event(EventKind.BIRTH, record, (), (tensor,) if tensor else (), run_up=_run_up(view, record))


def _run_up(view: RankView, record: Record) -> tuple[RunUp, ...]:
    start = max(record.index - MAX_RUN_UP, 0)
    return run_up(Table(view.records(start, record.index + 1), view.overview.end), record)


def _with_surroundings(
    view: RankView, flow: Flow, events: tuple[Event, ...], *, nearby: bool
) -> tuple[tuple[Event, ...], frozenset[int]]:
    """Run-up, earlier bad records and neighbouring records of the few events that can be the first that matters; and
    the indices of those that may come from a record without statistics that was not looked for any further."""
    known = frozenset(event.index for event in events)
    spots = BlindSpots(flow) if events else None
    told = {id(event) for event in neighbours.first_that_matter(events)}
    found = []
    cut: set[int] = set()
    for event in events:
        matters = id(event) in told
        if spots is not None:
            event = replace(event, blind=spots.of(event))
            if spots.is_cut and event.blind is None:
                cut.add(event.index)
            event = replace(event, swallowed=spots.swallowed(event))
        if event.kind is EventKind.BIRTH and event.record.name.kind is RecordKind.MODULE:
            event = replace(event, jump=jump_inside(flow, event))
        if matters:
            start, stop = max(event.index - neighbours.BEFORE, 0), event.index + neighbours.AFTER + 1
            around = view.records(start, stop) if nearby else ()
            event = replace(
                event,
                run_up=_run_up(view, event.record) if event.kind is EventKind.BIRTH else (),
                earlier=earlier(flow, event, known),
                nearby=neighbours.near_records(around, flow.structure.module_path),
            )
        found.append(event)
    return tuple(found), frozenset(cut)


def _is_partly_blind(view: RankView) -> bool:
    return any(problem.kind is ProblemKind.PARTLY_NO_STATISTICS for problem in view.overview.problems)


def facts_of(flow: Flow, found: Mapping[int, endings.Outcome]) -> list[CommFact]:
    facts = []
    for index in sorted(flow.calls):
        for call in flow.calls[index]:
            sent = _side(call.sent, flow, index, flow.sends_bad)
            received = _side(call.received, flow, index, flow.receives_bad)
            sent, received = recorded_sides(call, sent, received, distrusted=flow.records[index].distrusted)
            after = found.get(index, endings.Outcome()) if Side.BAD in (sent, received) else endings.Outcome()
            late = flow.structure.after_backward(index)
            read = _read_next(flow, index, call) if received is Side.BAD and may_be_stale(call) else ()
            passes = flow.structure.is_call_in_backward(call, flow.records)
            facts.append(CommFact(call, sent, received, after.endings, tuple(sorted(after.calls)), late, read, passes))
    return facts


def _read_next(flow: Flow, index: int, call: CommCall) -> tuple[TensorStat, ...]:
    """What the records behind a receive read of the size of its result, at most MAX_READ, the nearest first."""
    sizes = {tensor.numel for tensor in call.received}
    found: list[TensorStat] = []
    for at in range(index + 1, min(index + 1 + NEAR, len(flow.records))):
        record = flow.records.get(at)
        if record is None:
            break
        found += [t for t in record.inputs if t.numel in sizes and t.is_floating and not t.state.is_unknown]
        if len(found) >= MAX_READ:
            break
    return tuple(found[:MAX_READ])


def _side(tensors: tuple[TensorStat, ...], flow: Flow, index: int, bad: Mapping[int, bool]) -> Side:
    if not tensors:
        return Side.NONE
    record = flow.records[index]
    if bad.get(index) and any(
        t.state.is_bad and not flow.legality.legal_input(record, t, count=False) for t in tensors
    ):
        return Side.BAD
    if not any(t.state.is_unknown for t in tensors):
        return Side.CLEAN
    flagged = bad.get(index) and not any(t.state.is_bad for t in (*record.inputs, *flow.calls[index][0].sent))
    return Side.BAD if flagged else Side.UNKNOWN


def _loss_is_finite(flow: Flow) -> bool:
    """A scalar from which backward starts is recorded, and all of them are finite."""
    records = (flow.structure.by_name.get(name) for name in flow.structure.losses)
    scalars = [t for r in records if r is not None for t in r.outputs if t.shape == ()]
    return bool(scalars) and all(tensor.state is ValueState.FINITE for tensor in scalars)


_NORM_APIS = frozenset({"norm", "vector_norm", "_foreach_norm", "clip_grad_norm", "matrix_norm"})


def _symptoms(flow: Flow) -> list[SymptomFact]:
    """Loss, gradient, grad norm, parameter: the first record of each that is hit."""
    found: dict[SymptomKind, SymptomFact] = {}

    def add(kind: SymptomKind, record: Record) -> None:
        found.setdefault(kind, SymptomFact(kind, record.name.full, record.index))

    for record in flow.records.bad:
        if record.index < flow.island:
            continue
        name = record.name
        scalar = name.kind is RecordKind.API and all(t.shape == () for t in record.outputs)
        if scalar and name.full in flow.structure.losses and any(t.state.is_bad for t in record.outputs):
            add(SymptomKind.LOSS, record)
        if name.kind is RecordKind.PARAMETERS_GRAD and any(t.state.is_bad for t in record.outputs):
            add(SymptomKind.GRADIENT, record)
        if name.full in flow.bad_backward and name.direction is Direction.BACKWARD:
            add(SymptomKind.GRADIENT, record)
        if flow.structure.after_backward(record.index) and any(t.state.is_bad for t in record.outputs):
            if short_api(name) in _NORM_APIS:
                if SymptomKind.GRAD_NORM not in found and any(t.state.is_bad for t in record.inputs):
                    add(SymptomKind.GRADIENT, record)  # what the norm reads; norms of norms only repeat the first
                add(SymptomKind.GRAD_NORM, record)
            elif record.index in flow.calls:
                add(SymptomKind.GRADIENT, record)
        if any(t.state.is_bad for t in record.parameters):
            add(SymptomKind.PARAMETER, record)
    return sorted(found.values(), key=lambda s: s.index)
