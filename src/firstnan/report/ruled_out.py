"""What follows from records that the user ruled out (``--exclude-op``) is told as such.

Such a record makes no candidate; its values are there all the same, and other ranks receive them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from firstnan.answer.model import (
    CollectiveReport,
    Confidence,
    Mechanism,
    MechanismKind,
    Note,
    Report,
    RootCause,
    Where,
)

_STORY_OF_A_BEGINNING = (
    "story.forward",
    "story.gradient",
    "story.gradient_alone",
    "story.gradient_partly_seen",
    "story.reduction",
    "story.after_backward",
    "story.grad_norm",
    "story.earlier_steps_clean",
)
"""What is not true of an answer that only comes after a record that was ruled out."""


def add(report: Report, excluded: Collection[str]) -> Report:
    """The report with the calls that a ruled-out record takes part in: its side is undecided, and a bad result on
    another rank is no corruption. Nothing is said of where it began: that is what the user ruled out."""
    if not excluded:
        return report
    ruled_out = {number: _members(call.ops, excluded) for number, call in enumerate(report.collectives)}
    calls = tuple(_undecided(call, ruled_out[number]) for number, call in enumerate(report.collectives))
    causes = tuple(_following(cause, calls, excluded) for cause in report.root_causes)
    story = tuple(note for note in report.story if note.key not in _STORY_OF_A_BEGINNING)
    return replace(report, collectives=calls, root_causes=causes, story=story)


def _members(ops: Mapping[int, str], excluded: Collection[str]) -> tuple[int, ...]:
    return tuple(rank for rank, op in ops.items() if op in excluded or f"{rank}:{op}" in excluded)


def _undecided(call: CollectiveReport, ranks: Collection[int]) -> CollectiveReport:
    moved = tuple(rank for rank in call.normal_ranks if rank in ranks)
    if not moved:
        return call
    return replace(
        call,
        normal_ranks=tuple(rank for rank in call.normal_ranks if rank not in moved),
        undecided_ranks=tuple(sorted((*call.undecided_ranks, *moved))),
    )


def _following(cause: RootCause, calls: Collection[CollectiveReport], excluded: Collection[str]) -> RootCause:
    if cause.where is not Where.COMMUNICATION:
        return cause
    for call in calls:
        if call.step == cause.step and call.ops.get(cause.rank) == cause.op_name:
            for rank in _members(call.ops, excluded):
                note = Note("evidence.excluded_sender", {"rank": rank, "before": call.ops[rank]})
                return replace(
                    cause,
                    mechanism=Mechanism(MechanismKind.UNKNOWN, Confidence.POSSIBLE, Note("why.ruled_out_sender")),
                    evidence=(note, *cause.evidence),
                )
    return cause
