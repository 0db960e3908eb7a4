"""No limit changes an answer silently: the answer is not complete, and names it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from made_runs import INF, NAN, Rank, Run, batch, blank, named, p2p_op, t, the_cause

from firstnan.answer.model import Report, Verdict
from firstnan.rank.taint.limits import Limit
from firstnan.read.callers.construct import Callers

PAGE = Path(__file__).resolve().parents[2] / "docs" / "limits.md"


def told(report: Report) -> list[str]:
    """The limits that a report names; each makes it incomplete."""
    limits = [problem for problem in report.input.problems if problem.kind.value == "limit"]
    assert not (limits and report.complete)
    assert not any(problem.judged for problem in limits)
    return [problem.detail for problem in limits]


def swallowed(rank: Rank, shape: tuple[int, ...] = (4, 8)) -> None:
    """An infinity that a reciprocal maps to zero."""
    rank.op("Torch.exp", [t(100.0, shape=shape)], [t(INF, 1.5, shape=shape)])
    rank.op("Torch.reciprocal", [t(INF, 1.5, shape=shape)], [t(1.0, 0.0, shape=shape)])


def faulty(rank: Rank, shape: tuple[int, ...] = (3, 3)) -> str:
    born = rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN, shape=shape)])
    loss = rank.op("Torch.sum", [t(NAN, shape=shape)], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0, shape=shape)])
    return born


@pytest.mark.parametrize("most", [1, 400])
def test_events_that_are_left_out_are_told(most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With room for one, the fault behind a swallowed value is not followed: clean, but not complete."""
    monkeypatch.setattr("firstnan.rank.taint.endings.MAX_EVENTS", most)
    run = Run()
    swallowed(run.rank(0))
    born = faulty(run.rank(0))
    report = run.analyze(tmp_path)
    if most == 1:
        assert (report.exit_code, told(report)) == (4, [Limit.EVENTS.value])
    else:
        assert (the_cause(report).op_name, told(report)) == (born, [])


