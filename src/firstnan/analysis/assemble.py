"""From the answers of all steps to one report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from firstnan.analysis.judge import StepAnswer
from firstnan.analysis.matching import MatchedCall
from firstnan.analysis.propagation import Arrival, causal_order, is_live
from firstnan.analysis.summarize import CommFact, RankSummary, Side
from firstnan.collectives import Freshness
from firstnan.dump import Problem, ProblemKind
from firstnan.ranges import format_ranges
from firstnan.report import (
    BenignRule,
    CollectiveReport,
    Contained,
    Hop,
    InputSummary,
    MatchState,
    Note,
    Report,
    Symptom,
    SymptomKind,
    Verdict,
)

MAX_COLLECTIVES = 500
"""Affected calls that a report lists; the first ones in causal order."""
MAX_CONTAINED = 100
_GAPS = frozenset({ProblemKind.NO_RECORDS, ProblemKind.EMPTY_RANK, ProblemKind.MISSING_FILE, ProblemKind.UNREADABLE})


def report(path: str, answers: Sequence[StepAnswer], problems: Iterable[Problem], ranks: Sequence[int]) -> Report:
    """The report over all steps: the earliest bad step decides.

    ``problems`` are those of the layout; the ranks' own are in their summaries.
    """
    summaries = [s for answer in answers for s in answer.summaries.values()]
    bad = next((answer for answer in answers if answer.is_bad), None)
    found = [*problems, *(p for s in summaries for p in s.problems), *_cross_rank_problems(answers)]
    missing = tuple(sorted({r for answer in answers for r in answer.matching.world} - set(ranks)))
    judged = any(s.judged for s in summaries)
    verdict = Verdict.ANOMALY if bad else Verdict.CLEAN if judged else Verdict.UNKNOWN
    return Report(
        verdict=verdict,
        complete=all(p.judged for p in found) and judged,
        input=InputSummary(
            path=path,
            steps=tuple(answer.step for answer in answers),
            ranks=tuple(ranks),
            missing_ranks=missing,
            records=sum(s.records for s in summaries),
            bytes=sum(s.bytes_read for s in summaries),
            problems=tuple(found),
        ),
        step=bad.step if bad else None,
        root_causes=bad.causes if bad else (),
        collectives=collectives(bad) if bad else (),
        propagation=_hops(bad) if bad else (),
        contained=_contained(answers),
        benign=_benign(summaries),
        symptoms=_symptoms(bad) if bad else (),
        story=_story(bad, answers),
        caveats=_caveats(found, missing, bad),
    )


# -- step 1 --------------------------------------------------------------------------------------------


def collectives(answer: StepAnswer) -> tuple[CollectiveReport, ...]:
    """Affected calls that matter, the causally first one first."""
    live = answer.spread.affected | _origins(answer)
    if not live:
        return ()
    order = causal_order(answer.matching)
    chosen = sorted(live, key=lambda p: order[p])[:MAX_COLLECTIVES]
    return tuple(_collective(answer, answer.matching.calls[p]) for p in chosen)


def _origins(answer: StepAnswer) -> set[int]:
    """Calls that are a cause themselves."""
    found: set[int] = set()
    for outcome in answer.spread.outcomes:
        if outcome.arrival in (Arrival.COMMUNICATION, Arrival.MISSING) and outcome.call is not None:
            index = outcome.call.members[outcome.rank].call.index
            found |= {
                p for p in answer.matching.of.get((outcome.rank, index), ())
                if answer.matching.calls[p] is outcome.call
            }  # fmt: skip
    return found


def _collective(answer: StepAnswer, call: MatchedCall) -> CollectiveReport:
    states: dict[str, list[int]] = {"source": [], "propagated": [], "normal": [], "undecided": []}
    bad_source = any(f.sent is Side.BAD for f in call.members.values())
    for rank, fact in sorted(call.members.items()):
        states[_state(fact, call, rank, bad_source)].append(rank)
    states["undecided"] = sorted({*states["undecided"], *call.absent})
    apis = Counter(f.call.name.split(".")[1] if "." in f.call.name else f.call.name for f in call.members.values())
    return CollectiveReport(
        op=apis.most_common(1)[0][0] if call.is_p2p else call.api,
        step=answer.step,
        group=call.group,
        call=call.nth,
        ops={rank: fact.call.name for rank, fact in sorted(call.members.items())},
        source_ranks=tuple(states["source"]),
        propagated_ranks=tuple(states["propagated"]),
        normal_ranks=tuple(states["normal"]),
        undecided_ranks=tuple(states["undecided"]),
        match=call.state,
    )


def _state(fact: CommFact, call: MatchedCall, rank: int, bad_source: bool) -> str:
    """source: own input bad; propagated: only the result; a P2P result is what the sender sent."""
    if fact.sent is Side.BAD:
        return "source"
    if fact.received is Side.BAD:
        return "propagated"
    if call.is_p2p and call.receiver == rank:
        return "propagated" if bad_source else "normal" if fact.received is Side.CLEAN else "undecided"
    stale = fact.call.freshness is not Freshness.FRESH
    if fact.sent is Side.UNKNOWN or fact.received is Side.UNKNOWN or (stale and bad_source):
        return "undecided"
    return "normal"


def _hops(answer: StepAnswer) -> tuple[Hop, ...]:
    """How each rank got its first bad value; ranks that got it through one call stand together."""
    together: dict[tuple[int, int], Hop] = {}
    for outcome in answer.spread.outcomes:
        if outcome.arrival not in (Arrival.RECEIVED, Arrival.UNRECORDED) or not outcome.sources:
            continue
        source = outcome.sources[0]
        call = outcome.call
        if call is not None:
            from_op = call.members[source].call.name if source in call.members else ""
            to_op = call.members[outcome.rank].call.name
            key, via = (id(call), source), call.api
        else:
            from_op, to_op = "", outcome.event.record.name.full
            key, via = (-1, source), "unrecorded"
        before = together.get(key)
        to_ranks = (*(before.to_ranks if before else ()), outcome.rank)
        to_ops = {**(before.to_ops if before else {}), outcome.rank: to_op}
        together[key] = Hop(answer.step, source, from_op, to_ranks, to_ops, via)
    return tuple(together.values())


# -- what else was seen --------------------------------------------------------------------------------


def _contained(answers: Sequence[StepAnswer]) -> tuple[Contained, ...]:
    found = []
    for answer in answers:
        for rank, summary in sorted(answer.summaries.items()):
            for event in summary.events:
                if is_live(event, rank, answer.matching, answer.spread.live_calls):
                    break
                closer = {"closer": event.closer} if event.closer else {}
                reason = Note("reason.contained" if event.closer else "reason.unread", closer)
                found.append(Contained(answer.step, rank, event.record.name.full, event.index, reason))
    return tuple(found[:MAX_CONTAINED])


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


def _story(answer: StepAnswer | None, answers: Sequence[StepAnswer]) -> tuple[Note, ...]:
    skipped = [a.step for a in answers if a.skipped]
    notes = [Note("story.skipped", {"steps": format_ranges(skipped)})] if skipped else []
    if answer is None:
        return tuple(notes)
    kinds = {s.kind for s in _symptoms(answer)}
    if SymptomKind.LOSS in kinds:
        notes.append(Note("story.loss"))
    elif SymptomKind.GRADIENT in kinds:
        notes.append(Note("story.gradient"))
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


# -- what could change the answer ----------------------------------------------------------------------


def _cross_rank_problems(answers: Sequence[StepAnswer]) -> list[Problem]:
    """Absent ranks, ranks that end before the others, calls that could not be matched."""
    found: list[Problem] = []
    for answer in answers:
        have = set(answer.summaries)
        for rank in answer.absent:
            if rank not in have:
                found.append(Problem(ProblemKind.MISSING_RANK, answer.step, rank, judged=False))
        found += _short_ranks(answer)
        if answer.matching.unmatched:
            detail = f"{answer.matching.unmatched} calls"
            found.append(Problem(ProblemKind.UNMATCHED_CALLS, answer.step, detail=detail))
        if answer.matching.groups_unknown:
            found.append(Problem(ProblemKind.GROUP_UNKNOWN, answer.step))
        doubtful = sum(c.state is MatchState.DOUBTFUL for c in answer.matching.calls)
        if doubtful:
            found.append(Problem(ProblemKind.UNMATCHED_CALLS, answer.step, detail=f"{doubtful} doubtful matches"))
    return found


def _short_ranks(answer: StepAnswer) -> list[Problem]:
    """A rank without the calls that the other members of its group have made."""
    counts: Counter[int] = Counter()
    first: dict[int, str] = {}
    for call in answer.matching.calls:
        for rank in call.absent:
            summary: RankSummary | None = answer.summaries.get(rank)
            if summary and summary.records and summary.has_apis and not summary.truncated:
                counts[rank] += 1
                other = next(iter(call.members.values())).call.name
                first.setdefault(rank, f"no call that matches {other} of rank {min(call.members)}")
    return [
        Problem(ProblemKind.SHORT_RANK, answer.step, rank, answer.summaries[rank].label,
                f"{first[rank]}; last record {answer.summaries[rank].last_record}", judged=False)
        for rank in sorted(counts)
    ]  # fmt: skip


def _caveats(problems: Sequence[Problem], missing: Sequence[int], bad: StepAnswer | None) -> tuple[Note, ...]:
    notes = []
    if missing:
        notes.append(Note("caveat.missing_ranks", {"ranks": format_ranges(missing)}))
    unread = sorted({p.rank for p in problems if p.kind in _GAPS and p.rank is not None and not p.judged})
    if unread:
        notes.append(Note("caveat.unreadable_ranks", {"ranks": format_ranges(unread)}))
    cut = sorted({p.rank for p in problems if p.kind is ProblemKind.TRUNCATED and p.rank is not None and not p.judged})
    if cut:
        notes.append(Note("caveat.cut_ranks", {"ranks": format_ranges(cut)}))
    blind = sorted(
        {p.rank for p in problems if p.rank is not None and p.kind in
         (ProblemKind.NO_STATISTICS, ProblemKind.PARTLY_NO_STATISTICS)}
    )  # fmt: skip
    if blind:
        notes.append(Note("caveat.no_statistics", {"ranks": format_ranges(blind)}))
    if bad is not None and bad.matching.groups_unknown:
        notes.append(Note("caveat.groups_unknown"))
    return tuple(notes)


def by_rank(summaries: Iterable[RankSummary]) -> Mapping[int, RankSummary]:
    return {summary.rank: summary for summary in summaries}
