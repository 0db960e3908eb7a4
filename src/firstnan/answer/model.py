"""The result: frozen, versioned, and the only thing reporters see.

Words for people are :class:`Note` values (a key of ``words/`` with its numbers), so that one report can be shown in any
language; JSON carries key, numbers and the text side by side.

A field that is added here is in the JSON, comes back from it and stands in the schema, its docstring as description. A
field of notes is called ``<name>_note`` or ``<name>_notes`` there (``field(name=...)``); the text is written as
``<name>``. A number that may be non-finite is a :data:`firstnan.dump.values.Statistic`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field

from firstnan.answer import load
from firstnan.answer.accounts import Accounts
from firstnan.answer.growth import Growth
from firstnan.answer.replay import Replay, ReplaySummary
from firstnan.answer.views import CallMap, Surroundings
from firstnan.dump.call_site import Frame
from firstnan.dump.language import Language
from firstnan.dump.problems import Problem
from firstnan.dump.records import Direction, TensorStat
from firstnan.dump.values import Statistic

NoteValue = str | int | float | bool | None


class Verdict(Enum):
    """The answer in one word."""

    ANOMALY = "anomaly"
    """A non-finite (or proven impossible) value that matters was found."""
    CLEAN = "clean"
    """Everything that could be judged is clean."""
    UNKNOWN = "unknown"
    """Nothing could be judged: no records, or no statistics."""


class Where(Enum):
    """What kind of place the first bad value came from."""

    OPERATOR = "operator"
    """The record itself: clean inputs, bad output."""
    COMMUNICATION = "communication"
    """A collective or P2P call: every input clean, the result bad."""
    PARAMETER = "parameter"
    """A weight was already bad when first used."""
    INPUT_DATA = "input_data"
    """The batch was bad."""
    UNDUMPED_OPERATOR = "undumped_operator"
    """Something between two records that the dump does not hold."""
    BEFORE_DUMP = "before_dump"
    """Bad from the first record on, neither parameter nor data."""
    MISSING_RANK = "missing_rank"
    """On a rank whose dump is absent, or ends before the cause."""
    FIRST_RUN = "first_run"
    """In the first run of a step that ran twice: only the second is recorded."""


class MechanismKind(Enum):
    """Why the value turned bad (one test each below ``causes/mechanisms/``)."""

    FP16_OVERFLOW = "fp16_overflow"
    """A result beyond 65504 in float16."""
    BF16_OVERFLOW = "bf16_overflow"
    """A result beyond 3.39e38 in bfloat16."""
    FP32_OVERFLOW = "fp32_overflow"
    """A result beyond 3.40e38 in float32."""
    EXP_OVERFLOW = "exp_overflow"
    """exp (or pow, sinh ...) of an argument that is too large for the dtype."""
    CAST_OVERFLOW = "cast_overflow"
    """A finite value beyond the limit of the dtype it was cast to."""
    FP8_SCALE = "fp8_scale"
    """A scale factor of low-precision quantisation became zero, tiny or infinite."""
    DIV_BY_ZERO = "div_by_zero"
    """A division by zero, or its relatives rsqrt(0) and normalisation with zero variance."""
    LOG_ZERO = "log_zero"
    """log of zero or of a negative number."""
    DOMAIN_ERROR = "domain_error"
    """An argument outside the operator's domain: sqrt of a negative number, acos beyond 1."""
    NAN_ARGUMENT = "nan_argument"
    """A plain number among the arguments is NaN."""
    SQRT_BACKWARD = "sqrt_backward"
    """The derivative of sqrt, norm, pow, acos, asin at the edge of their range."""
    SAVED_NONFINITE = "saved_nonfinite"
    """Backward multiplies with a bad value that forward dropped."""
    MASKED_SOFTMAX = "masked_softmax"
    """softmax over a row that is masked completely."""
    INF_MINUS_INF = "inf_minus_inf"
    """The difference of two infinities of the same sign."""
    ZERO_TIMES_INF = "zero_times_inf"
    """Zero times infinity."""
    REDUCTION_OVERFLOW = "reduction_overflow"
    """A reduction over ranks whose sum is beyond the dtype although each input is finite."""
    COMM_CORRUPTION = "comm_corruption"
    """A communication result that its inputs cannot give."""
    UNINITIALISED_MEMORY = "uninitialised_memory"
    """Memory that was read before it was written."""
    BAD_PARAMETER = "bad_parameter"
    """A weight that was non-finite when the step began."""
    BAD_INPUT = "bad_input"
    """Input data that was non-finite."""
    LARGE_VALUE_PROPAGATION = "large_value_propagation"
    """An absurd but finite value entered earlier and overflowed here."""
    SATURATION = "saturation"
    """A value clamped at the dtype's limit earlier on, from which the bad value follows."""
    DIVERGENCE = "divergence"
    """Values that grew from step to step until one overflowed."""
    DEVICE_FAULT = "device_fault"
    """The CPU does not get the recorded result from the recorded inputs (``firstnan replay``)."""
    DEVICE_FAULT_SUSPECTED = "device_fault_suspected"
    """Small finite inputs, a result beyond what arithmetic allows, peers finite."""
    TRANSIENT = "transient"
    """The first run of a step was not finite, the same step again is finite."""
    UNKNOWN = "unknown"
    """The dump does not tell."""


