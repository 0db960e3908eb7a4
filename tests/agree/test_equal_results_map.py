"""The map of equal results, and which ranks hold the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from replicas_made import Json, analysed, call, nudge, tensor, write

import firstnan
from firstnan.answer.views import unpack_cells

RECORD = "Distributed.all_reduce.3.forward"


def corrupted(*ranks: int) -> object:
    def edit(step: int, rank: int, records: Json) -> None:
        if step == 1 and rank in ranks:
            for _ in range(1 + rank):
                nudge(records[RECORD]["output"][0])

    return edit


def cells(root: Path) -> dict[int, str]:
    found = analysed(root).agreement_map
    assert found is not None
    assert found.step == 1
    return {rank: unpack_cells(row.cells) for row in found.rows for rank in row.ranks}


def test_the_rank_that_stands_out_is_marked_at_its_call(tmp_path: Path) -> None:
    shown = cells(write(tmp_path, edit=corrupted(1)))
    assert shown == {0: "e" * 8, 1: "eee" + "d" + "eeee", 2: "e" * 8}


def test_without_a_majority_all_members_are_marked(tmp_path: Path) -> None:
    shown = cells(write(tmp_path, world=2, edit=corrupted(1)))
    assert shown == {0: "eeedeeee", 1: "eeedeeee"}


def test_calls_that_cannot_be_put_together_are_not_marked(tmp_path: Path) -> None:
    """Rank 0 calls all_reduce over ranks 0 and 1 once more than rank 1 does."""

    def edit(step: int, rank: int, records: Json) -> None:
        corrupted(1)(step, rank, records)  # type: ignore[operator]
        if rank < 2:
            for at in range(1 if rank else 2):
                name = f"Distributed.all_reduce.{at + 20}.forward"
                records[name] = call(tensor("own", rank), tensor("sum", rank), (0, 1))

    shown = cells(write(tmp_path, edit=edit))
    assert shown == {0: "e" * 8 + "uu", 1: "eeedeeee" + "u.", 2: "e" * 8 + ".."}


def test_calls_of_ranks_that_do_not_meet_share_a_place(tmp_path: Path) -> None:
    def edit(step: int, rank: int, records: Json) -> None:
        corrupted(3)(step, rank, records)  # type: ignore[operator]
        pair = (0, 1) if rank < 2 else (2, 3)
        records["Distributed.all_reduce.20.forward"] = call(tensor("own", rank), tensor("sum", pair), pair)

    shown = cells(write(tmp_path, world=4, edit=edit))
    assert {rank: len(row) for rank, row in shown.items()} == dict.fromkeys(range(4), 9)
    assert [row[8] for row in shown.values()] == ["e"] * 4


def test_there_is_no_map_where_calls_agree(tmp_path: Path) -> None:
    def edit(step: int, rank: int, records: Json) -> None:
        if step and rank == 2:
            nudge(records["Module.head.Linear.forward.0"]["parameters"]["weight"])

    report = analysed(write(tmp_path, edit=edit))
    assert report.agreement_map is None
    assert [one.groups for one in report.disagreements[0].held] == [((0, 1), (2,))]


@pytest.mark.parametrize("order", ["same", "other"])
def test_members_that_disagree_about_the_order_get_places_all_the_same(tmp_path: Path, order: str) -> None:
    def edit(step: int, rank: int, records: Json) -> None:
        corrupted(1)(step, rank, records)  # type: ignore[operator]
        pairs = [((0, 1), 30), ((0, 2), 40)]
        if rank == 0 and order == "other":
            pairs.reverse()
        for pair, at in pairs:
            if rank in pair:
                name = f"Distributed.broadcast.{at}.forward"
                records[name] = call(tensor("own", pair), tensor("sent", pair), pair)

    shown = cells(write(tmp_path, edit=edit))
    assert {rank: row.rstrip(".").count("e") + row.count("d") for rank, row in shown.items()} == {0: 10, 1: 9, 2: 9}


def test_the_map_is_drawn_only_for_who_shows_it(tmp_path: Path) -> None:
    write(tmp_path, edit=corrupted(2))
    drawn, plain = (firstnan.analyze(tmp_path, firstnan.Options(jobs=1, draws_equals=draws)) for draws in (True, False))
    assert drawn.agreement_map is not None
    assert plain == replace(drawn, agreement_map=None)
