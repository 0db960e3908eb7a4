"""The parts of the outline that tell one root cause: where it is, why it happened, what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from firstnan.dump import TensorStat
from firstnan.messages import Language, Words, has, number, text
from firstnan.numerics import Number, ValueState
from firstnan.ranges import format_ranges
from firstnan.report import Mechanism, MechanismKind, Note, Report, RootCause, Where
from firstnan.reporters.base import Settings
from firstnan.reporters.outline import (
    Block,
    Code,
    Field,
    Item,
    Line,
    Paragraph,
    Section,
    Span,
    Table,
    Tone,
    data,
    sentence,
)

STATE_TONES = {ValueState.FINITE: Tone.GOOD, ValueState.UNKNOWN: Tone.WARN, ValueState.EMPTY: Tone.FAINT}
"""Every other state is bad."""

_MOST_TENSORS = 8
_MOST_CHAIN = 4
_MOST_EVIDENCE = 8
_MOST_RUN_UP = 6
_MOST_ALTERNATIVES = 3
_SOURCE_LIMIT = 160


@dataclass(frozen=True, slots=True)
class CauseGroup:
    """The same cause on one or several ranks: one block for people."""

    cause: RootCause
    """The first of them in the report's order."""
    ranks: tuple[int, ...]


def group_causes(causes: Iterable[RootCause]) -> tuple[CauseGroup, ...]:
    """Causes that differ in nothing but the rank are told once, as ``ranks 0-3``."""
    groups: dict[tuple[object, ...], tuple[RootCause, set[int]]] = {}
    for cause in causes:
        key = (cause.step, cause.op_name, cause.direction, cause.where, cause.mechanism.kind, cause.module)
        _, ranks = groups.setdefault(key, (cause, set()))
        ranks.update((cause.rank, *cause.ranks_also))
    return tuple(CauseGroup(cause, tuple(sorted(ranks))) for cause, ranks in groups.values())


def ranks_words(ranks: Sequence[int], language: Language) -> Words:
    """``rank 2`` or ``ranks 0-3``."""
    key = "label.rank" if len(ranks) == 1 else "label.ranks"
    return Words(text(key, language, ranks=format_ranges(ranks)))


def mechanism_words(mechanism: Mechanism, language: Language) -> Words:
    """``exp overflow (certain)``; an unknown mechanism has no confidence."""
    name = Words(text(f"mechanism.{mechanism.kind.value}.name", language))
    if mechanism.kind is MechanismKind.UNKNOWN:
        return name  # a confidence would be read as one in the place
    confidence = mechanism.confidence.value
    return Words(text("label.mechanism_confidence", language, mechanism=name, confidence=confidence))


def value_word(cause: RootCause) -> str:
    """What the first bad value is, as a key of ``value.*``: of the outputs, else of the inputs."""
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
    cause = group.cause
    key = f"verdict.{cause.where.value}"
    if cause.where is Where.MISSING_RANK and cause.op_name:
        key += ".op"
    return sentence(
        key,
        settings.language,
        Tone.STRONG,
        value=value_word(cause),
        ranks=ranks_words(group.ranks, settings.language),
        step=cause.step,
        op=cause.op_name,
        direction=cause.direction.value,
        reason=mechanism_words(cause.mechanism, settings.language),
    )


def cause_sections(group: CauseGroup, title: str, settings: Settings) -> tuple[Section, ...]:
    """Where and why; ``title`` comes before the titles when there are several causes."""
    language = settings.language
    return (
        Section(title + text("section.where", language), tuple(_place(group, settings))),
        Section(title + text("section.why", language), tuple(_reason(group.cause, settings))),
    )


