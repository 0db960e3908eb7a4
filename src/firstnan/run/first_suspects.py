"""The first bad value while ranks are read, and the search for it alone (``--first``).

Of ranks that only received something bad the trail leads on: the members of the first call that brought it are read
next, those of small groups before those of large ones, so that a few ranks are read of thousands.
"""

from __future__ import annotations

from collections.abc import Sequence

from firstnan.dump.folders import RankFolder
from firstnan.dump.options import ProgressEvent, Suspicion
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.rank.summary import RankSummary, Side

BATCH = 16
"""Ranks that are read before it is decided which ones are next."""


def suspicion(summary: RankSummary) -> Suspicion | None:
    """What is suspected first on a rank; None: nothing that may matter."""
    if not summary.events:
        return None
    from firstnan.rank.taint.events import EventKind  # a healthy run does not need it

    for event in summary.events:
        if event.is_live or event.communications:
            received = event.kind is EventKind.RECEIVE
            return Suspicion(summary.step, received, event.index, summary.rank, event.record.name.full)
    return None


class Search:
    """Which ranks are read, some at a time, until one is found on which a bad value began."""

    def __init__(self, folders: Sequence[RankFolder]) -> None:
        self._left = sorted(folders, key=lambda folder: (folder.step, folder.rank))
        self._all = len(folders)
        self._bytes = sum(folder.dump_bytes for folder in folders)
        self._first: Suspicion | None = None
        self.found: list[RankSummary] = []
        self.batch = self._next()

    def _next(self) -> tuple[RankFolder, ...]:
        chosen, self._left = tuple(self._left[:BATCH]), self._left[BATCH:]
        return chosen

    def learn(self, seen: Sequence[RankSummary]) -> None:
        """Decides on the next batch; there is none once a bad value was found that began on a rank."""
        self.found += seen
        known = [self._first, *map(suspicion, seen)]
        self._first = min((one for one in known if one is not None), default=None)
        if self._first is not None and not self._first.is_received:
            self.batch = ()
            return
        size = {}
        for members in sorted(map(_brought_by, seen), key=len, reverse=True):
            size.update(dict.fromkeys(members, len(members)))
        self._left.sort(key=lambda folder: (folder.step, size.get((folder.step, folder.rank), self._all + 1)))
        self.batch = self._next()

    def progress(self) -> ProgressEvent:
        """How far it has come."""
        done = self._bytes - sum(folder.dump_bytes for folder in (*self._left, *self.batch))
        return ProgressEvent(len(self.found), self._all, done, self._bytes, self._first)

    def problems(self) -> list[Problem]:
        """That ranks were left out."""
        if not self._left:
            return []
        detail = f"{len(self.found)} of {self._all} read"
        return [Problem(ProblemKind.STOPPED_EARLY, detail=detail, judged=False)]


def _brought_by(summary: RankSummary) -> list[tuple[int, int]]:
    """The members of the first call that brought a bad value: steps and ranks."""
    bad = next((fact.call for fact in summary.calls if fact.received is Side.BAD and fact.sent is not Side.BAD), None)
    members = () if bad is None else (*(bad.group or ()), bad.peer, bad.root)
    return [(summary.step, rank) for rank in members if rank is not None]
