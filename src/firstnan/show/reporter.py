"""What every reporter is given and gives back."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Protocol

from msgspec import Struct

from firstnan.answer.model import CollectiveReport, Report
from firstnan.dump.language import Language

CROSS_RANK_FILE = "cross_rank_analysis.json"
SINGLE_RANK_FILE = "single_rank_trace.json"
"""Names of the two result files of the skill text that skills/nan-overflow-detection implements."""


class Format(Enum):
    """The form in which a report is shown."""

    TEXT = "text"
    """For a terminal or a pipe."""
    MARKDOWN = "markdown"
    """For tickets and chat."""
    LINE = "line"
    """One line for chat."""
    JSON = "json"
    """The whole report, schema ``firstnan.report/1``."""
    HTML = "html"
    """One self-contained page."""
    TRACE = "trace"
    """Chrome trace events, for Perfetto."""
    MISSION = "mission"
    """``cross_rank_analysis.json`` (view ranks) or ``single_rank_trace.json`` (view trace)."""


class View(Enum):
    """Which part of the report is asked for."""

    FULL = "full"
    """Everything (``firstnan analyze``)."""
    RANKS = "ranks"
    """Step 1: the affected communication calls (``firstnan ranks``)."""
    TRACE = "trace"
    """Step 2: the first anomaly on one rank (``firstnan trace``)."""
    AGREE = "agree"
    """Whether ranks that should hold the same numbers do (``firstnan agree``)."""


class Settings(Struct, frozen=True):
    """How a report is to be shown."""

    language: Language = Language.EN
    view: View = View.FULL
    rank: int | None = None
    """The rank of view TRACE."""
    verbose: bool = False
    """Lists in full length, all tensors, the whole stack."""
    redact: bool = False
    """Leave out source lines and absolute paths."""
    width: int = 80
    """Columns of text output."""
    colour: bool = False
    """ANSI colours in text output."""
    program: str = "firstnan"
    """How this program is called, in commands that are shown; empty: show none."""
    every_call: Iterable[CollectiveReport] | None = None
    """View RANKS: all communication calls of the run, affected or not; may be gone through several times. None: only
    the affected ones are known."""


class Reporter(Protocol):
    """One form of report; each module named in :data:`firstnan.show.MODULES` is one."""

    def render(self, report: Report, settings: Settings) -> str:
        """The whole report as text, ending with a line end."""
        ...
