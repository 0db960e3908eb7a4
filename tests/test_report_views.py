"""The parts of a report that are looked at: cells in short form, columns put together, JSON there and back."""

from __future__ import annotations

import json
import math

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from firstnan.answer.model import Report
from firstnan.answer.schema import json_schema
from firstnan.answer.views import (
    WORST_LAST,
    CallMap,
    Cell,
    MapRow,
    NearRecord,
    Surroundings,
    merge_columns,
    pack_cells,
    unpack_cells,
    worst,
)
from firstnan.dump.values import ValueState
from firstnan.show.json import dumps, to_dict
from reporters.sample_reports import ANOMALY

LETTERS = st.text(alphabet=WORST_LAST, max_size=60)


@settings(deadline=None)
@given(LETTERS)
def test_cells_come_back_from_their_short_form(letters: str) -> None:
    assert unpack_cells(pack_cells(letters)) == letters


def test_a_source_is_worse_than_all_else() -> None:
    assert worst(WORST_LAST) == Cell.SOURCE.value
    assert worst("") == Cell.NONE.value


@settings(deadline=None)
@given(
    st.lists(LETTERS.filter(lambda text: len(text) >= 12).map(lambda text: text[:12]), min_size=1, max_size=4),
    st.integers(1, 14),
)
def test_merged_columns_show_the_worst_of_each(rows: list[str], by: int) -> None:
    whole = CallMap(0, ("a",) * 12, tuple(MapRow((rank,), pack_cells(row)) for rank, row in enumerate(rows)), (11,), 12)
    merged = merge_columns(whole, by)
    assert merged.listed == (11 // by,)
    assert {rank for row in merged.rows for rank in row.ranks} == set(range(len(rows)))
    for row in merged.rows:
        for rank in row.ranks:
            assert unpack_cells(row.cells) == "".join(worst(rows[rank][at : at + by]) for at in range(0, 12, by))


def test_the_parts_are_valid_json_and_come_back() -> None:
    record = NearRecord(
        7, "Torch.exp.0.forward", None, "float32", 2.5, math.inf, None, ValueState.FINITE, ValueState.POS_INF
    )
    report = replace(
        ANOMALY,
        call_map=CallMap(
            0, ("send", "all_reduce"), (MapRow((0, 2), "n2"), MapRow((1,), "ps")), (1,), 2, 1, complete=False
        ),
        surroundings=(Surroundings(0, 1, (record,)),),
    )
    document = json.loads(dumps(to_dict(report)))
    jsonschema.Draft202012Validator(json_schema()).validate(document)
    assert Report.from_dict(document) == report
