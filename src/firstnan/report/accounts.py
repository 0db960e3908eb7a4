"""What became of every non-finite value, over all steps and ranks.

Each rank has told what it could (:mod:`firstnan.rank.taint.fates`); whether a value that matters follows from a cause
that is named, and whether one that entered a call was dropped there by everybody, only all ranks together tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from firstnan.answer.accounts import Account, Accounts, Balance, Entry, Fate, RankBalance
from firstnan.causes.step_answer import StepAnswer
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.dump.ranges import packed
from firstnan.rank.summary import RankSummary
from firstnan.rank.taint.events import Tally

MAX_BALANCES = 64
"""Groups of ranks of one step whose balances are listed; others are added up."""
_ALWAYS = frozenset({Fate.NO_RESULT, Fate.LIMIT})
"""Open values that make every answer incomplete; others make a clean one so."""


def accounts(answers: Sequence[StepAnswer], bad: StepAnswer | None) -> tuple[Accounts, list[Problem]]:
    """All accounts, and a problem for each rank with an open one; ``bad``: the step whose causes are named."""
    entries: dict[tuple[Fate, str], tuple[int, str]] = {}
    ranks: list[RankBalance] = []
    problems: list[Problem] = []
    for answer in answers:
        of_step: dict[Balance, list[int]] = {}
        begun = {one.rank: one.event.index for one in reversed(answer.spread.outcomes)}
        for rank, summary in sorted(answer.summaries.items()):
            if not summary.tallies:
                continue
            settled = [(_fate(tally, summary, answer, bad, begun.get(rank)), tally) for tally in summary.tallies]
            for fate, tally in settled:
                count, example = entries.get((fate, tally.rule), (0, ""))
                named = f"{summary.label}: {tally.example}" if tally.example else ""
                entries[fate, tally.rule] = (count + tally.count, example or named)
            of_step.setdefault(_balance((fate.account, tally.count) for fate, tally in settled), []).append(rank)
            left = [(f, t) for f, t in settled if f.account is Account.OPEN and f is not Fate.UNUSABLE]
            if any(bad is None or fate in _ALWAYS for fate, _ in left):
                problems.append(_open(summary, [tally for _, tally in left]))
        ranks += _by_balance(answer.step, of_step)
    order = {fate: place for place, fate in enumerate(Fate)}
    listed = [
        Entry(fate.account, fate, count, rule, example)
        for (fate, rule), (count, example) in sorted(entries.items(), key=lambda one: (order[one[0][0]], one[0][1]))
    ]
    whole = _balance((entry.account, entry.count) for entry in listed)
    return Accounts(whole.total, whole, tuple(listed), tuple(ranks)), problems


def _fate(tally: Tally, summary: RankSummary, answer: StepAnswer, bad: StepAnswer | None, begun: int | None) -> Fate:
    """``begun``: index of the first event of the rank that is told."""
    follows = answer is bad and begun is not None and tally.first >= begun
    if tally.fate in (Fate.NO_RESULT, Fate.NO_READER) and follows and not tally.own:
        return Fate.CAUSE
    if tally.fate not in (Fate.CAUSE, Fate.BEHIND):
        return tally.fate
    if tally.calls and not _goes_on(tally.calls, summary.rank, answer):
        return Fate.CALL
    if answer.skipped:
        return Fate.SKIPPED
    if bad is not None and answer.step > bad.step:
        return Fate.LATER_STEP
    if tally.fate is Fate.BEHIND:
        return Fate.BEHIND if follows else Fate.LIMIT
    if answer is not bad:
        return Fate.NO_CAUSE
    named = ((cause.rank, cause.exec_order) for cause in answer.causes)
    is_apart = tally.origin >= 0 and tally.origin != begun and (summary.rank, tally.origin) not in named
    return Fate.BEHIND if is_apart else Fate.CAUSE


def _goes_on(calls: Iterable[int], rank: int, answer: StepAnswer) -> bool:
    """Through one of these calls, or through one that could not be matched."""
    of, live = answer.matching.of, answer.spread.live_calls
    return any((rank, at) not in of or not live.isdisjoint(of[rank, at]) for at in calls)


def _balance(counts: Iterable[tuple[Account, int]]) -> Balance:
    found: Counter[str] = Counter()
    for account, count in counts:
        found[account.value] += count
    return Balance(**found)


def _by_balance(step: int, of_step: Mapping[Balance, Sequence[int]]) -> Iterator[RankBalance]:
    groups = list(of_step.items())
    for balance, ranks in groups[:MAX_BALANCES]:
        yield RankBalance(step, packed(ranks), True, balance)
    rest = groups[MAX_BALANCES:]
    if rest:
        counts = ((a, balance.of(a) * len(ranks)) for balance, ranks in rest for a in Account)
        yield RankBalance(step, packed(rank for _, ranks in rest for rank in ranks), False, _balance(counts))


def _open(summary: RankSummary, left: Sequence[Tally]) -> Problem:
    count, first = sum(tally.count for tally in left), next((t.example for t in left if t.example), "")
    detail = f"{count} value{'s' if count != 1 else ''}" + (f" (first: {first})" if first else "")
    return Problem(ProblemKind.OPEN_VALUES, summary.step, summary.rank, summary.label, detail, judged=False)