def _place(group: CauseGroup, settings: Settings) -> Iterable[Block]:
    cause, language = group.cause, settings.language

    def field(label: str, line: Line) -> Field:
        return Field(text(f"label.{label}", language), line)

    rank = sentence("label.rank_step", language, ranks=ranks_words(group.ranks, language), step=cause.step)
    yield field("where", rank)
    if cause.op_name:
        record = [data(cause.op_name, Tone.STRONG)]
        if cause.exec_order is not None:
            record += sentence("label.record_at", language, Tone.FAINT, index=cause.exec_order, rank=cause.rank)
        yield field("operator", tuple(record))
    yield field("kind", sentence(f"where.{cause.where.value}", language))
    if cause.module:
        yield field("module", (data(cause.module),))
    if cause.location is not None:
        frame = cause.location
        place = frame.file if frame.line is None else f"{frame.file}:{frame.line}"
        line = [data(place, limit=_SOURCE_LIMIT)]
        if frame.function:
            line += sentence("label.in_function", language, Tone.FAINT, function=frame.function)
        yield field("code", tuple(line))
        if frame.source:
            yield Code(data(frame.source, limit=_SOURCE_LIMIT).text)
    parents = cause.construct_chain[1:]
    shown = parents if settings.verbose else parents[:_MOST_CHAIN]
    for depth, parent in enumerate(shown):
        yield Field(text("label.called_from", language) if depth == 0 else "", (data(parent, Tone.FAINT),))
    if len(parents) > len(shown):
        yield Field("", more(len(parents) - len(shown), language))
    if settings.verbose and cause.stack_info:
        for depth, entry in enumerate(cause.stack_info):
            label = text("label.stack", language) if depth == 0 else ""
            yield Field(label, (data(str(entry), Tone.FAINT, limit=400),))


def _reason(cause: RootCause, settings: Settings) -> Iterable[Block]:
    language, mechanism = settings.language, cause.mechanism
    if cause.where is not Where.MISSING_RANK or mechanism.kind is not MechanismKind.UNKNOWN:
        yield Paragraph((Span(mechanism_words(mechanism, language), Tone.STRONG),))
    yield Paragraph(sentence(mechanism.explanation, language))
    why = f"mechanism.{mechanism.kind.value}.why"
    if mechanism.explanation.key != why and mechanism.kind is not MechanismKind.UNKNOWN:
        yield Paragraph(sentence(why, language, Tone.FAINT))
    yield from _tensors(cause, settings)
    yield from listed(cause.evidence, _MOST_EVIDENCE, settings)
    yield from _run_up(cause, settings)


def _tensors(cause: RootCause, settings: Settings) -> Iterable[Block]:
    language = settings.language
    inputs, more_in = chosen(cause.inputs, settings)
    outputs, more_out = chosen(cause.outputs, settings)
    rows = tensor_rows(inputs, "in", language) + tensor_rows(outputs, "out", language)
    if rows:
        yield tensor_table(rows, language)
    if more_in + more_out:
        yield Paragraph(more(more_in + more_out, language))


def chosen(tensors: Sequence[TensorStat], settings: Settings) -> tuple[tuple[TensorStat, ...], int]:
    """The tensors to show, in their order, and how many are left out: bad ones first, then floating ones."""
    if settings.verbose or len(tensors) <= _MOST_TENSORS:
        return tuple(tensors), 0
    order = sorted(range(len(tensors)), key=lambda at: (not tensors[at].state.is_bad, not tensors[at].is_floating, at))
    kept = sorted(order[:_MOST_TENSORS])
    return tuple(tensors[at] for at in kept), len(tensors) - len(kept)


def tensor_rows(tensors: Iterable[TensorStat], side: str, language: Language) -> tuple[tuple[Span, ...], ...]:
    """One row of :func:`tensor_table` per tensor; ``side`` is ``in`` or ``out``."""
    return tuple(
        (
            Span(text(f"label.{side}", language)),
            data(tensor.slot, limit=32),
            data(tensor.dtype or "-", limit=16),
            data("-" if tensor.shape is None else str(list(tensor.shape)), limit=32),
            _number(tensor.max, tensor.state),
            _number(tensor.min, tensor.state),
            Span(text(f"state.{tensor.state.value}", language), STATE_TONES.get(tensor.state, Tone.BAD)),
        )
        for tensor in tensors
    )


