"""The part of the outline about communication calls: who put the value in, who received it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from firstnan.answer.model import CONTAINED_CALL, CollectiveReport, MatchState, RankState, RootCause, Where
from firstnan.dump.language import Language
from firstnan.dump.ranges import format_ranges
from firstnan.show.outline.causes import more
from firstnan.show.outline.headline import note_of, ranks_words, short_name
from firstnan.show.outline.model import Block, Item, Paragraph, Section, Span, Table, Tone, data, sentence
from firstnan.show.reporter import Settings
from firstnan.words import Words, text

_MOST_CALLS = 10
_MOST_NAMES = 3
_SENDING = ("send", "isend")
_RECEIVING = ("recv", "irecv")
_BATCHED = "batch_isend_irecv"
_P2P = (*_SENDING, *_RECEIVING, _BATCHED)


class _Row(Struct):
    """Calls of one API in one group, one after the other, in which the same happened to the same ranks."""

    first: CollectiveReport
    last: CollectiveReport
    is_cause: bool
    named: bool
    """Every call of it has one record name on all its members."""


def calls_section(
    calls: Sequence[CollectiveReport], causes: Sequence[RootCause], settings: Settings, *, whole: bool = False
) -> Section:
    """One row per call or run of like calls; ``whole``: every column and the total, under the names of the states."""
    language = settings.language
    steps = sorted({call.step for call in calls})
    key = "section.collectives_step" if len(steps) == 1 else "section.collectives"
    blocks = (*_table(calls, causes, settings, whole), *_remarks(calls, settings))
    return Section(text(key, language, step=steps[0] if steps else None), blocks)


def every_call_section(settings: Settings) -> Section:
    """How many calls there are, affected or not; all of them when verbose."""
    language, calls = settings.language, settings.every_call
    if calls is None:
        return Section("", ())
    states = Counter(_worst(call) for call in calls)
    counted = sentence(
        "ranks.count",
        language,
        total=states.total(),
        source=states[RankState.SOURCE],
        propagated=states[RankState.PROPAGATED],
        contained=states[None],
        undecided=states[RankState.UNDECIDED],
        normal=states[RankState.NORMAL],
    )
    blocks: list[Block] = [Paragraph(counted)]
    if settings.verbose and states:
        blocks += _table_of(_rows(calls, (), fold=True), settings, whole=True)
    return Section(text("section.every_call", language), tuple(blocks))


def _worst(call: CollectiveReport) -> RankState | None:
    """What a call counts as: the worst state of its members; None: what is not finite in it does not matter."""
    if any(note.key == CONTAINED_CALL for note in call.notes):
        return None
    if call.source_ranks:
        return RankState.SOURCE
    if call.propagated_ranks:
        return RankState.PROPAGATED
    return RankState.UNDECIDED if call.undecided_ranks else RankState.NORMAL


def _table(
    calls: Sequence[CollectiveReport], causes: Sequence[RootCause], settings: Settings, whole: bool
) -> Iterable[Block]:
    if not calls:
        return
    rows = _rows(calls, causes, fold=not settings.verbose)
    shown = rows if settings.verbose else rows[:_MOST_CALLS]
    yield from _table_of(shown, settings, whole=whole)
    if len(rows) > len(shown):
        yield Paragraph(more(len(rows) - len(shown), settings.language))
    if any(" #" in _numbered(row) for row in shown):
        yield Paragraph(sentence("label.call_number", settings.language, Tone.FAINT))
    yield from _records(calls, settings)


def _table_of(shown: Sequence[_Row], settings: Settings, *, whole: bool) -> Iterable[Block]:
    language = settings.language
    several_steps = len({row.first.step for row in shown}) > 1
    columns = [
        ("call", [data(f"{f'step{r.first.step} ' if several_steps else ''}{_numbered(r)}", limit=48) for r in shown]),
        ("group", [_group(r.first, language) for r in shown]),
    ]
    states = [
        ("source" if whole else "bad_input", [_ranks(r.first.source_ranks, Tone.BAD) for r in shown]),
        ("propagated" if whole else "became_bad", [_ranks(r.first.propagated_ranks, Tone.WARN) for r in shown]),
        ("normal" if whole else "stayed_finite", [_ranks(r.first.normal_ranks, Tone.GOOD) for r in shown]),
        ("undecided" if whole else "not_recorded", [_ranks(r.first.undecided_ranks, Tone.WARN) for r in shown]),
    ]
    columns += [column for column in states if whole or any(cell.is_data for cell in column[1])]
    right = frozenset[int]()
    if whole:
        right = frozenset({len(columns)})
        columns.append(("total", [Span(str(r.first.total_ranks), is_data=True) for r in shown]))
    header = [text(f"column.{name}", language) for name, _ in columns]
    cells = [column for _, column in columns]
    if not whole and any(row.is_cause for row in shown):
        header.append("")
        mark = Span(text("label.began_here", language), Tone.STRONG)
        cells.append([mark if row.is_cause else Span("") for row in shown])
    yield Table(tuple(header), tuple(zip(*cells, strict=True)), right=right)


def _rows(calls: Iterable[CollectiveReport], causes: Sequence[RootCause], *, fold: bool) -> list[_Row]:
    """like_calls_share_a_row: ``all_reduce #1`` to ``#17`` of one group with the same ranks in every state.

    A run stands where its first call stands; calls of other groups may lie between.
    """
    rows: list[_Row] = []
    open_runs: dict[tuple[object, ...], _Row] = {}
    for call in calls:
        is_cause = any(_began_here(cause, call) for cause in causes)
        thread = (call.op, call.step, call.group, call.match, tuple(sorted(call.ops)))
        run = open_runs.get(thread)
        if (
            fold
            and run
            and not (run.is_cause or is_cause)
            and call.call == run.last.call + 1
            and _alike(run.first, call)
        ):
            run.last = call
            run.named = run.named and bool(record_name(call))
            continue
        open_runs[thread] = _Row(call, call, is_cause, bool(record_name(call)))
        rows.append(open_runs[thread])
    return rows


def _alike(one: CollectiveReport, other: CollectiveReport) -> bool:
    return (
        one.source_ranks == other.source_ranks
        and one.propagated_ranks == other.propagated_ranks
        and one.normal_ranks == other.normal_ranks
        and one.undecided_ranks == other.undecided_ranks
    )


def _began_here(cause: RootCause, call: CollectiveReport) -> bool:
    here = cause.where is Where.COMMUNICATION and cause.step == call.step
    return here and call.ops.get(cause.rank) == cause.op_name and note_of(cause, "evidence.excluded_sender") is None


def _numbered(row: _Row) -> str:
    """``all_reduce.1-17.forward`` where the record names fit all members; else ``all_reduce #1-#17``, the API and the
    number of the call in its group, counted from 0."""
    if row.first is row.last:
        return str(short_name(record_name(row.first))) or _counted(row.first)
    first, last = (_NUMBER.fullmatch(record_name(call)) for call in (row.first, row.last))
    if not (row.named and first and last) or (first[1], first[3]) != (last[1], last[3]):
        return f"{_counted(row.first)}-#{row.last.call}"
    if int(last[2]) - int(first[2]) == row.last.call - row.first.call:  # no other call lies between
        return str(short_name(f"{first[1]}{first[2]}-{last[2]}{first[3]}"))
    return f"{_counted(row.first)}-#{row.last.call}"


_NUMBER = re.compile(r"(.*[._])(\d+)((?:\.forward|_\d+)?)")
"""A record name of communication: before its number, the number, and behind it."""


def record_name(call: CollectiveReport) -> str:
    """The record name that all members of a call share; empty where they differ, or are not all known."""
    names = set(call.ops.values())
    return names.pop() if len(names) == 1 and len(call.ops) == call.total_ranks else ""


def call_name(call: CollectiveReport) -> str:
    """The record name where one fits all members, else the API and the number of the call in its group."""
    return record_name(call) or _counted(call)


def _counted(call: CollectiveReport) -> str:
    return f"{call.op} #{call.call}"


def _group(call: CollectiveReport, language: Language) -> Span:
    if call.group is not None:
        direction = _sender_first(call)
        if direction is not None:
            return Span(f"{direction[0]} -> {direction[1]}", is_data=True)
        return _ranks(call.group)
    key = "label.by_name" if call.match is MatchState.BY_NAME else "label.group_unknown"
    return Span(text(key, language))


def _sender_first(call: CollectiveReport) -> tuple[int, int] | None:
    """Sender and receiver of a message as far as names or states tell: ``send`` and ``recv`` do, a batch does when
    only one side put in a bad value."""
    if call.op not in _P2P or call.group is None or len(call.group) != 2:
        return None
    one, other = call.group
    for rank, name in call.ops.items():
        api = name.split(".")[1] if name.count(".") else name
        peer = other if rank == one else one
        if api in _SENDING:
            return rank, peer
        if api in _RECEIVING:
            return peer, rank
    if len(call.source_ranks) == 1:
        sender = call.source_ranks[0]
        return (one, other) if sender == one else (other, one)
    return None


def _ranks(ranks: Sequence[int], tone: Tone = Tone.PLAIN) -> Span:
    return Span(format_ranges(ranks), tone, is_data=True) if ranks else Span("-", Tone.FAINT)


def _records(calls: Sequence[CollectiveReport], settings: Settings) -> Iterable[Block]:
    """The record names of the first call (all calls when verbose): they can differ from rank to rank."""
    language = settings.language
    for call in calls if settings.verbose else calls[:1]:
        if record_name(call):
            continue  # the table has it
        direction = _sender_first(call)
        if direction is not None and call.op != _BATCHED:
            yield _message(call, *direction, language)
            continue
        ranks_of: dict[str, list[int]] = defaultdict(list)
        for rank, name in sorted(call.ops.items()):
            ranks_of[name].append(rank)
        for name, ranks in list(ranks_of.items())[: None if settings.verbose else _MOST_NAMES]:
            words = ranks_words(ranks, language)
            yield Item(sentence("label.call_record", language, call=_counted(call), op=name, ranks=words))


def _message(call: CollectiveReport, source: int, target: int, language: Language) -> Item:
    """Who sent and who received, each with its record."""
    blank = text("label.not_recorded", language)
    sent, received = (Words(call.ops.get(rank) or blank) for rank in (source, target))
    line = sentence(
        "label.message", language, call=_counted(call), source=source, target=target, sent=sent, received=received
    )
    return Item(line)


def _remarks(calls: Sequence[CollectiveReport], settings: Settings) -> Iterable[Block]:
    """What is not certain about the matching of the calls, each remark once."""
    language = settings.language
    seen: dict[str, Item] = {}
    states = {call.match for call in calls}
    for state in MatchState:
        if state in states and state is not MatchState.MATCHED:
            seen.setdefault(state.value, Item(sentence(f"match.{state.value}", language, Tone.WARN)))
    for call in calls:
        for note in call.notes:
            seen.setdefault(text(note, language), Item(sentence(note, language)))
    most = len(seen) if settings.verbose else _MOST_CALLS
    yield from list(seen.values())[:most]
    if len(seen) > most:
        yield Item(more(len(seen) - most, language))