class Confidence(Enum):
    """How far the numbers carry the mechanism, or the place."""

    CERTAIN = "certain"
    """The recorded numbers prove it."""
    LIKELY = "likely"
    """The numbers fit, and nothing else that is known fits as well."""
    POSSIBLE = "possible"
    """One of several that fit."""


class RankState(Enum):
    """A rank at one communication call."""

    SOURCE = "source"
    """Its own input is non-finite."""
    PROPAGATED = "propagated"
    """Its input is clean, its result is non-finite."""
    NORMAL = "normal"
    """Input and result are clean."""
    UNDECIDED = "undecided"
    """No dump, cut before the call, no statistics, or a stale asynchronous result."""


class MatchState(Enum):
    """How far the records of one communication call belong together."""

    MATCHED = "matched"
    """All members that are there agree in API, dtype, size and number of calls."""
    BY_NAME = "by_name"
    """Groups are not recorded: put together by record name (dump format, section 14)."""
    PARTIAL = "partial"
    """Some members of the group have no such call (absent rank, cut file)."""
    DOUBTFUL = "doubtful"
    """Counts, types or sizes differ between the members from here on."""


class SymptomKind(Enum):
    """What the user sees."""

    LOSS = "loss"
    """The value from which backward starts."""
    GRADIENT = "gradient"
    """A gradient of a parameter."""
    GRAD_NORM = "grad_norm"
    """The norm used for clipping."""
    PARAMETER = "parameter"
    """A parameter."""
    ACTIVATION = "activation"
    """Another forward value."""


class Note(Struct, frozen=True):
    """One sentence for people: a key of ``words/`` and the numbers in it."""

    key: str
    params: Mapping[str, NoteValue] = field(default_factory=dict)


class Mechanism(Struct, frozen=True):
    """Why, how sure, and in which words."""

    kind: MechanismKind
    confidence: Confidence
    explanation: Note = field(name="explanation_note")


class Alternative(Struct, frozen=True):
    """Another candidate, and why it is not the answer."""

    step: int
    rank: int
    op_name: str
    exec_order: int | None
    direction: Direction
    reason: Note = field(name="reason_note")


class RunUp(Struct, frozen=True):
    """One record on the causal chain before the root, with its largest absolute values."""

    op_name: str
    exec_order: int
    magnitude_in: Statistic | None
    magnitude_out: Statistic | None