def tensor_table(rows: tuple[tuple[Span, ...], ...], language: Language) -> Table:
    """Tensors with their statistics."""
    names = ("slot", "dtype", "shape", "max", "min", "state")
    return Table(("", *(text(f"column.{name}", language) for name in names)), rows, right=frozenset({4, 5}))


def _number(value: Number | None, state: ValueState) -> Span:
    if value is None:
        return Span("-", Tone.WARN)
    word = number(value)
    return Span(word, Tone.BAD if state.is_bad and word in ("NaN", "Inf", "-Inf") else Tone.PLAIN, is_data=True)


def _run_up(cause: RootCause, settings: Settings) -> Iterable[Block]:
    language = settings.language
    steps = cause.run_up if settings.verbose else cause.run_up[-_MOST_RUN_UP:]
    if not steps:
        return
    yield Paragraph(sentence("label.run_up", language))
    rows = tuple(
        (
            Span(str(step.exec_order), is_data=True),
            data(step.op_name, limit=48),
            Span("-" if step.magnitude_in is None else number(step.magnitude_in), is_data=True),
            Span("-" if step.magnitude_out is None else number(step.magnitude_out), is_data=True),
        )
        for step in steps
    )
    names = ("record", "operator", "magnitude_in", "magnitude_out")
    yield Table(tuple(text(f"column.{name}", language) for name in names), rows, right=frozenset({0, 2, 3}))


def advice_section(groups: Sequence[CauseGroup], settings: Settings) -> Section:
    """What to do next, each advice once; the general advice where the cause has none of its own."""
    language = settings.language
    notes: dict[str, Note] = {}
    for group in groups:
        for note in group.cause.advice or general_advice(group.cause):
            notes.setdefault(text(note, language), note)
    blocks = tuple(Item(sentence(note, language), number=at) for at, note in enumerate(notes.values(), 1))
    return Section(text("section.advice", language), blocks)


def general_advice(cause: RootCause) -> tuple[Note, ...]:
    """What helps with every cause of this place and mechanism."""
    place, mechanism = f"where.{cause.where.value}.advice", cause.mechanism.kind
    of_place = (Note(place),) if has(place) else ()
    if of_place and mechanism is MechanismKind.UNKNOWN:
        return of_place
    return (*of_place, Note(f"mechanism.{mechanism.value}.advice"))


def alternatives_section(groups: Sequence[CauseGroup], settings: Settings) -> Section:
    """Other candidates and why they are not the answer."""
    language = settings.language
    others = [other for group in groups for other in group.cause.alternatives]
    most = len(others) if settings.verbose or settings.rank is not None else _MOST_ALTERNATIVES
    blocks: list[Block] = []
    for other in others[:most]:
        head = sentence("label.rank_step", language, ranks=ranks_words((other.rank,), language), step=other.step)
        name = data(other.op_name)
        reason = sentence(other.reason, language, Tone.FAINT)
        blocks.append(Item((*head, comma(language), name, colon(language), *reason)))
    if len(others) > most:
        blocks.append(Item(more(len(others) - most, language)))
    return Section(text("section.alternatives", language), tuple(blocks))


def listed(notes: Sequence[Note], most: int, settings: Settings) -> Iterable[Block]:
    """Notes as list entries, cut after ``most`` unless verbose."""
    shown = notes if settings.verbose else notes[:most]
    for note in shown:
        yield Item(sentence(note, settings.language))
    if len(notes) > len(shown):
        yield Item(more(len(notes) - len(shown), settings.language))


def comma(language: Language) -> Span:
    """Between parts of one line."""
    return Span(text("label.comma", language))


def colon(language: Language) -> Span:
    """Between a thing and what is said of it."""
    return Span(text("label.colon", language))


def more(count: int, language: Language) -> Line:
    """``and 12 more (-v shows all)``."""
    return sentence("label.more", language, Tone.FAINT, count=count)


def causes_on(report: Report, rank: int | None) -> tuple[RootCause, ...]:
    """The causes that a view shows: all, or those on one rank."""
    return tuple(c for c in report.root_causes if rank is None or rank == c.rank or rank in c.ranks_also)
