"""The part of the outline about ranks that should be equal."""

from __future__ import annotations

from collections.abc import Iterator

from firstnan.answer.model import AgreementVerdict, Disagreement, DisagreementKind, NotComparable, Report
from firstnan.dump.language import Language
from firstnan.dump.ranges import format_ranges
from firstnan.show.outline.headline import ranks_words
from firstnan.show.outline.model import (
    Block,
    Item,
    Line,
    Paragraph,
    Section,
    Span,
    Table,
    Tone,
    data,
    plain,
    sentence,
)
from firstnan.show.reporter import Settings
from firstnan.words import Words, number, text

_MOST_RANKS = 8
_MOST_NAMES = 4


def agreement_headline(report: Report, settings: Settings) -> Line:
    """The answer to this question alone, in one sentence."""
    language, counts = settings.language, report.agreement
    if report.disagreements:
        what = Words(plain(told(report.disagreements[0], language)))
        return sentence("verdict.differ", language, Tone.STRONG, what=what)
    key = "verdict.agree" if report.verdict_agreement is AgreementVerdict.AGREE else "verdict.not_compared"
    return sentence(
        key,
        language,
        Tone.STRONG,
        parameters=counts.parameters.compared,
        calls=counts.calls.compared,
        records=counts.records.compared,
    )


def told(found: Disagreement, language: Language) -> Line:
    """One disagreement in one sentence."""
    key = f"differ.{found.kind.value}" + ("" if found.odd_ranks is None else ".odd")
    ranks = ranks_words(found.ranks, language)
    odd = Words("") if found.odd_ranks is None else ranks_words(found.odd_ranks, language)
    return sentence(key, language, name=found.name, ranks=ranks, odd=odd, step=found.step)


def agreement_sections(report: Report, settings: Settings, *, whole: bool = False) -> Iterator[Section]:
    """What differs, and how much was compared; nothing for a single rank unless ``whole``."""
    language = settings.language
    compared = tuple(_compared(report, settings)) if whole or len(report.input.ranks) > 1 else ()
    last = len(report.disagreements)
    if not last:
        yield Section(text("section.agreement", language), compared)
    for at, found in enumerate(report.disagreements, 1):
        title = text("section.agreement", language) if last == 1 else text("section.agreement_of", language, part=at)
        yield Section(title, (*_disagreement(found, settings), *(compared if at == last else ())))


def _disagreement(found: Disagreement, settings: Settings) -> Iterator[Block]:
    language = settings.language
    yield Paragraph(
        (
            *told(found, language),
            Span(": "),
            *sentence("differ.reason", language, reason=found.mechanism.value, confidence=found.confidence.value),
        )
    )
    yield Paragraph(sentence(found.explanation, language, Tone.FAINT))
    yield _table(found, settings)
    if found.kind is DisagreementKind.PARAMETER:
        yield Item(sentence("differ.count", language, count=found.count, of=found.of))
    if found.also:
        shown = found.also if settings.verbose else found.also[:_MOST_NAMES]
        left = found.count - 1 - len(shown)
        key = "differ.also_more" if left > 0 else "differ.also"
        yield Item(sentence(key, language, names=", ".join(shown), more=left))
    for note in found.evidence:
        yield Item(sentence(note, language))
    for note in found.alternatives:
        yield Item(sentence("differ.or", language, what=Words(text(note, language))))
    for at, note in enumerate(found.advice, 1):
        yield Item(sentence(note, language), number=at)


def _table(found: Disagreement, settings: Settings) -> Table:
    """What each rank holds; those that stand out first."""
    odd = found.odd_ranks or ()
    ranks = sorted(found.per_rank, key=lambda rank: (rank not in odd, rank))
    alike = len({_shown(other) for other in found.per_rank.values()}) == 1  # six digits do not show it
    checksums = alike and any(other.checksum for other in found.per_rank.values())
    rows = []
    for rank in ranks if settings.verbose else ranks[:_MOST_RANKS]:
        stat = found.per_rank[rank]
        tone = Tone.BAD if rank in odd else Tone.PLAIN
        values = [stat.max, stat.min, stat.mean, stat.norm]
        shown = ["-" if value is None else repr(value) if alike else number(float(value)) for value in values]
        shown += [stat.checksum or "-"] if checksums else []
        rows.append((Span(format_ranges((rank,)), tone), *(data(value, tone) for value in shown)))
    header: tuple[str, ...] = (text("html.agreement.rank", settings.language), "Max", "Min", "Mean", "Norm")
    header += (text("label.checksum", settings.language),) if checksums else ()
    return Table(header, tuple(rows), frozenset({1, 2, 3, 4}))


def _shown(stat: object) -> tuple[str, ...]:
    values = (getattr(stat, key) for key in ("max", "min", "mean", "norm"))
    return tuple("-" if value is None else number(float(value)) for value in values)


def _compared(report: Report, settings: Settings) -> Iterator[Block]:
    language, counts = settings.language, report.agreement
    parts = (("parameters", counts.parameters), ("calls", counts.calls), ("records", counts.records))
    if report.verdict_agreement is AgreementVerdict.UNKNOWN and not any(part.compared for _, part in parts):
        yield Item(sentence("agreement.nothing", language))
    else:
        compared = {name: part.compared for name, part in parts}
        yield Item(sentence("agreement.compared", language, Tone.PLAIN, None, **compared))
    for name, part in parts:
        for reason, count in part.not_comparable.items():
            if settings.verbose or _is_worth_telling(name, reason, report.verdict_agreement):
                yield Item(sentence("agreement.left_out", language, count=count, what=name, reason=reason.value))


def _is_worth_telling(name: str, reason: NotComparable, verdict: AgreementVerdict) -> bool:
    """What says that something may have been missed; all of it where nothing was compared."""
    return verdict is AgreementVerdict.UNKNOWN or (name != "records" and reason is not NotComparable.CONSTANT)
