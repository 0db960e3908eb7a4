"""What to dump again, for an answer that is not proven or shows its place only: MSProbe's config.json.

One row per kind of place (:class:`~firstnan.answer.model.Where`); filters keep the new dump as small as the question:

==================  =====================================================================================
operator            its elements: task tensor, that record (and its forward record) on its rank
operator, a module  the operators inside: level mix, everything below that module
communication       the elements of the call's record on every member
between two records everything between them, whatever MSProbe's risk level
missing rank        that rank, whole
parameter, before   the rank whole, one step earlier as well
input data          the elements of the record that used it first
no statistics       all ranks, with statistics
==================  =====================================================================================
"""

from __future__ import annotations

import re

from msgspec import Struct

from firstnan.answer.model import Report, RootCause, Where
from firstnan.dump.problems import ProblemKind

_SCOPE_NAME = re.compile(r"(?:Module|Cell)\..*\.(?:forward|backward)\.\d+|[A-Za-z]+\..*\.\d+\.(?:forward|backward)")
"""Record names that MSProbe takes as the ends of a range."""


class DumpAgain(Struct, frozen=True):
    """One dump that answers what this report leaves open."""

    task: str
    """``statistics`` or ``tensor``."""
    level: str
    """``L1`` (operators) or ``mix`` (operators and modules)."""
    ranks: tuple[int, ...] = ()
    """Empty: all."""
    steps: tuple[int, ...] = ()
    """Empty: all."""
    scope: tuple[str, ...] = ()
    """First and last record; empty: no limit."""
    records: tuple[str, ...] = ()
    """Only records with these names, and what stands inside them; empty: all."""

    def config(self) -> dict[str, object]:
        """The content of config.json."""
        section: dict[str, object] = {"scope": list(self.scope), "list": list(self.records), "data_mode": ["all"]}
        if self.task == "statistics":
            section["summary_mode"] = "statistics"
        return {
            "task": self.task,
            "dump_path": "./dump_again",
            "rank": list(self.ranks),
            "step": list(self.steps),
            "level": self.level,
            "risk_level": "ALL",
            self.task: section,
        }


def dump_again(report: Report) -> DumpAgain:
    """The dump that helps most: about the first cause, else about what could not be judged."""
    if report.root_causes:
        return _of_cause(report, report.root_causes[0])
    unjudged = [problem for problem in report.input.problems if not problem.judged]
    ranks = {p.rank for p in unjudged if p.rank is not None} | set(report.input.missing_ranks)
    blind = any(p.kind in (ProblemKind.NO_STATISTICS, ProblemKind.NO_RECORDS) for p in unjudged)
    return DumpAgain("statistics", "mix", () if blind else tuple(sorted(ranks)), report.input.steps)


def _of_cause(report: Report, cause: RootCause) -> DumpAgain:
    ranks, step = tuple(sorted({cause.rank, *cause.ranks_also})), (cause.step,)
    earlier = tuple(number for number in (cause.step - 1, cause.step) if number >= 0)
    if cause.where is Where.MISSING_RANK:
        lost = {one.rank for one in report.root_causes if one.where is Where.MISSING_RANK and one.step == cause.step}
        return DumpAgain("statistics", "mix", tuple(sorted(lost)), step)
    if cause.where in (Where.PARAMETER, Where.BEFORE_DUMP):
        return DumpAgain("statistics", "mix", ranks, earlier)
    if cause.where is Where.UNDUMPED_OPERATOR:
        return DumpAgain("statistics", "mix", ranks, step, scope=_between(cause))
    if cause.where is Where.COMMUNICATION:
        call = next((c for c in report.collectives if c.ops.get(cause.rank) == cause.op_name), None)
        if call is not None:
            names = tuple(dict.fromkeys(call.ops[rank] for rank in sorted(call.ops)))
            return DumpAgain("tensor", "L1", tuple(call.group or sorted(call.ops)), step, records=names)
    if cause.is_inside_module:
        return DumpAgain("statistics", "mix", ranks, step, records=(cause.op_name,))
    return DumpAgain("tensor", "L1", ranks, step, records=_with_forward(cause.op_name))


def _between(cause: RootCause) -> tuple[str, ...]:
    """The records around an operator without one, where MSProbe takes both names."""
    note = next((note for note in cause.evidence if note.key == "evidence.between"), None)
    if note is None:
        return ()
    ends = tuple(str(note.params.get(key, "")) for key in ("before", "after"))
    return ends if all(_SCOPE_NAME.fullmatch(name) for name in ends) else ()


def _with_forward(name: str) -> tuple[str, ...]:
    """A backward record and the forward record that it belongs to."""
    if not name:
        return ()
    head, dot, tail = name.rpartition(".backward")
    return (f"{head}.forward{tail}", name) if dot and tail in ("", *_numbered(tail)) else (name,)


def _numbered(tail: str) -> tuple[str, ...]:
    return (tail,) if tail[1:].isdigit() else ()