class RootCause(Struct, frozen=True):
    """One independent cause: place, reason, evidence."""

    step: int
    rank: int
    op_name: str
    """Record name; empty when the rank that caused it is not readable."""
    exec_order: int | None
    direction: Direction
    where: Where
    mechanism: Mechanism
    place_confidence: Confidence = Confidence.POSSIBLE
    """How sure rank and record are; the mechanism has its own."""
    inputs: tuple[TensorStat, ...] = ()
    outputs: tuple[TensorStat, ...] = ()
    construct_chain: tuple[str, ...] = ()
    module: str | None = None
    """Path of the innermost module around the operator."""
    stack_info: tuple[str | int | float | None, ...] = ()
    """The stack as written in stack.json."""
    location: Frame | None = None
    """The line of the user's code that called the operator."""
    called_at: Frame | None = None
    """The user's line around it, where ``location`` only calls another module or function."""
    ranks_also: tuple[int, ...] = ()
    """Other ranks on which the same cause shows at the same call (replicas, members of a reduction)."""
    evidence: tuple[Note, ...] = field(default=(), name="evidence_notes")
    advice: tuple[Note, ...] = field(default=(), name="advice_notes")
    alternatives: tuple[Alternative, ...] = ()
    run_up: tuple[RunUp, ...] = ()
    replay: Replay | None = None
    """What the CPU makes of the record's inputs; None where it was not asked."""

    @property
    def is_inside_module(self) -> bool:
        """It began in a module whose operators have no record."""
        return self.where is Where.OPERATOR and self.op_name.startswith(("Module.", "Cell."))


class CollectiveReport(Struct, frozen=True):
    """One communication call, over all its members."""

    op: str
    """API name (``all_reduce``)."""
    step: int
    group: tuple[int, ...] | None
    """Global ranks; None when not known."""
    call: int
    """The n-th call of this API in this group, 0-based."""
    ops: Mapping[int, str]
    """rank -> record name."""
    source_ranks: tuple[int, ...]
    propagated_ranks: tuple[int, ...]
    normal_ranks: tuple[int, ...]
    undecided_ranks: tuple[int, ...]
    match: MatchState
    notes: tuple[Note, ...] = field(default=(), name="remarks_notes")

    @property
    def total_ranks(self) -> int:
        return len(self.source_ranks) + len(self.propagated_ranks) + len(self.normal_ranks) + len(self.undecided_ranks)


CONTAINED_CALL = "ranks.contained"
"""Key of the note on a call that holds a non-finite value which no later record takes in."""


class Hop(Struct, frozen=True):
    """One step of the spread: from a rank's record to the ranks it reached."""

    step: int
    from_rank: int
    from_op: str
    to_ranks: tuple[int, ...]
    to_ops: Mapping[int, str]
    via: str
    """Communication API, ``parameters`` (next step) or ``unrecorded`` (DDP, FSDP ...)."""


class Contained(Struct, frozen=True):
    """A bad value that no later record took in."""

    step: int
    rank: int
    op_name: str
    exec_order: int
    reason: Note = field(name="reason_note")


class BenignRule(Struct, frozen=True):
    """How often one rule of the rules file suppressed a value, with an example."""

    rule: str
    count: int
    example: str
    """``step0/rank3: Tensor.masked_fill.0.forward``"""


class Symptom(Struct, frozen=True):
    """What the user sees, and the first record that shows it."""

    kind: SymptomKind
    step: int
    rank: int
    op_name: str
    exec_order: int


class AgreementVerdict(Enum):
    """Whether ranks that must hold the same numbers do."""

    AGREE = "agree"
    """Everything that could be compared is equal."""
    DIFFER = "differ"
    """Something differs."""
    UNKNOWN = "unknown"
    """Nothing could be compared: one rank, no statistics, no parameters and no communication."""


class DisagreementKind(Enum):
    """What differs between ranks."""

    PARAMETER = "parameter"
    """A parameter at its first use in a step."""
    COMMUNICATION = "communication"
    """The result of a communication call."""
    OPERATOR = "operator"
    """The output of an operator with equal inputs."""


class DisagreementMechanism(Enum):
    """Why ranks that must hold the same numbers do not."""

    REDUCTION_MISSING = "reduction_missing"
    """Replicas drift apart because a gradient is not reduced over all of them."""
    MEMORY_CORRUPTION = "memory_corruption"
    """A parameter that was equal on all replicas changed on one of them between two steps."""
    COMM_CORRUPTION = "comm_corruption"
    """A communication call did not give its members the same."""
    DEVICE_FAULT_SUSPECTED = "device_fault_suspected"
    """An operator gave another result for the same inputs."""
    SEED_MISMATCH = "seed_mismatch"
    """Replicas begin with different values: another seed, or another checkpoint."""


