"""construct.json of one rank, of which only the lines around some records are parsed.

The file of a long dump is as long as a tenth of it. Its entries stand in the order in which calls ended and modules
were entered, so that those of neighbouring records are neighbours.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from firstnan.dump import FileKind, Problem, RankFolder
from firstnan.readers.entries import SMALL, EntryFile, beginning_of
from firstnan.readers.record_index import Doubt

MAX_SEARCHES = 256
"""Names that are searched and not found; further ones count as names without a caller."""
_GRADIENTS = ".parameters_grad"
"""Gradients of parameters are not in the file (format document, section 10)."""


class Callers:
    """Record names -> their callers and the callers of these, as far as they are known from one rank's file."""

    def __init__(self, folder: RankFolder, small: int = SMALL) -> None:
        self.problems: tuple[Problem, ...] = ()
        self._folder = folder
        self._small = small
        self._found: dict[str, str | None] = {}
        self._absent: set[str] = set()
        self._file: EntryFile | None = None
        self._is_whole = False

    def __call__(self, names: Collection[str]) -> Mapping[str, str | None]:
        if not self._is_whole:
            try:
                self._gather(names)
            except Doubt:
                from firstnan.readers.callsite import parents

                whole, self.problems = parents(self._folder)
                self._found = dict(whole)
                self._is_whole = True
        return self._found

    def _gather(self, names: Collection[str]) -> None:
        if self._file is None:
            self._file = EntryFile(self._folder.path / FileKind.CONSTRUCT.value, self._small)
        names = [name for name in names if _GRADIENTS not in name]
        for name in names:  # most others stand beside the first
            self._search(self._file, [name])
        followed = set(names)
        while names:
            above = (self._found.get(name) for name in names)
            names = [caller for caller in dict.fromkeys(above) if caller is not None and caller not in followed]
            followed.update(names)
            self._search(self._file, names)

    def _search(self, file: EntryFile, names: Collection[str]) -> None:
        from firstnan.readers.callsite import callers_in

        left = [name for name in names if name not in self._found and name not in self._absent]
        if left and len(self._absent) < MAX_SEARCHES:
            for entries in file.around([beginning_of(name) for name in left]):
                found, odd = callers_in(entries)
                if odd:
                    raise Doubt("entries of another form")
                self._found.update(found)
        self._absent.update(name for name in left if name not in self._found)
