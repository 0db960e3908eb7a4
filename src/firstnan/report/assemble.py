"""From the answers of all steps to one report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from firstnan.answer.model import (
    BenignRule,
    Confidence,
    Contained,
    InputSummary,
    Note,
    Report,
    RootCause,
    Symptom,
    SymptomKind,
    Verdict,
    Where,
)
from firstnan.causes.loss_scaler import is_after_forward
from firstnan.causes.step_answer import StepAnswer
from firstnan.dump.problems import BLIND, Problem, ProblemKind
from firstnan.dump.ranges import format_ranges
from firstnan.dump.records import Direction
from firstnan.rank.summary import RankSummary
from firstnan.report import accounts, caveats

if TYPE_CHECKING:
    from firstnan.answer.model import CollectiveReport, Hop
    from firstnan.answer.views import CallMap, Surroundings

MAX_CONTAINED = 100
_DUMPS_NAMED = 3
MAX_CAUSES = 64
"""Causes that a report spells out; more of the same record and mechanism are listed by rank."""


def bad_step(answers: Sequence[StepAnswer]) -> StepAnswer | None:
    """The earliest bad step, which the report is about; one that is decided before one that is not."""
    suspects = [answer for answer in answers if answer.is_bad]
    return next((a for a in suspects if not a.undecided), next(iter(suspects), None))


def report(
    path: str, answers: Sequence[StepAnswer], problems: Iterable[Problem], known: Sequence[int], left_out: Sequence[int]
) -> Report:
    """The report over all steps: the earliest bad step decides.

    ``problems`` are those of the layout, the ranks' own are in their summaries; ``known`` are the ranks with a
    folder, ``left_out`` those of them that the caller did not ask for.
    """
    summaries = [s for answer in answers for s in answer.summaries.values()]
    bad = bad_step(answers)
    accounted, open_ends = accounts.accounts(answers, bad)
    found = [*problems, *(p for s in summaries for p in s.problems), *open_ends, *caveats.cross_rank(answers, known)]
    missing = sorted({r for answer in answers for r in answer.matching.world} - set(known))
    looked_at = sorted(set(known) - set(left_out))
    judged = any(s.judged for s in summaries)
    shown = bad or (answers[-1] if answers else None)
    views = _Views.of(bad, shown)
    causes, more_causes = _causes(bad, answers) if bad else ((), 0)
    contained = _contained(answers)
    return Report(
        verdict=Verdict.ANOMALY if bad else Verdict.CLEAN if judged else Verdict.UNKNOWN,
        complete=all(p.judged for p in found) and judged and all(c.where is not Where.MISSING_RANK for c in causes),
        input=InputSummary(
            path=path,
            steps=tuple(answer.step for answer in answers),
            ranks=tuple(looked_at),
            missing_ranks=tuple(missing),
            records=sum(s.records for s in summaries),
            bytes=sum(s.bytes_read for s in summaries),
            problems=tuple(found),
        ),
        step=bad.step if bad else None,
        root_causes=causes,
        collectives=views.collectives,
        propagation=views.propagation,
        contained=tuple(contained[:MAX_CONTAINED]),
        benign=_benign(summaries),
        accounts=accounted,
        symptoms=_symptoms(bad) if bad else (),
        story=(*_several_dumps(found, summaries), *_story(bad, answers)),
        caveats=(
            *caveats.caveats(found, missing, left_out, looked_at, bad),
            *_listed("calls", len(views.collectives), views.affected),
            *_listed("causes", len(causes), len(causes) + more_causes),
            *_listed("contained", min(len(contained), MAX_CONTAINED), len(contained)),
        ),
        call_map=views.call_map,
        surroundings=views.surroundings,
    )


def _listed(what: str, shown: int, count: int) -> tuple[Note, ...]:
    """That a report lists some of what was found, and how many there are."""
    return (Note(f"caveat.listed_{what}", {"shown": shown, "count": count}),) if shown < count else ()


class _Views(NamedTuple):
    """What a report shows of the calls and the records of one step."""

    collectives: tuple[CollectiveReport, ...] = ()
    propagation: tuple[Hop, ...] = ()
    call_map: CallMap | None = None
    surroundings: tuple[Surroundings, ...] = ()
    affected: int = 0
    """Calls that hold a bad value that matters, listed or not."""

    @classmethod
    def of(cls, bad: StepAnswer | None, shown: StepAnswer | None) -> _Views:
        if shown is None or (bad is None and not shown.matching.calls):
            return cls()
        from firstnan.rank.surroundings import neighbours
        from firstnan.report import call_map  # a healthy run does not need them
        from firstnan.report import calls as affected

        order = affected.in_order(bad) if bad else []
        listed = affected.listed(bad, order) if bad else []
        calls = call_map.call_map(shown, affected.state_of, affected.affected_calls(shown), listed)
        if bad is None:
            return cls(call_map=calls)
        first = [(o.rank, o.event.index, o.event.nearby) for o in bad.spread.outcomes]
        around = neighbours.surroundings(bad.step, first, [cause.rank for cause in bad.causes])
        found = tuple(collective for _, collective in listed)
        return cls(found, affected.hops(bad), calls, around, len(order))


def _causes(bad: StepAnswer, answers: Sequence[StepAnswer]) -> tuple[tuple[RootCause, ...], int]:
    """At most MAX_CAUSES, and how many more there are; a parameter's cause points to the step before, or to the
    checkpoint."""
    before = next((a for a in reversed(answers) if a.step < bad.step), None)
    causes = [_with_history(cause, before) for cause in bad.causes]
    if len(causes) <= MAX_CAUSES:
        return tuple(causes), 0
    rest = causes[MAX_CAUSES:]
    kept = []
    for cause in causes[:MAX_CAUSES]:
        same = tuple(c.rank for c in rest if (c.op_name, c.where) == (cause.op_name, cause.where))
        rest = [c for c in rest if (c.op_name, c.where) != (cause.op_name, cause.where)]
        kept.append(replace(cause, ranks_also=(*cause.ranks_also, *same)))
    return tuple(kept), len(rest)


def _with_history(cause: RootCause, before: StepAnswer | None) -> RootCause:
    if cause.where is not Where.PARAMETER:
        return cause
    note = _history(cause, before)
    if before is not None and cause.mechanism.confidence is Confidence.CERTAIN:  # something in the dump made it bad
        cause = replace(cause, mechanism=replace(cause.mechanism, confidence=Confidence.LIKELY))
    return cause if note is None else replace(cause, evidence=(*cause.evidence, note))


def _history(cause: RootCause, before: StepAnswer | None) -> Note | None:
    """What the step before tells of a bad parameter; None where it does not show the parameter's rank, or is not the
    one before."""
    if before is None:
        return Note("evidence.parameter_from_start")
    gradients = (s for s in _symptoms(before) if s.kind in (SymptomKind.GRADIENT, SymptomKind.GRAD_NORM))
    gradient = next(gradients, None)
    if gradient is not None:
        return Note(
            "evidence.gradients_before",
            {"step": before.step, "rank": gradient.rank, "op_name": gradient.op_name},
        )
    summary = before.summaries.get(cause.rank)
    is_seen = summary is not None and summary.records and summary.judged and not summary.truncated
    if summary is None or not is_seen or before.step + 1 != cause.step:
        return None
    if _symptoms(before) or any(problem.kind in BLIND for problem in summary.problems):
        return None
    return Note("evidence.parameter_was_fine", {"step": before.step})


def _contained(answers: Sequence[StepAnswer]) -> list[Contained]:
    if not any(summary.events for answer in answers for summary in answer.summaries.values()):
        return []
    from firstnan.step.liveness import is_live  # a healthy run does not need it

    found = []
    for answer in answers:
        for rank, summary in sorted(answer.summaries.items()):
            for event in summary.events:
                if is_live(event, rank, answer.matching, answer.spread.live_calls):
                    break
                if event.is_open:
                    continue  # told as open (:mod:`firstnan.report.accounts`)
                closer = {"closer": event.closer} if event.closer else {}
                reason = Note("reason.contained" if event.closer else "reason.unread", closer)
                found.append(Contained(answer.step, rank, event.record.name.full, event.index, reason))
    return found


def _benign(summaries: Iterable[RankSummary]) -> tuple[BenignRule, ...]:
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for summary in summaries:
        for rule, (count, example) in summary.benign.items():
            counts[rule] += count
            examples.setdefault(rule, f"{summary.label}: {example}")
    return tuple(BenignRule(rule, count, examples[rule]) for rule, count in sorted(counts.items()))


def _symptoms(answer: StepAnswer) -> tuple[Symptom, ...]:
    first: dict[SymptomKind, Symptom] = {}
    for rank, summary in sorted(answer.summaries.items()):
        for fact in summary.symptoms:
            symptom = Symptom(fact.kind, answer.step, rank, fact.op_name, fact.index)
            if fact.kind not in first or fact.index < first[fact.kind].exec_order:
                first[fact.kind] = symptom
    return tuple(sorted(first.values(), key=lambda s: s.exec_order))


def _several_dumps(problems: Iterable[Problem], summaries: Sequence[RankSummary]) -> Iterator[Note]:
    """Which of several dumps the answer is about, where more than one was given."""
    others = [str(p.file) for p in problems if p.kind is ProblemKind.SECOND_DUMP]
    if others and summaries:
        used = min(summaries, key=lambda s: (s.step, s.rank)).label
        names = ", ".join(others[:_DUMPS_NAMED])
        yield Note("story.several_dumps", {"used": used, "count": len(others), "names": names})


def _is_late(cause: RootCause, answer: StepAnswer) -> bool:
    """After the last backward record of its rank."""
    last = answer.summaries[cause.rank].last_backward if cause.rank in answer.summaries else None
    return last is not None and cause.exec_order is not None and cause.exec_order > last


def _story(answer: StepAnswer | None, answers: Sequence[StepAnswer]) -> tuple[Note, ...]:
    skipped = [a.step for a in answers if a.skipped]
    notes = [Note("story.skipped", {"steps": format_ranges(skipped)})] if skipped else []
    if answer is None:
        return tuple(notes)
    kinds = {s.kind for s in _symptoms(answer)}
    if SymptomKind.LOSS in kinds:
        notes.append(Note("story.loss"))
    elif SymptomKind.GRADIENT in kinds and any(cause.where is Where.MISSING_RANK for cause in answer.causes):
        unseen = sorted({c.rank for c in answer.causes if c.where is Where.MISSING_RANK})
        seen = sorted(rank for rank, summary in answer.summaries.items() if summary.loss_is_finite)
        params = {"ranks": format_ranges(seen), "absent": format_ranges(unseen)}
        notes += [Note("story.gradient_partly_seen", params)] if seen else []
    elif all(cause.mechanism.explanation.key == "why.received" for cause in answer.causes):
        pass  # one rank alone: what it received is no story of the run
    elif all(_is_late(cause, answer) and cause.where is Where.COMMUNICATION for cause in answer.causes):
        notes.append(Note("story.reduction"))
    elif SymptomKind.GRADIENT in kinds and not all(is_after_forward(cause, answer) for cause in answer.causes):
        notes.append(Note("story.forward"))
    elif SymptomKind.GRADIENT in kinds and any(
        cause.direction is Direction.FORWARD and _is_late(cause, answer) for cause in answer.causes
    ):
        notes.append(Note("story.after_backward"))
    elif SymptomKind.GRADIENT in kinds:
        is_seen = all(answer.summaries[c.rank].loss_is_finite for c in answer.causes if c.rank in answer.summaries)
        notes.append(Note("story.gradient" if is_seen else "story.gradient_alone"))
    elif SymptomKind.GRAD_NORM in kinds:
        notes.append(Note("story.grad_norm"))
    elif SymptomKind.PARAMETER in kinds:
        notes.append(Note("story.parameter"))
    earlier = [
        a.step for a in answers if a.step < answer.step and not a.causes and any(s.judged for s in a.summaries.values())
    ]
    if earlier:
        notes.append(Note("story.earlier_steps_clean", {"steps": format_ranges(earlier), "step": answer.step}))
    return tuple(notes)
