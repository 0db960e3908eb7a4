"""How much of one rank is looked at.

A dump may hold a million records, and what decides stands in a few hundred of them: around the first suspect
(:mod:`.suspects`), and around the next ones when the first turns out to be harmless. Whatever reads the file, the same
records are looked at, so that the answer does not depend on the reader.

Rules, each tested under its name:

``small_dumps_are_looked_at_whole``
    A rank with at most SMALL records is one window.
``harmless_suspects_lead_to_the_next``
    While no event in the windows is live or enters a communication, the next suspects behind them get narrow windows,
    at first as many as fill two wide ones and then each time twice as many, so that the work grows with the number of
    suspects. Every reader of a bad value is a suspect itself. The window of the one that decides is widened.
``a_window_ends_where_nothing_is_in_flight``
    Narrow windows end a few records behind the last bad value, where all values in the ones before were read and
    dropped so soon; one in which a value may still be read is looked at in its whole length.
``the_end_is_looked_at_for_a_check``
    Where nothing matters so far, and the last records look at a bad value (:mod:`.taint.def_use`), these are looked at
    however far behind the value they stand.
``every_series_of_calls_shows_its_first_bad_one``
    The first bad call of each series (API, group, peer) is looked at wherever it stands: it is the one through which
    the value reached the other members.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from firstnan.dump.ranges import joined, packed
from firstnan.dump.records import Record
from firstnan.dump.view import RankView
from firstnan.operators.communication import CallKey, CommCall, GroupKnowledge, calls
from firstnan.rank.taint.links import FAR

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
TAIL = 256
"""Records behind the last backward record that are looked at: reduction, clipping, the first of the optimizer."""
HEAD = 128
"""First records of a rank whose calls name other ranks, where nothing is suspected."""


Ranges = tuple[tuple[int, int], ...]
"""First and last of each (:func:`firstnan.dump.ranges.packed`)."""


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
        self._count = max(2 * AHEAD // sum(NARROW), 1)
        self._at_end = False
        self._ahead = NARROW[1]
        """Records behind a further suspect that are looked at."""
        self._latest: list[Window] = []
        """Windows that were added last, each from its suspect on."""
        self._wide: set[int] = set()
        self._given: list[Window] = []
        """What was handed out, each within one of the windows."""
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
            self._latest.append(Window(self.next, min(self.next + self._ahead, self.end)))
            self._add(self.next, NARROW[0], self._ahead)
            self.next = self._next()
        self._count *= 2
        return True

    def lengthen(self, in_flight: Sequence[int], bad: Sequence[int]) -> bool:
        """a_window_ends_where_nothing_is_in_flight: Whether some of the windows that were added last had to grow.

        ``in_flight``: indices of records whose values may still be read, in order; ``bad``: of those with values that
        are not legal.
        """
        latest, self._latest = self._latest, []
        longer, reach = [], 0
        for window in latest:
            if _is_any_in(in_flight, window):
                longer.append(Window(window.start, min(window.start + NARROW[1], self.end)))
            else:
                at = bisect_left(bad, window.stop)
                reach = max(reach, bad[at - 1] - window.start if at else 0)
        if latest:
            is_rule = len(longer) * 4 <= len(latest)
            self._ahead = min(reach + 1 + NARROW[0], NARROW[1]) if is_rule else NARROW[1]
        known = self.windows
        self.windows = []
        for window in sorted((*known, *longer), key=lambda one: one.start):
            self._join(window)
        if self.windows == known:
            return False
        self.next = self._next()
        return True

    def look_at_end(self, count: int) -> bool:
        """The last records too; False when they are looked at."""
        if self.windows[-1].stop == self.end:
            return False
        self._join(Window(max(self.end - count, self.windows[-1].start), self.end))
        return True

    def widen(self, index: int) -> bool:
        """A wide window around a record that decides; False when it is looked at already."""
        place = next((at for at, window in enumerate(self.windows) if window.stop > index), None)
        if place is None or self.end <= SMALL or any(index - AHEAD < wide <= index for wide in self._wide):
            return False
        self._wide.add(index)
        known = list(self.windows)
        after, self.windows = known[place:], known[:place]
        self._add(index, BACK, AHEAD)
        for window in after:
            self._join(window)
        self.next = self._next()
        return self.windows != known

    def records(self) -> list[Record]:
        """Those in the windows that were not handed out before, in order."""
        found: list[Record] = []
        given = iter(self._given)
        known = next(given, None)
        for window in self.windows:
            start = window.start
            while known is not None and known.start < window.stop:
                if start < known.start:
                    found += self._view.records(start, known.start)
                start = known.stop
                known = next(given, None)
            if start < window.stop:
                found += self._view.records(start, window.stop)
        self._given = list(self.windows)
        return found

    def holds(self, index: int) -> bool:
        return any(w.start <= index < w.stop for w in self.windows)

    def _next(self) -> int | None:
        stop = self.windows[-1].stop
        return self._view.suspect(stop) if stop < self.end else None

    def _add(self, suspect: int, back: int, ahead: int) -> None:
        self._join(Window(max(suspect - back, 0), min(suspect + ahead, self.end)))

    def _join(self, window: Window) -> None:
        """A window that begins behind the others, put together with those that it touches."""
        start, stop = window.start, window.stop
        while self.windows and start <= self.windows[-1].stop:
            last = self.windows.pop()
            start, stop = min(start, last.start), max(stop, last.stop)
        self.windows.append(Window(start, stop))


class CallLog:
    """All calls of one rank, counted by series."""

    def __init__(self, view: RankView) -> None:
        over = view.overview
        self._calls = view.calls()
        found = [calls(like, over.folder.rank, groups_recorded=over.groups_recorded) for like in self._calls.likes]
        self._keys = [tuple(map(CallKey.of, kind)) for kind in found]
        """The series of each kind of record."""
        self._named = [joined(map(_named, kind)) for kind in found]

    @property
    def ranks(self) -> Ranges:
        """Ranks that the calls name."""
        return joined(self._named)

    def ranks_between(self, start: int, stop: int) -> Ranges:
        """Ranks that the calls of the records with ``start <= index < stop`` name."""
        kinds = self._calls.kind_of[self._calls.before(start) : self._calls.before(stop)]
        return joined(self._named[kind] for kind in set(kinds))

    def made(self) -> dict[CallKey, int]:
        """Calls of each series."""
        return self._counted(self._calls.kind_of)

    def before(self, index: int) -> dict[CallKey, int]:
        """Calls of each series with a smaller index."""
        return self._counted(self._calls.kind_of[: self._calls.before(index)])

    def _counted(self, kinds: Iterable[int]) -> dict[CallKey, int]:
        counts: dict[CallKey, int] = {}
        for kind, count in Counter(kinds).items():
            for key in self._keys[kind]:
                counts[key] = counts.get(key, 0) + count
        return counts

    def first_bad(self, suspect: int) -> dict[CallKey, int]:
        """Where the first call of each series stands that holds a bad value, from a suspect on."""
        found: dict[CallKey, int] = {}
        settled: set[int] = set()
        held, kind_of = self._calls, self._calls.kind_of
        for at in range(held.before(suspect), len(kind_of)):
            kind = kind_of[at]
            if kind in settled:
                continue
            keys = self._keys[kind]
            if any(key not in found for key in keys):
                if not held.is_bad(at):
                    continue
                for key in keys:
                    found.setdefault(key, held.index(at))
            settled.add(kind)
        return found

    def __iter__(self) -> Iterator[tuple[int, tuple[CallKey, ...]]]:
        """Index and series of every communication record, in order."""
        return ((self._calls.index(at), self._keys[kind]) for at, kind in enumerate(self._calls.kind_of))

    @property
    def by_name(self) -> bool:
        """Groups are not recorded: calls are matched by record name, and cannot be counted."""
        return any(key.knowledge is GroupKnowledge.UNKNOWN for keys in self._keys for key in keys)


def _is_any_in(places: Sequence[int], window: Window) -> bool:
    at = bisect_left(places, window.start)
    return at < len(places) and places[at] < window.stop


@lru_cache(maxsize=256)
def _ranges(group: tuple[int, ...]) -> Ranges:
    return packed(rank for rank in group if rank >= 0)


def _named(call: CommCall) -> Ranges:
    others = [(rank, rank) for rank in (call.peer, call.root) if rank is not None and rank >= 0]
    return (*(_ranges(call.group) if call.group else ()), *others)


def ranks_at_the_ends(view: RankView) -> Ranges:
    """Ranks that the calls among the first and the last records name, where not all calls are counted."""
    end, log = view.overview.end, CallLog(view)
    return joined((log.ranks_between(0, HEAD), log.ranks_between(max(end - HEAD // 2, HEAD), end)))


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
