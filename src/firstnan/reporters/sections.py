"""A report as an outline: which parts, in which order, how much of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from firstnan.messages import Language, Words, text
from firstnan.ranges import format_ranges
from firstnan.report import CollectiveReport, MatchState, Report, Verdict
from firstnan.reporters.base import Settings, View
from firstnan.reporters.cause_sections import (
    advice_section,
    alternatives_section,
    cause_sections,
    causes_on,
    colon,
    comma,
    group_causes,
    headline_of,
    more,
    ranks_words,
)
from firstnan.reporters.input_sections import doubts_section, input_section
from firstnan.reporters.outline import (
    Block,
    Field,
    Item,
    Line,
    Outline,
    Paragraph,
    Section,
    Span,
    Table,
    Tone,
    data,
    sentence,
)
from firstnan.reporters.spread import spread_section

_MOST_CAUSES = 8
_MOST_CALLS = 10
_MOST_CONTAINED = 4
_MOST_RULES = 6
_MOST_NAMES = 3


def outline(report: Report, settings: Settings) -> Outline:
    """The report as the view of ``settings`` asks for it."""
    made = {View.FULL: _full, View.RANKS: _ranks, View.TRACE: _trace}[settings.view](report, settings)
    return Outline(made.headline, tuple(section for section in made.sections if section.blocks))


def _full(report: Report, settings: Settings) -> Outline:
    language = settings.language
    groups = group_causes(report.root_causes)
    sections = [Section("", tuple(Paragraph(sentence(note, language)) for note in report.story))]
    shown = groups if settings.verbose else groups[:_MOST_CAUSES]
    for at, group in enumerate(shown, 1):
        title = ""
        if len(groups) > 1:
            title = text("section.cause", language, number=at, total=len(groups)) + " "
            sections.append(Section(title.strip(), (Paragraph(headline_of(group, settings)),)))
        sections += cause_sections(group, title, settings)
    if len(groups) > len(shown):
        sections.append(Section(text("section.causes", language), (Item(more(len(groups) - len(shown), language)),)))
    sections += [
        spread_section(report, settings),
        _symptoms(report, settings),
        _collectives(report, settings),
        advice_section(groups, settings),
        doubts_section(report, settings),
        alternatives_section(groups, settings),
        _contained(report, settings),
        _benign(report, settings),
        input_section(report, settings),
    ]
    return Outline(_headline(report, settings), tuple(sections))


def _headline(report: Report, settings: Settings) -> Line:
    language = settings.language
    groups = group_causes(report.root_causes)
    if groups:
        line = headline_of(groups[0], settings)
        if len(groups) > 1:
            line += (Span(" "), *sentence("verdict.and_more", language, Tone.STRONG, count=len(groups) - 1))
        return line
    key, tone = {
        Verdict.ANOMALY: ("verdict.anomaly", Tone.STRONG),
        Verdict.CLEAN: ("verdict.clean" if report.complete else "verdict.clean_incomplete", Tone.STRONG),
        Verdict.UNKNOWN: ("verdict.unknown", Tone.STRONG),
    }[report.verdict]
    looked = report.input
    return sentence(
        key,
        language,
        tone,
        records=looked.records,
        ranks=_counted("rank", len(looked.ranks), language),
        steps=_counted("step", len(looked.steps), language),
    )


def _counted(thing: str, count: int, language: Language) -> Words:
    return Words(text(f"label.count_{thing}" if count == 1 else f"label.count_{thing}s", language, count=count))


def _ranks(report: Report, settings: Settings) -> Outline:
    language, calls = settings.language, report.collectives
    if calls:
        first = calls[0]
        line = sentence(
            "ranks.first",
            language,
            Tone.STRONG,
            op=first.op,
            step=first.step,
            source=_ranks_or_none(first.source_ranks, language),
            propagated=_ranks_or_none(first.propagated_ranks, language),
        )
    elif report.verdict is Verdict.UNKNOWN:
        line = _headline(report, settings)
    else:
        line = sentence("ranks.none", language, Tone.STRONG)
    blocks: list[Block] = [*_call_table(calls, settings), *_call_remarks(calls, settings)]
    if calls:
        blocks.append(Paragraph(sentence("ranks.legend", language, Tone.FAINT)))
    return Outline(
        line,
        (
            Section(text("section.collectives", language), tuple(blocks)),
            doubts_section(report, settings),
            input_section(report, settings),
        ),
    )


def _ranks_or_none(ranks: Sequence[int], language: Language) -> Words:
    return ranks_words(ranks, language) if ranks else Words(text("label.none", language))


def _trace(report: Report, settings: Settings) -> Outline:
    language, rank = settings.language, settings.rank
    groups = group_causes(causes_on(report, rank))
    if groups:
        line = headline_of(groups[0], settings)
    elif report.verdict is Verdict.UNKNOWN:
        line = sentence("trace.unknown", language, Tone.STRONG, rank=rank)
    else:
        line = sentence("trace.none", language, Tone.STRONG, rank=rank)
    sections: list[Section] = [Section("", tuple(Paragraph(sentence(note, language)) for note in report.story))]
    for group in groups:
        sections += cause_sections(group, "", settings)
    sections += [
        advice_section(groups, settings),
        doubts_section(report, settings),
        alternatives_section(groups, settings),
        _contained(report, settings),
        _benign(report, settings),
        input_section(report, settings),
    ]
    return Outline(line, tuple(sections))


def _symptoms(report: Report, settings: Settings) -> Section:
    language = settings.language
    fields: list[Block] = []
    for symptom in report.symptoms:
        where = sentence(
            "label.symptom_at",
            language,
            op=symptom.op_name,
            rank=symptom.rank,
            step=symptom.step,
            index=symptom.exec_order,
        )
        fields.append(Field(text(f"symptom.{symptom.kind.value}", language), where))
    return Section(text("section.symptom", language), tuple(fields))


def _collectives(report: Report, settings: Settings) -> Section:
    blocks: list[Block] = [*_call_table(report.collectives, settings), *_call_remarks(report.collectives, settings)]
    return Section(text("section.collectives", settings.language), tuple(blocks))


def _call_table(calls: Sequence[CollectiveReport], settings: Settings) -> Iterable[Block]:
    language = settings.language
    most = len(calls) if settings.verbose else _MOST_CALLS
    if not calls:
        return
    several_steps = len({call.step for call in calls}) > 1
    names = ("call", "group", "source", "propagated", "normal", "undecided", "total")
    rows = tuple(
        (
            data(f"{f'step{call.step} ' if several_steps else ''}{_call_name(call)}", limit=48),
            _group_cell(call, language),
            _ranks_cell(call.source_ranks, Tone.BAD),
            _ranks_cell(call.propagated_ranks, Tone.WARN),
            _ranks_cell(call.normal_ranks, Tone.GOOD),
            _ranks_cell(call.undecided_ranks, Tone.WARN),
            Span(str(call.total_ranks), is_data=True),
        )
        for call in calls[:most]
    )
    yield Table(tuple(text(f"column.{name}", language) for name in names), rows, right=frozenset({6}))
    if len(calls) > most:
        yield Paragraph(more(len(calls) - most, language))
    yield from _records(calls, settings)


def _call_name(call: CollectiveReport) -> str:
    """``all_reduce #1``: the API and the number of the call in its group, counted from 0."""
    return f"{call.op} #{call.call}"


