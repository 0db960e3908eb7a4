"""All steps of a run: what differs, in causal order, and how much was compared.

Order: a parameter differs when its step begins; operators and communication follow in the order of their records;
what they spoil shows in the parameters of a later step. A finding that another one, or a NaN, precedes on one of its
ranks is its consequence and is left out. Communication is no consequence of anything but a NaN: every call stands for
itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from firstnan.agree import communication, operators
from firstnan.agree.parameters import Parameters
from firstnan.agree.sources import Replica, Sources
from firstnan.agree.tables import Names, Table
from firstnan.agree.tally import Tally
from firstnan.answer.model import (
    Agreement,
    AgreementVerdict,
    Disagreement,
    DisagreementKind,
    DisagreementMechanism,
    NotComparable,
    Note,
)
from firstnan.rank.summary import RankSummary

SMALL = 8 << 20
"""Bytes of dump.json of one step up to which all operators are compared, whether anything differs or not."""
MOST_RANKS = 16
"""Ranks of one step whose operators are compared."""


class Compared(Struct, frozen=True):
    """The answer."""

    disagreements: tuple[Disagreement, ...]
    agreement: Agreement


def verdict(disagreements: Sequence[Disagreement], agreement: Agreement) -> AgreementVerdict:
    """One word for the answer."""
    if disagreements:
        return AgreementVerdict.DIFFER
    counts = (agreement.parameters, agreement.calls, agreement.records)
    return AgreementVerdict.AGREE if any(count.compared for count in counts) else AgreementVerdict.UNKNOWN


def replica_of(summary: RankSummary, known: Names) -> Replica:
    """What the comparison needs of one rank; ``known``: names that ranks have in common."""
    table = Table(summary.prints.parameters, known, on_device=summary.prints.on_device)
    from_the_first = [window.start for window in summary.windows] == [0]
    return Replica(
        summary.rank,
        summary.prints,
        table,
        summary.truncated,
        summary.has_apis,
        summary.bytes_read,
        summary.calls if from_the_first else (),
    )


def compare(
    steps: Mapping[int, Mapping[int, Replica]], sources: Sources, nan: tuple[int, int | None] | None = None
) -> Compared:
    """Holds the ranks of each step against each other.

    ``nan``: the step with NaN or Inf, and the first record with one, where it is known; what is behind it is not told.
    """
    tally = Tally()
    parameters = Parameters(sources, tally.parameters)
    found: list[Disagreement] = []
    suspected: dict[int, set[int]] = {}
    before: int | None = None
    for step in sorted(steps):
        replicas = steps[step]
        if len(replicas) > 1:
            found += communication.disagreements(step, replicas, sources, tally.calls, _told_before(step, nan))
            differing = parameters.step(step, replicas)
            found += differing
            doubts = [doubt.ranks for doubt in parameters.doubts if doubt.step == step]
            if before is not None:
                for together in (*(one.ranks for one in differing), *doubts):
                    suspected.setdefault(before, set()).update(together)
            if sum(one.bytes_read for one in replicas.values()) <= SMALL:
                suspected.setdefault(step, set()).update(replicas)
        before = step
    for step, ranks in sorted(suspected.items()):
        chosen = sorted(rank for rank in ranks if rank in steps[step])[:MOST_RANKS]
        prints = sources.operators(step, chosen)
        if len(prints) < len(chosen):
            tally.records.leave_out(NotComparable.NOT_REACHED, len(chosen) - len(prints))
        if len(prints) > 1:
            finding = operators.disagreement(step, prints, sources, tally.records)
            found += [finding] if finding is not None else []
    kept = [_advised(one) for one in without_consequences(found)]
    return Compared(tuple(kept), tally.frozen())


def _told_before(step: int, nan: tuple[int, int | None] | None) -> float:
    """The record behind which calls of a step are consequences of a NaN."""
    if nan is None or step < nan[0]:
        return math.inf
    if step > nan[0]:
        return -1
    return math.inf if nan[1] is None else nan[1]


_ORDER = (DisagreementKind.PARAMETER, DisagreementKind.OPERATOR, DisagreementKind.COMMUNICATION)


def without_consequences(found: Sequence[Disagreement]) -> list[Disagreement]:
    """The findings that nothing else explains, the first one first."""
    ordered = sorted(found, key=lambda one: (one.step, _ORDER.index(one.kind), one.ranks))
    kept = []
    for one in ordered:
        causes = (other for other in ordered if other is not one and set(other.ranks) & set(one.ranks))
        if not any(_explains(other, one) for other in causes):
            kept.append(one)
    return kept


def _explains(cause: Disagreement, one: Disagreement) -> bool:
    if one.kind is DisagreementKind.COMMUNICATION:
        return cause.kind is one.kind and cause.step < one.step
    if cause.step < one.step:
        return True
    if cause.step > one.step or one.kind is not DisagreementKind.OPERATOR:
        return False
    return cause.kind is DisagreementKind.PARAMETER


_Why = DisagreementMechanism
_ADVICE = {
    _Why.REDUCTION_MISSING: ("advice.agree.synchronise", "advice.agree.previous_step"),
    _Why.MEMORY_CORRUPTION: (
        "advice.agree.reload",
        "advice.agree.swap_device",
        "advice.agree.checksums",
    ),
    _Why.SEED_MISMATCH: ("advice.agree.seed", "advice.agree.reload"),
    _Why.COMM_CORRUPTION: ("advice.agree.link", "advice.agree.checksums"),
    _Why.DEVICE_FAULT_SUSPECTED: ("advice.agree.swap_device", "advice.agree.replay"),
}
_ALTERNATIVES = {
    _Why.REDUCTION_MISSING: (_Why.MEMORY_CORRUPTION,),
    _Why.MEMORY_CORRUPTION: (_Why.REDUCTION_MISSING,),
    _Why.SEED_MISMATCH: (_Why.MEMORY_CORRUPTION,),
}


def _advised(one: Disagreement) -> Disagreement:
    kind = one.mechanism
    others = _ALTERNATIVES.get(kind, ())
    return replace(
        one,
        advice=tuple(Note(key) for key in _ADVICE.get(kind, ())),
        alternatives=tuple(Note(f"alternative.{other.value}") for other in others),
    )


def after_a_nan(one: Disagreement, nan: tuple[int, int | None]) -> bool:
    """Whether a NaN of this step, first at this record, precedes the finding."""
    step, place = nan
    if one.step != step:
        return one.step > step
    if one.kind is DisagreementKind.PARAMETER:
        return False  # its value is that of the beginning of the step, wherever it is first used
    return place is not None and one.exec_order is not None and one.exec_order > place
