"""All calls of a rank in a part file: small, the same when they come back, refused where they do not fit together."""

from __future__ import annotations

from array import array
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from firstnan.operators.communication import CallKey, CallKind, GroupKnowledge
from firstnan.rank.roster import CallForm, Content, NameList, Roster
from firstnan.run import packed_roster, parts

CLEAN = (Content.CLEAN, Content.CLEAN)
NAMES = [
    "Distributed.all_reduce.0.forward",
    "Distributed.all_reduce.1.forward",
    "Distributed.all_reduce.7.forward",
    "Distributed.all_reduce.7.forward",
    "Distributed.all_reduce_0_0",
    "Distributed.all_reduce_1_0",
    "Distributed.odd",
    "Distributed.all_reduce.007.forward",
    f"Distributed.all_reduce.{10**30}.forward",
    "",
    "名字.2.forward",
]


def form(api: str) -> tuple[CallForm, ...]:
    key = CallKey(CallKind.COLLECTIVE, api, (0, 1), GroupKnowledge.RECORDED, None, None, 0)
    return (CallForm(key, False, CLEAN),)


def roster(names: list[str]) -> Roster:
    bad = {len(names) - 1: ((Content.BAD, Content.BAD),)}
    places, forms = array("Q", range(0, 3 * len(names), 3)), array("L", [0] * len(names))
    return Roster(0, 1, (form("all_reduce"),), places, forms, NameList(names), bad, frozenset({0, 1}))


def told(one: Roster) -> dict[str, Any]:
    """Its fields, lists as lists."""
    fields = msgspec.structs.asdict(one)
    return {name: value if isinstance(value, (dict, frozenset, int)) else list(value) for name, value in fields.items()}


def test_names_come_back() -> None:
    names = NameList(NAMES)
    assert list(names) == NAMES
    assert names[1:3] == NAMES[1:3]
    assert len(names.patterns) < len(NAMES)


def test_a_roster_comes_back() -> None:
    one = roster(NAMES)
    raw = msgspec.msgpack.encode(packed_roster.pack(one))
    back = packed_roster.roster_of(msgspec.msgpack.decode(raw, type=packed_roster.PackedRoster), 0, 1)
    assert told(back) == told(one)


def test_a_hundred_thousand_calls_are_small() -> None:
    """Numbers in names follow each other, so that they cost nothing; places and forms cost what they differ."""
    count = 100_000
    api = [("all_reduce", "all_gather")[nth * nth % 7 == 2] for nth in range(count)]
    seen = dict.fromkeys(api, 0)
    names = NameList()
    for one in api:
        names.append(f"Distributed.{one}.{seen[one]}.forward")
        seen[one] += 1
    places = array("Q", (13 * nth + nth % 11 for nth in range(count)))
    form_of = array("L", (one == "all_gather" for one in api))
    one = Roster(0, 0, (form("all_reduce"), form("all_gather")), places, form_of, names)
    assert len(parts.packed_calls_by_name(one)) < count // 20


GOOD = packed_roster.pack(roster(NAMES[:3]))


@pytest.mark.parametrize(
    "change",
    [
        {"form_of": (0, 0)},
        {"form_of": (0, 0, 1)},
        {"form_of": (0, 0, -1)},
        {"pattern_of": (0, 0, 9)},
        {"gaps": (-5, 1, 1)},
        {"gaps": (1, 1, 1 << 63)},
        {"numbers": (-1, 0, 0)},
        {"numbers": (1 << 63, 0, 0)},
        {"unusual": {3: (CLEAN,)}},
        {"unusual": {0: (CLEAN, CLEAN)}},
        {"mentioned": ((0, 1 << 40),)},
        {"patterns": (("x" * (packed_roster.MAX_TEXT // 2), ""),)},
    ],
    ids=lambda change: str(change)[:40],
)
def test_calls_that_do_not_fit_together_are_refused(change: dict[str, Any]) -> None:
    packed_roster.roster_of(GOOD, 0, 1)
    with pytest.raises(msgspec.ValidationError):
        packed_roster.roster_of(replace(GOOD, **change), 0, 1)
