"""The first look at one rank: a summary, with more in it where something is suspected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstnan.dump.records import Direction, RecordName
from firstnan.dump.view import RankDump, RankView
from firstnan.operators.table import Rulebook
from firstnan.rank.summary import ParentsOf, RankSummary
from firstnan.rank.suspects import Lookout
from firstnan.rank.taint.events import Tally
from firstnan.rank.window import SMALL, CallLog, ranks_at_the_ends

if TYPE_CHECKING:
    from firstnan.rank.taint.events import Event

LAST = 8
"""Last records of a rank in which something trainable is looked for."""


def look(
    view: RankView,
    watch: Lookout,
    parents_of: ParentsOf,
    *,
    whole: bool = False,
    disproved: frozenset[int] = frozenset(),
    nearby: bool = True,
) -> RankSummary:
    """Looks at what can matter of one rank (:mod:`.window`) and keeps what decides.

    ``whole``: at all its records, whether anything is suspected or not. construct.json is asked for only where
    something is suspected. ``disproved``: indices of receives whose recorded result is known to be stale.
    ``nearby``: keep the records around what may matter in short form, which only an answer shows.
    """
    over = view.overview
    watch.counting = False
    clean = RankSummary(
        step=over.folder.step,
        rank=over.folder.rank,
        label=over.folder.label,
        records=over.records,
        bytes_read=over.bytes_read,
        problems=over.problems,
        truncated=over.truncated,
        judged=over.judged,
        has_apis=over.has_apis,
        last_record=over.last.full if over.last else "",
        last_operator=_operator(over.last) if over.last else "",
        ends_without_gradients=_ends_without_gradients(view),
        benign=dict(watch.benign),
    )
    if over.suspect is None and not whole:
        log = CallLog(view) if over.end <= SMALL else None
        return replace(
            clean,
            tallies=tuple(Tally(fate, n, rule, example) for (fate, rule), (n, example) in watch.fates.items()),
            saturated=None if over.saturated is None else _saturated(view, over.saturated, watch.book),
            made=None if log is None else log.made(),
            mentioned=log.ranks if log is not None else ranks_at_the_ends(view),
        )
    from firstnan.rank.summarize import suspected  # a healthy run does not need it

    return suspected(view, watch, parents_of, clean, whole=whole, disproved=disproved, nearby=nearby)


def summarize(
    dump: RankDump, parents: Mapping[str, str | None], book: Rulebook, excluded: frozenset[str] = frozenset()
) -> RankSummary:
    """Follows the bad values of one rank that is in memory and keeps what decides.

    ``parents`` is construct.json (empty when absent); ``excluded`` are record names the user ruled out.
    """
    from firstnan.rank.in_memory import WholeDump  # files are read where it matters

    watch = Lookout(book, dump.folder.rank, excluded)
    return look(WholeDump(dump, watch), watch, lambda _: parents, whole=True)


def _ends_without_gradients(view: RankView) -> bool:
    """What the last forward record that reads something trainable gives needs no gradient."""
    over = view.overview
    if over.has_apis or over.last is None or over.last.direction is not Direction.FORWARD or over.truncated:
        return False  # calls tell more of what a rank did
    for record in reversed(view.records(max(0, over.end - LAST), over.end)):
        given = [tensor for tensor in record.outputs if tensor.is_floating]
        if given and any(tensor.requires_grad for tensor in (*record.inputs, *record.parameters)):
            return not any(tensor.requires_grad for tensor in given)
    return False


def _saturated(view: RankView, index: int, book: Rulebook) -> Event | None:
    from firstnan.rank.summarize import saturated_event

    return saturated_event(view, index, book)


def _operator(name: RecordName) -> str:
    return ".".join(part for part in (name.prefix, name.path, name.api, name.direction.value) if part)
