"""The parts of the outline that tell one root cause: where it is, why it happened, what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firstnan.answer.model import Alternative, MechanismKind, Note, RootCause, Where
from firstnan.causes.turning_point import turning_point
from firstnan.dump.call_site import Frame
from firstnan.dump.language import Language
from firstnan.dump.records import TensorStat
from firstnan.dump.values import Number, ValueState
from firstnan.show.outline.headline import GAPS, CauseGroup, gap_of, mechanism_words, note_of, ranks_words
from firstnan.show.outline.model import (
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
from firstnan.show.outline.replay import replay_blocks
from firstnan.show.reporter import Settings
from firstnan.words import Words, has, number, text

STATE_TONES = {ValueState.FINITE: Tone.GOOD, ValueState.UNKNOWN: Tone.WARN, ValueState.EMPTY: Tone.FAINT}
"""Every other state is bad."""

_MOST_TENSORS = 8
_MOST_CHAIN = 4
_MOST_EVIDENCE = 8
_MOST_RUN_UP = 6
_MOST_ALTERNATIVES = 3
_SOURCE_LIMIT = 160

_RECORD_LABELS = {Where.PARAMETER: "first_used", Where.INPUT_DATA: "first_used", Where.BEFORE_DUMP: "first_seen"}
"""What the named record is, where it is not the guilty operator."""
_SHOWN_BY_TABLE = ("evidence.inputs_finite", "evidence.input_bad", "evidence.output_bad", "evidence.output_clean")
_SHOWN_AS_PLACE = ("evidence.between", "evidence.hidden_operators", *GAPS)


def cause_sections(
    group: CauseGroup, number: int | None, settings: Settings, first: Sequence[Note] = ()
) -> tuple[Section, ...]:
    """Where, why, what to do next; ``number`` tells several causes apart, ``first`` is advice before all other."""
    language = settings.language

    def title(key: str) -> str:
        name = text(f"section.{key}", language)
        return name if number is None else text("section.of_cause", language, number=number, part=Words(name))

    return (
        Section(title("where"), tuple(_place(group, settings))),
        Section(title("why"), tuple(_reason(group.cause, settings))),
        *_replayed(group.cause, title("replay"), settings),
        Section(title("advice"), _numbered((*first, *_advice(group.cause)), language)),
    )


def _replayed(cause: RootCause, title: str, settings: Settings) -> tuple[Section, ...]:
    return () if cause.replay is None else (Section(title, tuple(replay_blocks(cause.replay, settings.language))),)


def place_fields(group: CauseGroup, language: Language) -> Iterable[Field]:
    """Rank, record and kind of place, and what is known of a record or a rank that is not there."""
    cause = group.cause
    rank = sentence("label.rank_step", language, ranks=ranks_words(group.ranks, language), step=cause.step)
    yield _field("where", rank, language)
    place = place_key(cause)
    gap = gap_of(cause) if cause.where is Where.MISSING_RANK else None
    if gap is not None:
        place += f".{GAPS[gap.key]}"
    elif cause.where is Where.UNDUMPED_OPERATOR and cause.op_name:
        yield from _between(group, language)
    elif cause.op_name:
        name = (data(cause.op_name, Tone.STRONG),)
        yield _field(_RECORD_LABELS.get(cause.where, "operator"), (*name, *_record_at(group, language)), language)
    sure = sentence("label.place_confidence", language, Tone.FAINT, confidence=cause.place_confidence.value)
    yield _field("kind", (*sentence(place, language), *sure), language)
    if gap is not None and (last := gap.params.get("last")) is not None:
        yield _field("last_record", (data(str(last)),), language)
    for reached in cause.evidence:
        if gap is not None and reached.key == "evidence.missing_rank":
            yield _field("reached", sentence(Note("label.reached_by", reached.params), language), language)
    if cause.module:
        yield _field("module", (data(cause.module),), language)


def _place(group: CauseGroup, settings: Settings) -> Iterable[Block]:
    cause, language = group.cause, settings.language
    yield from place_fields(group, language)
    is_reader = cause.where is Where.UNDUMPED_OPERATOR
    yield from _line_of_code(cause.location, "read_at" if is_reader else "code", language)
    yield from _line_of_code(cause.called_at, "called_at", language)
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


def _line_of_code(frame: Frame | None, label: str, language: Language) -> Iterable[Block]:
    if frame is None:
        return
    at = frame.file if frame.line is None else f"{frame.file}:{frame.line}"
    line = [data(at, limit=_SOURCE_LIMIT)]
    if frame.function:
        line += sentence("label.in_function", language, Tone.FAINT, function=frame.function)
    yield _field(label, tuple(line), language)
    if frame.source:
        yield Code(data(frame.source, limit=_SOURCE_LIMIT).text)


def place_key(cause: RootCause) -> str:
    """The words for the kind of place; what happened inside a module has no record."""
    if note_of(cause, "evidence.excluded_writer") is not None:
        return "where.undumped_operator.excluded"
    if note_of(cause, "evidence.excluded_sender") is not None:
        return "where.communication.excluded"
    if note_of(cause, "evidence.no_result") is not None:
        return "where.no_result"
    if cause.where is Where.COMMUNICATION and cause.mechanism.explanation.key == "why.received":
        return "where.communication.received"
    if cause.mechanism.explanation.key == "why.large_value_inside":
        return "where.operator.jump"
    if cause.is_inside_module:
        return f"where.{cause.where.value}.module"
    taken = [tensor for tensor in cause.inputs if tensor.is_floating]
    if cause.where is Where.OPERATOR and taken and all(tensor.state.is_unknown for tensor in taken):
        return "where.operator.blind"
    return f"where.{cause.where.value}"


def _field(label: str, line: Line, language: Language) -> Field:
    return Field(text(f"label.{label}", language), line)


def _between(group: CauseGroup, language: Language) -> Iterable[Field]:
    """The guilty operator is not recorded: the records around it, and what the module is known to hold besides."""
    cause = group.cause
    excluded = note_of(cause, "evidence.excluded_writer")
    if excluded is None:
        yield _field("operator", sentence("label.not_recorded", language), language)
    else:
        yield _field("ruled_out", (data(str(excluded.params.get("before", "-"))),), language)
    if (between := note_of(cause, "evidence.between")) is not None:
        yield _field("last_good", (data(str(between.params.get("before", "-"))),), language)
    bad = next((tensor.slot for tensor in cause.inputs if tensor.state.is_bad), None)
    name = [data(cause.op_name, Tone.STRONG), *_record_at(group, language)]
    if bad is not None:
        name += sentence("label.slot", language, slot=bad)
    yield _field("first_bad", tuple(name), language)
    if (hidden := note_of(cause, "evidence.hidden_operators")) is not None:
        ops = str(hidden.params.get("ops", "-"))
        yield _field("suspects", (data(ops, Tone.STRONG), *sentence("label.same_module", language)), language)


def _record_at(group: CauseGroup, language: Language) -> Line:
    cause = group.cause
    if cause.exec_order is None:
        return ()
    key = "label.record_at" if len(group.ranks) == 1 else "label.record_of"
    return sentence(key, language, Tone.FAINT, index=cause.exec_order, rank=cause.rank)


def _reason(cause: RootCause, settings: Settings) -> Iterable[Block]:
    language, mechanism = settings.language, cause.mechanism
    is_unknown = mechanism.kind is MechanismKind.UNKNOWN
    name = Span(mechanism_words(mechanism, language), Tone.STRONG)
    explanation = sentence(mechanism.explanation, language)
    general = f"mechanism.{mechanism.kind.value}.why"
    if cause.where is Where.MISSING_RANK and is_unknown:
        if gap_of(cause) is None or note_of(cause, "evidence.missing_rank") is None:  # else the first line says it
            yield Paragraph(explanation)
    elif mechanism.explanation.key == general:
        yield Paragraph((name,))
        yield Paragraph(explanation)
    else:
        yield Paragraph((name, colon(language), *explanation))
        if settings.verbose and not is_unknown:
            yield Paragraph(sentence(general, language, Tone.FAINT))
    yield from _tensors(cause, settings)
    yield from listed(_evidence(cause, settings), _MOST_EVIDENCE, settings)
    yield from _run_up(cause, settings)


def _evidence(cause: RootCause, settings: Settings) -> tuple[Note, ...]:
    """What neither the table of tensors nor the place shows already; all of it when verbose."""
    if settings.verbose:
        return cause.evidence
    told = set[str]()
    if max(len(cause.inputs), len(cause.outputs)) <= _MOST_TENSORS:
        told.update(_SHOWN_BY_TABLE)
    if cause.where in (Where.UNDUMPED_OPERATOR, Where.MISSING_RANK):
        told.update(_SHOWN_AS_PLACE)
    if cause.mechanism.explanation.key == "why.device_fault":
        told.add("evidence.peers_finite")
    return tuple(note for note in cause.evidence if note.key not in told)


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
    """The first line says where the values changed; the values before it follow where there is more to see."""
    language = settings.language
    lead = _lead(cause, language)
    if lead:
        yield Paragraph(lead)
    steps = cause.run_up if settings.verbose else cause.run_up[-_MOST_RUN_UP:]
    if not steps or (not settings.verbose and (not lead or len(steps) == 1)):
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


def _lead(cause: RootCause, language: Language) -> Line:
    """Where the values changed, in words."""
    turn = turning_point(cause)
    if turn is None:
        return ()
    before, after = _rounded(turn.step.magnitude_in or 0.0), _rounded(turn.step.magnitude_out or 0.0)
    at, op, factor = turn.step.exec_order, turn.step.op_name, _rounded(turn.factor, 2)
    key = "label.grew" if turn.factor else "label.fell"
    return sentence(key, language, Tone.STRONG, index=at, op=op, before=before, after=after, factor=factor)


def _rounded(value: float, digits: int = 4) -> float:
    return float(f"{value:.{digits}g}")


def _numbered(notes: Sequence[Note], language: Language) -> tuple[Block, ...]:
    return tuple(Item(sentence(note, language), number=at) for at, note in enumerate(notes, 1))


def _advice(cause: RootCause) -> tuple[Note, ...]:
    return cause.advice or general_advice(cause)


def general_advice(cause: RootCause) -> tuple[Note, ...]:
    """What helps with every cause of this mechanism and place, where the report itself has no advice."""
    place, mechanism = f"where.{cause.where.value}.advice", cause.mechanism.kind
    of_place = (Note(place),) if has(place) else ()
    if of_place and mechanism is MechanismKind.UNKNOWN:
        return of_place
    return (Note(f"mechanism.{mechanism.value}.advice"), *of_place)


def alternatives_sections(groups: Sequence[CauseGroup], settings: Settings) -> tuple[Section, ...]:
    """Other candidates and why they are not the answer; what only follows from the answer is told when verbose."""
    others = [other for group in groups for other in group.cause.alternatives]
    follows = [other for other in others if other.reason.key == "reason.later"]
    rivals = [other for other in others if other.reason.key != "reason.later"]
    made = [_alternatives("section.alternatives", rivals, settings)]
    if settings.verbose:
        made.append(_alternatives("section.consequences", follows, settings))
    return tuple(made)


def _alternatives(title: str, others: Sequence[Alternative], settings: Settings) -> Section:
    language = settings.language
    most = len(others) if settings.verbose or settings.rank is not None else _MOST_ALTERNATIVES
    blocks: list[Block] = []
    for other in others[:most]:
        head = sentence("label.rank_step", language, ranks=ranks_words((other.rank,), language), step=other.step)
        reason = sentence(dropped(other.reason, other.op_name), language, Tone.FAINT)
        blocks.append(Item((*head, comma(language), data(other.op_name), colon(language), *reason)))
    if len(others) > most:
        blocks.append(Item(more(len(others) - most, language)))
    return Section(text(title, language), tuple(blocks))


def dropped(reason: Note, op_name: str) -> Note:
    """The reason in the words that fit: the record that dropped the value can be the named one."""
    is_here = reason.key == "reason.contained" and reason.params.get("closer") == op_name
    return Note("reason.dropped_here") if is_here else reason


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