def _group_cell(call: CollectiveReport, language: Language) -> Span:
    if call.group is not None:
        return _ranks_cell(call.group)
    key = "label.by_name" if call.match is MatchState.BY_NAME else "label.group_unknown"
    return Span(text(key, language))


def _records(calls: Sequence[CollectiveReport], settings: Settings) -> Iterable[Block]:
    """The record names of the first call (all calls when verbose): they can differ from rank to rank."""
    language = settings.language
    for call in calls if settings.verbose else calls[:1]:
        ranks_of: dict[str, list[int]] = defaultdict(list)
        for rank, name in sorted(call.ops.items()):
            ranks_of[name].append(rank)
        for name, ranks in list(ranks_of.items())[: None if settings.verbose else _MOST_NAMES]:
            words = ranks_words(ranks, language)
            yield Item(sentence("label.call_record", language, call=_call_name(call), op=name, ranks=words))


def _ranks_cell(ranks: Sequence[int], tone: Tone = Tone.PLAIN) -> Span:
    return Span(format_ranges(ranks), tone, is_data=True) if ranks else Span("-", Tone.FAINT)


def _call_remarks(calls: Sequence[CollectiveReport], settings: Settings) -> Iterable[Block]:
    """What is not certain about the matching of the calls, each remark once."""
    language = settings.language
    seen: dict[str, Item] = {}
    states = {call.match for call in calls}
    for state in MatchState:
        if state in states and state is not MatchState.MATCHED:
            line = sentence(f"match.{state.value}", language, Tone.WARN)
            seen.setdefault(state.value, Item(line))
    for call in calls:
        for note in call.notes:
            seen.setdefault(text(note, language), Item(sentence(note, language)))
    most = len(seen) if settings.verbose else _MOST_CALLS
    yield from list(seen.values())[:most]
    if len(seen) > most:
        yield Item(more(len(seen) - most, language))


def _contained(report: Report, settings: Settings) -> Section:
    language = settings.language
    groups: dict[tuple[int, str, str], list[int]] = defaultdict(list)
    reasons: dict[str, Line] = {}
    for value in report.contained:
        reason = text(value.reason, language)
        reasons.setdefault(reason, sentence(value.reason, language, Tone.FAINT))
        groups[value.step, value.op_name, reason].append(value.rank)
    most = len(groups) if settings.verbose else _MOST_CONTAINED
    blocks: list[Block] = []
    for (step, op_name, reason), ranks in list(groups.items())[:most]:
        head = sentence("label.rank_step", language, ranks=ranks_words(ranks, language), step=step)
        blocks.append(Item((*head, comma(language), data(op_name), colon(language), *reasons[reason])))
    if len(groups) > most:
        blocks.append(Item(more(len(groups) - most, language)))
    return Section(text("section.contained", language), tuple(blocks))


def _benign(report: Report, settings: Settings) -> Section:
    language = settings.language
    rules = report.benign if settings.verbose else report.benign[:_MOST_RULES]
    blocks: list[Block] = [
        Item(sentence("label.benign_rule", language, rule=rule.rule, count=rule.count, example=rule.example))
        for rule in rules
    ]
    if len(report.benign) > len(rules):
        blocks.append(Item(more(len(report.benign) - len(rules), language)))
    return Section(text("section.benign", language), tuple(blocks))
