"""The tools: paths below one folder in, JSON of the report's schema out, short unless more is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from firstnan.answer.model import Report
from firstnan.dump.errors import UsageError
from firstnan.dump.language import Language
from firstnan.dump.options import Options
from firstnan.run import lookups, pipeline
from firstnan.show.json import excerpt_dict, to_dict

Document = dict[str, Any]

SHORT = 3
"""Entries of a list that a short answer keeps."""
_SHORTENED = ("root_causes", "collectives", "propagation", "contained", "symptoms", "surroundings", "disagreements")
_OF_CAUSE = ("alternatives", "evidence", "evidence_notes", "run_up", "construct_chain", "stack_info")
"""Lists that a short answer cuts."""
MOST_AROUND = 50
"""Records before and after the one that is asked for."""


class Tools(Struct, frozen=True):
    """Everything that may be asked, of dumps below ``root`` alone.

    Raises:
        UsageError: from every tool: the path is not below the root, or the request makes no sense.
        InputError: nothing readable at the path.
    """

    root: Path
    language: Language = Language.EN
    jobs: int | None = None

    def analyze(
        self, path: str, steps: Sequence[int] | None = None, ranks: Sequence[int] | None = None, more: bool = False
    ) -> Document:
        """Which rank, operator and line turned the run to NaN, and why."""
        return self._answer(pipeline.analyze(self._below(path), self._options(steps, ranks)), more)

    def ranks(self, path: str, steps: Sequence[int] | None = None, more: bool = False) -> Document:
        """Source, propagated and normal ranks of every affected communication call."""
        return self._part(path, steps, more, "verdict", "complete", "step", "collectives", "caveats")

    def trace(self, path: str, rank: int, steps: Sequence[int] | None = None, more: bool = False) -> Document:
        """The first anomalous operator on one rank, whatever reached it from elsewhere."""
        return self._answer(pipeline.trace(self._below(path), rank, self._options(steps, None)), more)

    def show(
        self,
        path: str,
        rank: int,
        step: int | None = None,
        op: str | None = None,
        at: int | None = None,
        around: int = 2,
    ) -> Document:
        """The records around one place: a record name, an index, or the first bad record."""
        if not 0 <= around <= MOST_AROUND:
            raise UsageError(f"around must be 0 to {MOST_AROUND}")
        found = lookups.show(self._below(path), rank, step=step, op=op, at=at, around=around)
        return excerpt_dict(found)

    def agree(self, path: str, steps: Sequence[int] | None = None, more: bool = False) -> Document:
        """Whether the ranks that must hold the same numbers do, without any NaN."""
        return self._part(path, steps, more, "verdict_agreement", "agreement", "disagreements")

    def _part(self, path: str, steps: Sequence[int] | None, more: bool, *names: str) -> Document:
        """Some fields of the report on a whole dump."""
        whole = to_dict(pipeline.analyze(self._below(path), self._options(steps, None)), self.language)
        return _cut({name: whole[name] for name in ("schema", "tool", "language", "input", *names)}, more)

    def _answer(self, report: Report, more: bool) -> Document:
        return _cut(to_dict(report, self.language), more)

    def _options(self, steps: Sequence[int] | None, ranks: Sequence[int] | None) -> Options:
        def wanted(numbers: Sequence[int] | None) -> tuple[int, ...] | None:
            return None if numbers is None else tuple(numbers)

        return Options(steps=wanted(steps), ranks=wanted(ranks), jobs=self.jobs)

    def _below(self, path: str) -> Path:
        """The path, links followed, when it and all that it holds is below the root."""
        root = self.root.resolve()
        try:
            found = (root / path).resolve()
        except (OSError, RuntimeError, ValueError) as error:  # a circle of links, a NUL character
            raise UsageError(f"'{path}' is no path") from error
        if not found.is_relative_to(root):
            raise UsageError(f"'{path}' is not below the folder that this server may read", hint=f"it is {root}")
        outside = _leads_outside(found, root)
        if outside is not None:
            inside = outside.relative_to(root)
            raise UsageError(f"'{inside}' is a link that is not below the folder that this server may read")
        return found


def _leads_outside(top: Path, root: Path) -> Path | None:
    """The first link below a path that leads out of the root, or nowhere that can be told."""
    waiting, seen = [top], {top}
    while waiting:
        for place in _entries(waiting.pop()):
            target = place
            if place.is_symlink():
                try:
                    target = place.resolve()
                except (OSError, RuntimeError):
                    return place
                if not target.is_relative_to(root):
                    return place
            if target not in seen and target.is_dir():
                seen.add(target)
                waiting.append(target)
    return None


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # no folder, or one that cannot be read: the reader says so
        return []


def _cut(document: Document, more: bool) -> Document:
    """The document with its long lists cut, and how much of each was left out."""
    left_out: dict[str, int] = {}
    if not more:
        for name in _SHORTENED:
            _shorten(document, name, name, left_out)
        for cause in document.get("root_causes", ()):
            for name in _OF_CAUSE:
                _shorten(cause, name, f"root_causes.{name}", left_out)
        _shorten(document["input"], "problems", "input.problems", left_out)
        for name in ("call_map", "agreement_map"):
            if document.get(name) is not None:
                document[name] = None
                left_out[name] = 1
    return {"report": document, "left_out": left_out}


def _shorten(holder: Document, name: str, place: str, left_out: dict[str, int]) -> None:
    entries = holder.get(name)
    if isinstance(entries, (list, tuple)) and len(entries) > SHORT:
        holder[name] = list(entries[:SHORT])
        left_out[place] = left_out.get(place, 0) + len(entries) - SHORT