class NotComparable(Enum):
    """Why a value was not compared."""

    CONSTANT = "constant"
    """All elements are equal, or there is one: being equal says nothing."""
    NO_STATISTICS = "no_statistics"
    """No statistics, integers, or a value that is not finite."""
    NO_PEER = "no_peer"
    """No other rank holds this parameter, or made this call."""
    OTHER_SHAPE = "other_shape"
    """Ranks hold it with different shapes or dtypes."""
    MAYBE_SHARD = "maybe_shard"
    """It differs, and nothing shows that it is meant to be equal: experts, vocabulary, tensor parallel."""
    STALE = "stale"
    """The result of an asynchronous call, which may be older than the data that arrived."""
    DOUBTFUL_MATCH = "doubtful_match"
    """The calls of the members cannot be put together for sure."""
    CHECKSUM_OF_HOST_MEMORY = "checksum_of_host_memory"
    """The checksums differ and the statistics agree: checksums of host tensors are taken late, and prove nothing."""
    OTHER_INPUTS = "other_inputs"
    """No two ranks ran the operator with equal inputs."""
    NOT_TELLING = "not_telling"
    """Random, indexing, integer or coarse values: equal statistics do not prove equal inputs."""
    NOT_REACHED = "not_reached"
    """The file that holds it cannot be reached."""


class Compared(Struct, frozen=True):
    """How many values of one kind were compared."""

    compared: int = 0
    not_comparable: Mapping[NotComparable, int] = field(default_factory=dict)


class Agreement(Struct, frozen=True):
    """What was compared between ranks, over all steps."""

    parameters: Compared = Compared()
    calls: Compared = Compared()
    records: Compared = Compared()


class Held(Struct, frozen=True):
    """One of the values that differ, and which ranks hold the same."""

    name: str
    """The parameter or the record."""
    groups: tuple[tuple[int, ...], ...]
    """Ranks that hold the same numbers; most ranks first, then the lowest one first."""


class Disagreement(Struct, frozen=True):
    """Ranks that must hold the same numbers and do not."""

    kind: DisagreementKind
    step: int
    """The first dumped step in which they differ."""
    since_step: int
    """The same: later steps are consequences."""
    ranks: tuple[int, ...]
    """All ranks that must agree."""
    odd_ranks: tuple[int, ...] | None
    """Those that stand out; null: the numbers do not tell (two ranks, no majority)."""
    op_name: str | None
    """The record; null for a parameter."""
    parameter: str | None
    """The first that differs in execution order (``Module.layers.0.fc.Linear.weight``); null for a record."""
    exec_order: int | None
    """Index of its record on the lowest rank."""
    per_rank: Mapping[int, TensorStat]
    """What each rank holds; empty where only fingerprints can be reached."""
    count: int
    """How many differ."""
    of: int
    """How many were compared."""
    mechanism: DisagreementMechanism
    confidence: Confidence
    explanation: Note = field(name="explanation_note")
    also: tuple[str, ...] = ()
    """Names of further ones that differ."""
    held: tuple[Held, ...] = ()
    """Which ranks hold the same, of the first that differ."""
    evidence: tuple[Note, ...] = field(default=(), name="evidence_notes")
    advice: tuple[Note, ...] = field(default=(), name="advice_notes")
    alternatives: tuple[Note, ...] = field(default=(), name="alternatives_notes")
    """Other reasons that fit."""

    @property
    def name(self) -> str:
        """The parameter or the record."""
        return self.parameter or self.op_name or ""


class InputSummary(Struct, frozen=True):
    """What was looked at."""

    path: str
    steps: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    missing_ranks: tuple[int, ...] = ()
    records: int = 0
    bytes: int = 0
    problems: tuple[Problem, ...] = ()


