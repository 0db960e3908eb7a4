"""Everything known about one step."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from firstnan.answer.model import RootCause
from firstnan.rank.summary import RankSummary
from firstnan.step.arrivals import SkipDoubt, Spread
from firstnan.step.matching import Matching


class StepAnswer(Struct, frozen=True):
    """Everything known about one step."""

    step: int
    summaries: Mapping[int, RankSummary]
    matching: Matching
    spread: Spread
    causes: tuple[RootCause, ...]
    absent: tuple[int, ...]
    """Ranks of the run without a readable dump of this step."""
    skipped: bool = False
    """True: a gradient overflow that the loss scaler skipped: the next step begins with the same weights."""
    skip_doubt: SkipDoubt | None = None
    """A gradient overflow that the loss scaler may have skipped: why it is not taken for one."""
    limits: tuple[str, ...] = ()
    """Limits of the second looks that were reached where they could change the answer."""
    undecided: bool = False
    """True: the only causes stand at the end of a cut file; a later step with a settled one is the answer."""

    @property
    def is_bad(self) -> bool:
        return bool(self.causes) and not self.skipped
