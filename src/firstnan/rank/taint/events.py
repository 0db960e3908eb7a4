"""The vocabulary of one rank's analysis: what can happen to a bad value, and where a chain of them ends."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct, field

from firstnan.answer.accounts import Fate
from firstnan.answer.model import RunUp
from firstnan.answer.views import NearRecord
from firstnan.dump.records import Direction, Record, TensorStat

LONG = 128
"""A value that spreads over so many records is not dropped any more."""


class EventKind(Enum):
    """How a bad value came into being on a rank."""

    BIRTH = "birth"
    """Clean inputs (or only legal -Inf), bad output."""
    ENTRY = "entry"
    """A bad input that no record wrote: parameter, batch, something that is not dumped."""
    RECEIVE = "receive"
    """A communication result is bad while this rank's own input is clean."""


class Ending(Enum):
    """Where the chain of values that an event started ends on its rank."""

    LOSS = "loss"
    """In the value from which backward starts."""
    GRADIENT = "gradient"
    """In gradients."""
    UPDATE = "update"
    """In what happens after backward (reduction, clipping, optimizer), or in a weight that the next step reads."""
    OUTPUT = "output"
    """In the output of the outermost module or of the last record."""
    SINK = "sink"
    """In sampling or clipping: an operator that acts on the value and passes nothing on."""
    CUT = "cut"
    """At the end of a file that is cut: what came next is not known."""
    COMMUNICATION = "communication"
    """In a communication; the other members tell whether it goes on."""
    SELECTED = "selected"
    """Dropped by an operator that chooses elements (where, nan_to_num, indexing)."""
    SATURATED = "saturated"
    """Swallowed by an operator that is finite at infinity (tanh, 1/x, clamp)."""
    OPEN = "open"
    """In a record without a recorded result: nothing shows whether it went on."""
    UNREAD = "unread"
    """No later record reads it."""
    ISLAND = "island"
    """In garbage that was computed with and thrown away (:mod:`islands`)."""
    BEYOND = "beyond"
    """It was still spreading where the look at this rank ended."""

    __hash__ = object.__hash__  # one object per member; that of Enum is Python, and asked for again and again


LIVE_ENDINGS = frozenset({Ending.LOSS, Ending.GRADIENT, Ending.UPDATE, Ending.OUTPUT, Ending.SINK, Ending.CUT})


class Origin(Enum):
    """What an entry's bad input is, as far as its own rank can tell."""

    PARAMETER = "parameter"
    """A weight."""
    INPUT_DATA = "input_data"
    """An argument of the outermost module, or of the first records, that needs no gradient."""
    UNINITIALISED = "uninitialised"
    """Memory that an initialiser returned and nothing wrote since."""
    BETWEEN_RECORDS = "between_records"
    """Made between two records by something that is not dumped."""
    BEFORE_DUMP = "before_dump"
    """Bad from the first record on."""


class Harmless(Enum):
    """Why an earlier record is not the cause."""

    RECEIVE_BUFFER = "receive_buffer"
    """What the buffer of a call held before its message: the call overwrites it."""
    FRESH_MEMORY = "fresh_memory"
    """Memory that was allocated and not written yet."""
    PARAMETER_GRADIENT = "parameter_gradient"
    """A parameter's gradient: its record does not stand where it was computed."""
    EXCLUDED = "excluded"
    """The user ruled it out."""
    NOT_USED = "earlier_dropped"
    """Its value reached neither the loss, nor the gradients, nor another rank."""


class Earlier(Struct, frozen=True):
    """One record before the first bad one that matters."""

    op_name: str
    index: int
    direction: Direction
    reason: Harmless


class GuessedLink(Struct, frozen=True):
    """The record that seems to read a value of which it may as well be the first reader."""

    op_name: str
    index: int


class BlindSpot(Struct, frozen=True):
    """A record whose result is not recorded."""

    record: Record
    module: str | None
    """Path of the innermost module around it."""
    is_writer: bool = False
    """It is the last one that gave a tensor of the size of an entry's bad value."""


