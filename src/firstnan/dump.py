"""What readers give and analysis takes: one rank's dump as typed, frozen values.

Nothing here knows how a file is laid out; nothing here judges. A :class:`Record` is one operator
call of dump.json, in execution order (the order in the file, never the numbers in names).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol

from firstnan.numerics import Number, ValueState


class Direction(Enum):
    """Which pass of training a record belongs to."""

    FORWARD = "forward"
    """The forward pass; also communication, optimizer and everything without a direction."""
    BACKWARD = "backward"
    """A gradient computed by autograd, accumulated parameter gradients included."""


class RecordKind(Enum):
    """What one record describes."""

    API = "api"
    """One call of a framework function (``Functional.linear.0.forward``)."""
    MODULE = "module"
    """One call of a module: repeats the values of the records inside it."""
    PARAMETERS_GRAD = "parameters_grad"
    """Accumulated gradients of a module's own parameters."""


@dataclass(frozen=True, slots=True)
class RecordName:
    """A record's name, taken apart from the right (format document, section 6)."""

    full: str
    kind: RecordKind
    prefix: str
    """``Functional``, ``Tensor``, ``Module``, ``Distributed``, ``NPU`` ..."""
    api: str
    """The function without prefix and number (``linear``, ``__add__``, ``linalg.vector_norm``);
    for modules the class (``Linear``)."""
    path: str
    """The module path (``layers.0.mlp.fc2``); empty for APIs."""
    call: int | None
    """The n-th call as written; not comparable across ranks. None when the name has no number."""
    direction: Direction


