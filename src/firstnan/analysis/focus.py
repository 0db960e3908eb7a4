"""How much of one rank is looked at.

A dump may hold a million records, and what decides stands in a few hundred of them: around the first suspect
(:mod:`watch`), and around the next ones when the first turns out to be harmless. Whatever reads the file, the same
records are looked at, so that the answer does not depend on the reader.

Rules, each tested under its name:

``small_dumps_are_looked_at_whole``
    A rank with at most SMALL records is one window.
``harmless_suspects_lead_to_the_next``
    While no event in the windows is live or enters a communication, the next suspect behind them gets a window, each
    wider than the one before.
``every_series_of_calls_shows_its_first_bad_one``
    The first bad call of each series (API, group, peer) is looked at wherever it stands: it is the one through which
    the value reached the other members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from firstnan.collectives import CallKey, GroupKnowledge, calls
from firstnan.dump import Overview, Passed, RankView, Record

SMALL = 512
"""Records of a rank that is looked at whole."""
BACK = 200
"""Records before a suspect that are looked at."""
AHEAD = 256
"""Records behind the first suspect that are looked at."""
GROWTH = 4
"""Each further window is so much wider."""
FAR = 4096
"""Widest window; a value that nothing read for so long is not read any more."""
TAIL = 256
"""Records behind the last backward record that are looked at: reduction, clipping, the first of the optimizer."""
HEAD = 128
"""First records of a rank whose calls name other ranks, where nothing is suspected."""
MAX_WINDOWS = 64
"""So many windows without an answer: the rest is looked at whole."""


@dataclass(frozen=True, slots=True)
class Window:
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
        self.windows: list[Window] = []
        if whole or self.end <= SMALL:
            self.windows.append(Window(0, self.end))
        else:
            self._add(self.first)
        self.next = self._next()

    @property
    def horizon(self) -> int | None:
        """Index from which on suspects were not looked at; None: there are none."""
        return None if self.next is None else self.windows[-1].stop

    def extend(self) -> bool:
        """One more window at the next suspect; False when there is none."""
        if self.next is None:
            return False
        self._width = min(self._width * GROWTH, FAR)
        if len(self.windows) >= MAX_WINDOWS:
            self.windows = [Window(self.windows[0].start, self.end)]
        else:
            self._add(self.next)
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

    def _add(self, suspect: int) -> None:
        start, stop = max(suspect - BACK, 0), min(suspect + self._width, self.end)
        if self.windows and start <= self.windows[-1].stop:
            start = self.windows.pop().start
        self.windows.append(Window(start, stop))


@dataclass
class CallLog:
    """All calls of one rank, counted by series."""

    made: Counter[CallKey] = field(default_factory=Counter)
    first_bad: dict[CallKey, int] = field(default_factory=dict)
    """Series -> index of its first record that holds a bad value, from the first suspect on."""
    ranks: set[int] = field(default_factory=set)
    """Ranks that the calls name."""
    _log: list[tuple[int, tuple[CallKey, ...]]] = field(default_factory=list)
    _known: dict[int, tuple[Record, tuple[CallKey, ...]]] = field(default_factory=dict)
    """id of a record -> the record (which keeps the id from being used again) and its keys"""

    def add(self, passed: Passed, over: Overview) -> tuple[CallKey, ...]:
        """One more communication record."""
        entry = self._known.get(id(passed.like))
        if entry is None:
            found = calls(passed.like, over.folder.rank, groups_recorded=over.groups_recorded)
            for call in found:
                named = (*(call.group or ()), call.peer, call.root)
                self.ranks.update(rank for rank in named if rank is not None and rank >= 0)
            entry = self._known[id(passed.like)] = passed.like, tuple(CallKey.of(call) for call in found)
        keys = entry[1]
        self.made.update(keys)
        self._log.append((passed.index, keys))
        return keys

    def before(self, index: int) -> Mapping[CallKey, int]:
        """Calls of each series with a smaller index."""
        counts: Counter[CallKey] = Counter()
        for at, keys in self._log:
            if at >= index:
                break
            counts.update(keys)
        return dict(counts)

    def __iter__(self) -> Iterator[tuple[int, tuple[CallKey, ...]]]:
        """Index and series of every communication record, in order."""
        return iter(self._log)

    @property
    def by_name(self) -> bool:
        """Groups are not recorded: calls are matched by record name, and cannot be counted."""
        return any(key.knowledge is GroupKnowledge.UNKNOWN for key in self.made)


def count_calls(view: RankView, suspect: int | None = None) -> CallLog:
    """Counts a rank's calls without reading all their values; ``suspect`` is the first one."""
    found = CallLog()
    for passed in view.communication():
        keys = found.add(passed, view.overview)
        late = suspect is not None and passed.index >= suspect
        if late and any(key not in found.first_bad for key in keys) and passed.is_bad():
            for key in keys:
                found.first_bad.setdefault(key, passed.index)
    return found


def ranks_at_the_ends(view: RankView) -> frozenset[int]:
    """Ranks that the calls among the first and the last records name, where not all calls are counted."""
    over = view.overview
    found = CallLog()
    for start, stop in ((0, HEAD), (max(over.end - HEAD // 2, HEAD), over.end)):
        for passed in view.communication(start, stop):
            found.add(passed, over)
    return frozenset(found.ranks)


def far_windows(focus: Focus, log: CallLog, last_backward: int | None) -> Sequence[Window]:
    """every_series_of_calls_shows_its_first_bad_one, and what follows backward; apart from the focus."""
    if focus.horizon is None:
        return ()
    places = {index for index in log.first_bad.values() if not focus.holds(index)}
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
