"""What a guard can say."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from firstnan.answer.replay import ReplayVerdict
from firstnan.dump.guard_file import StepValues, Trigger


class Off(Enum):
    """Why a guard has switched itself off."""

    GRAPH_CAPTURE = "graph_capture"
    """The step is captured into a device graph."""
    PARAMETERS_CHANGED = "parameters_changed"
    """Parameters were written to before the step could run again."""
    NO_ANSWER = "no_answer"
    """A rank did not answer in the time of the process group."""
    STATE_NOT_SAVED = "state_not_saved"
    """The state from which a step starts could not be copied."""
    FAILED = "failed"
    """The guard itself failed."""


class Failure(Enum):
    """Why a dump has no answer."""

    TIME_LIMIT = "time_limit"
    """The analysis took too long."""
    NOT_STARTED = "not_started"
    """The system did not start another process."""
    NO_REPORT = "no_report"
    """The analysis ended without a report."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The first cause that ``analyze`` names, or why there is none."""

    rank: int | None = None
    """None: no cause was found in the dump."""
    op_name: str = ""
    location: str = ""
    """``file:line``; empty when it is not known."""
    mechanism: str = ""
    confidence: str = ""
    failure: Failure | None = None


@dataclass(slots=True)
class Finding:
    """One step that was not finite and ran again."""

    step: int
    trigger: Trigger
    first: StepValues
    """This rank's values of the first run."""
    again: StepValues | None
    """This rank's values of the second run; None: it raised."""
    reproduced: bool | None
    """Whether a value was NaN or Inf again on any rank; None: the second run did not come to its end."""
    dump: Path | None
    """The folder for ``firstnan analyze``; None: it could not be written on this rank."""
    answer: Answer | None = None
    """On rank 0, if it was asked for."""
    replay: ReplayVerdict | None = None
    """On rank 0: what the record that the answer names gives on the CPU; None: it was not run."""
