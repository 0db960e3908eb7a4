"""Records around the first bad value in short form."""

from __future__ import annotations

import math
from pathlib import Path

from made_runs import INF, NAN, Run, blank, t

from firstnan.answer.views import NearRecord
from firstnan.dump.records import Record
from firstnan.dump.values import ValueState
from firstnan.rank.surroundings.neighbours import AROUND_OTHERS, MAX_RANKS, near_records, surroundings


def records(path: Path) -> list[Record]:
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.relu", [t(3.0), t(-7.0)], [t(3.0)])
    rank.op("Torch.exp", [t(100.0)], [t(INF), t(5.0)])
    rank.op("Torch.sub", [t(INF)], [t(NAN), t(2.0)])
    rank.op("Torch.view", [blank()], [blank()])
    return list(run.dumps(path)[0].records)


def module_of(name: str) -> str | None:
    return "head" if "exp" in name else None


def near(path: Path) -> tuple[NearRecord, ...]:
    return near_records(records(path), module_of)


def test_records_keep_their_place(tmp_path: Path) -> None:
    assert [record.exec_order for record in near(tmp_path)] == [0, 1, 2, 3]


def test_range_of_the_outputs_and_largest_finite_input(tmp_path: Path) -> None:
    relu, exp, sub, view = near(tmp_path)
    assert (relu.magnitude_in, relu.max_out, relu.min_out) == (7.0, 3.0, -3.0)
    assert (exp.max_out, exp.min_out, exp.dtype, exp.module) == (INF, -5.0, "float32", "head")
    assert sub.magnitude_in is None
    assert sub.max_out is not None
    assert math.isnan(sub.max_out)
    assert (view.magnitude_in, view.max_out, view.min_out) == (None, None, None)


def test_the_worst_state_of_each_side(tmp_path: Path) -> None:
    states = [(r.state_in, r.state_out) for r in near(tmp_path)]
    assert states == [
        (ValueState.FINITE, ValueState.FINITE),
        (ValueState.FINITE, ValueState.POS_INF),
        (ValueState.POS_INF, ValueState.NAN),
        (ValueState.UNKNOWN, ValueState.UNKNOWN),
    ]


def line(count: int) -> tuple[NearRecord, ...]:
    state = ValueState.FINITE
    return tuple(
        NearRecord(at, f"Torch.relu.{at}.forward", None, "", None, None, None, state, state) for at in range(count)
    )


def test_ranks_of_root_causes_come_first_and_whole() -> None:
    found = surroundings(0, [(0, 50, line(100)), (7, 50, line(100))], root_ranks=(7,))
    assert [(one.rank, len(one.records)) for one in found] == [(7, 100), (0, 2 * AROUND_OTHERS + 1)]


def test_no_more_ranks_than_a_report_can_hold() -> None:
    found = surroundings(0, [(rank, 1, line(3)) for rank in range(1000)], root_ranks=(999,))
    assert len(found) == MAX_RANKS
    assert found[0].rank == 999
