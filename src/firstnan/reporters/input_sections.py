"""The parts of the outline about the input: what was looked at, what was wrong with it, what is in doubt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from firstnan.dump import Problem, ProblemKind
from firstnan.messages import Language, Words, text
from firstnan.ranges import format_ranges
from firstnan.report import Report, Verdict
from firstnan.reporters.base import Settings
from firstnan.reporters.outline import Block, Field, Item, Section, Span, Tone, data, sentence

_MOST_PROBLEMS = 6


def doubts_section(report: Report, settings: Settings) -> Section:
    """Caveats of the analysis, then problems of the input that left something unjudged."""
    language = settings.language
    blocks: list[Block] = [Item(sentence(note, language)) for note in report.caveats]
    unjudged = [problem for problem in report.input.problems if not problem.judged]
    blocks += _problem_items(unjudged, settings)
    title = "section.unjudged" if report.verdict is Verdict.UNKNOWN else "section.doubts"
    return Section(text(title, language), tuple(blocks))


def input_section(report: Report, settings: Settings) -> Section:
    """What was looked at, and the problems that do not change the answer."""
    language, looked = settings.language, report.input
    fields = [
        Field(text("label.path", language), (data(looked.path, limit=200),)),
        Field(
            text("label.read", language),
            sentence(
                "label.read_amount",
                language,
                steps=Words(format_ranges(looked.steps) or "-"),
                ranks=Words(format_ranges(looked.ranks) or "-"),
                records=looked.records,
                size=Words(size_words(looked.bytes)),
            ),
        ),
    ]
    if looked.missing_ranks:
        missing = Span(format_ranges(looked.missing_ranks), Tone.WARN, is_data=True)
        fields.append(Field(text("label.missing_ranks", language), (missing,)))
    harmless = [problem for problem in looked.problems if problem.judged]
    return Section(text("section.input", language), (*fields, *_problem_items(harmless, settings)))


def _problem_items(problems: Sequence[Problem], settings: Settings) -> Iterable[Block]:
    language = settings.language
    if settings.verbose:
        for problem in problems:
            yield _item(problem.kind, [problem], language)
            yield Item(sentence(f"problem.{problem.kind.value}.effect", language, Tone.FAINT), depth=1)
        return
    kinds: dict[ProblemKind, list[Problem]] = defaultdict(list)
    for problem in problems:
        kinds[problem.kind].append(problem)
    for kind, group in list(kinds.items())[:_MOST_PROBLEMS]:
        yield _item(kind, group, language)
        yield Item(sentence(f"problem.{kind.value}.effect", language, Tone.FAINT), depth=1)
    if len(kinds) > _MOST_PROBLEMS:
        yield Item(sentence("label.more", language, Tone.FAINT, count=len(kinds) - _MOST_PROBLEMS))


def _item(kind: ProblemKind, group: Sequence[Problem], language: Language) -> Item:
    """One line for all problems of one kind: how many, on which ranks, the first with its facts."""
    line = list(sentence(f"problem.{kind.value}", language, Tone.WARN))
    ranks = sorted({problem.rank for problem in group if problem.rank is not None})
    if len(group) > 1:
        line += sentence("label.times", language, count=len(group))
    if ranks:
        key = "label.on_rank" if len(ranks) == 1 else "label.on_ranks"
        line += sentence(key, language, ranks=format_ranges(ranks))
    first = group[0]
    facts = [fact for fact in (first.file or "", first.detail) if fact]
    if facts:
        line.append(Span(text("label.such_as", language) if len(group) > 1 else text("label.colon", language)))
        for at, fact in enumerate(facts):
            line += [Span(text("label.comma", language))] * (at > 0) + [data(fact, limit=200)]
    return Item(tuple(line))


def size_words(count: int) -> str:
    """Bytes for people.

    >>> size_words(512), size_words(52_428_800)
    ('512 B', '52.4 MB')
    """
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value:.0f} TB"
