"""Trace events (the JSON form of Chrome and Perfetto): a process per rank, its records in order, arrows between ranks.

There is no clock in a dump. A record takes one microsecond; the records of one communication call begin together, after
everything that comes before them on any member (:func:`place_all`). Perfetto colours a slice by its name and does not
read ``cname``: what is not finite stands in a track of its own as well, in slices called ``NaN``, ``+Inf`` ...
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from firstnan.answer.model import CollectiveReport, RankState, Report
from firstnan.answer.views import NearRecord
from firstnan.dump.language import Language
from firstnan.dump.printable import show
from firstnan.dump.ranges import format_ranges
from firstnan.dump.values import ValueState
from firstnan.show.json import number
from firstnan.show.reporter import Settings
from firstnan.version import __version__
from firstnan.words import text

MAX_SLICES = 20_000
"""Most records of communication calls that are drawn; the causally last calls are left out first."""

_RECORDS, _NON_FINITE = 1, 2
"""The two tracks (threads) of a rank."""
_LENGTH = 0.9
"""Of a slice, in microseconds: neighbours do not touch."""
_COLOURS = {True: "terrible", False: "good"}

Event = dict[str, object]


class Slice(Struct):
    """One record of a rank on its way into the trace."""

    rank: int
    name: str
    near: NearRecord | None = None
    calls: list[int] = field(default_factory=list)
    """Positions of the calls that this record is a part of."""
    is_root: bool = False
    start: int | None = None


Lanes = Mapping[int, Sequence[Slice]]
"""rank -> its slices in record order"""


def render(report: Report, settings: Settings) -> str:
    """The trace as JSON text, ending with a line end."""
    language = settings.language
    calls = _affordable(report.collectives)
    lanes = lanes_of(report, calls)
    place_all(lanes, len(calls))
    notes = [text("chrome.time", language)]
    if len(calls) < len(report.collectives):
        notes.append(text("chrome.shortened", language, kept=len(calls), total=len(report.collectives)))
    document = {
        "traceEvents": [
            *_names(lanes, language),
            *(event for lane in lanes.values() for part in lane for event in _events(part, calls, language)),
            *_flows(lanes, calls),
        ],
        "displayTimeUnit": "ns",
        "otherData": {
            "tool": f"firstnan {__version__}",
            "path": show(report.input.path, 200),
            "step": report.step,
            "time": " ".join(notes),
        },
    }
    return json.dumps(document, allow_nan=False, separators=(",", ":")) + "\n"


def lanes_of(report: Report, calls: Sequence[CollectiveReport]) -> dict[int, list[Slice]]:
    """The slices of every rank: records around its first bad value, and its records of affected calls.

    A call's record that is not among the former stands after them, or before them when an affected call that is among
    them comes later.
    """
    windows = {s.rank: [Slice(s.rank, r.op_name, r) for r in s.records] for s in report.surroundings if s.records}
    roots = {(cause.rank, cause.op_name) for cause in report.root_causes}
    own_calls: dict[int, list[tuple[str, int]]] = {}
    for position, call in enumerate(calls):
        for rank, name in call.ops.items():
            own_calls.setdefault(rank, []).append((name, position))
    lanes: dict[int, list[Slice]] = {}
    for rank in sorted({*windows, *own_calls, *(rank for rank, _ in roots)}):
        window = windows.get(rank, [])
        window = window or [Slice(rank, name) for owner, name in sorted(roots) if owner == rank and name]
        lane = _lane(rank, window, own_calls.get(rank, []))
        for part in lane:
            part.is_root = (rank, part.name) in roots
        lanes[rank] = lane
    return lanes


def _lane(rank: int, window: Sequence[Slice], calls: Sequence[tuple[str, int]]) -> list[Slice]:
    known = {part.name: part for part in window}
    anchors = [at for at, (name, _) in enumerate(calls) if name in known]
    before: list[Slice] = []
    after: list[Slice] = []
    for at, (name, position) in enumerate(calls):
        if name not in known:
            known[name] = Slice(rank, name)
            (before if anchors and at < anchors[0] else after).append(known[name])
        known[name].calls.append(position)
    return [*before, *window, *after]


def place_all(lanes: Lanes, calls: int) -> None:
    """Gives every slice its start: after the slices before it, and together with the other members of its call.

    ``members_of_a_call_begin_together``: rank 0 has records a, b, send and rank 1 has recv: send and recv begin at 2.
    Calls come in causal order; a record that an earlier call has placed already stays where it is.
    """
    members: list[list[Slice]] = [[] for _ in range(calls)]
    for lane in lanes.values():
        for part in lane:
            for call in part.calls:
                members[call].append(part)
    next_of = dict.fromkeys(lanes, 0)
    free_at = dict.fromkeys(lanes, 0)

    def put(part: Slice, start: int) -> None:
        part.start = start
        next_of[part.rank] += 1
        free_at[part.rank] = start + 1

    def advance(rank: int, until: Slice | None) -> None:
        lane = lanes[rank]
        while next_of[rank] < len(lane) and lane[next_of[rank]] is not until:
            put(lane[next_of[rank]], free_at[rank])

    for together in members:
        waiting = [part for part in together if part.start is None]
        for part in waiting:
            advance(part.rank, part)
        placed = [part.start for part in together if part.start is not None]
        start = max([*placed, *(free_at[part.rank] for part in waiting)], default=0)
        for part in waiting:
            put(part, start)
    for rank in lanes:
        advance(rank, None)


def _affordable(calls: Sequence[CollectiveReport]) -> Sequence[CollectiveReport]:
    left = MAX_SLICES
    for kept, call in enumerate(calls):
        left -= len(call.ops)
        if left < 0:
            return calls[:kept]
    return calls


def _names(lanes: Lanes, language: Language) -> Iterator[Event]:
    for rank in lanes:
        yield _meta("process_name", rank, name=text("label.rank", language, ranks=rank))
        yield _meta("process_sort_index", rank, sort_index=rank)
        for track, key in ((_RECORDS, "chrome.records"), (_NON_FINITE, "chrome.non_finite")):
            yield {**_meta("thread_name", rank, name=text(key, language)), "tid": track}
            yield {**_meta("thread_sort_index", rank, sort_index=track), "tid": track}


def _meta(name: str, rank: int, /, **args: object) -> Event:
    return {"ph": "M", "name": name, "pid": rank, "args": args}


def _events(part: Slice, calls: Sequence[CollectiveReport], language: Language) -> Iterator[Event]:
    """The slice of a record, and one in the other track when its output or its part in a call is not finite."""
    states = [(calls[at], _state_of(calls[at], part.rank)) for at in part.calls]
    near = part.near
    bad = [state for _, state in states if state in (RankState.SOURCE, RankState.PROPAGATED)]
    is_bad = bool(bad) or part.is_root or (near is not None and near.state_out.is_bad)
    event: Event = {
        "ph": "X",
        "pid": part.rank,
        "tid": _RECORDS,
        "ts": part.start,
        "dur": _LENGTH,
        "name": show(part.name),
        "cat": "communication" if part.calls else "record",
        "cname": _COLOURS[is_bad],
        "args": {**_record_args(part), **_call_args(states)},
    }
    yield event
    if not is_bad:
        return
    if near is not None and near.state_out.is_bad:
        word = text(f"state.{near.state_out.value}", language)
    else:
        word = text(f"rank_state.{bad[0].value}" if bad else f"state.{ValueState.NON_FINITE.value}", language)
    yield {**event, "tid": _NON_FINITE, "name": word, "args": {"record": show(part.name)}}


def _record_args(part: Slice) -> dict[str, object]:
    args: dict[str, object] = {"root_cause": True} if part.is_root else {}
    if part.near is not None:
        near = part.near
        args |= {
            "record": near.exec_order,
            "module": None if near.module is None else show(near.module),
            "dtype": show(near.dtype, 24),
            "largest_input": number(near.magnitude_in),
            "Max": number(near.max_out),
            "Min": number(near.min_out),
            "state": near.state_out.value,
        }
    return args


def _call_args(states: Sequence[tuple[CollectiveReport, RankState | None]]) -> dict[str, object]:
    if not states:
        return {}
    return {
        "calls": [f"{show(call.op, 48)} #{call.call}" for call, _ in states],
        "groups": [None if call.group is None else format_ranges(call.group) for call, _ in states],
        "rank_states": [None if state is None else state.value for _, state in states],
    }


def _state_of(call: CollectiveReport, rank: int) -> RankState | None:
    for state, ranks in (
        (RankState.SOURCE, call.source_ranks),
        (RankState.PROPAGATED, call.propagated_ranks),
        (RankState.UNDECIDED, call.undecided_ranks),
        (RankState.NORMAL, call.normal_ranks),
    ):
        if rank in ranks:
            return state
    return None


def _flows(lanes: Lanes, calls: Sequence[CollectiveReport]) -> Iterator[Event]:
    """An arrow from the first source of a call to each rank that it reached."""
    place = {(part.rank, call): part.start for lane in lanes.values() for part in lane for call in part.calls}
    number_of = 0
    for at, call in enumerate(calls):
        source = next((rank for rank in call.source_ranks if (rank, at) in place), None)
        if source is None:
            continue
        for rank in call.propagated_ranks:
            start, end = place[source, at], place.get((rank, at))
            if start is None or end is None or end < start:
                continue
            number_of += 1
            common = {"id": number_of, "name": show(call.op, 48), "cat": "spread", "tid": _RECORDS}
            yield {"ph": "s", "pid": source, "ts": start + _LENGTH / 3, **common}
            yield {"ph": "f", "bp": "e", "pid": rank, "ts": end + _LENGTH * 2 / 3, **common}
