"""What the comparison takes: the summaries of all ranks, and ways back to their files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Protocol

from msgspec import Struct

from firstnan.agree.tables import Table
from firstnan.dump.records import Record
from firstnan.operators.communication import CallKey, CommCall
from firstnan.rank.summary import CommFact
from firstnan.read.fingerprints import OperatorPrints, RankPrints


class Replica(Struct, frozen=True):
    """One rank of one step, as far as the comparison needs it."""

    rank: int
    prints: RankPrints
    table: Table
    """Its parameters."""
    truncated: bool = False
    """The file ends early: fewer calls than on other members mean nothing."""
    has_apis: bool = True
    """False: only modules were dumped (level L0): communication leaves no record."""
    bytes_read: int = 0
    first_calls: Sequence[CommFact] = ()
    """The calls that were followed from the first record on, without a gap; none where nothing was suspected."""

    def index_of(self, key: CallKey, position: int) -> int | None:
        """Index of the record of the call at this position among those of a series; None: it has to be read."""
        found = (fact.call.index for fact in self.first_calls if CallKey.of(fact.call) == key)
        return next(islice(found, position, None), None)


class Sources(Protocol):
    """Ways back to the ranks' files. A rank that cannot be reached is absent from the answers."""

    def calls(
        self, step: int, rank: int, prints: RankPrints, places: Collection[int]
    ) -> Mapping[int, tuple[CommCall, ...]]:
        """The communication calls of the records at these places of a rank's fingerprints."""
        ...

    def operators(self, step: int, ranks: Collection[int]) -> Mapping[int, OperatorPrints]:
        """Fingerprints of all operators."""
        ...

    def records(self, step: int, rank: int, names: Collection[str]) -> Mapping[str, Record]:
        """Records by name, with their indices; absent: not found."""
        ...
