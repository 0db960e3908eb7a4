"""What running a record again on the CPU says: was it the numbers, the dtype, or the device?

One record is one experiment: its recorded inputs, its recorded result, and what the CPU makes of the same inputs, in
the dumped dtype and in float64. These types hold the answer; :mod:`firstnan.replaying` finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from msgspec import Struct, field

from firstnan.dump.values import Statistic


class ReplayVerdict(Enum):
    """What the CPU says about one record."""

    NOT_REPRODUCED = "not_reproduced"
    """The recorded result holds NaN or Inf that the CPU does not get from the recorded inputs."""
    VALUES_DIFFER = "values_differ"
    """The recorded result is out of tolerance: numbers that the CPU does not get from the recorded inputs."""
    REPRODUCED_RANGE = "reproduced_range"
    """The CPU gets the NaN or Inf in the dumped dtype, and float64 cures it: the range of the dtype is exceeded."""
    REPRODUCED = "reproduced"
    """The CPU gets the NaN or Inf as well, in float64 too: the arithmetic of these inputs."""
    AGREES = "agrees"
    """The recorded result holds no NaN or Inf, and the CPU gets it within tolerance."""
    NOT_RUN = "not_run"
    """The record was not run again; :attr:`Replay.reason` says why."""

    @property
    def blames_device(self) -> bool:
        """The recorded inputs do not explain the recorded result."""
        return self in (ReplayVerdict.NOT_REPRODUCED, ReplayVerdict.VALUES_DIFFER)

    @property
    def is_reproduced(self) -> bool:
        """The CPU gets the NaN or Inf of the record."""
        return self in (ReplayVerdict.REPRODUCED, ReplayVerdict.REPRODUCED_RANGE)


class NotRun(Enum):
    """Why a record was not run again."""

    NO_TENSORS = "no_tensors"
    """The dump holds statistics of an argument or result, and not its elements."""
    BAD_FILE = "bad_file"
    """A tensor's file is absent, damaged, outside of the rank's folder, or holds something else."""
    STALE_INPUT = "stale_input"
    """An input's file does not hold what the record says of it: it was saved after the tensor had changed."""
    ARGUMENT = "argument"
    """An argument that the call needs is not recorded."""
    UNFINISHED = "unfinished"
    """The record has no result: the call raised, or the run ended inside it."""
    NO_FORWARD = "no_forward"
    """A backward record whose forward record is not in the dump."""
    NO_GRADIENT = "no_gradient"
    """The CPU's result of the forward call needs no gradient, or has another shape than the recorded gradient."""
    NO_RESULT = "no_result"
    """The record's result holds no tensor."""
    OTHER_RESULT = "other_result"
    """The operator gives a result of another number, shape or dtype here than the record holds."""
    MODULE = "module"
    """A module: the records inside it are run again, and none is in the dump."""
    MEMBERS = "members"
    """A communication call of which a member, its tensors or its peer is not in the dump."""
    ASYNCHRONOUS = "asynchronous"
    """An asynchronous call: its recorded result may be from before the communication."""
    REDUCTION = "reduction"
    """A communication call, or a reduction, for which there is no sum to do again."""
    RANDOM = "random"
    """The operator draws random numbers."""
    MEMORY = "memory"
    """The operator gives memory that nobody has written."""
    NO_OPERATOR = "no_operator"
    """There is no operator of this name to run it with, or no reference for it."""
    RAISED = "raised"
    """The operator raised an error on the CPU."""
    TOO_LARGE = "too_large"
    """The record does not fit into the memory limit, nor can it be cut to rows."""
    TIMED_OUT = "timed_out"
    """The run took longer than the time limit of one record."""
    CRASHED = "crashed"
    """The process that ran it was ended by a crash of native code, or by the system."""


class AxisHits(Struct, frozen=True):
    """The bad elements along one axis."""

    axis: int
    size: int
    hit: int
    """Number of places along the axis at which there is a bad element."""
    which: tuple[int, ...]
    """The first of these places, at most :data:`MOST_PLACES`."""


MOST_PLACES = 16
"""Places of an axis that are listed."""


class Picture(Struct, frozen=True):
    """The bad elements seen along all but two axes: rows of ``#`` (a bad element somewhere there) and ``.``."""

    axes: tuple[int, int]
    """The axis that goes down and the axis that goes across; -1 where the tensor has too few axes."""
    rows: tuple[str, ...]
    per_cell: tuple[int, int] = (1, 1)
    """Elements that one cell stands for, down and across."""


class BatchPlace(Struct, frozen=True):
    """The element of the batch to which the first bad element belongs."""

    op_name: str
    """Record that takes the batch in."""
    slot: str
    shape: tuple[int, ...]
    index: tuple[int, ...]
    value: int | None = None
    """What stands there (the token); None when it was not saved."""


