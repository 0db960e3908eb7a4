"""A report as an outline: which parts, in which order, how much of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from shlex import quote

from firstnan.answer.model import BenignRule, CollectiveReport, Report, Verdict, Where
from firstnan.dump.language import Language
from firstnan.dump.printable import NAME_LIMIT
from firstnan.dump.ranges import format_ranges
from firstnan.show.outline.agreement import agreement_headline, agreement_sections
from firstnan.show.outline.calls import call_name, calls_section, every_call_section
from firstnan.show.outline.causes import alternatives_sections, cause_sections, colon, comma, dropped, more
from firstnan.show.outline.commands import commands_section
from firstnan.show.outline.growth import growth_section
from firstnan.show.outline.headline import (
    GAPS,
    CauseGroup,
    causes_on,
    gap_of,
    group_causes,
    headline_of,
    note_of,
    ranks_words,
)
from firstnan.show.outline.inputs import ADVICE_FIRST, doubts_section, input_section, next_sections, rules_out
from firstnan.show.outline.model import Block, Field, Item, Line, Outline, Paragraph, Section, Tone, data, sentence
from firstnan.show.outline.replay import replayed_sections, told_sections
from firstnan.show.outline.spread import spread_section
from firstnan.show.reporter import Settings, View
from firstnan.words import Words, has, text

_MOST_CAUSES = 8
_MOST_CONTAINED = 4
_MOST_RULES = 6


def outline(report: Report, settings: Settings) -> Outline:
    """The report as the view of ``settings`` asks for it."""
    made = {View.FULL: _full, View.RANKS: _ranks, View.TRACE: _trace, View.AGREE: _agree}[settings.view](
        report, settings
    )
    return Outline(made.headline, tuple(section for section in made.sections if section.blocks))


def _full(report: Report, settings: Settings) -> Outline:
    groups = group_causes(report.root_causes)
    sections = [
        *_told(report, groups, settings),
        growth_section(report, settings),
        *told_sections(report, settings),
        *replayed_sections(report.replayed, settings),
        spread_section(report, settings),
        _symptoms(report, settings),
        calls_section(report.collectives, report.root_causes, settings),
        *agreement_sections(report, settings),
        *(() if groups or report.disagreements else next_sections(report, settings)),
        *_rest(report, groups, settings),
    ]
    return Outline(_headline(report, groups, settings), tuple(sections))


def _agree(report: Report, settings: Settings) -> Outline:
    sections = agreement_sections(report, settings, whole=True)
    return Outline(agreement_headline(report, settings), (*sections, input_section(report, (), settings)))


def _told(report: Report, groups: Sequence[CauseGroup], settings: Settings) -> Iterable[Section]:
    """The story, then every cause; several causes are listed in one sentence each before."""
    language = settings.language
    several = len(groups) > 1
    shown = groups if settings.verbose else groups[:_MOST_CAUSES]
    if several:
        blocks: list[Block] = [Item(headline_of(group, settings), number=at) for at, group in enumerate(shown, 1)]
        if len(groups) > len(shown):
            blocks.append(Item(more(len(groups) - len(shown), language)))
        yield Section("", tuple(blocks))
    yield Section("", tuple(Paragraph(sentence(note, language)) for note in report.story))
    first = tuple(ADVICE_FIRST[note.key] for note in report.caveats if note.key in ADVICE_FIRST)
    for at, group in enumerate(shown, 1):
        yield from cause_sections(group, at if several else None, settings, first if at == 1 else ())
    if groups:
        yield commands_section(report, settings)


def _rest(report: Report, groups: Sequence[CauseGroup], settings: Settings) -> Iterable[Section]:
    yield doubts_section(report, groups, settings)
    yield from alternatives_sections(groups, settings)
    yield _contained(report, settings)
    yield _benign(report, settings)
    yield input_section(report, groups, settings)


def headline(report: Report, settings: Settings, *, first: bool = False) -> str:
    """The first sentence of the whole report, as text; ``first``: of its first cause, where there are several."""
    groups = group_causes(report.root_causes)
    line = headline_of(groups[0], settings) if first and groups else _headline(report, groups, settings)
    return "".join(span.text for span in line)


def _headline(report: Report, groups: Sequence[CauseGroup], settings: Settings) -> Line:
    language = settings.language
    if groups:
        return _headline_of_causes(report, groups, settings)
    if report.disagreements and report.verdict is not Verdict.ANOMALY:
        return agreement_headline(report, settings)
    clean = "verdict.clean_excluded" if rules_out(report) else "verdict.clean"
    key = {
        Verdict.ANOMALY: "verdict.anomaly",
        Verdict.CLEAN: "verdict.clean_incomplete" if not report.complete else clean,
        Verdict.UNKNOWN: "verdict.unknown",
    }[report.verdict]
    looked = report.input
    steps, ranks = Words(format_ranges(looked.steps) or "-"), ranks_words(looked.ranks, language)
    return sentence(key, language, Tone.STRONG, records=looked.records, ranks=ranks, steps=steps)


def _headline_of_causes(report: Report, groups: Sequence[CauseGroup], settings: Settings) -> Line:
    if len(groups) > 1:
        elsewhere = all(note_of(group.cause, "evidence.rank_left_out") for group in groups)
        key = "verdict.several_left_out" if elsewhere else "verdict.several"
        listed = next((note.params for note in report.caveats if note.key == "caveat.listed_causes"), None)
        more = int(str(listed["count"])) - int(str(listed["shown"])) if listed else 0
        return sentence(key, settings.language, Tone.STRONG, count=len(groups) + more)
    return headline_of(groups[0], settings)


def _ranks(report: Report, settings: Settings) -> Outline:
    language, calls = settings.language, report.collectives
    if calls:
        first = calls[0]
        line = sentence(
            "ranks.first",
            language,
            Tone.STRONG,
            op=call_name(first),
            step=first.step,
            source=_source_words(report, first, language),
            propagated=_ranks_or_none(first.propagated_ranks, language),
        )
    elif report.verdict is Verdict.UNKNOWN:
        line = _headline(report, (), settings)
    else:
        line = sentence("ranks.none", language, Tone.STRONG)
    beside = beside_calls(report, settings)
    section = calls_section(calls, report.root_causes, settings, whole=True)
    if calls:
        section = Section(section.title, (*section.blocks, Paragraph(sentence("ranks.legend", language, Tone.FAINT))))
    return Outline(
        line,
        (
            Section("", (Paragraph(beside),) if beside else ()),
            section,
            every_call_section(settings),
            commands_section(report, settings),
            doubts_section(report, (), settings),
            input_section(report, (), settings),
        ),
    )


def beside_calls(report: Report, settings: Settings) -> Line:
    """What the table of calls cannot hold: an anomaly that no communication took in; empty when there is none."""
    if report.collectives or report.verdict is not Verdict.ANOMALY:
        return ()
    ranks = sorted({rank for cause in report.root_causes for rank in (cause.rank, *cause.ranks_also)})
    key = "ranks.anomaly" if ranks else "ranks.anomaly.nowhere"
    path = quote(report.input.path)
    shown = path if len(path) <= NAME_LIMIT else "PATH"  # a command with a shortened path would not run
    command = f"{settings.program or 'firstnan'} analyze {shown}"
    return sentence(key, settings.language, ranks=format_ranges(ranks), command=command)


def _source_words(report: Report, call: CollectiveReport, language: Language) -> Words:
    """The source ranks; where no rank that was read is one, where the value came from all the same."""
    if call.source_ranks:
        return ranks_words(call.source_ranks, language)
    cause = report.root_causes[0] if report.root_causes else None
    if cause is not None and cause.where is Where.MISSING_RANK:
        gap = gap_of(cause)
        kind = GAPS[gap.key] if gap is not None else "absent"
        ranks = {one.rank for one in report.root_causes if one.where is Where.MISSING_RANK}
        return Words(text(f"ranks.source.{kind}", language, ranks=ranks_words(sorted(ranks), language)))
    if cause is not None and cause.where is Where.COMMUNICATION and call.ops.get(cause.rank) == cause.op_name:
        return Words(text("ranks.source.call", language))
    return Words(text("ranks.source.unknown", language))


def _ranks_or_none(ranks: Sequence[int], language: Language) -> Words:
    return ranks_words(ranks, language) if ranks else Words(text("label.none", language))


def _trace(report: Report, settings: Settings) -> Outline:
    language, rank = settings.language, settings.rank
    groups = group_causes(causes_on(report, rank))
    if groups:
        line = _headline_of_causes(report, groups, settings)
    elif report.verdict is Verdict.UNKNOWN:
        line = sentence("trace.unknown", language, Tone.STRONG, rank=rank)
    else:
        line = sentence("trace.none", language, Tone.STRONG, rank=rank)
    return Outline(line, (*_told(report, groups, settings), *_rest(report, groups, settings)))


def _symptoms(report: Report, settings: Settings) -> Section:
    language = settings.language
    key = "label.symptom_in_step" if len(report.input.steps) > 1 else "label.symptom_at"
    fields: list[Block] = []
    for symptom in report.symptoms:
        where = sentence(
            key, language, op=symptom.op_name, rank=symptom.rank, step=symptom.step, index=symptom.exec_order
        )
        fields.append(Field(text(f"symptom.{symptom.kind.value}", language), where))
    return Section(text("section.symptom", language), tuple(fields))


def _contained(report: Report, settings: Settings) -> Section:
    language = settings.language
    groups: dict[tuple[int, str, str], list[int]] = defaultdict(list)
    reasons: dict[str, Line] = {}
    spread = {(c.step, rank, op) for c in report.collectives for rank, op in c.ops.items()}  # the table of calls has it
    for value in report.contained:
        if (value.step, value.rank, value.op_name) in spread:
            continue
        note = dropped(value.reason, value.op_name)
        reason = text(note, language)
        reasons.setdefault(reason, sentence(note, language, Tone.FAINT))
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
    blocks: list[Block] = [Item(_rule_line(rule, language)) for rule in rules]
    if len(report.benign) > len(rules):
        blocks.append(Item(more(len(report.benign) - len(rules), language)))
    return Section(text("section.benign", language), tuple(blocks))


def _rule_line(rule: BenignRule, language: Language) -> Line:
    """``7 masks filled with -Inf (legal_minus_inf)``; a rule of the user's has its name only."""
    words = f"benign.{rule.rule}"
    if not has(words):
        return sentence("label.benign_rule", language, rule=rule.rule, count=rule.count, example=rule.example)
    what = Words(text(words, language, count=rule.count))
    return sentence("label.benign_words", language, what=what, rule=rule.rule, example=rule.example)
