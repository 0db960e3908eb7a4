"""One dump.json through the reader that scans and through the one that reads everything."""

from __future__ import annotations

from pathlib import Path

from firstnan.dump.folders import RankFolder
from firstnan.dump.records import Record
from firstnan.operators import table
from firstnan.rank.in_memory import WholeDump
from firstnan.rank.suspects import Lookout
from firstnan.read.records import full_reader
from firstnan.read.scan.record_index import BUFFER
from firstnan.read.scan.sweep import ScannedDump

BOOK = table.load()


def scanned(folder: RankFolder, buffer: int = BUFFER) -> tuple[ScannedDump, Lookout]:
    watch = Lookout(BOOK, folder.rank)
    return ScannedDump(folder, watch, buffer), watch


def whole(folder: RankFolder) -> tuple[WholeDump, Lookout]:
    watch = Lookout(BOOK, folder.rank)
    return WholeDump(full_reader.read(folder), watch), watch


def seen(view: ScannedDump | WholeDump, watch: Lookout) -> dict[str, object]:
    """Everything a view can be asked, in a form in which NaN is equal to NaN."""
    over = view.overview
    watch.counting = False
    records = view.records(0, over.end)
    held, prints = view.calls(), view.prints()
    suspects = []
    at = over.suspect
    while at is not None:
        suspects.append(at)
        at = view.suspect(at + 1)
    return {
        "overview": over,
        "benign": watch.benign,
        "garbage": [record.name.full for record in watch.garbage],
        "records": repr(tuple(records)),
        "some": repr(tuple(view.records(over.end // 3, over.end - 1))),
        "suspects": suspects,
        "found": [view.find(record.name.full) is not None for record in records],
        "absent": view.find("Torch.nothing.0.forward"),
        "passes": view.passes(),
        "calls": [
            (held.index(at), held.is_bad(at), held.name(at), held.record(at).name.full, _identity(held.likes[kind]))
            for at, kind in enumerate(held.kind_of)
        ],
        "sent": [(one.stem, one.key, one.count, one.sent, one.activations) for one in prints.calls],
        "early calls": [held.before(index) for index in range(over.end + 1)],
    }


def _identity(record: Record) -> object:
    """What one communication record that stands for another has in common with it: all arguments but tensors."""
    scalars = [scalar for scalar in record.scalars if not scalar.slot.startswith("output")]
    return record.name.prefix, record.name.api, repr((scalars, record.groups, record.peers, record.kwargs))


def write(path: Path, content: str | bytes) -> RankFolder:
    folder = path / "rank0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dump.json").write_bytes(
        content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    )
    return RankFolder(0, 0, folder, "rank0")
