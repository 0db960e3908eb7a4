"""The one way to say that a record cannot be run again."""

from __future__ import annotations

from firstnan.answer.replay import NotRun


class RefusedError(Exception):
    """A record is not run again, for a reason that the report shows."""

    def __init__(self, reason: NotRun, detail: str = "") -> None:
        super().__init__(f"{reason.value}: {detail}" if detail else reason.value)
        self.reason = reason
        self.detail = detail
