"""The part of the outline that tells how a value spread: a short tree, rank to call to ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from firstnan.answer.model import Hop, Report
from firstnan.dump.ranges import format_ranges
from firstnan.show.outline.model import Block, Item, Section, Tone, sentence
from firstnan.show.reporter import Settings
from firstnan.words import Words, text

_MOST_HOPS = 12
_DEEPEST = 8


def spread_section(report: Report, settings: Settings) -> Section:
    """Every hop under the rank it comes from, each rank told where it was first reached."""
    language = settings.language
    blocks: list[Block] = []
    most = len(report.propagation) if settings.verbose else _MOST_HOPS
    started: set[int] = set()
    for at, (depth, hop) in enumerate(tree(report.propagation)):
        if at >= most:
            blocks.append(Item(sentence("label.more", language, Tone.FAINT, count=len(report.propagation) - most)))
            break
        if depth == 0 and hop.from_rank not in started:
            started.add(hop.from_rank)
            head = sentence("label.rank", language, Tone.STRONG, ranks=hop.from_rank)
            through = sentence("label.through", language, op=hop.from_op) if hop.from_op else ()
            blocks.append(Item((*head, *through)))
        key = "label.hop" if len(hop.to_ranks) == 1 else "label.hops"
        via = Words(text(f"via.{hop.via}", language)) if hop.via in ("parameters", "unrecorded") else hop.via
        line = sentence(key, language, via=via, ranks=format_ranges(hop.to_ranks), step=hop.step)
        blocks.append(Item(line, depth=min(depth, _DEEPEST) + 1))
    return Section(text("section.spread", language), tuple(blocks))


def tree(hops: tuple[Hop, ...]) -> Iterator[tuple[int, Hop]]:
    """Hops in depth-first order with their depth; a hop hangs under the hop that first reached its sender.

    >>> first = Hop(0, 2, "a", (3,), {}, "all_reduce")
    >>> second = Hop(0, 3, "b", (0, 1), {}, "send")
    >>> [(depth, hop.via) for depth, hop in tree((first, second))]
    [(0, 'all_reduce'), (1, 'send')]
    """
    children: dict[int, list[int]] = defaultdict(list)
    parent: dict[int, int] = {}
    roots: list[int] = []
    for at, hop in enumerate(hops):
        under = parent.get(hop.from_rank)
        if under is None:
            roots.append(at)
            parent[hop.from_rank] = -1
        elif under == -1:
            roots.append(at)
        else:
            children[under].append(at)
        for rank in hop.to_ranks:
            parent.setdefault(rank, at)
    stack = [(0, at) for at in reversed(roots)]
    while stack:
        depth, at = stack.pop()
        yield depth, hops[at]
        stack.extend((depth + 1, child) for child in reversed(children[at]))
