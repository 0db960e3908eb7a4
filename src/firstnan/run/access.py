"""The way back to the ranks' files, once the first pass over all of them is done."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from firstnan.agree.sources import Sources
from firstnan.dump.call_site import CallSite
from firstnan.dump.problems import Problem
from firstnan.dump.records import Record
from firstnan.rank.summary import RankSummary
from firstnan.run.second_pass import Question

if TYPE_CHECKING:
    from firstnan.rank.magnitudes import Magnitudes


class RankAccess(Sources, Protocol):
    """What the rest of the analysis asks of single ranks: the second pass. A rank that cannot be reached is absent
    from the answers, or its summary comes back as it was."""

    def answers(self, questions: Collection[Question]) -> list[RankSummary]:
        """The summaries of the ranks that are asked, with the answers in them."""
        ...

    def call_sites(
        self, step: int, rank: int, names: Collection[str]
    ) -> tuple[Mapping[str, CallSite], tuple[Problem, ...]]:
        """Where records of a rank were called from, and what was wrong with construct.json and stack.json."""
        ...

    def record(self, step: int, rank: int, name: str) -> Record | None:
        """One record of a rank by its name; None: not there, or out of reach."""
        ...

    def magnitudes(self, rank: int, steps: Sequence[int]) -> list[Magnitudes]:
        """The largest values of a rank in some steps, by step; a step that cannot be read is left out."""
        ...

    def near_limit(self) -> list[int]:
        """The ranks of the last step on which a value is beyond 1 % of the largest float32."""
        ...

    def problems(self) -> list[Problem]:
        """Questions that were left open although the answer stands."""
        ...
