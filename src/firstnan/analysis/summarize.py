"""One rank's dump in, one small picklable summary out: what the cross-rank analysis needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from firstnan.analysis import endings, nearby, structure
from firstnan.analysis.events import Ending, Event, EventKind
from firstnan.analysis.flow import Flow
from firstnan.analysis.focus import FAR, SMALL, CallWindow, Focus, count_calls, far_windows, ranks_at_the_ends
from firstnan.analysis.run_up import run_up
from firstnan.analysis.table import Table
from firstnan.analysis.watch import Lookout, saturated
from firstnan.analysis.whole import WholeDump
from firstnan.collectives import CallKey, CallKind, CommCall, Freshness, Root, calls, is_communication
from firstnan.dump import (
    Direction,
    Problem,
    ProblemKind,
    RankDump,
    RankView,
    Record,
    RecordKind,
    RecordName,
    TensorStat,
)
from firstnan.report import RunUp, SymptomKind
from firstnan.rulebook import Rulebook, short_api

ParentsOf = Callable[[Collection[str]], Mapping[str, str | None]]
"""Record names -> name of the caller for these and for their callers (construct.json)."""
LONG = 128
"""A value that spreads over so many records is not dropped any more."""
MAX_RUN_UP = 1000
"""Records before a birth in which its largest input is followed back."""
MAX_RUN_UPS = 3
"""Births whose run-up is followed; later ones are consequences."""


class Side(Enum):
    """What one side of a communication call holds."""

    CLEAN = "clean"
    """Finite, legal or empty."""
    BAD = "bad"
    """Non-finite and not legal."""
    UNKNOWN = "unknown"
    """No statistics, not finished, or not applicable to a value that was not recorded."""
    NONE = "none"
    """The rank has no such side (a sender has no result)."""


@dataclass(frozen=True, slots=True)
class CommFact:
    """One communication call of a rank, judged."""

    call: CommCall
    sent: Side
    received: Side
    onward: frozenset[Ending] = frozenset()
    """Bad calls only: where the value goes from here on this rank."""
    next_calls: tuple[int, ...] = ()
    """Bad calls only: record indices of later communication that the value enters."""
    after_backward: bool = False


@dataclass(frozen=True, slots=True)
class SymptomFact:
    """The first record of one kind of symptom."""

    kind: SymptomKind
    op_name: str
    index: int


@dataclass(frozen=True, slots=True)
class RankSummary:
    """What is kept of one rank and step."""

    step: int
    rank: int
    label: str
    records: int = 0
    bytes_read: int = 0
    problems: tuple[Problem, ...] = ()
    truncated: bool = False
    judged: bool = True
    """False: nothing on this rank could be judged (no record, no statistics)."""
    has_apis: bool = True
    """False: only modules were dumped (L0): communication leaves no record."""
    last_record: str = ""
    last_operator: str = ""
    """The same without its number."""
    calls: tuple[CommFact, ...] = ()
    events: tuple[Event, ...] = ()
    saturated: Event | None = None
    """The first product whose finite result stands exactly at its dtype's limit, when nothing is non-finite."""
    bad_inputs: Mapping[str, int] = field(default_factory=dict)
    """Records that take in a bad value -> index."""
    benign: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """rule -> (count, first example)"""
    symptoms: tuple[SymptomFact, ...] = ()
    last_backward: int | None = None
    suspect: int | None = None
    """Index of the first record that could matter; None: there is none."""
    horizon: int | None = None
    """Index from which on suspects were not looked at; None: all were."""
    windows: tuple[CallWindow, ...] = ()
    """Where the calls in ``calls`` stand among all calls of the rank."""
    made: Mapping[CallKey, int] | None = None
    """Calls of the whole file by series; None: not counted."""
    mentioned: frozenset[int] = frozenset()
    """Ranks that the calls name."""

    def outlasts(self, fact: CommFact) -> bool:
        """The call's bad value was still spreading, long after it, where the look at this rank ended."""
        return Ending.BEYOND in fact.onward and self.horizon is not None and self.horizon - fact.call.index >= LONG

    @property
    def communicates(self) -> bool:
        """The dump holds communication calls; asked only of ranks on which something is suspected."""
        return bool(self.made or self.calls)


