"""Trace events: ranks as processes, records in order, arrows that never point back in time."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest
from msgspec.structs import replace
from page_samples import FULL, MARKERS, TWO_CAUSES, hostile, large
from sample_reports import ALL, ANOMALY

from firstnan.answer.model import CollectiveReport, MatchState, Report
from firstnan.dump.language import Language
from firstnan.show import Format, Settings, chrome_trace, render
from firstnan.show.chrome_trace import Slice, place_all

RECORDS, NON_FINITE = 1, 2


def trace(report: Report, **settings: object) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(render(report, Format.TRACE, Settings(**settings)))  # type: ignore[arg-type]
    return made


def slices(report: Report, track: int = RECORDS) -> list[dict[str, Any]]:
    return [event for event in trace(report)["traceEvents"] if event["ph"] == "X" and event["tid"] == track]


def call(op: str, source: tuple[int, ...], propagated: tuple[int, ...], names: dict[int, str]) -> CollectiveReport:
    return CollectiveReport(op, 0, None, 0, names, source, propagated, (), (), MatchState.MATCHED)


def test_ranks_are_processes_with_names_and_order() -> None:
    meta = [event for event in trace(FULL)["traceEvents"] if event["ph"] == "M"]
    names = {event["pid"]: event["args"]["name"] for event in meta if event["name"] == "process_name"}
    order = {event["pid"]: event["args"]["sort_index"] for event in meta if event["name"] == "process_sort_index"}
    assert names == {0: "rank 0", 1: "rank 1", 2: "rank 2", 3: "rank 3"}
    assert order == {rank: rank for rank in names}
    assert {event["tid"] for event in meta if event["name"] == "thread_name"} == {RECORDS, NON_FINITE}


def test_records_of_a_rank_stand_in_record_order() -> None:
    own = [event for event in slices(FULL) if event["pid"] == 2]
    assert [event["args"].get("record") for event in own[:6]] == [110, 111, 118, 119, 120, 121]
    starts = [event["ts"] for event in own]
    assert starts == sorted(set(starts))


@pytest.mark.parametrize("name", [*ALL, "full", "two", "large"])
def test_slices_of_a_track_never_overlap(name: str) -> None:
    report = {**ALL, "full": FULL, "two": TWO_CAUSES, "large": large(32, 60, 40)}[name]
    for track in (RECORDS, NON_FINITE):
        ends: dict[int, float] = defaultdict(lambda: -1.0)
        for event in sorted(slices(report, track), key=lambda one: (one["pid"], one["ts"])):
            assert event["ts"] >= ends[event["pid"]]
            ends[event["pid"]] = event["ts"] + event["dur"]


def lane(rank: int, *parts: tuple[str, list[int]]) -> list[Slice]:
    return [Slice(rank, name, calls=calls) for name, calls in parts]


def starts(lanes: dict[int, list[Slice]], calls: int) -> dict[int, list[int | None]]:
    place_all(lanes, calls)
    return {rank: [part.start for part in parts] for rank, parts in lanes.items()}


def test_members_of_a_call_begin_together() -> None:
    lanes = {0: lane(0, ("a", []), ("b", []), ("send", [0])), 1: lane(1, ("recv", [0]), ("c", []))}
    assert starts(lanes, 1) == {0: [0, 1, 2], 1: [2, 3]}


def test_a_record_in_two_calls_is_placed_once() -> None:
    lanes = {0: lane(0, ("batch", [0, 1])), 1: lane(1, ("x", []), ("recv", [0])), 2: lane(2, ("recv", [1]))}
    assert starts(lanes, 2) == {0: [1], 1: [0, 1], 2: [1]}


def test_calls_that_cross_do_not_hang() -> None:
    lanes = {0: lane(0, ("a", [1]), ("b", [0])), 1: lane(1, ("c", [0]), ("d", [1]))}
    found = starts(lanes, 2)
    assert all(start is not None for parts in found.values() for start in parts)
    assert all(parts == sorted(set(parts)) for parts in found.values())  # type: ignore[type-var]


def flows(report: Report) -> dict[int, tuple[dict[str, Any], dict[str, Any]]]:
    ends: dict[int, dict[str, dict[str, Any]]] = defaultdict(dict)
    for event in trace(report)["traceEvents"]:
        if event["ph"] in ("s", "f"):
            ends[event["id"]][event["ph"]] = event
    return {number: (pair["s"], pair["f"]) for number, pair in ends.items()}


def test_an_arrow_leads_from_the_source_to_each_rank_it_reached() -> None:
    pairs = [(start["pid"], end["pid"]) for start, end in flows(FULL).values()]
    assert pairs == [(2, 3), (2, 0)]


@pytest.mark.parametrize("report", [FULL, TWO_CAUSES, large(32, 60, 40)], ids=["full", "two", "large"])
def test_arrows_have_numbers_lie_in_slices_and_point_forward(report: Report) -> None:
    found = slices(report)
    for number, (start, end) in flows(report).items():
        assert isinstance(number, int)
        assert start["ts"] < end["ts"]
        assert end["bp"] == "e"
        for event in (start, end):
            assert any(s["pid"] == event["pid"] and s["ts"] < event["ts"] < s["ts"] + s["dur"] for s in found)


def test_what_is_not_finite_has_a_track_and_names_of_its_own() -> None:
    own = [(event["args"]["record"], event["name"]) for event in slices(FULL, NON_FINITE) if event["pid"] == 2]
    assert own[:2] == [("Torch.exp.0.forward", "+Inf"), ("Torch.sum.0.forward", "+Inf")]
    colours = {event["args"].get("record"): event["cname"] for event in slices(FULL) if event["pid"] == 2}
    assert (colours[110], colours[118]) == ("good", "terrible")


def test_the_root_cause_is_marked() -> None:
    assert [event["name"] for event in slices(FULL) if event["args"].get("root_cause")] == ["Torch.exp.0.forward"]


def test_a_call_after_the_window_stands_after_it_and_one_before_it_before() -> None:
    calls = (
        call("all_reduce", (2,), (), {2: "Distributed.all_reduce.0.forward"}),
        call("all_reduce", (2,), (3,), {2: "Distributed.all_reduce.1.forward", 3: "Distributed.all_reduce.1.forward"}),
        call("all_reduce", (2,), (3,), {2: "Distributed.all_reduce.2.forward", 3: "Distributed.all_reduce.2.forward"}),
    )
    own = [event["name"] for event in slices(replace(FULL, collectives=calls)) if event["pid"] == 2]
    assert own[0] == "Distributed.all_reduce.0.forward"
    assert own[-2:] == ["Distributed.all_reduce.1.forward", "Distributed.all_reduce.2.forward"]


def test_time_is_explained_in_both_languages() -> None:
    assert "order, not time" in trace(FULL)["otherData"]["time"]
    assert "时间轴不是真实时间" in trace(FULL, language=Language.ZH)["otherData"]["time"]


def test_without_surroundings_there_are_still_the_root_and_the_calls() -> None:
    own = [event["name"] for event in slices(ANOMALY) if event["pid"] == 2]
    assert own == ["Torch.exp.0.forward", "Distributed.all_reduce.1.forward", "Distributed.all_reduce.6.forward"]


def test_a_trace_is_shortened_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chrome_trace, "MAX_SLICES", 40)
    made = trace(large(16, 60, 40))
    assert len([event for event in made["traceEvents"] if event["ph"] == "X"]) < 120
    assert "of 40 affected calls" in made["otherData"]["time"]


def test_names_of_a_dump_are_harmless_and_short() -> None:
    text = render(hostile(), Format.TRACE, Settings())
    assert text.isascii()
    assert len(text) < 100_000
    assert MARKERS[2] not in text
    assert "\\\\x1b[31mred" in text


def test_redaction_reaches_the_trace() -> None:
    assert "/data" not in render(FULL, Format.TRACE, Settings(redact=True))
