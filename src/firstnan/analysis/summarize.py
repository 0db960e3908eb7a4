"""One rank's dump in, one small picklable summary out: what the cross-rank analysis needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from firstnan.analysis import endings, structure
from firstnan.analysis.arithmetic import result_bound
from firstnan.analysis.events import Ending, Event, EventKind
from firstnan.analysis.families import PRODUCTS
from firstnan.analysis.flow import Flow
from firstnan.analysis.run_up import run_up
from firstnan.collectives import CommCall, Freshness, calls, is_communication
from firstnan.dump import Direction, Problem, RankDump, Record, RecordKind, TensorStat
from firstnan.numerics import ValueState, limits
from firstnan.report import SymptomKind
from firstnan.rulebook import Rulebook, short_api

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


def summarize(
    dump: RankDump, parents: Mapping[str, str | None], book: Rulebook, excluded: frozenset[str] = frozenset()
) -> RankSummary:
    """Follows the bad values of one rank and keeps what decides.

    ``parents`` is construct.json (empty when absent); ``excluded`` are record names the user ruled out.
    """
    records = dump.records
    groups_recorded = _groups_recorded(dump)
    by_record = {
        r.index: calls(r, dump.folder.rank, groups_recorded=groups_recorded) for r in records if is_communication(r)
    }
    nesting = structure.build(records, parents)
    flow = Flow(records, nesting, book, by_record, excluded)
    flow.run()
    found = endings.outcomes(flow, truncated=dump.truncated)
    events = _with_run_up(records, endings.finish(flow, found))
    return RankSummary(
        step=dump.folder.step,
        rank=dump.folder.rank,
        label=dump.folder.label,
        records=len(records),
        bytes_read=dump.bytes_read,
        problems=dump.problems,
        truncated=dump.truncated,
        judged=_judged(records),
        has_apis=nesting.has_apis,
        last_record=records[-1].name.full if records else "",
        calls=tuple(_facts(flow, found)),
        events=events,
        saturated=None if any(e.is_live for e in events) else _first_saturated(records),
        bad_inputs=dict(flow.bad_inputs),
        benign=dict(flow.legality.suppressed),
        symptoms=tuple(_symptoms(flow)),
        last_backward=nesting.last_backward,
    )


def _first_saturated(records: Sequence[Record]) -> Event | None:
    """Hardware that clamps instead of overflowing leaves the largest finite value where Inf would stand."""
    for record in records:
        if record.name.direction is not Direction.FORWARD or short_api(record.name) not in PRODUCTS:
            continue
        for tensor in record.outputs:
            limit = limits(tensor.dtype)
            if limit is None or limit.name != "float16" or limit.largest not in (tensor.max, -(tensor.min or 0)):
                continue
            bound = result_bound(record)
            if bound is not None and bound > limit.largest:
                return Event(EventKind.BIRTH, record, (), (tensor,), run_up=run_up(records, record))
    return None


def _with_run_up(records: Sequence[Record], events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Run-ups of the few births that can be the answer."""
    left = MAX_RUN_UPS
    found = []
    for event in events:
        if left and event.kind is EventKind.BIRTH and (event.is_live or event.communications):
            event = replace(event, run_up=run_up(records, event.record))
            left -= 1
        found.append(event)
    return tuple(found)


def _groups_recorded(dump: RankDump) -> bool:
    """1.0.x writes null for groups and names no framework; hand-made formats have no direction in names."""
    communication = [r for r in dump.records if is_communication(r)]
    if any(r.groups for r in communication):
        return True
    hand_made = any(not r.name.full.endswith((".forward", ".backward")) for r in communication)
    return dump.framework is not None and not hand_made


def _judged(records: Sequence[Record]) -> bool:
    return any(
        t.state not in (ValueState.UNKNOWN, ValueState.EMPTY) and t.is_floating
        for r in records
        for t in (*r.inputs, *r.outputs, *r.parameters)
    )


def _facts(flow: Flow, found: Mapping[int, endings.Outcome]) -> list[CommFact]:
    facts = []
    for index in sorted(flow.calls):
        for call in flow.calls[index]:
            sent = _side(call.sent, flow, index, flow.sends_bad)
            received = _side(call.received, flow, index, flow.receives_bad)
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
        if name.full in flow.structure.losses and any(t.state.is_bad for t in record.outputs):
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
