"""Where a dump's steps and ranks are (dump format, section 2).

Given the dump's root, one step folder or one rank folder, :func:`find` lists the ranks of every
step. Nothing is opened but folders and archives; files are only looked at (``stat``), so that a FIFO or a device
in a dump cannot hang the search.

``what_lies_beside_is_looked_at``
    Folders beside steps and ranks may hold further ones (``graph/step1`` of MindSpore, ``node0/rank1``, also inside a
    step): they are looked into two levels deep, and what repeats a step and rank, or tells no rank, is named. Links are
    not followed there: ``latest`` is a step once more.
``archives_are_looked_into``
    ``rank3.tar.gz`` with a dump.json in it, below one folder or not, is rank 3; ``step0.zip`` with rank folders in it
    is step 0. Any other archive is a folder of its own: what stands in it says which steps and ranks it holds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from firstnan.dump.errors import InputError
from firstnan.dump.folders import FileKind, RankFolder
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.read.layout.folder_names import LOOKED_INTO, RANK, RANK_FILES, STEP, is_part, number_in, seen_through
from firstnan.read.layout.rank_files import RankFiles, look
from firstnan.read.sources.folders import Entry, Unlistable, natural, shown
from firstnan.read.sources.places import entries, remarks, stem_of, stored_names
from firstnan.read.sources.remote_path import absolute, named

_KERNEL = re.compile(r"kernel_config_[0-9]+\.json\Z")

_MAX_DEPTH = 5
"""Folders above the steps that are searched (recipe, phase, process ...)."""
_BESIDE_DEPTH = 2
"""Levels of folders beside steps and ranks that are searched."""
_MAX_FOLDERS = 10_000
"""Folders that are searched for steps before giving up."""
_SHOWN = 3
_VALUE_FILES = frozenset(name for kind in (FileKind.DUMP, FileKind.SAVED) for name in stored_names(kind.value))

_PREFERRED = ("update_actor", "actor_train", "pynative")
"""Of several dumps side by side that hold the same ranks these are analysed first: the training phases
of reinforcement learning recipes, and the part of a MindSpore model that runs operator by operator."""


class Layout(Struct, frozen=True):
    """What was found at a path."""

    root: Path
    folders: tuple[RankFolder, ...]
    """Readable-looking ranks (dump.json is a file), by step, then rank."""
    steps: tuple[int, ...]
    """Steps of ``folders``."""
    problems: tuple[Problem, ...] = ()
    found_steps: tuple[int, ...] = ()
    """Every step that was seen, the ones not asked for included."""
    found_ranks: tuple[int, ...] = ()
    """Every rank that was seen in the steps asked for, the ones not asked for and unreadable ones included."""
    claimed: frozenset[tuple[int, int]] = frozenset()
    """Step and rank of every rank that was seen in the steps asked for."""
    labels: tuple[tuple[int, str], ...] = ()
    """Every step whose ranks were taken, with its folder relative to ``root``."""
    others: tuple[str, ...] = ()
    """What lies at the path in place of a dump."""
    beside: tuple[int, ...] = ()
    """Ranks that lie next to the one folder that was asked for."""


def find(path: Path, steps: Collection[int] | None = None, ranks: Collection[int] | None = None) -> Layout:
    """The ranks and steps at a path; only the given steps and ranks where these are named.

    Raises:
        InputError: the path does not exist, or nothing there looks like a dump.
    """
    return checked(survey(path, steps, ranks), steps, ranks)


def survey(path: Path, steps: Collection[int] | None = None, ranks: Collection[int] | None = None) -> Layout:
    """What lies at a path, be it nothing at all; another place may hold more of the same dump (:func:`checked`).

    Raises:
        InputError: the path does not exist, or cannot be listed.
    """
    search = _Search(path, steps, ranks)
    top = entries(path)
    if isinstance(top, Unlistable):
        raise _unlistable(path, top)
    folder = path if path.name and path.name != ".." else absolute(path)
    if folder.name in ("", ".."):
        folder = folder.resolve()
    if any(entry.name in RANK_FILES for entry in top) and not any(is_part(entry) for entry in top):
        step = number_in(STEP, absolute(folder).parent.name)
        rank = number_in(RANK, stem_of(folder))
        search.remarks(path, shown(folder.name))
        search.rank(Entry(shown(folder.name), path, True), 0 if step is None else step, 0 if rank is None else rank)
        return replace(search.layout(), beside=() if rank is None else _beside(absolute(folder), rank))
    search.remarks(path, shown(folder.name))
    search.dumps(top, stem_of(folder))
    return search.layout()


def _beside(folder: Path, rank: int) -> tuple[int, ...]:
    """The ranks next to the one that is asked for by its folder."""
    found = entries(folder.parent)
    numbers = (
        [] if isinstance(found, Unlistable) else [number_in(RANK, one.part) for one in found if one.part != "rank"]
    )
    return tuple(sorted({number for number in numbers if number is not None} - {rank}))


def _unlistable(path: Path, why: Unlistable) -> InputError:
    if why.file:
        hint = f"give the folder: {path.parent}" if path.name in RANK_FILES else "give the folder of the dump"
        return InputError(f"{named(path)} is {why.detail}, not a folder", hint=hint)
    return InputError(f"{named(path)}: {why.detail}", hint="give the folder that holds step*/rank*/dump.json")


class _Dump(Struct):
    """One folder that holds step folders (or rank folders): a dump of its own."""

    label: str
    steps: list[tuple[int, Entry]] = field(default_factory=list)
    ranks: list[Entry] = field(default_factory=list)
    """Rank folders right inside, without a step."""
    step: int = 0
    """The step of ``ranks``."""

    def order(self) -> tuple[int, tuple[tuple[int, int, str], ...]]:
        parts = self.label.split("/")
        chosen = next((i for i, name in enumerate(_PREFERRED) if name in parts), len(_PREFERRED))
        return chosen, natural(self.label)


class _Search:
    """Collects folders and problems on the way down."""

    def __init__(self, root: Path, steps: Collection[int] | None, ranks: Collection[int] | None) -> None:
        self.root = root
        self.wanted_steps = None if steps is None else frozenset(steps)
        self.wanted_ranks = None if ranks is None else frozenset(ranks)
        self.folders: dict[tuple[int, int], RankFolder] = {}
        self.claimed: set[tuple[int, int]] = set()
        """Steps and ranks of the dumps that were taken, whether asked for or not."""
        self.labels: dict[int, str] = {}
        """Folder of every step that was taken."""
        self.problems: list[Problem] = []
        self.found_steps: set[int] = set()
        self.found_ranks: set[int] = set()
        self.listed = 0
        self.others: list[str] = []
        self.nameless: set[str] = set()
        """Folders with a dump whose names tell no rank."""

    def remarks(self, path: Path, label: str) -> None:
        """Tells what is wrong with an archive as a whole."""
        for remark in remarks(path):
            self.problem(remark.kind, label, remark.detail, judged=False)

    def problem(
        self,
        kind: ProblemKind,
        file: str,
        detail: str,
        *,
        judged: bool,
        step: int | None = None,
        rank: int | None = None,
    ) -> None:
        self.problems.append(Problem(kind, step, rank, file, detail, judged))

    # --- from the given folder down to the steps -------------------------------------------------

    def dumps(self, top: list[Entry], name: str) -> None:
        """Every dump below the given folder; those that repeat a step and rank are only reported."""
        found: list[_Dump] = []
        self._collect(top, "", found, 0, number_in(STEP, name))
        found.sort(key=_Dump.order)
        for dump in found:
            self._take(dump)
        if not found:
            self.others.extend(entry.name for entry in top)

    def _collect(self, listing: list[Entry], label: str, found: list[_Dump], depth: int, step: int | None) -> None:
        dump = _Dump(label, step=step or 0)
        rest: list[Entry] = []
        for entry in listing:
            entry = self._seen_through(entry, label)
            number = number_in(STEP, entry.part)
            if number is not None:
                dump.steps.append((number, entry))
            elif is_part(entry):
                dump.ranks.append(entry)
            else:
                rest.append(entry)
        if dump.steps or dump.ranks or step is not None:
            found.append(dump)
            deep = max(depth, _MAX_DEPTH - _BESIDE_DEPTH)
            held = [entry for entry in rest if self._may_hold(entry) and self._look_into(entry, label, found, deep)]
            self._extra([replace(entry, stem="") for entry in rest if entry not in held], label)
            return
        if any(entry.name in _VALUE_FILES for entry in listing):
            self._nameless(label)
        if depth == _MAX_DEPTH:
            return
        for entry in rest:
            if entry.is_folder and not self._look_into(entry, label, found, depth) and self.listed > _MAX_FOLDERS:
                return

    @staticmethod
    def _may_hold(entry: Entry) -> bool:
        """what_lies_beside_is_looked_at."""
        return bool(entry.stem) or (entry.is_folder and not entry.path.is_symlink())

    def _nameless(self, label: str) -> None:
        detail = "holds a dump and is named like no rank: not looked at"
        self.nameless.add(label)
        self.problem(ProblemKind.IGNORED_FOLDER, label or ".", detail, judged=False)

    def _look_into(self, entry: Entry, label: str, found: list[_Dump], depth: int) -> bool:
        """Collects the dumps below a folder; whether there are any, or it is told why nobody knows."""
        before = len(found)
        self.listed += 1
        if self.listed > _MAX_FOLDERS:
            if self.listed == _MAX_FOLDERS + 1:
                self.problem(ProblemKind.LIMIT, label, f"more than {_MAX_FOLDERS} folders, search ended", judged=False)
            return False
        inside = entries(entry.path)
        if isinstance(inside, Unlistable):
            self.problem(ProblemKind.UNREADABLE, _join(label, entry.name), inside.detail, judged=False)
            return True
        if entry.stem not in ("", LOOKED_INTO):
            self.remarks(entry.path, _join(label, entry.name))
        self._collect(inside, _join(label, entry.name), found, depth + 1, None)
        return len(found) > before

    def _seen_through(self, entry: Entry, label: str) -> Entry:
        """archives_are_looked_into: what an archive with the name of a step or a rank stands for."""
        if not entry.stem or not is_part(entry):
            return entry
        self.remarks(entry.path, _join(label, entry.name))
        return seen_through(entry)

    def _extra(self, rest: list[Entry], label: str) -> None:
        kernel = [entry for entry in rest if _KERNEL.match(entry.name)]
        if kernel:
            detail = f"{kernel[0].name}: a dump of kernels (level L2), not analysed"
            self.problem(ProblemKind.OTHER_DUMP, label or ".", detail, judged=False)
        unseen = [entry.name for entry in rest if entry.stem]
        if unseen:
            detail = f"archives that were not looked into: {_some(unseen)}"
            self.problem(ProblemKind.IGNORED_FOLDER, label or ".", detail, judged=False)
        if any(entry.name in _VALUE_FILES for entry in rest):
            self._nameless(label)
        steps = [entry.name for entry in rest if STEP.match(entry.part)]
        if steps:
            detail = f"steps inside a step, not looked at: {_some(steps)}"
            self.problem(ProblemKind.IGNORED_FOLDER, label, detail, judged=False)
        told = {*steps, *_VALUE_FILES, *(entry.name for entry in rest if _join(label, entry.name) in self.nameless)}
        others = [e.name for e in rest if not e.stem and not _KERNEL.match(e.name) and e.name not in told]
        if others:
            self.problem(
                ProblemKind.IGNORED_FOLDER, label or ".", f"not part of the dump: {_some(others)}", judged=True
            )

    # --- one dump ---------------------------------------------------------------------------------

    def _take(self, dump: _Dump) -> None:
        """Use a dump unless one that was taken before holds some of its steps and ranks."""
        listings: list[tuple[int, str, list[Entry]]] = []
        if dump.ranks:
            if dump.steps:
                names = [entry.name for entry in dump.ranks]
                self.problem(
                    ProblemKind.IGNORED_FOLDER, dump.label or ".", f"beside step folders: {_some(names)}", judged=False
                )
            else:
                listings.append((dump.step, dump.label, dump.ranks))
        elif not dump.steps:
            self.problem(ProblemKind.EMPTY_STEP, dump.label or ".", "no rank folders", judged=False, step=dump.step)
        for number, entry in sorted(dump.steps, key=lambda pair: (pair[0], natural(pair[1].name))):
            self.found_steps.add(number)
            if self.wanted_steps is not None and number not in self.wanted_steps:
                continue
            label = _join(dump.label, entry.name)
            inside = entries(entry.path)
            if isinstance(inside, Unlistable):
                self.problem(ProblemKind.UNREADABLE, label, inside.detail, judged=False, step=number)
                continue
            inside = [self._seen_through(e, label) for e in inside]
            ranks = [e for e in inside if _is_rank(e)]
            rest = []
            for e in inside:
                if not _is_rank(e):
                    below = [] if is_part(e) else self._ranks_below(e, label)
                    ranks += below
                    rest += [] if below else [e]
            self._extra(rest, label)
            if not ranks:
                self.problem(ProblemKind.EMPTY_STEP, label, "no rank folders", judged=False, step=number)
            else:
                listings.append((number, label, ranks))
        if self.folders and self._overlaps(listings):
            detail = "another dump of the same steps and ranks: analyse it by its own path"
            self.problem(ProblemKind.SECOND_DUMP, dump.label, detail, judged=False)
            return
        for number, label, ranks in listings:
            self._step(number, label, ranks)

    def _ranks_below(self, entry: Entry, label: str) -> list[Entry]:
        """what_lies_beside_is_looked_at: the ranks in a folder inside a step (``node0/rank1``)."""
        if entry.stem or not self._may_hold(entry):
            return []
        inside = entries(entry.path)
        if isinstance(inside, Unlistable):
            self.problem(ProblemKind.UNREADABLE, _join(label, entry.name), inside.detail, judged=False)
            return []
        if any(e.name in _VALUE_FILES for e in inside):
            self._nameless(_join(label, entry.name))
        held = [self._seen_through(e, _join(label, entry.name)) for e in inside]
        return [replace(e, name=f"{entry.name}/{e.name}", stem=e.part) for e in held if _is_rank(e)]

    def _overlaps(self, listings: list[tuple[int, str, list[Entry]]]) -> bool:
        return any(
            (step, number_in(RANK, entry.part) or 0) in self.claimed for step, _, ranks in listings for entry in ranks
        )

    def _step(self, step: int, label: str, listing: list[Entry]) -> None:
        """The ranks of one step: numbered folders; else ``rank``; else one ``proc<pid>``."""
        self.found_steps.add(step)
        self.labels.setdefault(step, label)
        numbered: dict[int, list[Entry]] = {}
        unnumbered: list[Entry] = []
        for entry in listing:
            match = RANK.match(entry.part)
            if match and match[1]:
                numbered.setdefault(int(match[1]), []).append(entry)
            else:
                unnumbered.append(entry)
        if numbered:
            for entry in unnumbered:
                detail = "a process without a rank beside rank folders"
                self.problem(ProblemKind.IGNORED_FOLDER, _join(label, entry.name), detail, judged=True, step=step)
        elif unnumbered:
            numbered[0] = unnumbered
        for rank in sorted(numbered):
            self._one_of(numbered[rank], step, rank, label)

    def _one_of(self, candidates: list[Entry], step: int, rank: int, label: str) -> None:
        """The first folder in name order that has a dump; the others are named."""
        ordered = sorted(
            candidates, key=lambda entry: (not RANK.match(entry.part), "/" in entry.name, natural(entry.name))
        )
        if len(ordered) > 1:
            with_dump = [entry for entry in ordered if look(entry.path).dump_bytes is not None]
            chosen = with_dump[0] if with_dump else ordered[0]
            for entry in ordered:
                if entry is not chosen:
                    detail = f"{_join(label, chosen.name)} was used; analyse this one by its own path"
                    self.problem(
                        ProblemKind.DUPLICATE_RANK, _join(label, entry.name), detail, judged=False, step=step, rank=rank
                    )
            ordered = [chosen]
        self.rank(ordered[0], step, rank, label)

    # --- one rank ---------------------------------------------------------------------------------

    def rank(self, entry: Entry, step: int, rank: int, label: str = "") -> None:
        """Take one rank folder, or say why it has no dump."""
        self.found_steps.add(step)
        self.found_ranks.add(rank)
        self.claimed.add((step, rank))
        if self.wanted_ranks is not None and rank not in self.wanted_ranks:
            return
        if self.wanted_steps is not None and step not in self.wanted_steps:
            return
        full = _join(label, entry.name)
        files = look(entry.path)
        if files.dump_bytes is None:
            self._without_dump(files, full, step, rank)
        elif (step, rank) in self.folders:
            detail = f"{self.folders[step, rank].label} was used; analyse this one by its own path"
            self.problem(ProblemKind.DUPLICATE_RANK, full, detail, judged=False, step=step, rank=rank)
        else:
            self.folders[step, rank] = RankFolder(step, rank, entry.path, full, files.dump_bytes, file=files.file)
            parts = [name for name in files.others if is_part(Entry(name, entry.path / name, True))]
            if parts:
                detail = f"steps or ranks inside a rank, not looked at: {_some(parts)}"
                self.problem(ProblemKind.IGNORED_FOLDER, full, detail, judged=False, step=step, rank=rank)
            if files.beside:
                detail = f"beside dump.json, which was used: {_some(list(files.beside))}"
                self.problem(ProblemKind.DUPLICATE_RANK, full, detail, judged=False, step=step, rank=rank)
            if files.tool_errors:
                detail = f"{files.tool_errors}: the dumping tool reported errors"
                self.problem(
                    ProblemKind.TOOL_ERROR, _join(full, files.tool_errors), detail, judged=True, step=step, rank=rank
                )

    def _without_dump(self, files: RankFiles, label: str, step: int, rank: int) -> None:
        file = _join(label, FileKind.DUMP.value)
        if files.fault:
            kind, detail = ProblemKind.UNREADABLE, files.fault
        elif files.others:
            kind, detail = ProblemKind.MISSING_FILE, f"no dump.json beside {_some(list(files.others))}"
        else:
            kind, detail, file = ProblemKind.EMPTY_RANK, "an empty folder", label
        self.problem(kind, file, detail, judged=False, step=step, rank=rank)

    # --- the answer -------------------------------------------------------------------------------

    def layout(self) -> Layout:
        folders = tuple(self.folders[key] for key in sorted(self.folders))
        return Layout(
            self.root,
            folders,
            tuple(sorted({folder.step for folder in folders})),
            tuple(self.problems),
            tuple(sorted(self.found_steps)),
            tuple(sorted(self.found_ranks)),
            frozenset(self.claimed),
            tuple(self.labels.items()),
            tuple(self.others),
        )


def _is_rank(entry: Entry) -> bool:
    return is_part(entry) and not STEP.match(entry.part)


def checked(found: Layout, steps: Collection[int] | None, ranks: Collection[int] | None) -> Layout:
    """The layout of a whole dump: with its absent ranks told, and problems in order.

    Raises:
        InputError: there is nothing that looks like a dump.
    """
    problems = [*found.problems, *_absent(found, ranks)]
    filtered = steps is not None or ranks is not None
    if not found.folders and not (filtered and found.found_steps):
        raise _nothing(found.root, problems, list(found.others))
    return replace(found, problems=tuple(sorted(problems, key=_place)))


def _absent(found: Layout, ranks: Collection[int] | None) -> Iterator[Problem]:
    """rank_of_another_step: a step without a folder for a rank that another step has.

    Example: ``step0/rank0``, ``step0/rank1`` and ``step1/rank0``: rank 1 of step 1 is told as absent.
    """
    by_step: dict[int, set[int]] = {}
    first: dict[int, int] = {}
    for step, rank in sorted(found.claimed):
        by_step.setdefault(step, set()).add(rank)
        first.setdefault(rank, step)
    wanted = first.keys() if ranks is None else first.keys() & frozenset(ranks)
    for step, label in found.labels:
        for rank in wanted - by_step.get(step, set()):
            file = _join(label, f"rank{rank}/{FileKind.DUMP.value}")
            detail = f"no folder of this rank, as there is in step {first[rank]}"
            yield Problem(ProblemKind.MISSING_FILE, step, rank, file, detail, judged=False)


def _nothing(root: Path, problems: list[Problem], others: list[str]) -> InputError:
    hint = "give the folder that holds step*/rank*/dump.json"
    told = [p for p in problems if p.kind is not ProblemKind.IGNORED_FOLDER]
    if told:
        found = "; ".join(f"{p.file}: {p.detail}" for p in told[:_SHOWN])
        more = f"; and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
        return InputError(f"no dump.json in {named(root)}: {found}{more}", hint=hint)
    found = f"only {_some(others)}" if others else "an empty folder"
    return InputError(f"no dump in {named(root)}: {found}", hint=hint)


def _place(problem: Problem) -> tuple[int, int, tuple[tuple[int, int, str], ...]]:
    """Sort key: by step, by rank; what belongs to none comes first."""
    step = -1 if problem.step is None else problem.step
    rank = -1 if problem.rank is None else problem.rank
    return step, rank, natural(problem.file or "")


def _join(label: str, name: str) -> str:
    return f"{label}/{name}" if label else name


def _some(names: list[str]) -> str:
    """The first few names and how many more: ``a, b, c and 4 more``."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(sorted(names, key=natural)[:_SHOWN]) + more
