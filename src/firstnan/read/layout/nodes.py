"""One dump in several places: on the disks of several machines under the same path, or at several paths of this one.

``one_folder_seen_by_several_nodes``
    The same step, rank and label with the same dump.json (size, time of change, beginning and end) is one folder of a
    shared file system, or a copy: it is read once, by whichever of these nodes has the least to do.
``two_dumps_of_one_rank``
    Anything else is another dump of that rank: the first one in the order of nodes is used, the other is told.
``a_folder_is_absent_when_no_node_has_it``
    What one node lacks is no problem of the dump while another node has it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from firstnan.dump.errors import InputError
from firstnan.dump.folders import RankFolder
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.read.layout.dump_layout import Layout, survey
from firstnan.read.sources.files import Fault, reason
from firstnan.read.sources.places import open_file

_SAMPLE = 4096
"""Bytes at either end of a dump.json that are compared."""
_Key = tuple[int, int]


class Listing(Struct, frozen=True):
    """What one node has at the path."""

    layout: Layout | None = None
    """None: there is no such folder, or it could not be listed."""
    marks: tuple[str, ...] = ()
    """For every folder of the layout, what tells its dump.json from another one."""
    fault: str = ""
    """Why the node could not tell what it has."""


class NodeListing(Struct, frozen=True):
    """A listing, and the node that it is from."""

    node: str
    name: str
    """The node's name for people."""
    listing: Listing
    relation: str = "on node"
    """What the listing is to the name."""

    @property
    def place(self) -> str:
        """For people: ``on node a``."""
        return f"{self.relation} {self.name}"


class _Held(Struct, frozen=True):
    """A rank folder on one node."""

    node: str
    place: str
    folder: RankFolder
    mark: str

    def is_same(self, other: _Held) -> bool:
        return (self.folder.label, self.mark) == (other.folder.label, other.mark)


def listing(path: Path, steps: Collection[int] | None = None, ranks: Collection[int] | None = None) -> Listing:
    """What the machine that this runs on has at the path."""
    if _is_absent(path):
        return Listing()
    try:
        found = survey(path, steps, ranks)
    except InputError as error:
        return Listing(fault=str(error))
    return Listing(found, tuple(mark(folder.values) for folder in found.folders))


def _is_absent(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):  # refused, or no path at all: listing it tells
        return False
    return False


def mark(file: Path) -> str:
    """Tells one dump.json from another without reading all of it. Machines number their disks as they like, and not
    every shared file system numbers its files for all of them alike: neither number is part of it."""
    opened = open_file(file)
    if isinstance(opened, Fault):
        return opened.detail
    import hashlib  # it loads OpenSSL

    sample = hashlib.sha256()
    try:
        with opened.file as stream:
            sample.update(stream.read(_SAMPLE) or b"")
            stream.seek(max(0, opened.size - _SAMPLE))
            sample.update(stream.read(_SAMPLE) or b"")
    except OSError as error:
        return reason(error)
    return f"{opened.size} {opened.modified} {sample.hexdigest()}"


def joined(path: Path, seen: Sequence[NodeListing]) -> Layout:
    """The whole dump, from what every node has of it; earlier nodes come first. Its absent ranks are not yet told
    (:func:`firstnan.read.layout.dump_layout.checked`).

    Raises:
        InputError: no node has anything at the path that looks like a dump.
    """
    parts = [(one, one.listing.layout) for one in seen if one.listing.layout is not None]
    faults = [_fault(path, one) for one in seen if one.listing.fault]
    if not parts:
        raise _nowhere(path, seen, faults)
    held: dict[_Key, list[_Held]] = {}
    for one, layout in parts:
        for folder, mark in zip(layout.folders, one.listing.marks, strict=True):
            held.setdefault((folder.step, folder.rank), []).append(_Held(one.node, one.place, folder, mark))
    folders = tuple(_chosen(held[key], turn) for turn, key in enumerate(sorted(held)))
    layouts = [layout for _, layout in parts]
    claimed = frozenset(key for layout in layouts for key in layout.claimed)
    problems = dict.fromkeys(p for layout in layouts for p in layout.problems if _counts(p, layout, held, claimed))
    labels = dict(pair for layout in reversed(layouts) for pair in layout.labels)
    return Layout(
        path,
        folders,
        tuple(sorted({folder.step for folder in folders})),
        (*problems, *(p for key in sorted(held) for p in _others(held[key])), *faults),
        tuple(sorted({step for layout in layouts for step in layout.found_steps})),
        tuple(sorted({rank for layout in layouts for rank in layout.found_ranks})),
        claimed,
        tuple(sorted(labels.items())),
        tuple(dict.fromkeys(name for layout in layouts for name in layout.others)),
    )


def _chosen(held: Sequence[_Held], turn: int) -> RankFolder:
    """The folder that is read, with the nodes that can read it; they take turns in being the first."""
    nodes = [one.node for one in held if one.is_same(held[0])]
    start = turn % len(nodes)
    return replace(held[0].folder, nodes=(*nodes[start:], *nodes[:start]))


def _others(held: Sequence[_Held]) -> Iterator[Problem]:
    """two_dumps_of_one_rank."""
    told: list[_Held] = [held[0]]
    for one in held[1:]:
        if any(one.is_same(other) for other in told):
            continue
        told.append(one)
        folder = one.folder
        detail = f"{one.place}: another dump of this rank than {held[0].place}, which was used"
        yield Problem(ProblemKind.DUPLICATE_RANK, folder.step, folder.rank, folder.label, detail, judged=False)


def _counts(problem: Problem, layout: Layout, held: Collection[_Key], claimed: Collection[_Key]) -> bool:
    """a_folder_is_absent_when_no_node_has_it."""
    if problem.kind is ProblemKind.EMPTY_STEP:
        return all(step != problem.step for step, _ in claimed)
    if problem.step is None or problem.rank is None or (problem.step, problem.rank) not in held:
        return True
    return any((folder.step, folder.rank) == (problem.step, problem.rank) for folder in layout.folders)


def _fault(path: Path, one: NodeListing) -> Problem:
    detail = f"{one.place}: {one.listing.fault}"
    return Problem(ProblemKind.UNREADABLE, None, None, str(path), detail, judged=False)


def _nowhere(path: Path, seen: Sequence[NodeListing], faults: Sequence[Problem]) -> InputError:
    hint = "give the folder that holds step*/rank*/dump.json, as it is called on the nodes"
    if faults:
        return InputError(f"no node could list {path}: {faults[0].detail}", hint=hint)
    names = ", ".join(one.name for one in seen[:3]) + (f" and {len(seen) - 3} more" if len(seen) > 3 else "")
    return InputError(f"no node has {path} (asked: {names})", hint=hint)
