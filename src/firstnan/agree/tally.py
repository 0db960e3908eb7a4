"""How much was compared, and why the rest was not."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field

from firstnan.answer.model import Agreement, Compared, NotComparable


class Count(Struct):
    """Values of one kind."""

    compared: int = 0
    not_comparable: Counter[NotComparable] = field(default_factory=Counter)

    def leave_out(self, reason: NotComparable, count: int = 1) -> None:
        """So many values were not compared for this reason."""
        if count > 0:
            self.not_comparable[reason] += count

    def frozen(self) -> Compared:
        order = sorted(self.not_comparable.items(), key=lambda item: item[0].value)
        return Compared(self.compared, dict(order))


class Tally(Struct):
    """Values of all kinds, over all steps."""

    parameters: Count = field(default_factory=Count)
    calls: Count = field(default_factory=Count)
    records: Count = field(default_factory=Count)

    def frozen(self) -> Agreement:
        return Agreement(self.parameters.frozen(), self.calls.frozen(), self.records.frozen())
