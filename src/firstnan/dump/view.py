"""One rank's dump.json as the analysis sees it: whole, or read where it matters."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from msgspec import Struct

from firstnan.dump.folders import RankFolder
from firstnan.dump.problems import Problem
from firstnan.dump.records import Record, RecordName
from firstnan.dump.values import Number


class RankDump(Struct, frozen=True):
    """Everything read from one rank's dump.json."""

    folder: RankFolder
    records: Sequence[Record]
    problems: tuple[Problem, ...] = ()
    task: str | None = None
    level: str | None = None
    framework: str | None = None
    truncated: bool = False
    bytes_read: int = 0


FIRST_RECORDS = 128
"""Where none of so many first records holds a float16 tensor, nothing is taken for saturated: other dtypes are not
clamped."""


class Overview(Struct, frozen=True):
    """What one pass over a rank's dump.json tells."""

    folder: RankFolder
    records: int = 0
    """Number of records."""
    end: int = 0
    """One more than the last record's index."""
    bytes_read: int = 0
    problems: tuple[Problem, ...] = ()
    truncated: bool = False
    judged: bool = False
    """True: at least one tensor that could be non-finite has statistics."""
    has_apis: bool = False
    """False: only modules were dumped (level L0)."""
    groups_recorded: bool = True
    """False: this dump does not record process groups (1.0.x, hand-made formats)."""
    last: RecordName | None = None
    """The last record's name."""
    suspect: int | None = None
    """Index of the first record that the watch suspects; None: there is none."""
    saturated: int | None = None
    """Index of the first record with a result that the watch finds saturated."""
    nonfinite: int = 0
    """Tensors that were recorded with a Max or Min that is not finite (:attr:`Record.nonfinite`)."""


class Calls(Protocol):
    """The records of communication APIs, in order, told apart without all of them having been read: there may be very
    many. They are asked for by their position among themselves."""

    @property
    def likes(self) -> Sequence[Record]:
        """One record of each kind: its API, groups, peers and scalar arguments are those of all that it stands for."""
        ...

    @property
    def kind_of(self) -> Sequence[int]:
        """Kind of each record, as a position in ``likes``."""
        ...

    def before(self, index: int) -> int:
        """How many of them come before the record with this index."""
        ...

    def index(self, at: int) -> int:
        """The index of one among all records."""
        ...

    def is_bad(self, at: int) -> bool:
        """Whether one holds a NaN, an infinity or a -Inf."""
        ...

    def name(self, at: int) -> str:
        """Its own name."""
        ...

    def record(self, at: int) -> Record:
        """Itself, with its own values."""
        ...


class MaskRole(Enum):
    """What a forward record of one operator means when a -Inf stands in it."""

    WRITES = "writes"
    """Its outputs may hold -Inf by a rule."""
    PASSES = "passes"
    """Inputs may hold -Inf, and then outputs may too."""
    IGNORES = "ignores"
    """A -Inf in it says nothing."""
    OPEN = "open"
    """Only the whole record tells."""


class Watch(Protocol):
    """What whoever reads for an analysis asks about records, in the order of the file, until one is suspected."""

    @property
    def late(self) -> int | None:
        """Index of a record that counts only when none is suspected."""
        ...

    def is_suspect(self, record: Record) -> bool:
        """Whether anything that matters may begin at this record."""
        ...

    def is_saturated(self, record: Record) -> bool:
        """Whether a result stands exactly at its dtype's limit because it was clamped there."""
        ...

    def may_saturate(self, name: RecordName) -> bool:
        """False: :meth:`is_saturated` is False for every record of this operator."""
        ...

    def mask_role(self, name: RecordName) -> MaskRole:
        """How to take a -Inf beside a finite Max in a forward record of this operator."""
        ...

    @property
    def passed(self) -> int:
        """Non-finite tensors in the records that were passed and are no suspects."""
        ...

    def wrote_mask(self, operator: RecordName, full: str, largest: Sequence[float], count: int) -> None:
        """A record was passed whose outputs hold a legal -Inf beside these largest elements.

        ``operator`` is the name of any record of its operator, the same one each time. ``count``: tensors with a -Inf
        in the record, those that it reads included.
        """
        ...

    def knows_mask(self, largest: Number | None) -> bool:
        """Whether a legal -Inf was written beside this largest element; the reader of another one must be parsed."""
        ...

    def read_mask(self, full: str, count: int) -> None:
        """A record was passed that only reads a legal -Inf, in ``count`` tensors."""
        ...

    def ignored_mask(self, operator: RecordName, full: str, count: int) -> None:
        """A record was passed in which a -Inf says nothing (:attr:`MaskRole.IGNORES`)."""
        ...


class RankView(Protocol):
    """One rank's dump.json, read where it matters: what both readers give.

    Every method but :attr:`overview` may read the file again.
    """

    @property
    def overview(self) -> Overview: ...

    def records(self, start: int, stop: int) -> Sequence[Record]:
        """The records with ``start <= index < stop``."""
        ...

    def suspect(self, start: int) -> int | None:
        """Index of the first record at or behind ``start`` that the watch suspects."""
        ...

    def find(self, name: str) -> Record | None:
        """The record with this name."""
        ...

    def calls(self) -> Calls:
        """The records of communication APIs."""
        ...

    def nonfinite_from(self, start: int) -> int:
        """Non-finite tensors in the records at or behind ``start``, which is no earlier than the first suspect."""
        ...

    def passes(self) -> tuple[int | None, int | None]:
        """Indices of the first and the last backward record; gradients of parameters do not count."""
        ...
