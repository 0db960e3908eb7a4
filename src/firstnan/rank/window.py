"""How much of one rank is looked at.

A dump may hold a million records, and what decides stands in a few hundred of them: around the first suspect
(:mod:`watch`), and around the next ones when the first turns out to be harmless. Whatever reads the file, the same
records are looked at, so that the answer does not depend on the reader.

Rules, each tested under its name:

``small_dumps_are_looked_at_whole``
    A rank with at most SMALL records is one window.
``harmless_suspects_lead_to_the_next``
    While no event in the windows is live or enters a communication, the next suspects behind them get narrow windows,
    each time twice as many, so that the work grows with the number of suspects. Every reader of a bad value is a
    suspect itself. The window of the one that decides is widened, and all is followed once more.
``every_series_of_calls_shows_its_first_bad_one``
    The first bad call of each series (API, group, peer) is looked at wherever it stands: it is the one through which
    the value reached the other members.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from firstnan.dump.records import Record
from firstnan.dump.view import Overview, RankView
from firstnan.operators.communication import CallKey, GroupKnowledge, calls

SMALL = 512
"""Records of a rank that is looked at whole."""
BACK = 200
"""Records before a suspect that are looked at."""
AHEAD = 256
"""Records behind the first suspect that are looked at."""
NARROW = (4, 24)
"""Records before and behind a further suspect that are looked at, until one of them decides."""
GROWTH = 4
"""A window behind a value that nothing has read yet grows by this factor."""
FAR = 4096
"""Widest window; a value that nothing read for so long is not read any more."""
TAIL = 256
"""Records behind the last backward record that are looked at: reduction, clipping, the first of the optimizer."""
HEAD = 128
"""First records of a rank whose calls name other ranks, where nothing is suspected."""


class Window(Struct, frozen=True):
    """The records with ``start <= index < stop``."""

    start: int
    stop: int


class Focus:
    """The windows of one rank, growing until something is found."""

    def __init__(self, view: RankView, *, whole: bool = False) -> None:
        over = view.overview
        self.end = over.end
        self.first = over.suspect or 0
        self._view = view
        self._width = AHEAD
        self._count = 1
        self._at_end = False
        self._wide: set[int] = set()
        self.windows: list[Window] = []
        if whole or self.end <= SMALL:
            self.windows.append(Window(0, self.end))
        else:
            self._wide.add(self.first)
            self._add(self.first, BACK, AHEAD)
        self.next = self._next()

    @property
    def horizon(self) -> int | None:
        """Index from which on suspects were not looked at; None: there are none."""
        return None if self.next is None else self.windows[-1].stop

    def extend(self, *, lengthen: bool) -> bool:
        """More windows, at the next suspects, or a longer last one; False when nothing is left to look at.

        Behind the last suspect a wide window tells what the last values were: the loss, say, whose gradient is finite.
        """
        if self.next is None:
            last = self.windows[-1]
            if self._at_end or last.stop == self.end:
                return False
            self._at_end = True
            self.windows[-1] = Window(last.start, min(last.stop + AHEAD, self.end))
            return True
        if lengthen:
            self._width = min(self._width * GROWTH, FAR)
            last = self.windows[-1]
            self.windows[-1] = Window(last.start, min(last.stop + self._width, self.end))
            self.next = self._next()
            return True
        for _ in range(self._count):
            if self.next is None:
                break
            self._add(self.next, *NARROW)
            self.next = self._next()
        self._count *= 2
        return True

    def widen(self, index: int) -> bool:
        """A wide window around a record that decides; False when it has one."""
        place = next((at for at, window in enumerate(self.windows) if window.stop > index), None)
        if place is None or self.end <= SMALL or any(index - AHEAD < wide <= index for wide in self._wide):
            return False
        self._wide.add(index)
        before, after = self.windows[:place], self.windows[place:]
        self.windows = before
        self._add(index, BACK, AHEAD)
        for window in after:
            self._join(window)
        self.next = self._next()
        return True

    def records(self) -> Iterator[Record]:
        for window in self.windows:
            yield from self._view.records(window.start, window.stop)

    def holds(self, index: int) -> bool:
        return any(w.start <= index < w.stop for w in self.windows)

    def _next(self) -> int | None:
        stop = self.windows[-1].stop
        return self._view.suspect(stop) if stop < self.end else None

    def _add(self, suspect: int, back: int, ahead: int) -> None:
        self._join(Window(max(suspect - back, 0), min(suspect + ahead, self.end)))

    def _join(self, window: Window) -> None:
        """The window behind the others, put together with those that it touches."""
        start, stop = window.start, window.stop
        while self.windows and start <= self.windows[-1].stop:
            last = self.windows.pop()
            start, stop = min(start, last.start), max(stop, last.stop)
        self.windows.append(Window(start, stop))


class CallLog:
    """All calls of one rank, counted by series."""

    def __init__(self, over: Overview) -> None:
        self.ranks: set[int] = set()
        """Ranks that the calls name."""
        self._over = over
        self._entries: list[tuple[Record, tuple[CallKey, ...]]] = []
        """Records that stand for others (keeping them keeps their ids from being used again), and their series."""
        self._entry_of: dict[int, int] = {}
        """id of such a record -> its place in the entries"""
        self._places: list[int] = []
        self._log: list[int] = []
        """Index and entry of every communication record."""

    def add(self, at: int, like: Record) -> int:
        """One more communication record: its index, and one that stands for it. Gives the number of its kind."""
        entry = self._entry_of.get(id(like))
        if entry is None:
            entry = self._new(like)
        self._places.append(at)
        self._log.append(entry)
        return entry

    def keys(self, entry: int) -> tuple[CallKey, ...]:
        """The series of a kind of record."""
        return self._entries[entry][1]

    def _new(self, like: Record) -> int:
        found = calls(like, self._over.folder.rank, groups_recorded=self._over.groups_recorded)
        for call in found:
            named = (*(call.group or ()), call.peer, call.root)
            self.ranks.update(rank for rank in named if rank is not None and rank >= 0)
        entry = self._entry_of[id(like)] = len(self._entries)
        self._entries.append((like, tuple(CallKey.of(call) for call in found)))
        return entry

    def made(self) -> dict[CallKey, int]:
        """Calls of each series."""
        return self._counted(self._log)

    def before(self, index: int) -> dict[CallKey, int]:
        """Calls of each series with a smaller index."""
        return self._counted(self._log[: bisect_left(self._places, index)])

    def _counted(self, log: Iterable[int]) -> dict[CallKey, int]:
        counts: dict[CallKey, int] = {}
        for entry, count in Counter(log).items():
            for key in self._entries[entry][1]:
                counts[key] = counts.get(key, 0) + count
        return counts

    def __iter__(self) -> Iterator[tuple[int, tuple[CallKey, ...]]]:
        """Index and series of every communication record, in order."""
        return ((index, self._entries[entry][1]) for index, entry in zip(self._places, self._log, strict=True))

    @property
    def by_name(self) -> bool:
        """Groups are not recorded: calls are matched by record name, and cannot be counted."""
        return any(key.knowledge is GroupKnowledge.UNKNOWN for _, keys in self._entries for key in keys)


def count_calls(view: RankView) -> CallLog:
    """Counts a rank's calls without reading all their values."""
    log = CallLog(view.overview)
    for passed in view.communication():
        log.add(passed.index, passed.like)
    return log


