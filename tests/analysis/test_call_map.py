"""The map of all calls: places in causal order, cells, what is put together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from made_runs import INF, Run, p2p_op, t
from msgspec.structs import replace

from firstnan.answer.model import CollectiveReport, RankState
from firstnan.answer.views import CallMap, unpack_cells
from firstnan.causes.step_answer import StepAnswer
from firstnan.rank.summary import CommFact, Side
from firstnan.report import call_map as maps
from firstnan.report.call_map import call_map
from firstnan.step.matching import MatchedCall
from firstnan.step.order import members_of, places


def state_of(fact: CommFact, call: MatchedCall, rank: int, bad_source: bool) -> RankState:  # noqa: ARG001
    """As simple as it can be: what the rank itself shows."""
    if fact.sent is Side.BAD:
        return RankState.SOURCE
    return RankState.PROPAGATED if fact.received is Side.BAD else RankState.NORMAL


def made(run: Run, path: Path, affected: Sequence[int] | None = None) -> CallMap:
    answer = run.judge(path)
    affected = range(len(answer.matching.calls)) if affected is None else affected
    found = call_map(answer, state_of, affected, [(position, report_of(answer, position)) for position in affected])
    assert found is not None
    return found


def report_of(answer: StepAnswer, position: int) -> CollectiveReport:
    """An entry of the report that says nothing of its members."""
    call = answer.matching.calls[position]
    return CollectiveReport(call.api, 0, call.group, call.nth, {}, (), (), (), (), call.state)


def cells(found: CallMap) -> dict[int, str]:
    return {rank: unpack_cells(row.cells) for row in found.rows for rank in row.ranks}


def two_pairs_then_all() -> Run:
    """Ranks 0,1 and 2,3 reduce in pairs, then all four together; rank 0 brings Inf into its pair."""
    run = Run()
    for rank in range(4):
        pair = (0, 1) if rank < 2 else (2, 3)
        bad = t(INF) if rank < 2 else t(1.0)
        run.rank(rank).all_reduce(t(INF) if rank == 0 else t(1.0), bad, pair)
        run.rank(rank).all_reduce(bad, t(INF), (0, 1, 2, 3))
    return run


def test_calls_of_disjoint_groups_share_a_place(tmp_path: Path) -> None:
    assert sorted(places(members_of(two_pairs_then_all().judge(tmp_path).matching))) == [0, 0, 1]


def test_elements_of_one_record_do_not_wait_for_each_other(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).batch_isend_irecv(p2p_op("isend", t(INF), 1), p2p_op("irecv", t(INF), 1))
    run.rank(1).batch_isend_irecv(p2p_op("irecv", t(INF), 0), p2p_op("isend", t(INF), 0))
    assert places(members_of(run.judge(tmp_path).matching)) == (0, 0)


def test_a_value_only_spreads_to_the_right(tmp_path: Path) -> None:
    found = made(two_pairs_then_all(), tmp_path)
    assert cells(found) == {0: "ss", 1: "ps", 2: "np", 3: "np"}
    assert found.columns == ("all_reduce", "all_reduce")
    assert found.calls == 3


def test_ranks_with_the_same_cells_share_a_row(tmp_path: Path) -> None:
    assert [row.ranks for row in made(two_pairs_then_all(), tmp_path).rows] == [(0,), (1,), (2, 3)]


def test_a_bad_value_in_a_call_that_is_not_affected_is_contained(tmp_path: Path) -> None:
    found = made(two_pairs_then_all(), tmp_path, affected=())
    assert set("".join(cells(found).values())) == {"c", "n"}


def test_a_member_without_a_record_is_missing(tmp_path: Path) -> None:
    run = two_pairs_then_all()
    run.drop(3)
    assert cells(made(run, tmp_path))[3] == "mm"


def test_a_rank_without_a_call_at_a_place_has_no_cell(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).all_reduce(t(INF), t(INF), (0, 1))
    run.rank(1).all_reduce(t(1.0), t(INF), (0, 1))
    run.rank(2).op("Torch.relu", [t(1.0)], [t(1.0)])
    assert cells(made(run, tmp_path)) == {0: "s", 1: "p", 2: "."}


def test_a_member_that_was_clean_at_the_call_is_normal(tmp_path: Path) -> None:
    """Records of clean ranks are not kept, only counted."""
    run = Run()
    run.rank(0).all_reduce(t(INF), t(1.0), (0, 1))
    run.rank(1).all_reduce(t(1.0), t(1.0), (0, 1))
    answer = run.judge(tmp_path)
    call = answer.matching.calls[0]
    counted = replace(call, members={0: call.members[0]}, clean=(1,))
    found = call_map(replace(answer, matching=replace(answer.matching, calls=(counted,))), state_of, (0,))
    assert found is not None
    assert cells(found) == {0: "s", 1: "n"}


def test_a_map_without_all_calls_says_so(tmp_path: Path) -> None:
    answer = two_pairs_then_all().judge(tmp_path)
    some = {rank: replace(summary, made={}) for rank, summary in answer.summaries.items()}
    found = call_map(replace(answer, summaries=some), state_of, ())
    assert found is not None
    assert not found.complete
    assert made(two_pairs_then_all(), tmp_path).complete


def test_listed_calls_show_what_the_report_says(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).all_reduce(t(INF), t(INF), (0, 1))
    run.rank(1).all_reduce(t(1.0), t(INF), (0, 1))
    run.drop(1)
    answer = run.judge(tmp_path)
    told = replace(report_of(answer, 0), propagated_ranks=(0,), undecided_ranks=(1,))
    found = call_map(answer, state_of, (0,), [(0, told)])
    assert found is not None
    assert cells(found) == {0: "p", 1: "m"}


def test_listed_calls_know_their_column(tmp_path: Path) -> None:
    found = made(two_pairs_then_all(), tmp_path, affected=(1, 0))
    assert all(0 <= column < len(found.columns) for column in found.listed)
    assert len(found.listed) == 2


def test_no_communication_has_no_map(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).op("Torch.relu", [t(1.0)], [t(1.0)])
    assert call_map(run.judge(tmp_path), state_of, (), ()) is None


def test_more_places_than_columns_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "MAX_COLUMNS", 1)
    found = made(two_pairs_then_all(), tmp_path)
    assert cells(found) == {0: "s", 1: "s", 2: "p", 3: "p"}
    assert (len(found.columns), found.places_per_column, set(found.listed)) == (1, 2, {0})
