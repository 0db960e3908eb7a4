"""Call chain and code location of single records: construct.json and stack.json.

Both files only serve the explanation. Whatever is wrong with them is a problem that does not touch
the verdict, and the sound rest is used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from firstnan.dump.call_site import CallSite
from firstnan.dump.folders import FileKind, RankFolder
from firstnan.dump.names import parse_name
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.dump.records import RecordKind
from firstnan.read.callers.entries import EntryFile, beginning_of
from firstnan.read.callers.frames import Stack, as_stack, caller_of, frames_of, location_of
from firstnan.read.json import lenient
from firstnan.read.scan.record_index import Doubt
from firstnan.read.sources.files import Fault
from firstnan.read.sources.places import read_bytes

MEGATRON_COUNTER = "megatron_micro_step_number"
"""A key of construct.json that is no record (dump format, section 10)."""
MOST_KEPT = 1 << 18
"""Bytes of files that are kept, to know them again."""
MAX_CHAIN = 1000
"""Parents that are followed from one record."""


def parents(folder: RankFolder) -> tuple[Mapping[str, str | None], tuple[Problem, ...]]:
    """construct.json of one rank: record name to the name of its caller, None where there is none.

    Every form of a value counts (dump format, section 10): ``"Module.a.Linear.forward.0"``;
    ``null`` and ``""`` for none; ``["Module...", 3]`` and ``[null, 3]`` with the micro-step.

    A file that is cut or has lost a part gives nothing: a record that is absent from it would look like one without
    a caller.
    """
    found, problems, is_whole = _callers(folder)
    return (found if is_whole else {}), problems


class _Known:
    """Sound files that this process has read: all ranks of one stage have the same."""

    def __init__(self) -> None:
        self._found: dict[bytes, Mapping[str, str | None]] = {}
        self._bytes = 0

    def get(self, data: bytes) -> Mapping[str, str | None] | None:
        return self._found.get(data)

    def add(self, data: bytes, callers: Mapping[str, str | None]) -> None:
        if len(data) > MOST_KEPT:
            return
        if self._bytes + len(data) > MOST_KEPT:
            self._found.clear()
            self._bytes = 0
        self._found[data] = callers
        self._bytes += len(data)


_KNOWN = _Known()


def _callers(folder: RankFolder) -> tuple[Mapping[str, str | None], tuple[Problem, ...], bool]:
    """What stands in construct.json, the sound part of a file that is cut included; and whether it is whole."""
    data = read_bytes(folder.path / FileKind.CONSTRUCT.value)
    known = _KNOWN.get(data) if isinstance(data, bytes) else None
    if known is not None:
        return known, (), True
    top, problems, is_whole = _parsed(folder, FileKind.CONSTRUCT, data)
    found, odd = callers_in(top)
    if isinstance(data, bytes) and is_whole and not problems and not odd:
        _KNOWN.add(data, found)
    if odd:
        problems.append(_problem(folder, FileKind.CONSTRUCT, ProblemKind.BAD_CONTENT, f"{odd} entries of unknown form"))
    return found, tuple(problems), is_whole


def callers_in(top: Mapping[str, object]) -> tuple[dict[str, str | None], int]:
    """Entries of construct.json as name and name of the caller, and how many have no known form."""
    found: dict[str, str | None] = {}
    odd = 0
    for child, value in top.items():
        parent = value[0] if isinstance(value, list) and value else value
        if parent is None or isinstance(parent, str):
            found[child] = parent or None
        elif child != MEGATRON_COUNTER:
            odd += 1
    return found, odd


def read(folder: RankFolder, names: Collection[str]) -> tuple[Mapping[str, CallSite], tuple[Problem, ...]]:
    """Chain, stack and location for the given records of one rank; every name gets a call site.

    Only forward calls have a stack (dump format, section 10): a backward record takes the stack of
    the forward call with its number, and gradients of parameters that of their module.
    """
    if folder.file is FileKind.SAVED:
        return {name: CallSite(name, (name,)) for name in names}, ()  # nothing is told of where a value was saved
    forwards = {name: _forward_of(name) for name in names}
    wanted = set(names).union(*forwards.values())
    callers, problems = _callers_of(folder, wanted)
    top, more = _stack_entries(folder, wanted)
    stacks, odd = _stacks(top, wanted)
    if odd:
        more.append(_problem(folder, FileKind.STACK, ProblemKind.BAD_CONTENT, f"{odd} entries of unknown form"))
    sites = {}
    for name in names:
        chain, stopped = _chain(name, forwards[name], callers)
        own: tuple[Problem, ...] = ()
        if stopped:
            own = (_problem(folder, FileKind.CONSTRUCT, ProblemKind.BAD_CONTENT, stopped),)
        raw = next((stacks[n] for n in (name, *forwards[name]) if n in stacks), ())
        frames = frames_of(raw)
        api = parse_name(name).api
        location = location_of(frames, api)
        called_at = caller_of(location, frames, api)
        sites[name] = CallSite(name, chain, frames, location, called_at, _module(chain), raw, own)
    return sites, (*problems, *more)


def _callers_of(folder: RankFolder, names: Collection[str]) -> tuple[Mapping[str, str | None], tuple[Problem, ...]]:
    """Callers of some records and of these; of a large file only their own entries are parsed."""
    found: dict[str, str | None] = {}
    try:
        file = EntryFile(folder.path / FileKind.CONSTRUCT.value)
        waiting = list(names)
        while waiting and len(found) <= MAX_CHAIN:
            name = waiting.pop()
            if name not in found and (entry := file.entry(beginning_of(name))) is not None:
                callers, odd = callers_in(entry)
                if odd:
                    raise Doubt("entries of another form")
                found.update(callers)
                waiting += [caller for caller in callers.values() if caller is not None]
    except Doubt:
        whole, problems, _ = _callers(folder)
        return whole, tuple(problems)
    return found, ()


def _stack_entries(folder: RankFolder, names: Collection[str]) -> tuple[dict[str, object], list[Problem]]:
    """The entries of stack.json that can hold the stacks of some records."""
    found: dict[str, object] = {}
    try:
        file = EntryFile(folder.path / FileKind.STACK.value)
        for name in names:
            listed = b"\n   " + lenient.quoted(name).encode("ascii")
            found.update(file.entry(listed) or file.entry(beginning_of(name)) or {})
    except Doubt:
        found, problems, _ = _load(folder, FileKind.STACK)
        return found, problems
    return found, []


def _module(chain: Collection[str]) -> str | None:
    """The path of the first module among these records."""
    modules = (name for name in map(parse_name, chain) if name.kind is not RecordKind.API)
    return next((module.path for module in modules if module.path), None)


def _forward_of(full: str) -> tuple[str, ...]:
    """Names under which the forward call of a backward record may stand, the likeliest first.

    >>> _forward_of("Functional.linear.3.backward")
    ('Functional.linear.3.forward',)
    >>> _forward_of("Module.fc.Linear.parameters_grad.1")
    ('Module.fc.Linear.forward.1', 'Module.fc.Linear.forward.0', 'Module.fc.Linear.0.forward')
    """
    head, _, last = full.rpartition(".")
    if last == "backward":
        return (f"{head}.forward",)
    name = parse_name(full)
    if name.kind is RecordKind.PARAMETERS_GRAD:
        base = full if name.call is None else head
        base = base.removesuffix(".parameters_grad")
        forms = (f"{base}.forward.{name.call or 0}", f"{base}.forward.0", f"{base}.0.forward")
        return tuple(dict.fromkeys(forms))
    rest, _, direction = head.rpartition(".")
    return (f"{rest}.forward.{last}",) if direction == "backward" and name.call is not None else ()


def _chain(name: str, forwards: tuple[str, ...], callers: Mapping[str, str | None]) -> tuple[tuple[str, ...], str]:
    """The record and its callers, innermost first; and why they were not followed to the end.

    A backward record without a caller of its own has those of its forward call; gradients of parameters
    have the module. A recomputed forward may name a backward record as its caller, so that loops occur
    in sound dumps (dump format, section 10).
    """
    chain = [name]
    seen = {name}
    current = callers.get(name)
    if current is None:
        forward = next((forward for forward in forwards if forward in callers), None)
        if forward is not None:
            current = forward if ".parameters_grad" in name else callers[forward]
    while current is not None:
        if current in seen:
            return tuple(chain), f"the chain of {name} leads back to {current}"
        if len(chain) > MAX_CHAIN:
            return tuple(chain), f"the chain of {name} is longer than {MAX_CHAIN}"
        seen.add(current)
        chain.append(current)
        current = callers.get(current)
    return tuple(chain), ""


def _stacks(top: Mapping[str, object], wanted: Collection[str]) -> tuple[dict[str, Stack], int]:
    """The stacks of the wanted records, and how many entries have no known form."""
    found: dict[str, Stack] = {}
    odd = 0
    for key, value in top.items():
        names: Iterator[object]
        if not isinstance(value, list):
            odd += 1
            continue
        if len(value) == 2 and isinstance(value[0], list) and isinstance(value[1], list):
            names, raw = iter(value[0]), value[1]
        else:
            names, raw = iter((key,)), value
        hits = [name for name in names if isinstance(name, str) and name in wanted]
        if not hits:
            continue
        stack = as_stack(raw)
        if stack is None:
            odd += 1
        else:
            found.update(dict.fromkeys(hits, stack))
    return found, odd


def _load(folder: RankFolder, kind: FileKind) -> tuple[dict[str, object], list[Problem], bool]:
    """The entries of a file, what was wrong with it, and whether all of it was used."""
    return _parsed(folder, kind, read_bytes(folder.path / kind.value))


def _parsed(folder: RankFolder, kind: FileKind, data: bytes | Fault) -> tuple[dict[str, object], list[Problem], bool]:
    if isinstance(data, Fault):
        what = ProblemKind.MISSING_FILE if data.missing else ProblemKind.UNREADABLE
        return {}, [_problem(folder, kind, what, data.detail)], False
    parsed = lenient.loads(data)
    problems = [_problem(folder, kind, ProblemKind.BAD_CONTENT, note.detail) for note in parsed.notes]
    if parsed.fault is not None:
        return {}, [*problems, _problem(folder, kind, ProblemKind.UNREADABLE, parsed.fault)], False
    if not isinstance(parsed.value, dict):
        what_is = f"holds a {type(parsed.value).__name__}, not an object"
        return {}, [*problems, _problem(folder, kind, ProblemKind.UNREADABLE, what_is)], False
    if parsed.cut is not None:
        detail = f"{parsed.cut.why} at byte {parsed.cut.offset} of {len(data)}"
        problems.append(_problem(folder, kind, ProblemKind.TRUNCATED, detail))
        if kind is FileKind.STACK and parsed.cut.depth > 1 and parsed.value:
            parsed.value.popitem()  # the last stack may lack its outer frames, or its list of names
    return parsed.value, problems, parsed.cut is None and not any(note.lossy for note in parsed.notes)


def _problem(folder: RankFolder, file: FileKind, kind: ProblemKind, detail: str) -> Problem:
    return Problem(kind, folder.step, folder.rank, f"{folder.label}/{file.value}", detail, judged=True)
