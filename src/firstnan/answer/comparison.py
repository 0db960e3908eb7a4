"""Two dumps of one program held against each other: where their numbers first leave each other."""

from __future__ import annotations

from msgspec import Struct

from firstnan.dump.problems import Problem
from firstnan.dump.values import Statistic

SCHEMA = "firstnan.comparison/1"


class Difference(Struct, frozen=True):
    """One statistic of one tensor that differs by more than two healthy runs do."""

    op_name: str
    """Record name in the second dump."""
    index_a: int
    index_b: int
    """Execution order in either dump, counted from 0."""
    slot: str
    statistic: str
    """``Max``, ``Min``, ``Norm``; ``state`` where only one side is finite; ``shape`` or ``dtype`` where these differ;
    ``argument`` for a plain number among the arguments."""
    value_a: Statistic | None
    value_b: Statistic | None
    difference: Statistic
    """Relative to the larger of both; infinite where only one side is finite or the shapes differ."""
    allowed: Statistic
    """What counts as no difference there."""
    begins_here: bool
    """The inputs of the record agree: it began in this record, not before."""


class RankComparison(Struct, frozen=True):
    """One rank of one pair of steps."""

    step_a: int
    step_b: int
    rank: int
    matched: int
    """Records that stand in both."""
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    """Names of records that stand in one dump alone: the first :data:`MOST_NAMES`."""
    count_only_a: int
    count_only_b: int
    differing: int
    """Matched records with a difference."""
    first: Difference | None
    """In execution order; None: nothing differs."""


MOST_NAMES = 5


class Comparison(Struct, frozen=True):
    """The whole answer."""

    path_a: str
    path_b: str
    noise: str
    """Path of the third dump; empty: the default tolerances were taken."""
    tolerances: dict[str, float]
    """dtype -> relative difference that always counts as none."""
    ranks: tuple[RankComparison, ...]
    """The earliest step first, in it the ranks on which the difference began; those without any last."""
    ranks_only_a: tuple[int, ...]
    ranks_only_b: tuple[int, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def differs(self) -> bool:
        """Numbers, records or ranks."""
        return any(one.first or one.count_only_a or one.count_only_b for one in self.ranks)

    @property
    def complete(self) -> bool:
        """All that is in either dump was compared."""
        whole = not self.ranks_only_a and not self.ranks_only_b and all(p.judged for p in self.problems)
        return whole and any(one.matched for one in self.ranks)

    @property
    def exit_code(self) -> int:
        """0 no difference, 1 a difference, 4 none was found, but not all could be compared."""
        return 1 if self.differs else 0 if self.complete else 4
