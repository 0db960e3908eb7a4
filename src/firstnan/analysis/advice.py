"""What to check or change next, for a cause in its final form."""

from __future__ import annotations

from dataclasses import replace

from firstnan.report import MechanismKind, Note, Report, RootCause, Where

_PLACES = frozenset({Where.MISSING_RANK, Where.UNDUMPED_OPERATOR, Where.BEFORE_DUMP})
"""Places about which something is to be done whatever the mechanism."""


def add(report: Report) -> Report:
    """The report with advice on every cause: about its place first, then about its mechanism."""
    return replace(report, root_causes=tuple(_advise(cause) for cause in report.root_causes))


def _advise(cause: RootCause) -> RootCause:
    notes = [Note(f"where.{cause.where.value}.advice")] if cause.where in _PLACES else []
    if cause.mechanism.kind is not MechanismKind.UNKNOWN or not notes:
        notes.append(Note(f"mechanism.{cause.mechanism.kind.value}.advice"))
    return replace(cause, advice=tuple(notes))
