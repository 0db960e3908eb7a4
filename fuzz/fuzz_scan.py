"""The scan reader against the full reader: the same answers, or the scan reader says that it doubts the file."""

from __future__ import annotations

import itertools
import json
import re
import tempfile
from pathlib import Path

from promises import promise

from firstnan.dump.folders import RankFolder
from firstnan.dump.view import RankView
from firstnan.operators import table
from firstnan.rank.in_memory import WholeDump
from firstnan.rank.suspects import Lookout
from firstnan.read.json import lenient
from firstnan.read.records import full_reader
from firstnan.read.scan.record_index import Doubt
from firstnan.read.scan.sweep import ScannedDump

_BUFFERS = (700, 1 << 19)
"""Small enough that most records meet the end of a buffer; and as usual."""
_BEYOND_DOUBLE = re.compile(rb"[0-9]{309}|[0-9][eE]\+?[0-9]{3}")
"""Numbers that the scan reader takes for finite ones (see :mod:`firstnan.read.scan.sweep`), and some that are."""
_BOOK = table.load()
_folders: list[tempfile.TemporaryDirectory[str]] = []


def _folder() -> RankFolder:
    if not _folders:
        shared = Path("/dev/shm")
        _folders.append(tempfile.TemporaryDirectory(prefix="firstnan-fuzz-", dir=shared if shared.is_dir() else None))
    return RankFolder(0, 1, Path(_folders[0].name), "rank1")


_ELSEWHERE = frozenset({"data", "task", "level", "framework", "dump_data_dir", "Max", "Min", "type", "dtype", "shape"})
"""Keys of other places: tensors below them are not read, and counted by their lines all the same."""


def _watch() -> Lookout:
    return Lookout(_BOOK, 1, frozenset())


def scan(data: bytes) -> None:
    """As it is, and laid out as the dumping tool lays it out."""
    _compare(data)
    try:
        laid_out = json.dumps(json.loads(data), indent=1).encode()
    except (ValueError, RecursionError):
        return
    if laid_out != data:
        _compare(laid_out)


def _compare(data: bytes) -> None:
    """Damage that leaves the layout whole may go unseen by the scan reader; it must only not fail then."""
    folder = _folder()
    (folder.path / "dump.json").write_bytes(data)
    parsed = lenient.loads(data)
    sound = parsed.cut is None and parsed.fault is None and not parsed.notes and _is_written(parsed.value)
    sound = sound and _BEYOND_DOUBLE.search(data) is None
    whole = WholeDump(full_reader.read(folder), _watch())
    for buffer in _BUFFERS:
        try:
            scanned = ScannedDump(folder, _watch(), buffer)
        except Doubt:
            return
        try:
            _same(scanned, whole, sound=sound)
        except Doubt:  # in a later look: the caller reads the whole file then
            return


def _is_written(value: object) -> bool:
    """Records have the parts, and tensors the statistics, that a writer gives them: what the scan reader takes for
    granted."""
    records = value.get("data") if isinstance(value, dict) else None
    for record in records.values() if isinstance(records, dict) else ():
        if isinstance(record, dict) and record.keys() & _ELSEWHERE:
            return False
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            if item.keys() & {"dtype", "shape", "Max", "Min", "requires_grad"} and not (
                all(key in item and _is_number(item[key]) for key in ("Max", "Min"))
                and isinstance(item.get("dtype"), str)
                and isinstance(item.get("type"), str)
                and isinstance(item.get("shape"), list)
            ):
                return False
            waiting += item.values()
    return True


def _is_number(value: object) -> bool:
    return value is None or isinstance(value, (int, float)) or str(value).strip().lower() in ("nan", "inf", "-inf")


def _same(scanned: RankView, whole: RankView, *, sound: bool) -> None:
    end = whole.overview.end
    names = [record.name.full for record in itertools.islice(whole.records(0, end), 0, None, 3)]
    found = (
        repr(scanned.overview),
        repr(list(scanned.records(0, scanned.overview.end))),
        [scanned.suspect(start) for start in range(min(end, 4))],
        [repr(scanned.find(name)) for name in (*names, "no such record", 'a"b\\')],
        _calls(scanned),
        scanned.passes(),
    )
    expected = (
        repr(whole.overview),
        repr(list(whole.records(0, end))),
        [whole.suspect(start) for start in range(min(end, 4))],
        [repr(whole.find(name)) for name in (*names, "no such record", 'a"b\\')],
        _calls(whole),
        whole.passes(),
    )
    if sound:
        for ours, theirs in zip(found, expected, strict=True):
            promise(ours == theirs, f"the scan reader gives\n{ours}\nand the full reader\n{theirs}")


def _calls(view: RankView) -> list[tuple[int, bool, str, str]]:
    """What :data:`firstnan.dump.view.Calls` promises of each call."""
    held = view.calls()
    return [
        (held.index(at), held.is_bad(at), held.name(at), repr((held.likes[kind].groups, held.likes[kind].peers)))
        for at, kind in enumerate(held.kind_of)
    ]
