"""What is kept of one rank: small, picklable, and all that the analysis across ranks sees."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum

from msgspec import Struct, field

from firstnan.answer.model import SymptomKind
from firstnan.dump.guard_file import GuardFile
from firstnan.dump.problems import Problem
from firstnan.dump.records import RecordName, TensorStat
from firstnan.operators.communication import CallKey, CommCall
from firstnan.rank.taint.events import LONG, Ending, Event, Tally
from firstnan.read.fingerprints import RankPrints

ParentsOf = Callable[[Collection[str]], Mapping[str, "str | None"]]
"""Record names -> name of the caller for these and for their callers (construct.json)."""


class CallWindow(Struct, frozen=True):
    """Calls that were made before a window begins."""

    start: int
    before: Mapping[CallKey, int]


def module_name(name: RecordName) -> str:
    """Path and class of a module, the same for all its calls."""
    return f"{name.path}.{name.api}"


class Side(Enum):
    """What one side of a communication call holds."""

    CLEAN = "clean"
    """Finite, legal or empty."""
    BAD = "bad"
    """Non-finite and not legal."""
    UNKNOWN = "unknown"
    """No statistics, not finished, or not applicable to a value that was not recorded."""
    NONE = "none"
    """The rank has no such side (a sender has no result)."""


class CommFact(Struct, frozen=True, gc=False, omit_defaults=True):
    """One communication call of a rank, judged."""

    call: CommCall
    sent: Side
    received: Side
    onward: frozenset[Ending] = frozenset()
    """Bad calls only: where the value goes from here on this rank."""
    next_calls: tuple[int, ...] = ()
    """Bad calls only: record indices of later communication that the value enters."""
    after_backward: bool = False
    read_next: tuple[TensorStat, ...] = ()
    """A bad result that may be stale: what the next records read of its size, the nearest first."""
    in_backward: bool = False
    """The call stands in the backward pass; its record's name says ``forward`` there too."""


class SymptomFact(Struct, frozen=True):
    """The first record of one kind of symptom."""

    kind: SymptomKind
    op_name: str
    index: int


class Weights(Struct, frozen=True):
    """The trainable weights that the first records of a step read (:mod:`firstnan.rank.weights`)."""

    marks: Mapping[str, int]
    """Place of a weight (operator, number of its record, slot) -> a number that is the same for the very same
    statistics."""
    finite: bool
    """All of them are finite."""


class RankSummary(Struct, frozen=True, omit_defaults=True):
    """What is kept of one rank and step."""

    step: int
    rank: int
    label: str
    records: int = 0
    bytes_read: int = 0
    problems: tuple[Problem, ...] = ()
    truncated: bool = False
    judged: bool = True
    """False: nothing on this rank could be judged (no record, no statistics)."""
    has_apis: bool = True
    """False: only modules were dumped (L0): communication leaves no record."""
    last_record: str = ""
    last_operator: str = ""
    """The same without its number."""
    ends_without_gradients: bool = False
    """True: the last records that read trainable weights keep no gradient: no backward follows (rollouts)."""
    calls: tuple[CommFact, ...] = ()
    events: tuple[Event, ...] = ()
    tallies: tuple[Tally, ...] = ()
    """All non-finite values of the rank, by what became of them."""
    saturated: Event | None = None
    """The first product whose finite result stands exactly at its dtype's limit, when nothing is non-finite."""
    bad_inputs: Mapping[str, int] = field(default_factory=dict)
    """Records that take in a bad value -> index."""
    benign: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """rule -> (count, first example)"""
    symptoms: tuple[SymptomFact, ...] = ()
    loss_is_finite: bool = False
    """True: the loss is recorded and finite."""
    last_backward: int | None = None
    suspect: int | None = None
    """Index of the first record that could matter; None: there is none."""
    horizon: int | None = None
    """Index from which on suspects were not looked at; None: all were."""
    windows: tuple[CallWindow, ...] = ()
    """Where the calls in ``calls`` stand among all calls of the rank."""
    made: Mapping[CallKey, int] | None = None
    """Calls of the whole file by series; None: not counted."""
    mentioned: tuple[tuple[int, int], ...] = ()
    """Ranks that the calls name: first and last of each range (:func:`firstnan.dump.ranges.packed`)."""
    weights: Weights | None = None
    """None: not asked for."""
    disproved: frozenset[int] = frozenset()
    """Record indices of receives whose recorded result is known to be stale, and was left out."""
    last_api: int | None = None
    """Index of the last record of an operator; None: nothing is suspected, or there is none."""
    guard: GuardFile | None = None
    """What the guard of the training loop saw; None: the step was not run by one."""
    first_module: str = ""
    """Path and class of the first module that was called; empty: nothing is suspected, or there is none."""
    prints: RankPrints = field(default_factory=RankPrints)
    """What must be equal on its replicas (:mod:`firstnan.agree`)."""

    def outlasts(self, fact: CommFact) -> bool:
        """The call's bad value was still spreading, long after it, where the look at this rank ended."""
        return Ending.BEYOND in fact.onward and self.horizon is not None and self.horizon - fact.call.index >= LONG

    @property
    def communicates(self) -> bool:
        """The dump holds communication calls; asked only of ranks on which something is suspected."""
        return bool(self.made or self.calls)
