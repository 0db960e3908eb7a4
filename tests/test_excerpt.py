"""Records around one place."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from firstnan.dump.errors import UsageError
from firstnan.dump.folders import RankFolder
from firstnan.dump.printable import cells
from firstnan.dump.records import Direction, Record, RecordKind, RecordName, Scalar, TensorStat
from firstnan.dump.values import ValueState, judge
from firstnan.dump.view import RankDump
from firstnan.rank.surroundings.excerpt import Summary, excerpt, summary
from firstnan.show import Settings
from firstnan.show.console import render_outline
from firstnan.show.outline.excerpt import outline_excerpt


def tensor(slot: str, maximum: float | None, minimum: float | None) -> TensorStat:
    return TensorStat(slot, "float32", (4,), maximum, minimum, None, None, judge(maximum, minimum))


def record(index: int, largest: float | None = 1.0, name: str = "Torch.add.{}.forward") -> Record:
    full = name.format(index)
    return Record(
        name=RecordName(full, RecordKind.API, "Torch", "add", "", index, Direction.FORWARD),
        index=index,
        inputs=(tensor("input_args.0", 0.5, -2.0),),
        outputs=(tensor("output.0", largest, largest),),
        scalars=(Scalar("input_kwargs.alpha", "float", 2.0),),
    )


def dump(*records: Record) -> RankDump:
    return RankDump(RankFolder(0, 3, Path("x"), "step0/rank3"), records)


TWENTY = dump(*(record(index, math.nan if index == 12 else 1.0) for index in range(20)))


def test_a_record_is_found_by_name_or_index() -> None:
    by_name = excerpt(TWENTY, op="Torch.add.7.forward", around=2)
    assert [found.index for found in by_name.records] == [5, 6, 7, 8, 9]
    assert by_name == excerpt(TWENTY, at=7, around=2)
    assert by_name.center_record.index == 7


def test_without_a_place_the_first_bad_record_is_shown() -> None:
    assert excerpt(TWENTY).center == 12
    assert excerpt(dump(record(0), record(1))).center == 0


def test_the_ends_of_the_file_cut_the_excerpt() -> None:
    assert [found.index for found in excerpt(TWENTY, at=0, around=2).records] == [0, 1, 2]
    assert [found.index for found in excerpt(TWENTY, at=19, around=2).records] == [17, 18, 19]


def test_a_name_that_is_not_there_gets_near_ones() -> None:
    with pytest.raises(UsageError, match=r"no record 'add\.1'") as error:
        excerpt(TWENTY, op="add.1")
    assert "Torch.add.1.forward" in error.value.hint
    assert "and 6 more" in error.value.hint


def test_an_index_that_is_not_there_gets_the_range() -> None:
    with pytest.raises(UsageError, match="no record 99") as error:
        excerpt(TWENTY, at=99)
    assert error.value.hint == "records are counted from 0 to 19"


def test_a_rank_without_records_is_told() -> None:
    with pytest.raises(UsageError, match="rank 3, step 0 has no records"):
        excerpt(dump())


def test_a_side_is_as_bad_as_its_worst_tensor() -> None:
    mixed = [tensor("a", 1.0, -7.0), tensor("b", math.inf, 0.0), tensor("c", None, None)]
    assert summary(mixed) == Summary(ValueState.POS_INF, 7.0)
    assert summary([]) == Summary(None, None)


def test_the_view_marks_the_record_and_shows_its_tensors() -> None:
    text = render_outline(outline_excerpt(excerpt(TWENTY, at=12, around=1), Settings()), Settings())
    assert text == (
        "Around record 12 of rank 3, step 0 (20 records, counted from 0)\n"
        "\n"
        "Records of step0/rank3\n"
        "     record  operator              inputs  outputs\n"
        "         11  Torch.add.11.forward  2       1\n"
        "  >      12  Torch.add.12.forward  2       NaN\n"
        "         13  Torch.add.13.forward  2       1\n"
        "\n"
        "Record 12: Torch.add.12.forward\n"
        "       slot          dtype    shape  Max  Min  state\n"
        "  in   input_args.0  float32  [4]    0.5   -2  finite\n"
        "  out  output.0      float32  [4]    NaN  NaN  NaN\n"
        "  - input_kwargs.alpha: 2.0 (float)\n"
    )


def test_hostile_names_are_harmless_in_the_view() -> None:
    evil = record(0, name="\x1b[2J\u202e" + "x" * 100_000)
    text = render_outline(outline_excerpt(excerpt(dump(evil)), Settings()), Settings())
    assert text.replace("\n", "").isprintable()
    assert max(cells(line) for line in text.splitlines()) <= 80
