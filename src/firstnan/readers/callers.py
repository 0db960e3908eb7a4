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
        wanted = [name for name in names if _GRADIENTS not in name]
        while wanted:
            for name in wanted:
                if name not in self._found and name not in self._absent:
                    self._search(self._file, name)
            above = [caller for name in wanted if (caller := self._found.get(name)) is not None]
            wanted = [name for name in dict.fromkeys(above) if name not in self._found and name not in self._absent]

    def _search(self, file: EntryFile, name: str) -> None:
        from firstnan.readers.callsite import callers_in

        entries = file.around(beginning_of(name)) if len(self._absent) < MAX_SEARCHES else None
        if entries is None:
            self._absent.add(name)
            return
        found, odd = callers_in(entries)
        if odd or name not in found:
            raise Doubt("entries of another form")
        self._found.update(found)