def summarize(
    dump: RankDump, parents: Mapping[str, str | None], book: Rulebook, excluded: frozenset[str] = frozenset()
) -> RankSummary:
    """Follows the bad values of one rank that is in memory and keeps what decides.

    ``parents`` is construct.json (empty when absent); ``excluded`` are record names the user ruled out.
    """
    watch = Lookout(book, dump.folder.rank, excluded)
    return look(WholeDump(dump, watch), watch, lambda _: parents, whole=True)


def look(view: RankView, watch: Lookout, parents_of: ParentsOf, *, whole: bool = False) -> RankSummary:
    """Looks at what can matter of one rank (:mod:`focus`) and keeps what decides.

    ``whole``: at all its records, whether anything is suspected or not. construct.json is asked for only where
    something is suspected.
    """
    over = view.overview
    watch.counting = False
    clean = RankSummary(
        step=over.folder.step,
        rank=over.folder.rank,
        label=over.folder.label,
        records=over.records,
        bytes_read=over.bytes_read,
        problems=over.problems,
        truncated=over.truncated,
        judged=over.judged,
        has_apis=over.has_apis,
        last_record=over.last.full if over.last else "",
        last_operator=_operator(over.last) if over.last else "",
        benign=dict(watch.benign),
    )
    if over.suspect is None and not whole:
        log = count_calls(view) if over.end <= SMALL else None
        return replace(
            clean,
            saturated=_saturated(view),
            made=None if log is None else dict(log.made),
            mentioned=frozenset(log.ranks) if log else ranks_at_the_ends(view),
        )
    return _suspected(view, watch, parents_of, clean, whole=whole)


def _suspected(
    view: RankView, watch: Lookout, parents_of: ParentsOf, clean: RankSummary, *, whole: bool
) -> RankSummary:
    over = view.overview
    log = count_calls(view, over.suspect)
    focus = Focus(view, whole=whole or log.by_name or _ends_blind(view))
    flow = flow_of(view, watch, parents_of, [*watch.garbage, *focus.records()], focus.horizon)
    found = endings.outcomes(flow, truncated=over.truncated)
    events = endings.finish(flow, found)
    while not _is_decided(events, focus.horizon) and focus.extend():
        flow = flow_of(view, watch, parents_of, [*watch.garbage, *focus.records()], focus.horizon)
        found = endings.outcomes(flow, truncated=over.truncated)
        events = endings.finish(flow, found)
    far = far_windows(focus, log, flow.structure.last_backward)
    facts, symptoms = facts_of(flow, found), _symptoms(flow)
    bad_inputs = dict(flow.bad_inputs)
    if far:
        records = [record for window in far for record in view.records(window.start, window.stop)]
        beyond = flow_of(view, watch, parents_of, records, focus.horizon)
        facts += facts_of(beyond, endings.outcomes(beyond, truncated=over.truncated))
        symptoms += [s for s in _symptoms(beyond) if s.kind not in {known.kind for known in symptoms}]
        bad_inputs = {**beyond.bad_inputs, **bad_inputs}
    windows = sorted((*focus.windows, *far), key=lambda window: window.start)
    return replace(
        clean,
        calls=tuple(sorted(facts, key=lambda fact: fact.call.index)),
        windows=tuple(CallWindow(window.start, log.before(window.start)) for window in windows),
        made=dict(log.made),
        mentioned=frozenset(log.ranks),
        suspect=over.suspect,
        horizon=focus.horizon,
        events=_with_surroundings(view, flow.structure, events),
        saturated=None if any(e.is_live for e in events) else _saturated(view),
        bad_inputs=bad_inputs,
        benign=dict(flow.legality.suppressed),
        symptoms=tuple(sorted(symptoms, key=lambda symptom: symptom.index)),
        last_backward=flow.structure.last_backward,
    )


def flow_of(
    view: RankView, watch: Lookout, parents_of: ParentsOf, records: Sequence[Record], horizon: int | None
) -> Flow:
    over = view.overview
    table = Table(sorted({r.index: r for r in records}.values(), key=lambda record: record.index), over.end)
    by_record = {
        r.index: calls(r, over.folder.rank, groups_recorded=over.groups_recorded) for r in table if is_communication(r)
    }
    nesting = structure.build(table, parents_of([record.name.full for record in table]), view)
    flow = Flow(table, nesting, watch.book, by_record, watch.excluded, horizon)
    flow.legality.count_from = over.end if over.suspect is None else over.suspect
    flow.legality.suppressed = dict(watch.benign)
    flow.run()
    return flow


