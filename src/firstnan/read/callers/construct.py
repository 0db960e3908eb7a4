"""construct.json of one rank, of which only the lines around some records are parsed.

The file of a long dump is as long as a tenth of it. Its entries stand in the order in which calls ended and modules
were entered, so that those of neighbouring records are neighbours.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from firstnan.dump.folders import FileKind, RankFolder
from firstnan.dump.names import parse_name
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.dump.records import RecordKind
from firstnan.read.callers.entries import SMALL, EntryFile, beginning_of
from firstnan.read.records.builder import some
from firstnan.read.scan.record_index import Doubt

MAX_SEARCHES = 256
"""Names that are searched and not found; further ones count as names without a caller."""
_GRADIENTS = ".parameters_grad"
"""Gradients of parameters are not in the file (dump format, section 10)."""


class Callers:
    """Record names -> their callers and the callers of these, as far as they are known from one rank's file.

    A file that does not list a module gives nothing, as one that is cut: a module is listed with the first record that
    ends after it was entered (dump format, section 10), so that the file is of another time than dump.json or has lost
    a part. Other records that it does not list would look like ones without a caller.
    """

    def __init__(self, folder: RankFolder, small: int = SMALL) -> None:
        self._folder = folder
        self._problems: tuple[Problem, ...] = ()
        self._unlisted: dict[str, None] = {}
        """Modules that were asked for, and are not in the file."""
        self._small = small
        self._found: dict[str, str | None] = {}
        self._absent: set[str] = set()
        self._file: EntryFile | None = None
        self._is_whole = False
        self._gave_up = False
        """Some names were not searched."""

    def __call__(self, names: Collection[str]) -> Mapping[str, str | None]:
        if not self._is_whole:
            try:
                self._gather(names)
            except Doubt:
                from firstnan.read.callers.call_site import parents

                whole, self._problems = parents(self._folder)
                self._found = dict(whole)
                self._is_whole = True
        is_known = bool(self._found) if self._is_whole else not self._gave_up
        if is_known:  # a whole file without any caller is one of another level, or was told already
            self._unlisted.update((name, None) for name in names if name not in self._found and _is_module(name))
        return {} if self._unlisted else self._found

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the file, as far as it was read."""
        file = f"{self._folder.label}/{FileKind.CONSTRUCT.value}"
        found = list(self._problems)
        if self._gave_up and not self._is_whole:
            detail = "names that are searched in a long construct.json and are not there"
            found.append(Problem(ProblemKind.LIMIT, self._folder.step, self._folder.rank, file, detail, judged=False))
        if not self._unlisted:
            return tuple(found)
        detail = f"does not list {some(list(self._unlisted))}"
        unlisted = Problem(ProblemKind.BAD_CONTENT, self._folder.step, self._folder.rank, file, detail, judged=True)
        return (*found, unlisted)

    def _gather(self, names: Collection[str]) -> None:
        names = [name for name in names if _GRADIENTS not in name]
        if self._file is None:
            first = beginning_of(names[0]) if names else None
            self._file = EntryFile(self._folder.path / FileKind.CONSTRUCT.value, self._small, first)
        for name in names:  # most others stand beside the first
            if name not in self._found and name not in self._absent:
                self._search(self._file, [name])
        followed = set(names)
        while names:
            above = (self._found.get(name) for name in names)
            names = [caller for caller in dict.fromkeys(above) if caller is not None and caller not in followed]
            followed.update(names)
            self._search(self._file, names)

    def _search(self, file: EntryFile, names: Collection[str]) -> None:
        from firstnan.read.callers.call_site import callers_in

        left = [name for name in names if name not in self._found and name not in self._absent]
        if left and len(self._absent) < MAX_SEARCHES:
            for entries in file.around([beginning_of(name) for name in left]):
                found, odd = callers_in(entries)
                if odd:
                    raise Doubt("entries of another form")
                self._found.update(found)
        elif left:
            self._gave_up = True
        self._absent.update(name for name in left if name not in self._found)


def _is_module(name: str) -> bool:
    return parse_name(name).kind is RecordKind.MODULE
