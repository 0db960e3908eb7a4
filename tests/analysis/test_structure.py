"""Where a record stands."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from firstnan.dump.records import Record
from firstnan.rank.taint.structure import Structure

IN_A_CIRCLE = {"exp": "a", "a": "b", "b": "c", "c": "b", "top": None}


def structure(parents: Mapping[str, str | None]) -> Structure:
    return Structure(parents, {}, frozenset(), None, None, frozenset(), frozenset(), has_apis=True)


@pytest.mark.parametrize(
    ("name", "around"),
    [("exp", ("a", "b", "c")), ("a", ("b", "c")), ("b", ("c",)), ("c", ("b",)), ("top", ()), ("absent", ())],
)
def test_callers_in_a_circle(name: str, around: tuple[str, ...]) -> None:
    """Whatever was asked before, no record stands inside itself."""
    made = structure(IN_A_CIRCLE)
    for other in IN_A_CIRCLE:
        made.ancestors(other)
    assert made.ancestors(name) == around


def test_one_chain_for_all_that_a_module_calls() -> None:
    made = structure({"exp": "a", "log": "a", "a": "b"})
    assert made.ancestors("exp") == ("a", "b")
    assert made.ancestors("exp") is made.ancestors("log")


def test_what_is_left_out_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nothing is: the whole listing would be gone through for each module of a deep chain."""
    names = [f"Module.m{number}.M.forward.0" for number in range(5)]
    parents: dict[str, str | None] = dict(zip(names, [*names[1:], None], strict=True))
    searches: list[int] = []

    def search(listing: Mapping[str, str | None], _: Mapping[str, Record]) -> dict[str | None, frozenset[str]]:
        searches.append(len(listing))
        return {}

    monkeypatch.setattr("firstnan.rank.taint.structure._unrecorded", search)
    made = Structure(parents, {}, frozenset(), None, None, frozenset(), frozenset(), has_apis=True, _listing=parents)
    assert [made.left_out_around(name) for name in names] == [frozenset()] * 5
    assert searches == [5]