class BadElements(Struct, frozen=True):
    """Where the bad elements of one tensor are, without a word of why."""

    slot: str
    dtype: str
    shape: tuple[int, ...]
    nan: int
    posinf: int
    neginf: int
    differing: int
    """Finite elements that are out of tolerance."""
    of: int
    """Number of elements of the tensor."""
    first: tuple[int, ...]
    """Index of the first bad element."""
    axes: tuple[AxisHits, ...]
    block: bool
    """The bad elements are exactly those at the listed places of all axes: a tile, a head, a row ..."""
    picture: Picture | None = None
    batch: BatchPlace | None = None

    @property
    def bad(self) -> int:
        """Number of bad elements."""
        return self.nan + self.posinf + self.neginf + self.differing


class Example(Struct, frozen=True):
    """One element that the CPU computes differently."""

    index: tuple[int, ...]
    dumped: Statistic
    cpu: Statistic
    float64: Statistic | None
    allowed: Statistic | None = None
    """Tolerance around ``float64``; None for NaN and Inf, which are never a matter of tolerance."""


class SmallInput(Struct, frozen=True):
    """One tensor of the smallest input."""

    slot: str
    dtype: str
    shape: tuple[int, ...]
    values: tuple[Statistic, ...]
    """The first elements in order, at most :data:`MOST_VALUES`."""


MOST_VALUES = 8
"""Elements of a tensor of the smallest input that are listed."""


class Minimal(Struct, frozen=True):
    """The smallest input found that still gives NaN or Inf."""

    expression: str
    """``exp(418.98)``"""
    inputs: tuple[SmallInput, ...]
    indices: tuple[tuple[int | None, ...], ...]
    """Where each input was cut out of its recorded tensor: a place for each axis, None for an axis that is whole."""


class Share(Struct, frozen=True):
    """What one member of a collective put in at the bad index."""

    rank: int
    value: Statistic


class Rows(Struct, frozen=True):
    """A record too large for the memory limit: the rows that were run again."""

    looked: int
    of: int


class Replay(Struct, frozen=True):
    """The experiment on one record."""

    verdict: ReplayVerdict
    reason: NotRun | None = None
    """Why it was not run; None where it was."""
    detail: str = ""
    """Facts to the reason, from the dump or from torch; never translated."""
    device_elements: int | None = None
    """NaN and Inf in the recorded result; None when its elements are not known."""
    cpu_elements: int | None = None
    """NaN and Inf in the CPU's result in the dumped dtype; None when it was not run."""
    float64_elements: int | None = None
    """NaN and Inf in the CPU's result in float64; None when that was not run."""
    elements: BadElements | None = None
    """The elements that the verdict is about: of ``not_reproduced`` those on the device alone."""
    minimal: Minimal | None = None
    example: Example | None = None
    shares: tuple[Share, ...] = ()
    """Communication: what each member put in at the bad index."""
    rows: Rows | None = None
    """Only rows of the record were run; None: all of it."""


class ReplayedRecord(Struct, frozen=True):
    """One record and its replay."""

    step: int
    rank: int
    op_name: str
    exec_order: int
    replay: Replay


class Collect(Struct, frozen=True):
    """What to dump so that a record can be run again: MSProbe's settings for these records and nothing else."""

    step: int
    ranks: tuple[int, ...]
    names: tuple[str, ...]
    """Records, as MSProbe's ``list`` takes them; a backward record with its forward record."""

    configuration: dict[str, Any]
    """The whole of ``config.json``."""

    @classmethod
    def of(cls, step: int, ranks: Iterable[int], names: Iterable[str]) -> Collect:
        """What MSProbe has to be told."""
        ranks, names = tuple(ranks), tuple(names)
        configuration = {
            "task": "tensor",
            "dump_path": "/path/with/space",
            "rank": list(ranks),
            "step": [step],
            "level": "mix",
            "tensor": {"scope": [], "list": list(names), "data_mode": ["all"]},
        }
        return cls(step, ranks, names, configuration)


class ReplaySummary(Struct, frozen=True):
    """Everything that one ``firstnan replay`` ran."""

    records: int
    """Records that were taken up."""
    verdicts: Mapping[ReplayVerdict, int] = field(default_factory=dict)
    not_run: Mapping[NotRun, int] = field(default_factory=dict)
    left_out: int = 0
    """Records that were not taken up because the time budget was used up."""
    told: tuple[ReplayedRecord, ...] = ()
    """Records that differ, records that were asked for by name, and those of the root causes."""
    collect: tuple[Collect, ...] = ()
    """What to dump for the records whose tensors are not there, of which the answer depends."""

    @property
    def is_open(self) -> bool:
        """Nothing could be run, or the time was up: the question is not answered."""
        ran = sum(count for verdict, count in self.verdicts.items() if verdict is not ReplayVerdict.NOT_RUN)
        return bool(self.left_out) or not ran
