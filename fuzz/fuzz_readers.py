"""What must hold for every input, however broken: the targets of the fuzzing.

Each target takes bytes and raises when a promise of a reader is broken; ``run.py`` feeds them. Nothing is written but
the ranks of :func:`tree`, in a temporary folder.
"""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from unittest import mock

from fuzz_scan import scan
from fuzz_verdict import verdict
from promises import BrokenPromiseError, promise

import firstnan
from firstnan.answer.model import Report
from firstnan.dump.errors import InputError
from firstnan.dump.folders import RankFolder
from firstnan.dump.names import parse_name
from firstnan.dump.problems import ProblemKind
from firstnan.dump.view import RankDump
from firstnan.read.callers import call_site
from firstnan.read.callers.call_site import MAX_CHAIN
from firstnan.read.json import lenient
from firstnan.read.records import full_reader
from firstnan.read.sources.files import Fault
from firstnan.show.json import dumps

Target = Callable[[bytes], None]

FOLDER = RankFolder(0, 0, Path("rank0"), "rank0")
_LONGEST_INTEGER = 4300


# --- names ------------------------------------------------------------------------------------------------------


def names(data: bytes) -> None:
    """Any text is a name; what is taken from it stands in it."""
    full = data.decode("utf-8", "replace")
    name = parse_name(full)
    promise(name.full == full, "the full name is the text")
    promise(name.api in full and name.path in full and full.startswith(name.prefix), "parts stand in the text")
    promise(name.call is None or 0 <= name.call < 10**18, "call numbers are small and not negative")


# --- JSON -------------------------------------------------------------------------------------------------------


def without_jiter() -> AbstractContextManager[object]:
    """Sound files go through the careful way inside."""
    return mock.patch.object(lenient, "from_json", side_effect=ValueError)


def json_text(data: bytes) -> None:
    """Never raises; the same with jiter and the careful way alone; what the standard library reads is read alike."""
    found = lenient.loads(data)
    with without_jiter():
        other = lenient.loads(data)
    promise(repr(found) == repr(other), f"jiter and the careful way agree: {found!r} / {other!r}")
    promise(found.fault is None or found.value is None, "a fault gives no value")
    if found.cut is not None:
        promise(0 <= found.cut.offset <= len(data) and found.cut.depth >= 0, "the cut is inside the file")
    try:
        expected = json.loads(data.decode("utf-8"), object_pairs_hook=_last_wins)
    except (ValueError, RecursionError):
        return
    promise(found.fault is None and found.cut is None, f"valid JSON is read to its end: {found!r}")
    promise(repr(found.value) == repr(_as_read(expected)), f"read as json does: {found.value!r} / {expected!r}")


def _last_wins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made: dict[str, object] = {}
    for key, value in pairs:
        made.pop(key, None)
        made[key] = value
    return made