@dataclass(frozen=True, slots=True)
class TensorStat:
    """The statistics of one tensor in one slot of a record."""

    slot: str
    """Where it stood: ``input_args.0``, ``input_kwargs.mask``, ``output.1``, ``parameters.weight``,
    ``input.0`` (backward), ``grad.weight`` (parameters_grad); nested containers add ``.index``/``.key``."""
    dtype: str
    """Normalised (``float16``, ``int64``); empty when the dump does not say."""
    shape: tuple[int, ...] | None
    max: Number | None
    min: Number | None
    mean: Number | None
    norm: Number | None
    state: ValueState
    requires_grad: bool | None = None

    @property
    def is_floating(self) -> bool:
        """Can hold a non-finite value; a dtype that is not told counts as floating."""
        return not self.dtype or self.dtype.startswith(("float", "bfloat", "hif", "complex"))

    @property
    def numel(self) -> int | None:
        """Number of elements; None when the shape is not recorded."""
        return None if self.shape is None else math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A plain Python value among the arguments (``eps``, ``dim``, ``dst``, ``async_op`` ...)."""

    slot: str
    type: str
    value: Number | str | None


@dataclass(frozen=True, slots=True)
class GroupRef:
    """A process group as an argument: its global ranks in group order, where they are recorded."""

    slot: str
    ranks: tuple[int, ...] | None
    """None: the group has a name but no ranks (MindSpore's group strings)."""
    name: str | None


@dataclass(frozen=True, slots=True)
class PeerOp:
    """One element of ``batch_isend_irecv``; its tensor is in the record's inputs and outputs as well."""

    slot: str
    """Slot of the element; the tensors' slots start with it (``input_args.0.2`` or ``output.0.2``)."""
    op: str
    """``isend`` or ``irecv``, as written."""
    peer: int | None
    tag: int
    group: str | None


@dataclass(frozen=True, slots=True)
class Record:
    """One operator call: name, place in the file, every tensor and scalar argument."""

    name: RecordName
    index: int
    """0-based position in dump.json: the execution order."""
    inputs: tuple[TensorStat, ...]
    outputs: tuple[TensorStat, ...]
    parameters: tuple[TensorStat, ...] = ()
    """A module record's own parameters."""
    scalars: tuple[Scalar, ...] = ()
    groups: tuple[GroupRef, ...] = ()
    peers: tuple[PeerOp, ...] = ()
    """Elements of a list of P2P operations, input side."""
    arity: tuple[int, int, int] = (0, 0, 0)
    """How many positional arguments, keyword arguments and outputs were written, nulls included."""
    kwargs: tuple[str, ...] = ()
    """Names of the keyword arguments, in order: outputs of communication follow arguments."""
    has_output: bool = True
    """False: the call raised or the run died inside it."""
    distrusted: bool = False
    """True: the last record before a cut; what is absent from it says nothing."""
    recompute: bool = False
    """True: the writer marked it as an activation-checkpoint recomputation."""
    flagged: bool | None = None
    """``is_nan`` of task nan_check: the device saw an overflow during this call."""

    @property
    def is_judged(self) -> bool:
        """Something is known about a floating tensor of it."""
        tensors = (*self.inputs, *self.outputs, *self.parameters)
        return any(t.state not in (ValueState.UNKNOWN, ValueState.EMPTY) and t.is_floating for t in tensors)


class FileKind(Enum):
    """The files of one rank."""

    DUMP = "dump.json"
    """Operators with their statistics."""
    CONSTRUCT = "construct.json"
    """Who called whom."""
    STACK = "stack.json"
    """Code locations."""


class ProblemKind(Enum):
    """What was wrong with the input."""

    MISSING_FILE = "missing_file"
    """A file that belongs there is absent."""
    UNREADABLE = "unreadable"
    """The file exists, but nothing could be read from it."""
    TRUNCATED = "truncated"
    """The file ends early; what stands before the cut was used."""
    NO_RECORDS = "no_records"
    """The file is whole and holds no record (the run was killed before its first flush)."""
    NO_STATISTICS = "no_statistics"
    """Records hold no Max/Min (md5, xor, structure, placeholders): they cannot be judged."""
    PARTLY_NO_STATISTICS = "partly_no_statistics"
    """Some records hold no Max/Min; the others were judged."""
    UNFINISHED_RECORDS = "unfinished_records"
    """Records without output: the call raised or the run died inside it."""
    BAD_CONTENT = "bad_content"
    """A part of the file has a form that no known writer makes; the part was skipped."""
    EMPTY_RANK = "empty_rank"
    """A rank folder without a dump."""
    EMPTY_STEP = "empty_step"
    """A step folder without rank folders."""
    MISSING_RANK = "missing_rank"
    """Other ranks name this rank as a member of a group; it has no folder."""
    IGNORED_FOLDER = "ignored_folder"
    """A folder that is not part of the run (a helper process, an older layout)."""
    SECOND_DUMP = "second_dump"
    """A folder with steps or ranks that the dump which is looked at has as well: another run, not looked at."""
    DUPLICATE_RANK = "duplicate_rank"
    """Two folders claim the same rank of the same step; the first in name order was used."""
    OTHER_DUMP = "other_dump"
    """The folder holds files of another dump kind (debug.json, kernel dumps) that are not analysed."""
    NARROWED_FLOAT64 = "narrowed_float64"
    """float64 statistics went through float32: their Infinity may be an artefact, taken as unknown."""
    TOOL_ERROR = "tool_error"
    """The dumping tool itself reported errors (dump_error_info.log): records may be absent."""
    SHORT_RANK = "short_rank"
    """The rank's records end while other ranks go on."""
    UNMATCHED_CALLS = "unmatched_calls"
    """Communication calls that could not be matched across ranks."""
    GROUP_UNKNOWN = "group_unknown"
    """Groups are not recorded: calls were matched by name and number, with low confidence."""
    WORKER_FAILED = "worker_failed"
    """The work on this rank failed (an error of the tool, or a process that was killed); the others went on."""
    NOT_REACHED = "not_reached"
    """A second look at the rank was needed where its files cannot be reached (parts of other hosts)."""
    LIMIT = "limit"
    """A documented limit of the tool was reached; what lies beyond was not looked at."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something about the input that the user must know, and what it does to the answer."""

    kind: ProblemKind
    step: int | None = None
    rank: int | None = None
    file: str | None = None
    """Path of the file or folder, relative to the analysed path where possible."""
    detail: str = ""
    """The facts (``cut at byte 8187 after 3 records``); from the input, never translated."""
    judged: bool = True
    """False: something could not be judged, so that a clean verdict is not complete."""


@dataclass(frozen=True, slots=True)
class RankFolder:
    """One rank of one step on disk."""

    step: int
    rank: int
    path: Path
    label: str
    """Path relative to the analysed path, for people."""
    dump_bytes: int = 0
    """Size of dump.json when listed; 0 when absent."""
    nodes: tuple[str, ...] = ()
    """Nodes of a cluster on whose own disks it lies, the one to ask first in front; empty: its path leads to it."""


@dataclass(frozen=True, slots=True)
class RankDump:
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


@dataclass(frozen=True, slots=True)
class Overview:
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


Passed = tuple[int, Record, Callable[[], bool]]
"""One communication record, named without all its values having been read (there may be very many):

- its index;
- a record with this one's API, groups, peers and scalar arguments, whose tensors may be those of another call; the
  same object for all records that it stands for;
- whether it holds a NaN, an infinity or a -Inf, to be asked before the next record is passed.
"""


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

    def wrote_mask(self, operator: RecordName, full: str, largest: Sequence[float]) -> None:
        """A record was passed whose outputs hold a legal -Inf beside these largest elements.

        ``operator`` is the name of any record of its operator, the same one each time.
        """
        ...

    def read_mask(self, full: str) -> None:
        """A record was passed that only reads a legal -Inf."""
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

    def communication(self, start: int = 0, stop: int | None = None) -> Iterator[Passed]:
        """The records of communication APIs with ``start <= index < stop``, in order."""
        ...

    def passes(self) -> tuple[int | None, int | None]:
        """Indices of the first and the last backward record; gradients of parameters do not count."""
        ...


@dataclass(frozen=True, slots=True)
class Frame:
    """One stack frame of stack.json."""

    file: str
    line: int | None
    function: str
    source: str
    """The source line as recorded; empty when the dump does not hold it."""


@dataclass(frozen=True, slots=True)
class CallSite:
    """Where one record was called from."""

    op_name: str
    chain: tuple[str, ...] = ()
    """The record itself, then its parents from construct.json, innermost first."""
    frames: tuple[Frame, ...] = ()
    """Full stack, innermost first."""
    location: Frame | None = None
    """The first frame outside the framework and its wrappers."""
    module: str | None = None
    """Path of the innermost module of the chain (``layers.3.self_attn``); for a module record its own."""
    raw_stack: tuple[str | int | float | None, ...] = ()
    """The stack as written in the file."""
    problems: tuple[Problem, ...] = field(default=())
