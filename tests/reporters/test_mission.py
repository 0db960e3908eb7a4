"""The two files of the skill text that skills/nan-overflow-detection implements, with exactly its fields."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from sample_reports import ANOMALY, CLEAN, EXP, MISSING_RANK

from firstnan.answer.model import Note
from firstnan.dump.errors import UsageError
from firstnan.show import Format, Settings, View, render
from firstnan.show.mission_files import cross_rank, single_rank


def test_cross_rank_analysis_has_the_four_fields_per_call() -> None:
    assert dict(cross_rank(ANOMALY.collectives)) == {
        "Distributed.all_reduce.1.forward": {
            "source_ranks": [2],
            "propagated_ranks": [3],
            "normal_ranks": [],
            "total_ranks": 2,
        },
        "Distributed.all_reduce.6.forward": {
            "source_ranks": [2, 3],
            "propagated_ranks": [0],
            "normal_ranks": [],
            "total_ranks": 4,
        },
    }


def test_calls_of_one_name_are_told_apart() -> None:
    first = ANOMALY.collectives[0]
    other = replace(first, group=(0, 1), ops={0: first.ops[2], 1: first.ops[2]}, source_ranks=(0,))
    made = dict(cross_rank((first, other, other)))
    assert list(made) == [
        "Distributed.all_reduce.1.forward",
        "Distributed.all_reduce.1.forward (step 0, ranks 0,1)",
        "Distributed.all_reduce.1.forward (step 0, ranks 0,1) #2",
    ]


def test_the_name_is_that_of_the_first_source_rank_else_of_the_lowest() -> None:
    call = ANOMALY.collectives[1]
    assert [name for name, _ in cross_rank((replace(call, source_ranks=()),))] == ["Distributed.all_reduce.4.forward"]


def test_single_rank_trace_has_the_fields_of_the_mission() -> None:
    assert single_rank(ANOMALY, 2) == {
        "rank": 2,
        "first_anomaly": {
            "op_name": "Torch.exp.0.forward",
            "exec_order": 118,
            "output": {"0": {"Max": "inf", "Min": str(0.030197383422318501)}},
            "input_info": [{"shape": [2, 16, 32], "Max": "95.25", "Min": "-3.5", "dtype": "float32"}],
            "construct_chain": list(EXP.construct_chain),
            "stack_info": list(EXP.stack_info),
        },
    }


def test_no_anomaly_is_null() -> None:
    assert single_rank(CLEAN, 5) == {"rank": 5, "first_anomaly": None}
    assert single_rank(MISSING_RANK, 2) == {"rank": 2, "first_anomaly": None}
    assert single_rank(ANOMALY, 0) == {"rank": 0, "first_anomaly": None}


def test_a_rank_that_shares_the_cause_has_it_too() -> None:
    report = replace(ANOMALY, root_causes=(replace(EXP, ranks_also=(3,)),))
    assert single_rank(report, 3)["first_anomaly"] == single_rank(report, 2)["first_anomaly"]


def test_the_stack_keeps_its_illustrative_form() -> None:
    report = replace(ANOMALY, root_causes=(replace(EXP, stack_info=("linear", "forward.py", 123)),))
    assert json.loads(render(report, Format.MISSION, Settings(view=View.TRACE, rank=2)))["first_anomaly"][
        "stack_info"
    ] == ["linear", "forward.py", 123]


def test_the_files_are_strict_json() -> None:
    for view in (View.RANKS, View.TRACE):
        written = render(ANOMALY, Format.MISSION, Settings(view=view, rank=2))
        assert json.loads(written, parse_constant=lambda token: pytest.fail(token))


def test_the_whole_report_has_no_mission_form() -> None:
    with pytest.raises(UsageError, match="ranks and trace"):
        render(ANOMALY, Format.MISSION, Settings())


def test_notes_do_not_reach_the_mission_files() -> None:
    report = replace(ANOMALY, caveats=(Note("caveat.missing_ranks", {"ranks": "x"}),))
    assert "caveat" not in render(report, Format.MISSION, Settings(view=View.RANKS))
