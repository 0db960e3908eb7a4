"""The work on one rank, as a worker does it: a file in, a small summary out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from firstnan.analysis import again
from firstnan.analysis.again import Question
from firstnan.analysis.summarize import RankSummary, look
from firstnan.analysis.watch import Lookout
from firstnan.analysis.whole import WholeDump
from firstnan.dump import Problem, RankFolder, RankView, Record
from firstnan.readers import callsite, msprobe
from firstnan.readers.lenient_json import collector_off
from firstnan.readers.record_index import Doubt
from firstnan.readers.scan import ScannedDump
from firstnan.rulebook import Rulebook, load

T = TypeVar("T")


class Callers:
    """construct.json of one rank, read when it is asked for the first time."""

    def __init__(self, folder: RankFolder) -> None:
        self.problems: tuple[Problem, ...] = ()
        self._folder = folder
        self._parents: Mapping[str, str | None] | None = None

    def __call__(self, names: Collection[str]) -> Mapping[str, str | None]:  # noqa: ARG002  (all are read)
        if self._parents is None:
            self._parents, self.problems = callsite.parents(self._folder)
        return self._parents


def survey(folder: RankFolder, book: Rulebook, excluded: Collection[str]) -> RankSummary:
    """The first look at a rank."""
    return _look(folder, book, excluded, whole=False)


def again_at(asked: tuple[RankFolder, Question], book: Rulebook, excluded: Collection[str]) -> RankSummary:
    """A second look at a rank."""
    folder, question = asked
    wanted = question.wanted
    if question.whole:
        return _look(folder, book, excluded, whole=True)
    if wanted is None:
        return _read(folder, book, excluded, lambda view, _: again.count(view, question.summary))
    callers = Callers(folder)
    return _read(
        folder, book, excluded, lambda view, watch: again.with_calls(view, watch, callers, question.summary, wanted)
    )


def find(folder: RankFolder, name: str) -> Record | None:
    """One record of a rank by its name."""
    return _read(folder, load(), (), lambda view, _: view.find(name))


def _look(folder: RankFolder, book: Rulebook, excluded: Collection[str], *, whole: bool) -> RankSummary:
    callers = Callers(folder)
    summary = _read(folder, book, excluded, lambda view, watch: look(view, watch, callers, whole=whole))
    return replace(summary, problems=(*summary.problems, *callers.problems))


def _read(folder: RankFolder, book: Rulebook, excluded: Collection[str], use: Callable[[RankView, Lookout], T]) -> T:
    """Reads a rank's dump.json as cheaply as its form allows: where it matters, or else in full."""
    watch = _watch(folder, book, excluded)
    with collector_off():
        try:
            return use(ScannedDump(folder, watch), watch)
        except Doubt:
            watch = _watch(folder, book, excluded)
        return use(WholeDump(msprobe.read(folder), watch), watch)


def _watch(folder: RankFolder, book: Rulebook, excluded: Collection[str]) -> Lookout:
    names = frozenset(name for rank, name in map(_excluded, excluded) if rank in (None, folder.rank))
    return Lookout(book, folder.rank, names)


def _excluded(text: str) -> tuple[int | None, str]:
    """``rank:op`` or ``op``."""
    rank, colon, name = text.partition(":")
    return (int(rank), name) if colon and rank.isdigit() else (None, text)
