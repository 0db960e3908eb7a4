"""What running records again says: of one cause, of all records, and what to dump where there is nothing to run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from firstnan.answer.model import Note, NoteValue, Report
from firstnan.answer.replay import AxisHits, BadElements, Collect, Replay, ReplaySummary, ReplayVerdict
from firstnan.dump.language import Language
from firstnan.dump.ranges import format_ranges
from firstnan.show.outline.model import Block, Code, Field, Item, Line, Paragraph, Section, Span, Tone, data, sentence
from firstnan.show.reporter import Settings
from firstnan.words import text

_MOST_SHARES = 8
_MOST_PLACES = 8
_MOST_REASONS = 6
_DETAIL = 200
_LONGEST_SETTING = 4000


def replay_blocks(replay: Replay, language: Language) -> Iterable[Block]:
    """The verdict, where the bad elements are, the smallest input, one example."""
    yield Paragraph(_verdict(replay, language))
    if replay.detail and replay.verdict is not ReplayVerdict.NOT_RUN:
        yield Paragraph(sentence("replay.inside", language, op=replay.detail))
    if replay.elements is not None:
        yield from _elements(replay.elements, language)
    if replay.minimal is not None:
        cut = [list(index) for index in replay.minimal.indices if any(place is not None for place in index)]
        line: Line = (data(replay.minimal.expression, Tone.STRONG),)
        if cut:
            at = "; ".join(_index([":" if place is None else place for place in index]) for index in cut)
            line = (*line, Span("  "), *sentence("replay.cut_at", language, Tone.FAINT, index=at))
        yield _field("smallest", line, language)
    if replay.example is not None:
        shown = replay.example
        key = "replay.example" if shown.allowed is None else "replay.example_allowed"
        facts: dict[str, NoteValue] = {"index": _index(shown.index), "dumped": shown.dumped, "cpu": shown.cpu}
        facts |= {"float64": shown.float64, "allowed": shown.allowed}
        yield _field("example", sentence(Note(key, facts), language), language)
    if replay.shares:
        shares = [text("replay.share", language, rank=one.rank, value=one.value) for one in replay.shares]
        more = "" if len(shares) <= _MOST_SHARES else text("label.comma", language) + "..."
        joined = text("label.comma", language).join(shares[:_MOST_SHARES]) + more
        yield _field("shares", (data(joined, limit=_DETAIL),), language)
    if replay.rows is not None:
        yield Paragraph(sentence("replay.rows", language, Tone.FAINT, looked=replay.rows.looked, of=replay.rows.of))
    if replay.verdict.blames_device:
        yield Paragraph(sentence("replay.doubt", language, Tone.FAINT))


def _verdict(replay: Replay, language: Language) -> Line:
    bad = replay.elements
    if replay.verdict is ReplayVerdict.NOT_RUN:
        reason = None if replay.reason is None else replay.reason.value
        key = "replay.not_run_detail" if replay.detail else "replay.not_run"
        return sentence(key, language, reason=reason, detail=replay.detail)
    return sentence(
        f"replay.{replay.verdict.value}",
        language,
        device=replay.device_elements,
        cpu=replay.cpu_elements,
        float64=replay.float64_elements,
        count=0 if bad is None else bad.bad,
        of=0 if bad is None else bad.of,
        dtype="" if bad is None else bad.dtype,
    )


def _elements(bad: BadElements, language: Language) -> Iterable[Block]:
    key = "replay.wrong_elements" if bad.differing else "replay.elements"
    facts: dict[str, NoteValue] = {"nan": bad.nan, "posinf": bad.posinf, "neginf": bad.neginf, "count": bad.differing}
    facts |= {"of": bad.of, "first": _index(bad.first)}
    yield _field("elements", sentence(Note(key, facts), language), language)
    told = [_axis(axis, language) for axis in bad.axes if axis.size > 1]
    if bad.block and bad.bad > 1 and any(axis.hit < axis.size for axis in bad.axes):
        shape = " × ".join(str(axis.hit) for axis in bad.axes)
        told.append(sentence("replay.block", language, shape=shape))
    if told:
        comma = Span(text("label.comma", language))
        line = tuple(span for at, one in enumerate(told) for span in ((comma, *one) if at else one))
        yield _field("axes", line, language)
    if bad.batch is not None:
        place = bad.batch
        key = "replay.batch" if place.value is None else "replay.batch_value"
        facts = {"index": _index(place.index), "shape": _index(place.shape), "value": place.value}
        facts |= {"op": place.op_name, "slot": place.slot}
        yield _field("batch", sentence(Note(key, facts), language), language)


def _axis(axis: AxisHits, language: Language) -> Line:
    if axis.hit == axis.size:
        return sentence("replay.axis_whole", language, axis=axis.axis, size=axis.size)
    which = ", ".join(map(str, axis.which[:_MOST_PLACES])) + (", ..." if axis.hit > _MOST_PLACES else "")
    return sentence("replay.axis", language, axis=axis.axis, hit=axis.hit, size=axis.size, which=f"[{which}]")


def _index(places: Sequence[object]) -> str:
    return f"[{', '.join(map(str, places))}]"


def _field(label: str, line: Line, language: Language) -> Field:
    return Field(text(f"label.{label}", language), line)


def replayed_sections(summary: ReplaySummary | None, settings: Settings) -> Iterable[Section]:
    """How many records were run with which result, and the configuration that dumps those that were not."""
    if summary is None:
        return
    language = settings.language
    yield Section(text("section.collect", language), tuple(_collect(summary.collect, language)))
    verdicts = summary.verdicts

    def count(*wanted: ReplayVerdict) -> int:
        return sum(verdicts.get(one, 0) for one in wanted)

    blocks: list[Block] = [
        Paragraph(
            sentence(
                "replay.counts",
                language,
                records=summary.records,
                agrees=count(ReplayVerdict.AGREES),
                blamed=count(ReplayVerdict.NOT_REPRODUCED, ReplayVerdict.VALUES_DIFFER),
                reproduced=count(ReplayVerdict.REPRODUCED, ReplayVerdict.REPRODUCED_RANGE),
            )
        )
    ]
    reasons = sorted(summary.not_run.items(), key=lambda one: -one[1])
    for reason, number in reasons if settings.verbose else reasons[:_MOST_REASONS]:
        blocks.append(Item(sentence("replay.not_run_count", language, count=number, reason=reason.value)))
    if summary.left_out:
        blocks.append(Item(sentence("replay.left_out", language, Tone.WARN, count=summary.left_out)))
    yield Section(text("section.replayed", language), tuple(blocks))


def told_sections(report: Report, settings: Settings) -> Iterable[Section]:
    """Records that are no causes: those that were asked for, and those of disagreements."""
    language = settings.language
    causes = {(cause.step, cause.rank, cause.op_name) for cause in report.root_causes}
    for one in report.replayed.told if report.replayed is not None else ():
        if (one.step, one.rank, one.op_name) not in causes:
            title = text("section.replay", language)
            place = sentence("replay.place", language, Tone.FAINT, rank=one.rank, step=one.step)
            head = Field(text("label.operator", language), (data(one.op_name, Tone.STRONG), Span("  "), *place))
            yield Section(title, (head, *replay_blocks(one.replay, language)))


def _collect(wanted: Sequence[Collect], language: Language) -> Iterable[Block]:
    for one in wanted:
        yield Paragraph(sentence("replay.collect", language, step=one.step, ranks=format_ranges(one.ranks)))
        for line in _json_lines(one.configuration, ""):
            yield Code(data(line, limit=_LONGEST_SETTING).text)


def _json_lines(value: object, indent: str) -> Iterable[str]:
    """JSON with one setting a line, lists on the line of their setting."""
    if not isinstance(value, dict):
        yield json.dumps(value)
        return
    yield "{"
    for at, (name, item) in enumerate(value.items(), 1):
        first, *rest = _json_lines(item, f"{indent}  ")
        lines = [f"{indent}  {json.dumps(name)}: {first}", *rest]
        yield from lines[:-1]
        yield lines[-1] + ("," if at < len(value) else "")
    yield f"{indent}}}"
