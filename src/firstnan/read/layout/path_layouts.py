"""One dump at several paths: a folder or an archive for each host or rank."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from msgspec.structs import replace

from firstnan.read.layout import dump_layout
from firstnan.read.layout.dump_layout import Layout
from firstnan.read.layout.nodes import Listing, NodeListing, joined, mark
from firstnan.read.sources.folders import shown

MAX_THREADS = 16
"""Paths that are listed at once."""


def survey(paths: Sequence[Path], steps: Collection[int] | None = None, ranks: Collection[int] | None = None) -> Layout:
    """What lies at several paths of this machine, as one dump; earlier paths come first. Its absent ranks are not yet
    told (:func:`firstnan.read.layout.dump_layout.checked`).

    Raises:
        InputError: one of the paths does not exist, or cannot be listed.
    """
    if len(paths) == 1:
        return dump_layout.survey(paths[0], steps, ranks)
    from concurrent.futures import ThreadPoolExecutor  # one path does without

    different = list(dict.fromkeys(paths))

    def listing(path: Path) -> NodeListing:
        name = shown(path.name) or str(path)
        found = _below(name, dump_layout.survey(path, steps, ranks))
        marks = tuple(mark(folder.values) for folder in found.folders)
        return NodeListing(str(path), name, Listing(found, marks), "in")

    # Threads: to list a compressed archive is to decompress it, which needs no interpreter lock.
    with ThreadPoolExecutor(min(len(different), MAX_THREADS)) as pool:
        seen = list(pool.map(listing, different))
    whole = joined(Path(", ".join(map(str, paths))), seen)
    return replace(whole, folders=tuple(replace(folder, nodes=()) for folder in whole.folders))


def _below(name: str, found: Layout) -> Layout:
    """The layout with what people read put below the name of the path."""

    def named(label: str | None) -> str:
        return f"{name}/{label}" if label and label not in (name, ".") else name

    return replace(
        found,
        folders=tuple(replace(folder, label=named(folder.label)) for folder in found.folders),
        problems=tuple(replace(problem, file=named(problem.file)) for problem in found.problems),
        labels=tuple((step, named(label)) for step, label in found.labels),
    )