class Report(Struct, frozen=True):
    """The whole answer."""

    verdict: Verdict
    complete: bool
    """False: a rank, step or part was absent, cut or without statistics (see ``input.problems``)."""
    input: InputSummary
    step: int | None = None
    """First bad step."""
    root_causes: tuple[RootCause, ...] = ()
    collectives: tuple[CollectiveReport, ...] = ()
    """Affected calls, the causally first one first."""
    propagation: tuple[Hop, ...] = ()
    contained: tuple[Contained, ...] = ()
    benign: tuple[BenignRule, ...] = ()
    accounts: Accounts = Accounts()
    symptoms: tuple[Symptom, ...] = ()
    story: tuple[Note, ...] = field(default=(), name="story_notes")
    """Loss, gradients or parameters: which of them is hit, in one or two sentences."""
    caveats: tuple[Note, ...] = field(default=(), name="caveats_notes")
    """What could change the answer, and how."""
    call_map: CallMap | None = None
    """The communication calls of the first bad step that were looked at; None without any."""
    surroundings: tuple[Surroundings, ...] = ()
    """Records around the first bad value of each rank it reached; ranks of root causes first."""
    disagreements: tuple[Disagreement, ...] = ()
    """Ranks that must hold the same numbers and do not, the first one first."""
    agreement: Agreement = Agreement()
    """How much of this was compared."""
    agreement_map: CallMap | None = None
    """Where results of communication calls are equal, of the first step in which some are not; None without any."""
    verdict_agreement: AgreementVerdict = AgreementVerdict.UNKNOWN
    replayed: ReplaySummary | None = None
    """Which records were run again on the CPU; None: none was asked for."""

    run_up_steps: tuple[Growth, ...] = ()
    """What grew from step to step before the first bad one: an activation, a weight, a gradient (those that did)."""

    @property
    def exit_code(self) -> int:
        """0 clean and complete, 1 anomaly or ranks that differ, 4 undecided, as is a replay that answers nothing."""
        if self.replayed is not None and self.replayed.is_open and not self._blames_device:
            return 4
        return 1 if self.verdict_agreement is AgreementVerdict.DIFFER else self.exit_code_of_values

    @property
    def _blames_device(self) -> bool:
        """Some record is not what the CPU gets."""
        return any(cause.replay is not None and cause.replay.verdict.blames_device for cause in self.root_causes)

    @property
    def exit_code_of_values(self) -> int:
        """Of NaN and Inf alone: 0 clean and complete, 1 anomaly, 4 undecided."""
        if self.verdict is Verdict.ANOMALY:
            return 1
        return 0 if self.verdict is Verdict.CLEAN and self.complete else 4

    @property
    def exit_code_of_agreement(self) -> int:
        """Of ranks that should be equal alone: 0 they agree, 1 they differ, 4 nothing could be compared."""
        return {AgreementVerdict.AGREE: 0, AgreementVerdict.DIFFER: 1, AgreementVerdict.UNKNOWN: 4}[
            self.verdict_agreement
        ]

    def to_dict(self) -> dict[str, object]:
        """The report as strict JSON values (schema ``firstnan.report/1``), words in English."""
        from firstnan.show.json import to_dict

        return to_dict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, object]) -> Report:
        """The report that :meth:`to_dict` wrote.

        Raises:
            InputError: not a report of this schema.
        """
        return load.from_dict(document, cls)

    def text(self, language: Language = Language.EN) -> str:
        """The report as ``firstnan analyze`` prints it, 80 columns wide, without colours."""
        from firstnan.show import Format, Settings, render

        return render(self, Format.TEXT, Settings(language=language))

    def markdown(self, language: Language = Language.EN) -> str:
        """The report as Markdown."""
        from firstnan.show import Format, Settings, render

        return render(self, Format.MARKDOWN, Settings(language=language))

    def html(self, language: Language = Language.EN) -> str:
        """The report as one page that loads nothing."""
        from firstnan.show import Format, Settings, render

        return render(self, Format.HTML, Settings(language=language))

    def __repr__(self) -> str:
        """The verdict and the first cause: a report of a thousand ranks would fill the screen."""
        cause = self.root_causes[0] if self.root_causes else None
        about = "" if cause is None else f", rank {cause.rank}, {cause.op_name or cause.where.value}"
        more = f" and {len(self.root_causes) - 1} more" if len(self.root_causes) > 1 else ""
        return f"<Report {self.verdict.value}{about}{more}, {self.input.records} records>"

    def _repr_html_(self) -> str:
        """The answer for a notebook: static, no script; the complete page is the HTML report."""
        from firstnan.show.html.static import fragment

        return fragment(self)
