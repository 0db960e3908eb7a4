"""The whole program in one screen: path in, report out."""

from __future__ import annotations

from pathlib import Path

from firstnan.options import Options, Progress
from firstnan.report import Report


def analyze(path: str | Path, options: Options | None = None, progress: Progress | None = None) -> Report:
    """Both steps over every step and rank below ``path``.

    Raises:
        InputError: nothing readable at the path.
        UsageError: an option names a step or rank that is not there, or a rules file that cannot be read.
    """
    raise NotImplementedError


def trace(path: str | Path, rank: int, options: Options | None = None) -> Report:
    """Step 2 alone: the first anomalous operator on one rank, whatever reached it from elsewhere.

    Raises:
        InputError: nothing readable at the path.
        UsageError: the rank is not there.
    """
    raise NotImplementedError
