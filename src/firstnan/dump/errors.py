"""What can go wrong for the whole run; everything smaller is a :class:`~firstnan.dump.problems.Problem`.

::

    FirstnanError               exit code
      UsageError                    2      the request makes no sense (unknown rank, output in the dump)
      InputError                    3      nothing readable at the path
      OutputError                   2      the report could not be written
"""

from __future__ import annotations

EXIT_INTERRUPTED = 130
"""Exit code after Ctrl-C, as a shell counts it."""


class FirstnanError(Exception):
    """Base of all errors that firstnan raises on purpose.

    ``str(error)`` says what was wrong and where, ``hint`` what to do about it.
    """

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(FirstnanError):
    """The request cannot be carried out as it stands."""

    exit_code = 2


class InputError(FirstnanError):
    """Nothing that can be analysed was found or could be read."""

    exit_code = 3


class OutputError(FirstnanError):
    """A report could not be written; nothing half-written is left behind."""

    exit_code = 2
