"""The work on ranks, given to an engine: where they are, first looks at all of them, second looks at some."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from firstnan.dump.call_site import CallSite
from firstnan.dump.errors import UsageError
from firstnan.dump.folders import RankFolder
from firstnan.dump.options import EngineKind, Options, Progress, ProgressEvent, Suspicion
from firstnan.dump.problems import Problem
from firstnan.dump.records import Record
from firstnan.operators.communication import CommCall
from firstnan.operators.table import Rulebook
from firstnan.rank.sharing import Sharing
from firstnan.rank.summary import RankSummary
from firstnan.read.fingerprints import OperatorPrints, RankPrints
from firstnan.read.layout import nodes as node_layouts
from firstnan.read.layout import path_layouts
from firstnan.read.layout.dump_layout import Layout, checked
from firstnan.read.sources import places
from firstnan.read.sources.remote_path import absolute
from firstnan.run import first_suspects, rank_passes
from firstnan.run.engines.engine import Engine, Engines, Failed, Place
from firstnan.run.second_pass import Question

if TYPE_CHECKING:
    from firstnan.rank.magnitudes import Magnitudes

T = TypeVar("T")

FEW = 64
"""Ranks around whose events all records are kept at once, the first ones: a report shows these, besides the ranks of
causes."""


def find(paths: Sequence[Path], options: Options, engines: Engines, *, whole: bool = True) -> Layout:
    """The ranks and steps at the paths that are asked for, from every node that holds some.

    ``whole``: this is all there is of the dump, and what it lacks is told.

    Raises:
        InputError: nothing readable at one of the paths.
        UsageError: several paths, where every node has a part of the dump at one.
    """
    if not engines.nodes:
        found = path_layouts.survey(paths, options.steps, options.ranks)
    elif len(paths) == 1:
        found = _on_nodes(paths[0], options, engines)
    else:
        raise UsageError("--node-local takes one path, which every node has", hint="give the folder above them")
    complete = checked(found, options.steps, options.ranks)  # nothing at all is an error for a part as well
    if whole:
        found = complete
    if engines.nodes or options.engine is EngineKind.LOCAL:
        return found
    folders = tuple(replace(folder, path=absolute(folder.path)) for folder in found.folders)
    return replace(found, folders=folders)  # workers of a cluster stand in folders of their own


def _on_nodes(path: Path, options: Options, engines: Engines) -> Layout:
    nodes = engines.nodes
    listing = partial(node_layouts.listing, steps=options.steps, ranks=options.ranks)
    engine = engines.engine([Place(nodes=(node.id,)) for node in nodes])
    results = dict(engine.map(listing, [path.absolute()] * len(nodes)))
    found = [
        node_layouts.Listing(fault=result.reason) if isinstance(result, Failed) else result
        for _, result in sorted(results.items(), key=lambda one: one[0])
    ]
    seen = [node_layouts.NodeListing(node.id, node.name, one) for node, one in zip(nodes, found, strict=True)]
    return node_layouts.joined(path, seen)


def _engine_for(folders: Sequence[RankFolder], engines: Engines) -> Engine:
    return engines.engine([Place(folder.dump_bytes, folder.nodes, places.on_disk(folder.path)) for folder in folders])


def _as_it_is(result: T) -> T:
    return result


def _nothing(_: object) -> None:
    return None


def at_each(
    folders: tuple[RankFolder, ...],
    work: Callable[[RankFolder], T],
    lost: Callable[[RankFolder, str], T],
    engines: Engines,
    progress: Progress | None,
    keep: Callable[[T], T] = _as_it_is,
    suspicion: Callable[[T], Suspicion | None] = _nothing,
) -> list[T]:
    """What the work gives for every rank, large files first.

    ``lost`` makes it up for ranks on which it failed; ``keep`` gives what is kept of it, ``suspicion`` what is told
    while the work goes on.
    """
    total = sum(f.dump_bytes for f in folders)
    order = sorted(folders, key=lambda f: -f.dump_bytes)
    done = 0
    found: list[T] = []
    first: Suspicion | None = None
    for position, result in _engine_for(order, engines).map(work, order):
        folder = order[position]
        found.append(lost(folder, result.reason) if isinstance(result, Failed) else keep(result))
        done += folder.dump_bytes
        if progress is not None:
            here = suspicion(found[-1])
            first = min((one for one in (first, here) if one is not None), default=None)
            progress(ProgressEvent(len(found), len(order), done, total, first))
    return found


def again(
    folders: tuple[RankFolder, ...],
    book: Rulebook,
    options: Options,
    engines: Engines,
    questions: Collection[Question],
) -> list[tuple[Question, RankSummary]]:
    """Second looks at some ranks: each question with its answer."""
    where = {(folder.step, folder.rank): folder for folder in folders}
    asked = [(where[q.summary.step, q.summary.rank], q) for q in questions]
    asked.sort(key=lambda one: -one[0].dump_bytes)
    engine = _engine_for([folder for folder, _ in asked], engines)
    work = partial(rank_passes.again_at, book=book, excluded=options.exclude_ops)
    found = []
    for position, result in engine.map(work, asked):
        question = asked[position][1]
        if isinstance(result, Failed):
            result = rank_passes.not_again(question.summary, result.reason)
        found.append((question, result))
    return found


_operators = rank_passes.operators


class RankFiles:
    """Implements :class:`firstnan.run.access.RankAccess` over the ranks' files."""

    def __init__(self, folders: tuple[RankFolder, ...], engines: Engines, book: Rulebook, options: Options) -> None:
        self.folders = folders
        self._where = {(folder.step, folder.rank): folder for folder in reversed(folders)}
        self.engines = engines
        self._book = book
        self._options = options
        self._failed: list[Problem] = []
        self.stopped: list[Problem] = []
        """That the first pass ended early, as it was asked to."""

    def survey(self, progress: Progress | None) -> list[RankSummary]:
        """The first pass: a summary of every rank."""
        shown = frozenset(sorted((folder.step, folder.rank) for folder in self.folders)[:FEW])
        work = partial(rank_passes.survey, book=self._book, excluded=self._options.exclude_ops, shown=shown)
        keep = Sharing().summary
        if not self._options.first:
            return at_each(self.folders, work, rank_passes.lost, self.engines, progress, keep, first_suspects.suspicion)
        search = first_suspects.Search(self.folders)
        while search.batch:
            search.learn(at_each(search.batch, work, rank_passes.lost, self.engines, None, keep))
            if progress is not None:
                progress(search.progress())
        self.stopped = search.problems()
        return search.found

    def answers(self, questions: Collection[Question]) -> list[RankSummary]:
        return [answer for _, answer in again(self.folders, self._book, self._options, self.engines, questions)]

    def call_sites(
        self, step: int, rank: int, names: Collection[str]
    ) -> tuple[Mapping[str, CallSite], tuple[Problem, ...]]:
        from firstnan.read.callers import call_site

        folder = self._where.get((step, rank))
        if folder is None:
            return {}, ()
        found = _there(folder, partial(call_site.read, names=names), self.engines)
        return ({}, (rank_passes.failure(folder, found.reason),)) if isinstance(found, Failed) else found

    def record(self, step: int, rank: int, name: str) -> Record | None:
        folder = self._where.get((step, rank))
        if folder is None:
            return None
        found = _there(folder, partial(rank_passes.find, name=name), self.engines)
        if isinstance(found, Failed):
            self._failed.append(
                replace(rank_passes.failure(folder, found.reason), judged=True)
            )  # its first look stands
            return None
        return found

    def magnitudes(self, rank: int, steps: Sequence[int]) -> list[Magnitudes]:
        asked = [folder for folder in self.folders if folder.rank == rank and folder.step in steps]
        found = _engine_for(asked, self.engines).map(partial(rank_passes.magnitudes_of, book=self._book), asked)
        return sorted((one for _, one in found if not isinstance(one, Failed)), key=lambda one: one.step)

    def near_limit(self) -> list[int]:
        from firstnan.read.scan.large_values import holds_large  # only where several steps are dumped

        last = max((folder.step for folder in self.folders), default=0)
        asked = [folder for folder in self.folders if folder.step == last]
        found = _engine_for(asked, self.engines).map(holds_large, asked)
        return sorted(asked[position].rank for position, large in found if large is True)

    def problems(self) -> list[Problem]:
        return self._failed

    def nowhere(self, rejected: Sequence[str]) -> list[str]:
        """Rejected answers that no rank has."""
        held = [(folder.rank, folder) for folder in self.folders]
        return nowhere(rejected, held, lambda folder, name: has(folder, name, self.engines))

    def calls(
        self, step: int, rank: int, prints: RankPrints, places: Collection[int]
    ) -> Mapping[int, tuple[CommCall, ...]]:
        folder = self._where.get((step, rank))
        if folder is None or not places:
            return {}
        work = partial(rank_passes.calls_at, places=tuple(places), regions=prints.regions)
        found = _there(folder, work, self.engines)
        return {} if isinstance(found, Failed) else found

    def operators(self, step: int, ranks: Collection[int]) -> Mapping[int, OperatorPrints]:
        return self._each(step, ranks, _operators)

    def records(self, step: int, rank: int, names: Collection[str]) -> Mapping[str, Record]:
        folder = self._where.get((step, rank))
        if folder is None:
            return {}
        found = _there(folder, partial(rank_passes.find_all, names=tuple(names)), self.engines)
        return {} if isinstance(found, Failed) else found

    def _each(self, step: int, ranks: Collection[int], work: Callable[[RankFolder], T]) -> dict[int, T]:
        wanted = [folder for folder in self.folders if folder.step == step and folder.rank in ranks]
        if len(wanted) == 1:
            results = [(0, _there(wanted[0], work, self.engines))]
        else:
            results = list(_engine_for(wanted, self.engines).map(work, wanted)) if wanted else []
        return {wanted[at].rank: result for at, result in results if not isinstance(result, Failed)}


MAX_SEARCHED = 64
"""Ranks that are searched for a record of which only the name is known."""


def nowhere(rejected: Sequence[str], held: Sequence[tuple[int, T]], has: Callable[[T, str], bool]) -> list[str]:
    """Rejected answers that no rank has; ``held``: ranks, and what ``has`` is asked of each.

    A name that can be on too many ranks to search them all is not said to be nowhere.
    """
    absent = []
    for answer in rejected:
        asked = [(one, name) for rank, one in held for name in rank_passes.rejected_on(rank, [answer])]
        if len(asked) <= MAX_SEARCHED and not any(has(one, name) for one, name in asked):
            absent.append(answer)
    return absent


def has(folder: RankFolder, name: str, engines: Engines) -> bool:
    """Whether a rank has a record; where it could not be looked for, it may be there."""
    return _there(folder, partial(rank_passes.find, name=name), engines) is not None


def _there(folder: RankFolder, work: Callable[[RankFolder], T], engines: Engines) -> T | Failed:
    """A small piece of work on one rank: in this process, or else where the rank's folder is."""
    if not folder.nodes:
        return work(folder)
    return next(result for _, result in _engine_for([folder], engines).map(work, [folder]))
