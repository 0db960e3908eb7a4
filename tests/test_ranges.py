"""Lists of ranks as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstnan.dump.ranges import format_ranges, joined, packed, parse_ranges


def test_lists_and_ranges_are_read() -> None:
    assert parse_ranges("0-3,7,5-5") == (0, 1, 2, 3, 5, 7)


def test_long_runs_are_written_as_ranges() -> None:
    assert format_ranges(range(512)) == "0-511"


@pytest.mark.parametrize("wrong", ["", "a", "1-", "-1", "3-1", "1,,2", "1.5", "0-99999999", "９", "1" * 50])
def test_what_is_no_list_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="'"):
        parse_ranges(wrong)


@settings(deadline=None)
@given(st.sets(st.integers(0, 5000), min_size=1))
def test_writing_and_reading_give_the_same_numbers(numbers: set[int]) -> None:
    assert set(parse_ranges(format_ranges(numbers))) == numbers


@settings(deadline=None)
@given(st.lists(st.sets(st.integers(0, 60))))
def test_ranges_of_several_lists_are_those_of_all_numbers(several: list[set[int]]) -> None:
    assert joined(map(packed, several)) == packed(set().union(*several))
