"""What readers give and analysis takes: one rank's dump as typed, frozen values.

Nothing here knows how a file is laid out; nothing here judges. A :class:`Record` is one operator
call of dump.json, in execution order (the order in the file, never the numbers in names).
"""

from __future__ import annotations

import math
from enum import Enum

from msgspec import Struct, field

from firstnan.dump.values import Number, Statistic, ValueState


class Direction(Enum):
    """Which pass of training a record belongs to."""

    FORWARD = "forward"
    """The forward pass; also communication, optimizer and everything without a direction."""
    BACKWARD = "backward"
    """A gradient computed by autograd, accumulated parameter gradients included."""

    __hash__ = object.__hash__  # one object per member; that of Enum is Python, and asked for again and again


class RecordKind(Enum):
    """What one record describes."""

    API = "api"
    """One call of a framework function (``Functional.linear.0.forward``)."""
    MODULE = "module"
    """One call of a module: repeats the values of the records inside it."""
    PARAMETERS_GRAD = "parameters_grad"
    """Accumulated gradients of a module's own parameters."""

    __hash__ = object.__hash__  # one object per member; that of Enum is Python, and asked for again and again


class RecordName(Struct, frozen=True):
    """A record's name, taken apart from the right (dump format, section 6)."""

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


class TensorStat(Struct, frozen=True, gc=False):
    """The statistics of one tensor in one slot of a record."""

    slot: str
    """Where it stood: ``input_args.0``, ``input_kwargs.mask``, ``output.1``, ``parameters.weight``,
    ``input.0`` (backward), ``grad.weight`` (parameters_grad); nested containers add ``.index``/``.key``."""
    dtype: str
    """Normalised (``float16``, ``int64``); empty when the dump does not say."""
    shape: tuple[int, ...] | None
    max: Statistic | None = field(name="Max")
    min: Statistic | None = field(name="Min")
    mean: Statistic | None = field(name="Mean")
    norm: Statistic | None = field(name="Norm")
    state: ValueState
    requires_grad: bool | None = None
    checksum: str | None = None
    """``md5`` as written (a CRC-32 or an XOR, in spite of the key); None: not recorded."""

    @property
    def is_recorded_bad(self) -> bool:
        """Its Max or its Min, as written, is not finite; what that means is told by the state."""
        high, low = self.max, self.min  # x - x is NaN for a non-finite x
        return (type(high) is float and high - high != 0.0) or (type(low) is float and low - low != 0.0)

    @property
    def is_floating(self) -> bool:
        """Can hold a non-finite value; a dtype that is not told counts as floating."""
        return not self.dtype or self.dtype.startswith(("float", "bfloat", "hif", "complex"))

    @property
    def numel(self) -> int | None:
        """Number of elements; None when the shape is not recorded."""
        return None if self.shape is None else math.prod(self.shape)


class Scalar(Struct, frozen=True):
    """A plain Python value among the arguments (``eps``, ``dim``, ``dst``, ``async_op`` ...)."""

    slot: str
    type: str
    value: Number | str | None


class GroupRef(Struct, frozen=True):
    """A process group as an argument: its global ranks in group order, where they are recorded."""

    slot: str
    ranks: tuple[int, ...] | None
    """None: the group has a name but no ranks (MindSpore's group strings)."""
    name: str | None


class PeerOp(Struct, frozen=True):
    """One element of ``batch_isend_irecv``; its tensor is in the record's inputs and outputs as well."""

    slot: str
    """Slot of the element; the tensors' slots start with it (``input_args.0.2`` or ``output.0.2``)."""
    op: str
    """``isend`` or ``irecv``, as written."""
    peer: int | None
    tag: int
    group: str | None


class Record(Struct, frozen=True, omit_defaults=True):
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
    """True: the file is cut inside this record; what is absent from it says nothing."""
    recompute: bool = False
    """True: the writer marked it as an activation-checkpoint recomputation."""
    flagged: bool | None = None
    """``is_nan`` of task nan_check: the device saw an overflow during this call."""

    @property
    def tensors(self) -> tuple[TensorStat, ...]:
        """All of them, in the order of the places."""
        return (*self.inputs, *self.outputs, *self.parameters)

    @property
    def nonfinite(self) -> int:
        """How many of its tensors were recorded with a Max or Min that is not finite."""
        return sum(tensor.is_recorded_bad for tensor in self.tensors)

    @property
    def is_judged(self) -> bool:
        """Something is known about a floating tensor of it."""
        tensors = (*self.inputs, *self.outputs, *self.parameters)
        return any(t.state not in (ValueState.UNKNOWN, ValueState.EMPTY) and t.is_floating for t in tensors)