class Event(Struct, frozen=True, omit_defaults=True):
    """One birth, entry or receive on a rank, with everything the final answer needs of it."""

    kind: EventKind
    record: Record
    bad_inputs: tuple[TensorStat, ...]
    """Inputs that are bad and not legal; for a birth the legal -Inf ones that took part."""
    bad_outputs: tuple[TensorStat, ...]
    endings: frozenset[Ending] = frozenset()
    communications: tuple[int, ...] = ()
    """Record indices of the communication calls that the chain enters."""
    guess: GuessedLink | None = None
    """Set when the chain goes on only by a link that is no more than a guess: the first one."""
    origin: Origin | None = None
    """Entries only."""
    parameter: str | None = None
    """Entries of a parameter: its name in the module, where known."""
    by_shape: bool = False
    """Entries of a parameter: nothing but its shape tells that it is one."""
    writer: Record | None = None
    """Entries: the nearest earlier record that wrote a finite value of this shape (X of "between X and Y"),
    or the initialiser whose memory was read."""
    follows_ruled_out: bool = False
    """Entries: ``writer`` is a record that the user ruled out, and its value comes in here."""
    forward_twin: Record | None = None
    """Backward events: the forward record of the same call."""
    closer: str | None = None
    """Name of the record that dropped or swallowed the value, when one did."""
    pending: tuple[int, ...] = ()
    """Entries: record indices of earlier asynchronous or P2P receives whose recorded result may be stale."""
    hidden: tuple[str, ...] = ()
    """Operators of the same module that construct.json lists and the dump left out: one of them may have made it."""
    is_open: bool = False
    """True: nothing shows what became of its value."""
    opens_pass: bool = False
    """True: the first record of the dump, or the first of backward: what came before stands elsewhere."""
    after_backward: bool = False
    """True: after the last backward record of the step (reduction, clipping, optimizer)."""
    module: str | None = None
    """Path of the innermost module around the record (``layers.3.self_attn``)."""
    around: Record | None = None
    """Entries between two modules: the record of the module around them, when it took in clean values and gave bad
    ones (:mod:`module_dumps`)."""
    jump: Record | None = None
    """Births of a module's backward: the operator inside whose gradients are absurdly large
    (:mod:`firstnan.rank.surroundings.jumps`)."""
    run_up: tuple[RunUp, ...] = ()
    """The records that passed the largest finite input on to this one, earliest first."""
    earlier: tuple[Earlier, ...] = ()
    """Records with NaN or Inf before this one that are not the cause, for whoever finds them first."""
    is_later: bool = False
    """Entries in backward: what the record shows came behind what stands after it (:mod:`gradients`)."""
    is_trial: bool = False
    """Made of absurd numbers in a first call that looks like a trial on uninitialised memory (:mod:`islands`)."""
    blind: BlindSpot | None = None
    """A record whose result is not recorded and from which the value may come
    (:mod:`firstnan.rank.surroundings.blind_spots`)."""
    swallowed: Record | None = None
    """Births: a record that swallowed a bad value, and from which an input comes."""
    nearby: tuple[NearRecord, ...] = ()
    """The records around this one in short form, for whoever looks at the report."""

    @property
    def index(self) -> int:
        return self.record.index

    @property
    def is_blind(self) -> bool:
        """It stands at the record without a recorded result itself."""
        return self.blind is not None and self.blind.record is self.record

    @property
    def direction(self) -> Direction:
        return self.record.name.direction

    @property
    def is_of_a_copy(self) -> bool:
        """An entry that shows in what a copy or view gave, and not in what it took (:mod:`carriers`)."""
        given = (tensor.slot.startswith("output") for tensor in self.bad_inputs)
        return self.kind is EventKind.ENTRY and bool(self.bad_inputs) and all(given)

    @property
    def is_live(self) -> bool:
        """Live by itself, whatever the other ranks show."""
        return bool(self.endings & LIVE_ENDINGS)

    @property
    def goes_on(self) -> bool:
        """Something took the value in and did not show it dropped; not only that the run ended before all was seen."""
        return bool(self.communications or self.endings & ((LIVE_ENDINGS - {Ending.CUT}) | {Ending.OPEN}))


class Tally(Struct, frozen=True, omit_defaults=True):
    """Values of one rank with the same fate."""

    fate: Fate
    count: int
    rule: str = ""
    example: str = ""
    """Name of the first record; of open values the names of the first few."""
    first: int = 0
    """Index of the first record."""
    own: bool = False
    """Open values only: they came into being here, whatever reached the rank before."""
    calls: tuple[int, ...] = ()
    """Record indices of the communication that they enter; the other members tell whether they matter."""
    origin: int = -1
    """Index of the record that they come from, where it may be a cause of its own and is not the rank's first one."""


class Value(Struct):
    """A bad tensor that a record wrote, while later records may still read it."""

    writer: int
    stat: TensorStat
    forward: bool
    """May be read by forward records."""
    backward: bool
    """May be read by backward records."""
    is_open: bool = True
    uninitialised: bool = False
    readers: list[int] = field(default_factory=list)
    order: int = 0
    """Its place among all values of the rank."""
    repeats: list[Value] = field(default_factory=list)
    """The values inside a module that this one, its result, has the numbers of and is linked to."""
