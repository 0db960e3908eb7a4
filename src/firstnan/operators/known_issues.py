"""Faults of other projects that the numbers of a cause may point to (``known_issues.toml``)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from msgspec import Struct, convert

from firstnan.answer.model import Note, RootCause
from firstnan.operators.table import own_text, parse_toml

MOST = 2
"""Issues that are told of one cause."""


class KnownIssue(Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of the file; what a pattern does not name fits everything."""

    id: str
    tracker: str
    """Where its cause is confirmed."""
    versions: str
    """Which versions have it, as far as the thread says."""
    operators: tuple[str, ...] = ()
    direction: str = ""
    mechanisms: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    stack: str = ""
    evidence: tuple[str, ...] = ()

    def fits(self, cause: RootCause) -> bool:
        """Whether the cause shows every part of the pattern."""
        dtypes = {tensor.dtype for tensor in (*cause.inputs, *cause.outputs)}
        notes = {note.key for note in cause.evidence}
        return all(
            (
                _any(self.operators, cause.op_name),
                self.direction in ("", cause.direction.value),
                not self.mechanisms or cause.mechanism.kind.value in self.mechanisms,
                not self.reasons or cause.mechanism.explanation.key in self.reasons,
                not self.dtypes or bool(dtypes & set(self.dtypes)),
                not self.stack or any(re.search(self.stack, frame) for frame in _frames(cause)),
                not self.evidence or bool(notes & set(self.evidence)),
            )
        )


def _any(patterns: tuple[str, ...], name: str) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _frames(cause: RootCause) -> Iterator[str]:
    for entry in cause.stack_info:
        if isinstance(entry, str):
            yield entry.replace("\\", "/")


@cache
def known_issues() -> tuple[KnownIssue, ...]:
    """All entries, in the order of the file."""
    document: dict[str, Any] = parse_toml(own_text("known_issues.toml"))
    return tuple(convert({"id": name, **entry}, KnownIssue) for name, entry in document.items())


def notes(cause: RootCause) -> tuple[Note, ...]:
    """What is known elsewhere of a cause like this; never more than possible."""
    fitting = (issue for issue in known_issues() if issue.fits(cause))
    return tuple(
        Note("advice.known_issue", {"issue": one.id, "versions": one.versions, "tracker": one.tracker})
        for one, _ in zip(fitting, range(MOST), strict=False)
    )