def _as_read(value: object) -> object:
    """What is documented to differ: lone surrogates are U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_as_read(key): _as_read(item) for key, item in value.items()}
    return [_as_read(item) for item in value] if isinstance(value, list) else value


def json_cut(data: bytes) -> None:
    """The first two bytes say where the rest is cut: what is salvaged stands in the whole, in the same place."""
    place, text = int.from_bytes(data[:2], "big"), data[2:]
    whole = lenient.loads(text)
    if whole.cut is not None or whole.fault is not None or whole.notes or not text:
        return
    part = lenient.loads(text[: place % len(text)])
    if part.fault is None:
        promise(_is_part(part.value, whole.value, root=True), f"{part.value!r} is a part of {whole.value!r}")


def _is_part(part: object, whole: object, *, root: bool = False) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(k in whole and _is_part(v, whole[k]) for k, v in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and len(part) <= len(whole) and all(map(_is_part, part, whole))
    if root:  # a text of one number may be another number when it is cut
        return True
    return repr(part) == repr(whole)


# --- whole files ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def served(files: Mapping[str, bytes]) -> Iterator[None]:
    """Readers get these contents in place of files."""

    def read_bytes(path: Path) -> bytes | Fault:
        return files.get(path.name, Fault(True, "no such file"))

    with (
        mock.patch.object(full_reader, "read_bytes", read_bytes),
        mock.patch.object(call_site, "read_bytes", read_bytes),
    ):
        yield


def dump(data: bytes) -> None:
    """dump.json: no content raises, nothing is skipped in silence, places are in order."""
    with served({"dump.json": data}):
        found = full_reader.read(FOLDER)
        with without_jiter():
            other = full_reader.read(FOLDER)
    promise(repr(found) == repr(other), "jiter and the standard library agree")
    _check(found)


def _check(found: RankDump) -> None:
    promise(bool(found.records) or any(not p.judged for p in found.problems), "nothing read is never silent")
    indices = [record.index for record in found.records]
    promise(indices == sorted(set(indices)), "records are in order")
    promise(sum(r.distrusted for r in found.records) <= 1, "at most the last record is distrusted")
    for record in found.records:
        for stat in (*record.inputs, *record.outputs, *record.parameters):
            promise(stat.shape is None or all(size >= 0 for size in stat.shape), "sizes are not negative")
            for number in (stat.max, stat.min, stat.mean, stat.norm):
                promise(number is None or not math.isnan(float(number)) or number != number, "numbers fit a double")


def chains(data: bytes) -> None:
    """construct.json and stack.json: the text before the first NUL is one, the text behind it the other."""
    construct, _, stack = data.partition(b"\0")
    with served({"construct.json": construct, "stack.json": stack}):
        parents, _ = call_site.parents(FOLDER)
        asked = [*list(parents)[:5], "Functional.linear.0.backward", "Module.a.B.parameters_grad"]
        sites, problems = call_site.read(FOLDER, asked)
    promise(set(sites) == set(asked), "every name gets a call site")
    for name, site in sites.items():
        promise(site.chain[0] == name, "a chain begins with the record itself")
        promise(len(site.chain) == len(set(site.chain)) <= MAX_CHAIN + 1, "chains end")
    promise(all(problem.judged for problem in problems), "these two files do not touch the verdict")


# --- a whole run ------------------------------------------------------------------------------------------------

_STATISTICS = {"type": "torch.Tensor", "dtype": "torch.float16", "shape": [2, 3], "Max": 1.0, "Min": -1.0}
_GROUP = {"type": "torch.ProcessGroup", "group_ranks": [0, 1, 2], "group_id": "d0d3ee1a"}
_NEIGHBOUR = {
    "Functional.linear.0.forward": {"input_args": [_STATISTICS, _STATISTICS], "output": [_STATISTICS]},
    "Distributed.all_reduce.0.forward": {
        "input_args": [_STATISTICS, _GROUP],
        "output": [{**_STATISTICS, "Max": math.nan, "Min": math.nan}, _GROUP],
    },
    "Functional.linear.0.backward": {"input": [_STATISTICS], "output": [_STATISTICS]},
}
"""What the ranks beside the input did: their sum came back bad, so that the trail leads to the input."""
_trees: list[tempfile.TemporaryDirectory[str]] = []


def _root() -> Path:
    """Two sound ranks, and a folder for the one whose dump.json is the input."""
    if not _trees:
        _trees.append(tempfile.TemporaryDirectory(prefix="firstnan-fuzz-"))
        for rank in (0, 1, 2):
            folder = Path(_trees[0].name) / "step0" / f"rank{rank}"
            folder.mkdir(parents=True)
            if rank < 2:
                (folder / "dump.json").write_text(json.dumps({"task": "statistics", "data": _NEIGHBOUR}))
    return Path(_trees[0].name)


def tree(data: bytes) -> None:
    """Beside two sound ranks: an answer comes, and its report can be written."""
    root = _root()
    (root / "step0" / "rank2" / "dump.json").write_bytes(data)
    report = _analyzed(root)
    json.loads(dumps(report.to_dict()), parse_constant=_no_constants)
    promise({0, 1} <= set(report.input.ranks), "the sound ranks are there")


def _analyzed(path: Path) -> Report:
    report = firstnan.analyze(path, firstnan.Options(jobs=1))
    for problem in report.input.problems:
        promise(problem.kind is not ProblemKind.WORKER_FAILED, problem.detail)
    return report


def alone(data: bytes) -> None:
    """A single rank: an answer comes, or the one error that says why not."""
    root = _root()
    path = root / "step0" / "rank2"
    (path / "dump.json").write_bytes(data)
    with contextlib.suppress(InputError):
        report = _analyzed(path)
        promise(report.exit_code in (0, 1, 4), "an exit code")
        promise(report.exit_code != 0 or report.input.records > 0, "clean needs records")


def _no_constants(text: str) -> object:
    raise BrokenPromiseError(f"{text} in a strict JSON report")


TARGETS: Mapping[str, Target] = {
    "names": names,
    "json": json_text,
    "json_cut": json_cut,
    "dump": dump,
    "scan": scan,
    "chains": chains,
    "tree": tree,
    "alone": alone,
    "verdict": verdict,
}
