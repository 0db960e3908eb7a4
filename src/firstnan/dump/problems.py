"""What was wrong with the input, as typed values."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


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
    OPEN_VALUES = "open_values"
    """A NaN or Inf was taken in by records without a recorded result: nothing shows whether it went on."""
    ENDED_INSIDE = "ended_inside"
    """The run ended inside a module or call that never returned, with NaN or Inf in the rank's records."""
    ENDED_AT_CHECK = "ended_at_check"
    """The run ended directly behind a check (isnan, a comparison) that saw a NaN or Inf."""
    SETTLED_OPERANDS = "settled_operands"
    """Operands hold no Max/Min; the finite results of their records show that nothing bad came out of them."""
    PARTLY_NO_STATISTICS = "partly_no_statistics"
    """Some records hold no Max/Min; the others were judged."""
    UNFINISHED_RECORDS = "unfinished_records"
    """Records without output: the call raised or the run died inside it."""
    INPUTS_ONLY = "inputs_only"
    """Results were not dumped (``data_mode`` without output): what an operator gave shows only where it is read."""
    SAVED_VALUES = "saved_values"
    """Only values that the program saved with ``debugger.save`` were dumped: a sample of the run."""
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
    STOPPED_EARLY = "stopped_early"
    """On request (``--first``) no further ranks were read once a bad value was found that began on one."""
    SHORT_RANK = "short_rank"
    """The rank's records end while other ranks go on."""
    UNMATCHED_CALLS = "unmatched_calls"
    """Communication calls that could not be matched across ranks."""
    GROUP_UNKNOWN = "group_unknown"
    """Groups are not recorded: calls were matched by name and number, with low confidence."""
    GUARD_FILE = "guard_file"
    """guard.json cannot be understood: whether the step was finite when it ran again is not known."""
    SECOND_RUN_RAISED = "second_run_raised"
    """A guard ran the step again, and that run raised an exception: the records end there."""
    SECOND_RUN_UNEXPLAINED = "second_run_unexplained"
    """A guard found the second run of a step not finite again, and no record shows it."""
    WORKER_FAILED = "worker_failed"
    """The work on this rank failed (an error of the tool, or a process that was killed); the others went on."""
    NOT_REACHED = "not_reached"
    """A second look at the rank was needed where its files cannot be reached (parts of other hosts)."""
    LIMIT = "limit"
    """A documented limit of the tool was reached; what lies beyond was not looked at."""


BLIND = frozenset({ProblemKind.NO_STATISTICS, ProblemKind.PARTLY_NO_STATISTICS})
"""A rank with one of these holds values that nobody saw."""


class Problem(Struct, frozen=True):
    """Something about the input that the user must know, and what it does to the answer."""

    kind: ProblemKind
    step: int | None = None
    rank: int | None = None
    file: str | None = None
    """Path of the file or folder, relative to the analysed path where possible."""
    detail: str = ""
    """The facts (``cut at byte 8187 after 3 records``); from the input, never translated."""
    judged: bool = True
    """False: something could not be judged. A report with such a problem is not complete
    (:func:`firstnan.report.assemble.report`), and a clean one ends in exit code 4."""
