"""One rank's dump, looked at through both readers; every use is a comparison of the two."""

from __future__ import annotations

from pathlib import Path

from made_runs import Rank

from firstnan.dump.folders import RankFolder
from firstnan.operators import table
from firstnan.rank.in_memory import WholeDump
from firstnan.rank.suspects import Lookout
from firstnan.read.records import full_reader
from firstnan.read.scan.sweep import ScannedDump

BOOK = table.load()


def whole(folder: RankFolder, excluded: frozenset[str] = frozenset()) -> tuple[WholeDump, Lookout]:
    watch = Lookout(BOOK, folder.rank, excluded)
    return WholeDump(full_reader.read(folder), watch), watch


def scanned(
    folder: RankFolder, excluded: frozenset[str] = frozenset(), buffer: int = 1 << 19
) -> tuple[ScannedDump, Lookout]:
    watch = Lookout(BOOK, folder.rank, excluded)
    return ScannedDump(folder, watch, buffer), watch


def looked_at(rank: Rank, root: Path, excluded: frozenset[str] = frozenset()) -> tuple[WholeDump, Lookout]:
    """A rank as the full reader sees it, once the scan was seen to agree."""
    folder = RankFolder(rank.step, rank.number, root, root.name)
    rank.write(root)
    one, watch = whole(folder, excluded)
    other, also = scanned(folder, excluded)
    assert other.overview == one.overview
    assert also.benign == watch.benign
    assert [record.name for record in also.garbage] == [record.name for record in watch.garbage]
    return one, watch


def suspect(rank: Rank, root: Path, excluded: frozenset[str] = frozenset()) -> str | None:
    """The name of the first suspect."""
    view, _ = looked_at(rank, root, excluded)
    index = view.overview.suspect
    return None if index is None else view.records(index, index + 1)[0].name.full
