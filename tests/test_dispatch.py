"""Work on ranks that are not here: what goes wrong on the way is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from firstnan.dump.folders import RankFolder
from firstnan.dump.options import Options
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.operators import table
from firstnan.run import dispatch
from firstnan.run.engines.engine import Engine, Failed, Node, Place

THERE = RankFolder(0, 3, Path("/nowhere/rank3"), "step0/rank3", nodes=("n1",))


class Dead:
    """Engines whose workers all die."""

    nodes: tuple[Node, ...] = ()

    def engine(self, _: Sequence[Place]) -> Engine:
        return self

    def map(self, _: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        return ((position, Failed("the node is gone")) for position in range(len(items)))


def test_a_record_that_could_not_be_looked_for_is_told() -> None:
    """Its rank was read before: the answer is as complete as it was."""
    files = dispatch.RankFiles((THERE,), Dead(), table.load(), Options())
    assert files.record(0, 3, "Torch.exp.0.forward") is None
    assert files.problems() == [
        Problem(ProblemKind.WORKER_FAILED, 0, 3, "step0/rank3", "the node is gone", judged=True)
    ]


def test_a_rank_that_is_not_there_is_no_failure() -> None:
    files = dispatch.RankFiles((THERE,), Dead(), table.load(), Options())
    assert files.record(0, 4, "Torch.exp.0.forward") is None
    assert files.problems() == []


def test_where_it_could_not_be_looked_for_a_record_may_be_there() -> None:
    assert dispatch.has(THERE, "Torch.exp.0.forward", Dead())


@pytest.mark.parametrize(("ranks", "said"), [(dispatch.MAX_SEARCHED, ["x"]), (dispatch.MAX_SEARCHED + 1, [])])
def test_a_name_on_too_many_ranks_is_not_said_to_be_nowhere(ranks: int, said: list[str]) -> None:
    held = [(rank, rank) for rank in range(ranks)]
    assert dispatch.nowhere(["x"], held, lambda _rank, _name: False) == said
    assert dispatch.nowhere(["2:x"], held, lambda rank, _name: rank == 2) == []