@pytest.mark.parametrize("most", [1, 64])
def test_calls_that_are_left_out_are_told(most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in ("endings", "limits"):
        monkeypatch.setattr(f"firstnan.rank.taint.{module}.MAX_NEXT_CALLS", most)
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
        rank.all_reduce(t(NAN), t(NAN))
        rank.op("Torch.nan_to_num", [t(NAN)], [t(1.0)])
        loss = rank.op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
        rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    report = run.analyze(tmp_path)
    assert report.verdict is Verdict.CLEAN
    assert set(told(report)) == ({Limit.CALLS.value} if most == 1 else set())


@pytest.mark.parametrize("most", [1, 16])
def test_writers_that_are_not_linked_are_told(most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("firstnan.rank.taint.def_use.LINKS", most)
    run = Run()
    rank = run.rank(0)
    for _ in range(2):
        rank.op("Torch.exp", [t(100.0)], [t(INF, 1.5)])
    loss = rank.op("Torch.sum", [t(INF, 1.5)], [t(INF, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    report = run.analyze(tmp_path)
    assert report.verdict is Verdict.ANOMALY
    assert told(report) == ([Limit.LINKS.value] if most == 1 else [])


@pytest.mark.parametrize("most", [1, 256])
def test_writers_that_are_not_searched_are_told(most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What another record wrote later stands before the writer."""
    monkeypatch.setattr("firstnan.rank.taint.shelf.SEARCH", most)
    run = Run()
    rank = run.rank(0)
    born = rank.op("Torch.exp", [t(100.0)], [t(INF, 1.5)])
    rank.op("Torch.exp", [t(100.0)], [t(INF, 2.5)])
    loss = rank.op("Torch.sum", [t(INF, 1.5)], [t(INF, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    report = run.analyze(tmp_path)
    assert told(report) == ([Limit.SEARCH.value] if most == 1 else [])
    if most != 1:
        assert the_cause(report).op_name == born


def test_values_that_were_closed_take_no_room_in_a_search(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """However many values were dropped since, the writer is found."""
    monkeypatch.setattr("firstnan.rank.taint.shelf.SEARCH", 2)
    run = Run()
    rank = run.rank(0)
    born = rank.op("Torch.exp", [t(100.0)], [t(INF, 1.5)])
    for _ in range(9):
        rank.op("Functional.softmax", [batch(-INF)], [t(NAN)])
        rank.op("Torch.nan_to_num", [t(NAN)], [t(1.0)])
    loss = rank.op("Torch.sum", [t(INF, 1.5)], [t(INF, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    report = run.analyze(tmp_path)
    assert (the_cause(report).op_name, told(report)) == (born, [])


@pytest.mark.parametrize("most", [1, 256])
def test_unfilled_memory_that_is_not_kept_is_told(most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("firstnan.rank.suspects.MAX_GARBAGE", most)
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.relu", [t(1.0)], [t(1.0)])
    for size in (5, 6):
        rank.op("Torch.empty", [size], [t(NAN, shape=(size,), grad=False)])
    loss = rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    report = run.analyze(tmp_path)
    assert report.verdict is Verdict.ANOMALY
    assert told(report) == ([Limit.MEMORY.value] if most == 1 else [])


@pytest.mark.parametrize("most", [0, 32])
def test_minus_inf_that_was_forgotten_is_told(most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """log(0) is no mask; with no room to remember it, a -Inf from outside may be it."""
    monkeypatch.setattr("firstnan.rank.taint.legality.MAX_ILLEGAL", most)
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.log", [t(1.0, 0.0, shape=(5,))], [t(0.0, -INF, shape=(5,))])
    rank.op("Torch.nan_to_num", [t(0.0, -INF, shape=(5,))], [t(1.0, shape=(5,))])
    rank.op("Functional.softmax", [batch(2.0, -INF)], [t(1.0, 0.0)])
    loss = rank.op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    report = run.analyze(tmp_path)
    assert (report.exit_code, told(report)) == ((4, [Limit.ILLEGAL.value]) if most == 0 else (0, []))


@pytest.mark.parametrize("is_faulty", [True, False])
def test_masks_that_were_forgotten_change_nothing(
    is_faulty: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What reads them is looked at more closely, and judged by the same rules."""
    run = Run()
    rank = run.rank(0)
    for number in range(1, 40):
        mask = t(float(number), -INF)
        rank.op("Tensor.masked_fill", [t(float(number)), -INF], [mask])
        with rank.module("attention", "Scores", [t(1.0)], [t(float(number), -INF)]):
            rank.op("Torch.add", [mask, t(0.0)], [mask])
    for number in range(1, 40):
        rank.op("Functional.softmax", [t(float(number), -INF)], [t(1.0, 0.0)])
    if is_faulty:
        faulty(rank)
    else:
        loss = rank.op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
        rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    reports = []
    for most in (4096, 1):
        monkeypatch.setattr("firstnan.rank.suspects.MAX_MASKS", most)
        reports.append(run.analyze(tmp_path))
    kept, forgot = ((r.verdict, r.exit_code, named(r), r.accounts, r.contained, told(r)) for r in reports)
    assert kept == forgot
    assert kept[0] is (Verdict.ANOMALY if is_faulty else Verdict.CLEAN)


@pytest.mark.parametrize("most", [2, 256])
def test_blank_records_that_were_not_looked_for_are_told(
    most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The way back from the cause is longer than what is looked at: it may begin at a record without statistics."""
    monkeypatch.setattr("firstnan.rank.surroundings.blind_spots.MAX_STEPS", most)
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.cumsum", [t(9.0, shape=(2, 2))], [blank((2, 2))])
    for number in range(1, 20):
        rank.op("Torch.add", [t(float(number)), t(0.5)], [t(number + 1.0)])
    rank.op("Torch.div", [t(20.0), t(1.0, 0.0)], [t(NAN)])
    loss = rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    assert told(run.analyze(tmp_path)) == ([Limit.BLANKS.value] if most == 2 else [])


@pytest.mark.parametrize("end", ["faulty", "healthy", "in forward"])
def test_harmless_values_that_are_not_listed_change_nothing(
    end: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Their accounts are the same: what nobody read is open, listed or not."""
    run = Run()
    rank = run.rank(0)
    for number in range(1, 9):
        rank.op("Functional.softmax", [batch(-INF, shape=(number,))], [t(NAN, shape=(number,))])
        rank.op("Torch.nan_to_num", [t(NAN, shape=(number,))], [t(1.0, shape=(number,))])
    rank.op("Torch.exp", [batch(1.0, shape=())], [batch(INF, shape=())])
    rank.op("Torch.relu", [t(1.0)], [t(1.0)])
    if end == "faulty":
        faulty(rank)
    elif end == "healthy":
        loss = rank.op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
        rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    reports = []
    for most in (400, 2):
        monkeypatch.setattr("firstnan.rank.taint.endings.MAX_HARMLESS", most)
        reports.append(run.analyze(tmp_path))
    listed, unlisted = ((r.verdict, r.exit_code, named(r), r.accounts, told(r)) for r in reports)
    assert listed == unlisted
    assert len(reports[1].contained) < len(reports[0].contained)
    assert listed[1] == {"faulty": 1, "healthy": 0, "in forward": 4}[end]


@pytest.mark.parametrize("is_faulty", [True, False])
def test_callers_that_were_not_searched_are_told(
    is_faulty: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where a value matters; a healthy rank proves less without them, and nothing wrong."""
    monkeypatch.setattr("firstnan.read.callers.construct.MAX_SEARCHES", 0)
    monkeypatch.setattr(Callers.__init__, "__defaults__", (0,))
    run = Run()
    swallowed(run.rank(0))
    if is_faulty:
        faulty(run.rank(0))
    else:
        loss = run.rank(0).op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
        run.rank(0).backward(loss, [t(1.0, shape=())], [t(1.0)])
    limits = told(run.analyze(tmp_path))
    assert limits == (["names that are searched in a long construct.json and are not there"] if is_faulty else [])


def test_stale_results_that_are_left_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("firstnan.run.second_pass.ROUNDS", 1)
    run = Run()
    run.rank(0).send(t(2.0), 1)
    mine = run.rank(1)
    mine.comm("irecv", [None, 0], {}, {0: t(NAN)})
    mine.op("Tensor.square", [t(2.0)], [t(4.0)])
    mine.op("Torch.log", [t(4.0, -4.0)], [t(NAN)])
    mine.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    assert told(run.analyze(tmp_path)) == ["rounds in which stale results are left out"]


@pytest.mark.parametrize("most", [0, 64])
def test_receives_that_are_not_looked_at_are_told(most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The record of the receive shows the buffer from before; its reader comes long after."""
    monkeypatch.setattr("firstnan.run.second_pass.MOST_RECEIVES", most)
    run = Run()
    first, second = run.rank(0), run.rank(1)
    first.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    first.batch_isend_irecv(p2p_op("isend", t(NAN), 1))
    second.batch_isend_irecv(p2p_op("irecv", t(0.0), 0))
    second.skip(600)
    second.op("Torch.mul", [t(NAN), t(2.0)], [t(NAN)])
    what = "earlier receives of one rank that are looked at for a bad value that no record wrote"
    assert told(run.analyze(tmp_path)) == ([what] if most == 0 else [])


def test_a_limit_is_told_where_it_matters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On a healthy rank a search that ends early finds no reader that matters."""
    monkeypatch.setattr("firstnan.rank.taint.shelf.SEARCH", 1)
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.exp", [t(100.0)], [t(INF, 1.5)])
    rank.op("Torch.exp", [t(100.0)], [t(INF, 2.5)])
    rank.op("Torch.reciprocal", [t(INF, 1.5)], [t(1.0, 0.0)])
    rank.op("Torch.reciprocal", [t(INF, 2.5)], [t(1.0, 0.0)])
    loss = rank.op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    report = run.analyze(tmp_path)
    assert (told(report), report.exit_code) == ([], 0)


@pytest.mark.parametrize("limit", Limit)
def test_limits_are_told_in_the_words_of_the_page(limit: Limit) -> None:
    rows = re.findall(r"^\| ([^|]+?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert limit.value in rows


@pytest.mark.parametrize("most", [1, 32])
def test_receives_that_are_not_remembered_are_told(most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in ("endings", "limits"):
        monkeypatch.setattr(f"firstnan.rank.taint.{module}.PENDING_CALLS", most)
    run = Run()
    for number in (0, 1):
        run.rank(number).all_reduce(t(1.0), t(1.0), async_op=True)
    second = run.rank(1)
    loss = second.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    second.backward(loss, [t(1.0, shape=())], [t(1.0)])
    assert told(run.analyze(tmp_path)) == ([Limit.PENDING.value] if most == 1 else [])
