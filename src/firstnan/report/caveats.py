"""What was not there to be looked at, and what it could change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from firstnan.answer.model import MatchState, Note
from firstnan.causes.step_answer import StepAnswer
from firstnan.dump.names import parse_name
from firstnan.dump.problems import BLIND, Problem, ProblemKind
from firstnan.dump.ranges import format_ranges
from firstnan.dump.records import Direction
from firstnan.operators.communication import COMMUNICATION_PREFIXES
from firstnan.step.arrivals import SkipDoubt

_GAPS = frozenset({ProblemKind.NO_RECORDS, ProblemKind.EMPTY_RANK, ProblemKind.MISSING_FILE, ProblemKind.UNREADABLE})
_SKIP_DOUBTS = {
    SkipDoubt.NO_NEXT_STEP: "caveat.skip_unknown",
    SkipDoubt.GAP: "caveat.skip_gap",
    SkipDoubt.THIN: "caveat.skip_thin",
    SkipDoubt.CHANGED: "caveat.skip_changed",
}


def cross_rank(answers: Sequence[StepAnswer], known: Collection[int]) -> list[Problem]:
    """Absent ranks, ranks that end before the others, calls that could not be matched.

    ``known`` are the ranks that have a folder somewhere: their problems are told by the layout.
    """
    found: list[Problem] = []
    for answer in answers:
        for rank in answer.matching.world:
            if rank not in known:
                found.append(Problem(ProblemKind.MISSING_RANK, answer.step, rank, judged=False))
        found += _short_ranks(answer)
        found += (Problem(ProblemKind.LIMIT, answer.step, detail=limit, judged=False) for limit in answer.limits)
        if answer.matching.unmatched:
            detail = f"{answer.matching.unmatched} calls without a usable peer"
            found.append(Problem(ProblemKind.UNMATCHED_CALLS, answer.step, detail=detail))
        if answer.matching.groups_unknown:
            found.append(Problem(ProblemKind.GROUP_UNKNOWN, answer.step))
        doubtful = sum(c.state is MatchState.DOUBTFUL for c in answer.matching.calls)
        if doubtful:
            detail = f"{doubtful} calls whose counts or sizes differ between members"
            found.append(Problem(ProblemKind.UNMATCHED_CALLS, answer.step, detail=detail))
    return found


def _short_ranks(answer: StepAnswer) -> list[Problem]:
    """A rank without calls that the other members of its group have made, though its file is whole."""
    first: dict[int, str] = {}
    for call in answer.matching.calls:
        for rank in call.absent:
            summary = answer.summaries.get(rank)
            if summary and summary.records and summary.has_apis and not summary.truncated and rank not in first:
                other = next(iter(call.members.values())).call.name
                first[rank] = f"no call that matches {other} of rank {min(call.members)}"
    for rank, what in answer.matching.short.items():
        summary = answer.summaries.get(rank)
        if summary and summary.records and summary.has_apis and not summary.truncated:
            first.setdefault(rank, what)
    for rank, going_on in _ended_in_forward(answer):
        first.setdefault(rank, f"rank {going_on} goes on to {answer.summaries[going_on].last_record}")
    return [
        Problem(
            ProblemKind.SHORT_RANK,
            answer.step,
            rank,
            answer.summaries[rank].label,
            f"{first[rank]}; its last record is {answer.summaries[rank].last_record}",
            judged=False,
        )
        for rank in sorted(first)
    ]


def _ended_in_forward(answer: StepAnswer) -> Iterator[tuple[int, int]]:
    """Ranks whose records end in forward while all others have more and end in backward, and one of those: without a
    record of communication nothing else tells that a run died there. Not ranks that only infer (rollouts)."""
    there = [summary for summary in answer.summaries.values() if summary.records and not summary.truncated]
    there = [summary for summary in there if not summary.ends_without_gradients]
    behind = [one for one in there if parse_name(one.last_record).direction is Direction.BACKWARD]
    before = [one for one in there if parse_name(one.last_record).direction is Direction.FORWARD]
    if not behind or any(one.records >= other.records for one in before for other in behind):
        return
    for one in before:
        if parse_name(one.last_record).prefix not in COMMUNICATION_PREFIXES:
            yield one.rank, min(behind, key=lambda other: other.rank).rank


def caveats(
    problems: Sequence[Problem],
    missing: Sequence[int],
    left_out: Sequence[int],
    looked_at: Sequence[int],
    bad: StepAnswer | None,
) -> tuple[Note, ...]:
    """One sentence for each kind of gap: which ranks, and how the answer could change."""
    notes = []
    if missing:
        notes.append(Note("caveat.missing_ranks", {"ranks": format_ranges(missing)}))
    for key, kinds in (
        ("caveat.unreadable_ranks", _GAPS),
        ("caveat.cut_ranks", frozenset({ProblemKind.TRUNCATED})),
        ("caveat.no_statistics", BLIND),
    ):
        ranks = _ranks(problems, kinds)
        if ranks:
            notes.append(Note(key, {"ranks": format_ranges(ranks)}))
    if left_out:
        notes.append(Note("caveat.ranks_left_out", {"ranks": format_ranges(looked_at)}))
    if bad is not None and bad.matching.groups_unknown:
        notes.append(Note("caveat.groups_unknown"))
    if bad is not None and bad.matching.unmatched:
        notes.append(Note("caveat.unmatched_calls", {"count": bad.matching.unmatched}))
    if bad is not None and bad.skip_doubt is not None:
        notes.append(Note(_SKIP_DOUBTS[bad.skip_doubt]))
    return tuple(notes)


def _ranks(problems: Iterable[Problem], kinds: Collection[ProblemKind]) -> list[int]:
    return sorted({p.rank for p in problems if p.kind in kinds and p.rank is not None and not p.judged})
