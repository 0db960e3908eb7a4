"""How the value spread, as a forest of sets of ranks: each set was reached through one communication."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from firstnan.answer.model import Hop
from firstnan.dump.printable import show
from firstnan.dump.ranges import format_ranges
from firstnan.show.html.blocks import Json

MAX_NODES = 60
"""Beyond that, siblings that were reached through the same kind of call are drawn as one."""
MAX_DRAWN = 400
"""Most nodes that are drawn at all."""
_WORDED = ("parameters", "unrecorded")
"""``Hop.via`` values that are words of ours, not names of APIs."""


class Node(Struct):
    """Ranks that were reached together."""

    ranks: set[int]
    ops: dict[str, None]
    """Record names on these ranks, in order of appearance."""
    parent: int | None = None
    """Position of the node that the value came from; None for a root."""
    via: str = ""
    from_ranks: tuple[int, ...] = ()
    from_op: str = ""
    step: int = 0
    hops: int = 1


def forest(hops: Sequence[Hop]) -> list[Node]:
    """The hops as nodes, parents before their children.

    >>> nodes = forest([Hop(0, 2, "a", (3,), {3: "b"}, "all_reduce"), Hop(0, 3, "c", (0, 1), {}, "send")])
    >>> [(sorted(node.ranks), node.parent, node.via) for node in nodes]
    [([2], None, ''), ([3], 0, 'all_reduce'), ([0, 1], 1, 'send')]
    """
    nodes: list[Node] = []
    reached: dict[int, int] = {}
    pending = list(hops)
    targets = {rank for hop in hops for rank in hop.to_ranks}
    for hop in hops:
        if hop.from_rank not in targets and hop.from_rank not in reached:
            reached[hop.from_rank] = len(nodes)
            nodes.append(Node({hop.from_rank}, {hop.from_op: None} if hop.from_op else {}, step=hop.step))
    while pending:
        ready = [hop for hop in pending if hop.from_rank in reached]
        if not ready:  # ranks that got it from each other: begin with the first
            first = pending[0]
            reached[first.from_rank] = len(nodes)
            nodes.append(Node({first.from_rank}, {first.from_op: None} if first.from_op else {}, step=first.step))
            continue
        pending = [hop for hop in pending if hop.from_rank not in reached]
        for hop in ready:
            place = len(nodes)
            nodes.append(
                Node(
                    ranks=set(hop.to_ranks),
                    ops=dict.fromkeys(name for name in hop.to_ops.values() if name),
                    parent=reached[hop.from_rank],
                    via=hop.via,
                    from_ranks=(hop.from_rank,),
                    from_op=hop.from_op,
                    step=hop.step,
                )
            )
            for rank in hop.to_ranks:
                reached.setdefault(rank, place)
    return nodes if len(nodes) <= MAX_NODES else merged(nodes)


def merged(nodes: Sequence[Node]) -> list[Node]:
    """Siblings that were reached through the same kind of call put together, level by level."""
    made: list[Node] = []
    sources: list[set[int]] = []
    place_of: dict[int, int] = {}
    known: dict[tuple[int | None, str, int], int] = {}
    for number, node in enumerate(nodes):
        parent = None if node.parent is None else place_of[node.parent]
        key = (parent, node.via, node.step)
        if key not in known:
            known[key] = len(made)
            sources.append(set(node.from_ranks))
            made.append(
                Node(
                    set(node.ranks),
                    dict(node.ops),
                    parent,
                    node.via,
                    node.from_ranks,
                    node.from_op,
                    node.step,
                    node.hops,
                )
            )
        else:
            into = made[known[key]]
            into.ranks |= node.ranks
            into.ops.update(node.ops)
            sources[known[key]].update(node.from_ranks)
            into.hops += node.hops
        place_of[number] = known[key]
    for node, ranks in zip(made, sources, strict=True):
        node.from_ranks = tuple(sorted(ranks))
    return made


def build(hops: Sequence[Hop]) -> dict[str, Json]:
    """The forest for the page."""
    nodes = forest(hops)
    return {
        "nodes": [
            {
                "ranks": format_ranges(node.ranks),
                "count": len(node.ranks),
                "op": show(next(iter(node.ops), ""), 64),
                "ops": len(node.ops),
                "parent": node.parent,
                "via": f"html.via.{node.via}" if node.via in _WORDED else show(node.via, 40),
                "worded": node.via in _WORDED,
                "from": format_ranges(node.from_ranks),
                "from_op": show(node.from_op, 64),
                "step": node.step,
                "hops": node.hops,
            }
            for node in nodes[:MAX_DRAWN]
        ],
        "left_out": max(len(nodes) - MAX_DRAWN, 0),
        "merged": any(node.hops > 1 for node in nodes),
    }
