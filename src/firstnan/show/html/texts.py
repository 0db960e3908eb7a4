"""The prose of the page in one language: verdict, causes, what is in doubt, what was looked at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from firstnan.answer.accounts import Accounts
from firstnan.answer.model import BenignRule, Report
from firstnan.dump.language import Language
from firstnan.dump.printable import show
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.dump.ranges import format_ranges
from firstnan.dump.records import TensorStat
from firstnan.show.html import blocks
from firstnan.show.html.blocks import Json
from firstnan.show.outline.agreement import agreement_sections
from firstnan.show.outline.causes import chosen, general_advice, place_fields, tensor_rows, tensor_table
from firstnan.show.outline.commands import next_commands
from firstnan.show.outline.headline import CauseGroup, headline_of, mechanism_words, ranks_words
from firstnan.show.outline.inputs import doubts_section, next_sections
from firstnan.show.outline.model import Field, Item, Line, Section, Span, Tone, data, sentence
from firstnan.show.outline.replay import replay_blocks, replayed_sections, told_sections
from firstnan.show.outline.sections import beside_calls, outline
from firstnan.show.reporter import Settings, View
from firstnan.words import catalog, has, text

MAX_TENSORS = 40
"""Most tensors of a cause that are listed."""
MAX_PROBLEMS = 200
"""Most problems of one kind that are listed one by one."""

_WORDS = (
    "column.",
    "confidence.",
    "direction.",
    "html.",
    "match.",
    "rank_state.",
    "section.",
    "state.",
    "via.",
    "where.",
)
_LABELS = ("label.more", "label.rank", "label.ranks", "label.stack", "label.in", "label.out", "label.by_name",
           "label.group_unknown", "label.none", "label.called_at", "label.called_from", "label.code")  # fmt: skip


_COMPARES = (View.FULL, View.AGREE)
"""Views that show ranks that should be equal."""


def build(report: Report, groups: Sequence[CauseGroup], settings: Settings, language: Language) -> dict[str, Json]:
    """Everything that is said in ``language``."""
    own = replace(settings, language=language, verbose=True)
    headline, sections = _outline(report, own)
    parts = {section.title: section for section in sections}
    story = [sentence(note, language) for note in report.story]
    if own.view is View.RANKS and (beside := beside_calls(report, own)):
        story.append(beside)
    if groups:
        headline = headline_of(groups[0], own)
    if len(groups) > 1:
        story.insert(0, sentence("verdict.and_more", language, Tone.STRONG, count=len(groups) - 1))

    def part(name: str) -> Section | None:
        return parts.get(text(f"section.{name}", language))

    return {
        "words": _words(language),
        "headline": blocks.line(headline),
        "story": [blocks.line(part) for part in story],
        "causes": [_cause(group, own) for group in groups],
        "advice": [] if groups or own.view is not View.FULL else blocks.section(_next(report, own)),
        "doubts": blocks.section(doubts_section(report, groups, replace(own, verbose=False))),
        "commands": [[text(key, language), line] for key, line in next_commands(report, own)],
        "symptoms": blocks.section(part("symptom")),
        "alternatives": blocks.section(part("alternatives")) + blocks.section(part("consequences")),
        "contained": _contained(report, language),
        "benign": _benign(report, language),
        "accounts": _accounts(report.accounts, language),
        "input": _input(part("input")),
        "replayed": [
            {"title": section.title, "blocks": blocks.section(section)}
            for section in (*told_sections(report, own), *replayed_sections(report.replayed, own))
            if section.blocks
        ],
        "problems": _problems(report.input.problems, language),
        "agreement": [
            {"title": section.title, "blocks": blocks.section(section)}
            for section in (agreement_sections(report, own) if own.view in _COMPARES else ())
            if section.blocks
        ],
        "remarks": {
            str(number): [blocks.line(sentence(note, language)) for note in call.notes]
            for number, call in enumerate(report.collectives)
            if call.notes
        },
    }


def _next(report: Report, settings: Settings) -> Section:
    """What to do next where no cause is named: about ranks that differ, else about NaN and Inf."""
    if not report.disagreements:
        return next_sections(report, settings)[-1]
    advice = report.disagreements[0].advice
    steps = tuple(Item(sentence(note, settings.language), number=at) for at, note in enumerate(advice, 1))
    return Section(text("section.advice", settings.language), steps)


def _outline(report: Report, settings: Settings) -> tuple[Line, tuple[Section, ...]]:
    """Headline and sections; lists that the page shows in its own way are left out before they are made."""
    full = settings.view is View.FULL
    lean = replace(report, input=replace(report.input, problems=()), contained=(), benign=())
    if full:
        lean = replace(lean, collectives=(), propagation=())
    made = outline(lean, settings)
    return made.headline, made.sections


def _words(language: Language) -> dict[str, str]:
    return {
        key: template for key, template in sorted(catalog(language).items()) if key.startswith(_WORDS) or key in _LABELS
    }


def _cause(group: CauseGroup, settings: Settings) -> dict[str, Json]:
    cause, language = group.cause, settings.language
    brief = replace(settings, verbose=False)
    inputs, more_in = chosen(cause.inputs, brief)
    outputs, more_out = chosen(cause.outputs, brief)
    every = (cause.inputs[:MAX_TENSORS], cause.outputs[:MAX_TENSORS])
    why = f"mechanism.{cause.mechanism.kind.value}.why"
    explained = [sentence(cause.mechanism.explanation, language)]
    if cause.mechanism.explanation.key != why and cause.mechanism.kind.value != "unknown":
        explained.append(sentence(why, language, Tone.FAINT))
    return {
        "tab": f"{ranks_words(group.ranks, language)}, {show(cause.op_name or '-', 40)}",
        "headline": blocks.line(headline_of(group, settings)),
        "place": blocks.blocks(place_fields(group, language)),
        "mechanism": str(mechanism_words(cause.mechanism, language))
        if cause.mechanism.kind.value == "unknown"
        else text(f"mechanism.{cause.mechanism.kind.value}.name", language),
        "why": [blocks.line(part) for part in explained],
        "tensors": _tensors(inputs, outputs, language),
        "all_tensors": _tensors(*every, language) if more_in + more_out else None,
        "left_out": len(cause.inputs) + len(cause.outputs) - sum(len(some) for some in every),
        "evidence": [blocks.line(sentence(note, language)) for note in cause.evidence],
        "advice": [blocks.line(sentence(n, language)) for n in cause.advice or general_advice(cause)],
        "replay": [] if cause.replay is None else blocks.blocks(replay_blocks(cause.replay, language)),
    }


def _tensors(inputs: Sequence[TensorStat], outputs: Sequence[TensorStat], language: Language) -> Json:
    """As the other forms show them, the numbers first: what does not fit scrolls out of sight."""
    rows = tensor_rows(inputs, "in", language) + tensor_rows(outputs, "out", language)
    if not rows:
        return None
    made = tensor_table(rows, language)
    order = (0, 1, 4, 5, 6, 2, 3)
    head = [made.header[at] for at in order]
    return blocks.table(blocks.grid(head, ([row[at] for at in order] for row in made.rows), right=(2, 3)))


def _problems(problems: Sequence[Problem], language: Language) -> list[Json]:
    """One entry per kind: what it is, what it does to the answer, where."""
    made: list[Json] = []
    kinds = sorted(_by_kind(problems).items(), key=lambda one: one[0] is ProblemKind.IGNORED_FOLDER)  # noise last
    for kind, group in kinds:
        facts = [_facts(problem, language) for problem in group[:MAX_PROBLEMS]]
        made.append(
            {
                "line": blocks.line(_problem_line(kind, group, language)),
                "effect": text(f"problem.{kind.value}.effect", language),
                "judged": all(problem.judged for problem in group),
                "facts": [blocks.line(fact) for fact in facts if fact],
                "left_out": len(group) - len(facts),
            }
        )
    return made


def _by_kind(problems: Iterable[Problem]) -> dict[ProblemKind, list[Problem]]:
    kinds: dict[ProblemKind, list[Problem]] = defaultdict(list)
    for problem in problems:
        kinds[problem.kind].append(problem)
    return kinds


def _problem_line(kind: ProblemKind, group: Sequence[Problem], language: Language) -> Line:
    made = list(sentence(f"problem.{kind.value}", language))
    if len(group) > 1:
        made += sentence("label.times", language, count=len(group))
    ranks = sorted({problem.rank for problem in group if problem.rank is not None})
    if ranks:
        key = "label.on_rank" if len(ranks) == 1 else "label.on_ranks"
        made += sentence(key, language, ranks=format_ranges(ranks))
    return tuple(made)


def _facts(problem: Problem, language: Language) -> Line:
    parts: list[Span] = []
    for fact in (problem.file or "", problem.detail):
        if fact:
            parts += [Span(text("label.comma", language))] * bool(parts) + [data(fact, limit=300)]
    return tuple(parts)


def _contained(report: Report, language: Language) -> Json:
    """Values that no later record takes in; the same on several ranks stands in one row."""
    groups: dict[tuple[int, str, str], list[int]] = defaultdict(list)
    for value in report.contained:
        groups[value.step, value.op_name, text(value.reason, language)].append(value.rank)
    if not groups:
        return None
    rows = (
        (
            Span(str(step), is_data=True),
            Span(format_ranges(ranks), is_data=True),
            data(op_name),
            Span(reason),
        )
        for (step, op_name, reason), ranks in groups.items()
    )
    names = ("html.column.step", "html.column.ranks", "column.operator", "html.column.reason")
    return blocks.table(blocks.grid([text(name, language) for name in names], rows))


def _benign(report: Report, language: Language) -> Json:
    if not report.benign:
        return None
    rows = ((_rule(rule, language), data(rule.example, limit=160)) for rule in report.benign)
    names = ("html.column.rule", "html.column.example")
    return blocks.table(blocks.grid([text(name, language) for name in names], rows))


def _accounts(accounts: Accounts, language: Language) -> Json:
    """What became of every non-finite value, one row for each reason."""
    if not accounts.entries:
        return None
    rows = (
        (
            Span(text(f"account.{entry.account.value}", language)),
            Span(text(f"fate.{entry.fate.value}", language)),
            data(entry.rule),
            Span(str(entry.count), is_data=True),
            data(entry.example, limit=160),
        )
        for entry in accounts.entries
    )
    names = ("account", "reason", "rule", "values", "example")
    return blocks.table(blocks.grid([text(f"html.column.{name}", language) for name in names], rows, (3,)))


def _rule(rule: BenignRule, language: Language) -> Span:
    """What a rule passes over, in words; a rule of the user's has its name only."""
    key = f"benign.{rule.rule}"
    return Span(text(key, language, count=rule.count)) if has(key) else data(rule.rule)


def _input(section: Section | None) -> list[Json]:
    return [] if section is None else blocks.blocks(b for b in section.blocks if isinstance(b, Field))
