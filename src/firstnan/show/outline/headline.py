"""One cause in one sentence, and the words it is made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from firstnan.answer.model import Mechanism, MechanismKind, Note, NoteValue, Report, RootCause, Where
from firstnan.answer.replay import ReplayVerdict
from firstnan.dump.language import Language
from firstnan.dump.ranges import format_ranges
from firstnan.dump.values import ValueState
from firstnan.show.outline.model import Line, Tone, sentence
from firstnan.show.reporter import Settings
from firstnan.words import Words, text

GAPS = {f"evidence.rank_{gap}": gap for gap in ("absent", "left_out", "cut", "empty", "unreadable")}
"""What keeps a rank from being judged, by the note that says so: the last part of the keys that tell it."""

_DTYPE = re.compile(r"[a-z][a-z0-9_]{1,20}")


class CauseGroup(Struct, frozen=True):
    """The same cause on one or several ranks: one block for people."""

    cause: RootCause
    """The first of them in the report's order."""
    ranks: tuple[int, ...]


def group_causes(causes: Iterable[RootCause]) -> tuple[CauseGroup, ...]:
    """Causes that differ in nothing but the rank are told once, as ``ranks 0-3``.

    Ranks that are not readable stand alone: each of them was followed by other ranks.
    """
    groups: dict[tuple[object, ...], tuple[RootCause, set[int]]] = {}
    for cause in causes:
        alone = cause.rank if cause.where is Where.MISSING_RANK else None
        key = (cause.step, cause.op_name, cause.direction, cause.where, cause.mechanism.kind, cause.module, alone)
        _, ranks = groups.setdefault(key, (cause, set()))
        ranks.update((cause.rank, *cause.ranks_also))
    return tuple(CauseGroup(cause, tuple(sorted(ranks))) for cause, ranks in groups.values())


def causes_on(report: Report, rank: int | None) -> tuple[RootCause, ...]:
    """The causes that a view shows: all, or those on one rank."""
    return tuple(c for c in report.root_causes if rank is None or rank == c.rank or rank in c.ranks_also)


def ranks_words(ranks: Sequence[int], language: Language) -> Words:
    """``rank 2`` or ``ranks 0-3``."""
    key = "label.rank" if len(ranks) == 1 else "label.ranks"
    return Words(text(key, language, ranks=format_ranges(ranks)))


def mechanism_words(mechanism: Mechanism, language: Language) -> Words:
    """``exp overflow (certain)``; an unknown mechanism has no confidence."""
    name = Words(text(f"mechanism.{mechanism.kind.value}.name", language))
    if mechanism.kind is MechanismKind.UNKNOWN:
        return name  # a confidence would be read as one in the place
    dtype = mechanism.explanation.params.get("dtype")
    if mechanism.kind is MechanismKind.CAST_OVERFLOW and isinstance(dtype, str) and _DTYPE.fullmatch(dtype):
        name = Words(text("label.cast_overflow", language, dtype=dtype))
    confidence = mechanism.confidence.value
    return Words(text("label.mechanism_confidence", language, mechanism=name, confidence=confidence))


def value_word(cause: RootCause) -> str:
    """What the first bad value is, as a key of ``value.*``: of the outputs, else of the inputs."""
    if cause.replay is not None and cause.replay.verdict is ReplayVerdict.VALUES_DIFFER:
        return "wrong"
    shown = note_of(cause, "evidence.no_result")
    if shown is not None:
        return str(shown.params["state"])
    for tensors in (cause.outputs, cause.inputs):
        states = {tensor.state for tensor in tensors if tensor.state.is_bad}
        if ValueState.NAN in states:
            return "nan"
        if len(states) == 1:
            return states.pop().value
        if states:
            return "mixed"
    return "mixed"


def headline_of(group: CauseGroup, settings: Settings) -> Line:
    """The verdict on one cause in one sentence."""
    cause, language = group.cause, settings.language
    key = f"verdict.{cause.where.value}"
    facts: dict[str, NoteValue] = {}
    if cause.where is Where.MISSING_RANK:
        gap, reached = gap_of(cause), note_of(cause, "evidence.missing_rank")
        if gap is not None and reached is not None:
            key += f".{GAPS[gap.key]}"
            facts = {**gap.params, **reached.params, **cause.mechanism.explanation.params}  # all that it reached
        elif cause.op_name:
            key += ".op"
    elif cause.where is Where.COMMUNICATION and cause.mechanism.explanation.key == "why.received":
        key += ".received"
    elif (sender := note_of(cause, "evidence.excluded_sender")) is not None:
        key += ".excluded"
        facts = {"sender": sender.params.get("rank"), "before": short_name(sender.params.get("before"))}
    elif cause.where is Where.UNDUMPED_OPERATOR and cause.mechanism.kind is MechanismKind.UNINITIALISED_MEMORY:
        key += ".memory"
    elif (excluded := note_of(cause, "evidence.excluded_writer")) is not None:
        key += ".excluded"
        facts = {name: short_name(value) for name, value in excluded.params.items()}
    elif cause.where is Where.UNDUMPED_OPERATOR and (between := note_of(cause, "evidence.between")) is not None:
        key += ".between"
        facts = {name: short_name(value) for name, value in between.params.items()}
    facts = {
        "value": value_word(cause),
        "ranks": ranks_words(group.ranks, language),
        "step": cause.step,
        "op": cause.op_name,
        "direction": cause.direction.value,
        "reason": mechanism_words(cause.mechanism, language),
        **facts,
    }
    return sentence(Note(key, facts), language, Tone.STRONG)


def short_name(name: NoteValue) -> NoteValue:
    """A record name without the prefix that tells where its API lives; names of saved values have none.

    >>> short_name("Functional.cross_entropy.0.backward")
    'cross_entropy.0.backward'
    >>> short_name("layer1.0.debug")
    'layer1.0.debug'
    """
    if not isinstance(name, str) or name.endswith(".debug"):
        return name
    return name.partition(".")[2] or name


def note_of(cause: RootCause, key: str) -> Note | None:
    """The evidence with this key."""
    return next((note for note in cause.evidence if note.key == key), None)


def gap_of(cause: RootCause) -> Note | None:
    """The evidence that tells why the rank of the cause could not be judged."""
    return next((note for note in cause.evidence if note.key in GAPS), None)