def _ends_blind(view: RankView) -> bool:
    """The last records have no statistics: what is not read before them may have been read there."""
    over = view.overview
    if not any(problem.kind is ProblemKind.PARTLY_NO_STATISTICS for problem in over.problems):
        return False
    return all(endings.is_blind(record) for record in view.records(over.end - endings.BLIND_RECORDS, over.end))


def _operator(name: RecordName) -> str:
    return ".".join(part for part in (name.prefix, name.path, name.api, name.direction.value) if part)


def _is_decided(events: Sequence[Event], horizon: int | None) -> bool:
    """Whether the first event that matters is among these, and nothing before it is still open."""
    for event in events:
        if event.is_live or event.communications:
            return True
        is_open = event.endings & {Ending.UNREAD, Ending.BEYOND}
        if is_open and horizon is not None and horizon - event.index < FAR:
            return False
    return False


def _saturated(view: RankView) -> Event | None:
    """Hardware that clamps instead of overflowing leaves the largest finite value where Inf would stand."""
    index = view.overview.saturated
    if index is None:
        return None
    record = view.records(index, index + 1)[0]
    tensor = saturated(record)
    return Event(EventKind.BIRTH, record, (), (tensor,) if tensor else (), run_up=_run_up(view, record))


def _run_up(view: RankView, record: Record) -> tuple[RunUp, ...]:
    start = max(record.index - MAX_RUN_UP, 0)
    return run_up(Table(view.records(start, record.index + 1), view.overview.end), record)


def _with_surroundings(view: RankView, nesting: structure.Structure, events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Run-up and neighbouring records of the few events that can be the first that matters."""
    left = MAX_RUN_UPS
    found = []
    for event in events:
        if left and (event.is_live or event.communications):
            around = view.records(max(event.index - nearby.BEFORE, 0), event.index + nearby.AFTER + 1)
            event = replace(
                event,
                run_up=_run_up(view, event.record) if event.kind is EventKind.BIRTH else (),
                nearby=nearby.near_records(around, nesting.module_path),
            )
            left -= 1
        found.append(event)
    return tuple(found)


def facts_of(flow: Flow, found: Mapping[int, endings.Outcome]) -> list[CommFact]:
    facts = []
    for index in sorted(flow.calls):
        for call in flow.calls[index]:
            sent = _side(call.sent, flow, index, flow.sends_bad)
            received = _side(call.received, flow, index, flow.receives_bad)
            if sent is Side.NONE and call.kind is not CallKind.RECEIVE and call.rooted is not Root.SENDS:
                sent = Side.UNKNOWN  # it put something in that was not recorded (data_mode without inputs)
            if not call.finished or call.freshness is Freshness.WORTHLESS:
                received = Side.UNKNOWN if call.received else Side.NONE
            if flow.records[index].distrusted and sent is not Side.BAD:
                sent = received = Side.UNKNOWN
            after = found.get(index, endings.Outcome()) if Side.BAD in (sent, received) else endings.Outcome()
            late = flow.structure.after_backward(index)
            facts.append(CommFact(call, sent, received, after.endings, tuple(sorted(after.calls)), late))
    return facts


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


_NORM_APIS = frozenset({"norm", "vector_norm", "_foreach_norm", "clip_grad_norm", "matrix_norm"})


def _symptoms(flow: Flow) -> list[SymptomFact]:
    """Loss, gradient, grad norm, parameter: the first record of each that is hit."""
    found: dict[SymptomKind, SymptomFact] = {}

    def add(kind: SymptomKind, record: Record) -> None:
        found.setdefault(kind, SymptomFact(kind, record.name.full, record.index))

    for record in flow.records:
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
                add(SymptomKind.GRAD_NORM, record)
            elif record.index in flow.calls:
                add(SymptomKind.GRADIENT, record)
        if any(t.state.is_bad for t in record.parameters):
            add(SymptomKind.PARAMETER, record)
    return sorted(found.values(), key=lambda s: s.index)
