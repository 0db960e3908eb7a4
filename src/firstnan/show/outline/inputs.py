"""The parts of the outline about the input: what was looked at, what was wrong with it, what is in doubt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from firstnan.answer.accounts import Account, Accounts
from firstnan.answer.model import Note, Report, Verdict, Where
from firstnan.dump.language import Language
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.dump.ranges import format_ranges
from firstnan.show.outline.headline import CauseGroup, ranks_words
from firstnan.show.outline.model import Block, Field, Item, Line, Paragraph, Section, Span, Tone, data, sentence
from firstnan.show.reporter import Settings, View
from firstnan.words import Words, text

ADVICE_FIRST = {"caveat.skip_unknown": Note("advice.loss_scaler")}
"""Doubts that are settled before anything else is done: told as the first advice."""

_MOST_PROBLEMS = 6
_GAP_CAVEATS = ("caveat.missing_ranks", "caveat.unreadable_ranks", "caveat.cut_ranks")
_TOLD_BY_CAVEAT = {
    ProblemKind.MISSING_RANK: "caveat.missing_ranks",
    ProblemKind.GROUP_UNKNOWN: "caveat.groups_unknown",
    ProblemKind.TRUNCATED: "caveat.cut_ranks",
}
"""Problems of which a caveat says what they do to the answer."""
_WITHOUT_FACTS = (ProblemKind.MISSING_RANK, ProblemKind.GROUP_UNKNOWN)
"""Those of which the caveat says all."""
_UNKNOWN_ADVICE = {
    ProblemKind.NO_STATISTICS: "next.no_statistics",
    ProblemKind.NO_RECORDS: "next.no_records",
    ProblemKind.EMPTY_RANK: "next.no_records",
}

_FAILED = frozenset({ProblemKind.UNREADABLE, ProblemKind.MISSING_FILE, ProblemKind.WORKER_FAILED})
"""What is told also of the rank that is the answer: it is there, and reading it failed."""


def doubts_section(report: Report, groups: Sequence[CauseGroup], settings: Settings) -> Section:
    """Caveats of the analysis, then problems of the input that left something unjudged.

    What is the answer itself (a rank without a dump), or was told as the first advice, is no doubt.
    """
    language = settings.language
    lost = _lost_ranks(groups)
    blocks: list[Block] = []
    keys: set[str] = set()
    for note in report.caveats:
        is_told = (note.key in ADVICE_FIRST and bool(groups)) or (
            note.key in _GAP_CAVEATS
            and (note.params.get("ranks") == format_ranges(lost) or report.verdict is Verdict.UNKNOWN)
        )
        if settings.verbose or not is_told:
            keys.add(note.key)
            blocks.append(Item(sentence(note, language)))
    problems = [problem for problem in report.input.problems if not problem.judged]
    unjudged = [p for p in problems if settings.verbose or p.rank not in lost or p.kind in _FAILED]
    if not settings.verbose:
        unjudged = [p for p in unjudged if not _is_said(p, keys)]
    told = {kind for kind, key in _TOLD_BY_CAVEAT.items() if key in keys}
    if report.verdict is Verdict.UNKNOWN and settings.view is View.FULL:
        told.update(_UNKNOWN_ADVICE)
    blocks += _problem_items(unjudged, told, settings)
    title = "section.unjudged" if report.verdict is Verdict.UNKNOWN else "section.doubts"
    return Section(text(title, language), tuple(blocks))


def _is_said(problem: Problem, caveats: Collection[str]) -> bool:
    """A caveat that is shown says all that there is to say."""
    return problem.kind in _WITHOUT_FACTS and _TOLD_BY_CAVEAT[problem.kind] in caveats


def _lost_ranks(groups: Sequence[CauseGroup]) -> frozenset[int]:
    """Ranks that are the answer because their dump is absent, cut or empty."""
    return frozenset(group.cause.rank for group in groups if group.cause.where is Where.MISSING_RANK)


def input_section(report: Report, groups: Sequence[CauseGroup], settings: Settings) -> Section:
    """What was looked at, and the problems that do not change the answer or are the answer."""
    language, looked = settings.language, report.input
    fields = [
        Field(text("label.path", language), (data(looked.path, limit=200),)),
        Field(
            text("label.read", language),
            sentence(
                "label.read_amount",
                language,
                steps=Words(format_ranges(looked.steps) or "-"),
                ranks=ranks_words(looked.ranks, language) if looked.ranks else Words("-"),
                records=looked.records,
                size=Words(size_words(looked.bytes)),
            ),
        ),
    ]
    if report.accounts.values:
        fields.append(Field(text("label.accounts", language), accounts_line(report.accounts, language)))
    if looked.missing_ranks:
        missing = Span(format_ranges(looked.missing_ranks), Tone.WARN, is_data=True)
        fields.append(Field(text("label.missing_ranks", language), (missing,)))
    lost = _lost_ranks(groups)
    answer = [p for p in looked.problems if not p.judged and p.rank in lost and p.kind is ProblemKind.TRUNCATED]
    harmless = [problem for problem in looked.problems if problem.judged]
    if not settings.verbose:
        caveats = {note.key for note in report.caveats}
        harmless = [problem for problem in harmless if not _is_said(problem, caveats)]
        ignored = [problem for problem in harmless if problem.kind is ProblemKind.IGNORED_FOLDER]
        harmless = [problem for problem in harmless if problem.kind is not ProblemKind.IGNORED_FOLDER] + answer
        if ignored:
            fields.append(Field(text("label.ignored", language), (data(", ".join(_names(ignored)), limit=120),)))
    told = {ProblemKind.TRUNCATED} if answer else set[ProblemKind]()
    return Section(text("section.input", language), (*fields, *_problem_items(harmless, told, settings)))


def accounts_line(accounts: Accounts, language: Language) -> Line:
    """How many values stand in each account."""
    balance = accounts.balance
    parts = [
        text("label.accounts_part", language, count=count, account=Words(text(f"account.{account.value}", language)))
        for account in Account
        if (count := balance.of(account))
    ]
    return (Span(text("label.comma", language).join(parts), is_data=True),)


def _names(problems: Sequence[Problem]) -> list[str]:
    """What was left out, by name: the folder itself, or what the facts list in it."""
    names = []
    for problem in problems:
        listed = problem.detail.partition(": ")[2]
        folder = problem.file or "."
        names.append(folder if not listed else listed if folder == "." else f"{folder}/{listed}")
    return names


def rules_out(report: Report) -> bool:
    """Whether the user ruled records out: a clean rest is not a clean run."""
    return any(note.key == "caveat.excluded" for note in report.caveats)


def next_sections(report: Report, settings: Settings) -> tuple[Section, ...]:
    """What was passed over, and what to do next, when no cause is named."""
    language = settings.language
    lead: list[Block] = []
    keys = {
        Verdict.ANOMALY: ["next.anomaly"],
        Verdict.CLEAN: [] if rules_out(report) else ["next.clean"],
        Verdict.UNKNOWN: [],
    }[report.verdict]
    if report.verdict is Verdict.CLEAN:
        passed = sum(rule.count for rule in report.benign)
        if passed:
            lead.append(Paragraph(sentence("label.passed_over", language, count=passed)))
        if not report.complete:
            keys.insert(0, "next.incomplete")
    elif report.verdict is Verdict.UNKNOWN:
        kinds = [problem.kind for problem in report.input.problems if not problem.judged]
        keys = list(dict.fromkeys(_UNKNOWN_ADVICE[kind] for kind in kinds if kind in _UNKNOWN_ADVICE))
        keys = keys or ["next.unknown"]
    steps = tuple(Item(sentence(key, language), number=at) for at, key in enumerate(keys, 1))
    return Section("", tuple(lead)), Section(text("section.advice", language), steps)


def _problem_items(problems: Sequence[Problem], told: Collection[ProblemKind], settings: Settings) -> Iterable[Block]:
    """One entry per problem when verbose, else per kind; ``told``: kinds whose effect stands elsewhere."""
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
        if kind not in told:
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
