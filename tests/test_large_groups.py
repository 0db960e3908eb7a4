"""A large group is one object, and for all who look at it the tuple of its ranks."""

from __future__ import annotations

import pickle
from pathlib import Path

import msgspec

from analysis.made_runs import Run, group, record, t
from firstnan.dump.groups import LARGE, as_group
from firstnan.operators.communication import calls

RANKS = tuple(range(3, 3 + 2 * LARGE, 2))


def test_it_is_equal_to_its_ranks_and_found_by_them() -> None:
    made = as_group(RANKS)
    assert made == RANKS
    assert hash(made) == hash(RANKS)
    assert {made: 1}[RANKS] == {RANKS: 1}[made] == 1
    assert repr(made) == repr(RANKS)
    assert msgspec.json.encode(made) == msgspec.json.encode(RANKS)


def test_the_order_of_its_ranks_counts() -> None:
    assert as_group(reversed(RANKS)) != as_group(RANKS)


def test_another_process_has_one_object_for_it_too() -> None:
    assert pickle.loads(pickle.dumps(as_group(RANKS))) is as_group(RANKS)


def test_calls_of_all_ranks_share_it(tmp_path: Path) -> None:
    def read(rank: int) -> tuple[int, ...] | None:
        builder = Run().rank(rank)
        name = builder.comm("all_reduce", [t(1.0)], {"group": group(*RANKS)}, {0: t(1.0)})
        (call,) = calls(record(builder, name, tmp_path / str(rank)), rank)
        return call.group

    assert read(3) is read(5)
    assert read(3) == RANKS