def count_calls_from(view: RankView, suspect: int) -> tuple[CallLog, dict[CallKey, int]]:
    """Counts a rank's calls; and where the first of each series stands that holds a bad value, from a suspect on."""
    log = CallLog(view.overview)
    first_bad: dict[CallKey, int] = {}
    settled: set[int] = set()
    for passed in view.communication():
        at = passed.index
        entry = log.add(at, passed.like)
        if at < suspect or entry in settled:
            continue
        keys = log.keys(entry)
        if any(key not in first_bad for key in keys):
            if not passed.is_bad():
                continue
            for key in keys:
                first_bad.setdefault(key, at)
        settled.add(entry)
    return log, first_bad


def ranks_at_the_ends(view: RankView) -> frozenset[int]:
    """Ranks that the calls among the first and the last records name, where not all calls are counted."""
    over = view.overview
    found = CallLog(over)
    for start, stop in ((0, HEAD), (max(over.end - HEAD // 2, HEAD), over.end)):
        for passed in view.communication(start, stop):
            found.add(passed.index, passed.like)
    return frozenset(found.ranks)


def far_windows(focus: Focus, first_bad: Mapping[CallKey, int], last_backward: int | None) -> Sequence[Window]:
    """every_series_of_calls_shows_its_first_bad_one, and what follows backward; apart from the focus."""
    if focus.horizon is None:
        return ()
    places = {index for index in first_bad.values() if not focus.holds(index)}
    if last_backward is not None:
        tail = range(last_backward + 1, min(last_backward + 1 + TAIL, focus.end))
        places.update(index for index in tail if not focus.holds(index))
    found: list[Window] = []
    for index in sorted(places):
        if found and found[-1].stop == index:
            found[-1] = Window(found[-1].start, index + 1)
        else:
            found.append(Window(index, index + 1))
    return found
