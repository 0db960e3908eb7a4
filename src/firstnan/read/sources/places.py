"""Where the bytes of a dump come from: folders of this machine, archives, compressed files, remote stores.

A place is a path, wherever it leads: ``run/step0/rank3/dump.json``, ``host0.tar.gz/step0/rank3/dump.json``,
``s3://bucket/run/step0/rank3/dump.json``. A file that is not there may be there compressed, with ``.gz`` or ``.zst``
behind its name.
"""

from __future__ import annotations

import io
import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from firstnan.read.sources import files, folders
from firstnan.read.sources.compressed import SUFFIXES, Format, Index, Unpacked, lacking, measured
from firstnan.read.sources.files import Fault, Opened, reason
from firstnan.read.sources.folders import Entry, Unlistable
from firstnan.read.sources.remote_path import is_remote

if TYPE_CHECKING:
    from firstnan.read.sources.archive_members import Remark


class Source(Protocol):
    """Somewhere that files and folders are."""

    def entries(self, path: Path) -> list[Entry] | Unlistable:
        """What a folder holds, in natural order; names that begin with a dot are left out."""
        ...

    def size(self, path: Path) -> int | Fault:
        """Bytes of a file, without opening it."""
        ...

    def open(self, path: Path) -> Opened | Fault:
        """A file, its size, and what tells that it was changed."""
        ...

    def remarks(self, path: Path) -> tuple[Remark, ...]:
        """What is wrong with the place as a whole, when it is an archive."""
        ...


class _Local:
    """Files and folders of this machine."""

    def entries(self, path: Path) -> list[Entry] | Unlistable:
        return folders.entries(path)

    def size(self, path: Path) -> int | Fault:
        return files.size(path)

    def open(self, path: Path) -> Opened | Fault:
        return files.open_regular(path)

    def remarks(self, path: Path) -> tuple[Remark, ...]:  # noqa: ARG002
        return ()


_LOCAL = _Local()
_CACHED = 16
"""Compressed files of which the marks are kept."""
_LIKE_ARCHIVES = (".tar", ".tgz", ".tzst", ".zip", ".gz", ".zst")
_MAY_BE_INSIDE = re.compile(r"\.(?:tar|tgz|tzst|zip|gz|zst)(?:[/\\]|$)", re.IGNORECASE)


def source_of(path: Path) -> Source:
    """Where a path leads."""
    if is_remote(path):
        return _of_remote(path)
    if _MAY_BE_INSIDE.search(str(path)):
        from firstnan.read.sources import archives

        outer, _ = archives.split(path)
        if archives.stem(outer.name) is not None and not outer.is_dir():
            return archives.Archives(files.open_regular)
    return _LOCAL


def _of_remote(path: Path) -> Source:
    from firstnan.read.sources import archives, remote

    outer, _ = archives.split(path)
    return archives.Archives(_open_remote) if archives.stem(outer.name) is not None else remote.Remote()


def _open_remote(path: Path) -> Opened | Fault:
    from firstnan.read.sources import remote

    return remote.Remote().open(path)


def forget() -> None:
    """What was listed in a remote store may have changed: ask again from now on."""
    remote = sys.modules.get("firstnan.read.sources.remote")
    if remote is not None:
        remote.forget()


def on_disk(path: Path) -> Path:
    """What has to be there for a path to be read: the path, or the archive that it leads into."""
    if source_of(path) is _LOCAL:
        return path
    from firstnan.read.sources import archives

    return archives.split(path)[0]


def stamp(path: Path) -> tuple[int, int] | None:
    """Size in bytes and time of change in nanoseconds, which tell a file from another one at the same path; None: there
    is no such file."""
    opened = open_file(path)
    if isinstance(opened, Fault):
        return None
    opened.file.close()
    return opened.size, opened.modified


def stem_of(path: Path) -> str:
    """The name of a folder, or of an archive without what says that it is one."""
    if not path.name.lower().endswith(_LIKE_ARCHIVES) or path.is_dir():
        return path.name
    from firstnan.read.sources import archives

    return archives.stem(path.name) or path.name


def stored_names(name: str) -> tuple[str, ...]:
    """How a file may be called in its folder; the first name that is there is the one that is read.

    >>> stored_names("dump.json")
    ('dump.json', 'dump.json.gz', 'dump.json.zst')
    """
    return name, *(name + suffix for suffix in SUFFIXES)


def entries(path: Path) -> list[Entry] | Unlistable:
    """What a folder or an archive holds, in natural order; an archive in it counts as a folder."""
    found = source_of(path).entries(path)
    if isinstance(found, Unlistable) or not any(entry.name.lower().endswith(_LIKE_ARCHIVES) for entry in found):
        return found
    return [entry if entry.is_folder else _with_stem(entry) for entry in found]


def _with_stem(entry: Entry) -> Entry:
    from firstnan.read.sources import archives

    stem = archives.stem(entry.name)
    return entry if stem is None else replace(entry, is_folder=True, stem=stem)


def remarks(path: Path) -> tuple[Remark, ...]:
    """What is wrong with an archive as a whole."""
    return source_of(path).remarks(path)


def size(path: Path) -> int | Fault:
    """Bytes of a file; of one that is there compressed, the bytes as they are stored."""
    source = source_of(path)
    found = source.size(path)
    for suffix in SUFFIXES:
        if isinstance(found, Fault) and found.missing:
            found = source.size(path.with_name(path.name + suffix))
    return found


def open_file(path: Path) -> Opened | Fault:
    """A file, wherever it lies and however it is stored; its size is that of the content.

    Opened without blocking and checked after opening, so that a FIFO put in its place in between
    cannot hang the program.
    """
    source = source_of(path)
    opened = source.open(path)
    for suffix, form in SUFFIXES.items():
        if not isinstance(opened, Fault) or not opened.missing:
            break
        packed = path.with_name(path.name + suffix)
        found = source.open(packed)
        opened = found if isinstance(found, Fault) else _unpacked(packed, found, form)
    return opened


def _unpacked(path: Path, packed: Opened, form: Format) -> Opened | Fault:
    missing = lacking(form)
    index = Fault(False, missing) if missing is not None else _measured(path, packed.size, packed.modified, form)
    if isinstance(index, Fault):
        packed.file.close()
        return index
    return Opened(Unpacked(packed.file, packed.size, index), index.size, packed.modified)


@lru_cache(maxsize=_CACHED)
def _measured(path: Path, size: int, modified: int, form: Format) -> Index | Fault:  # noqa: ARG001  (part of the key)
    """The first pass over a compressed file, made once as long as it does not change."""
    opened = source_of(path).open(path)
    if isinstance(opened, Fault):
        return opened
    try:
        with opened.file:
            return measured(opened.file, opened.size, form)
    except OSError as error:
        return Fault(False, reason(error))


def read_bytes(path: Path) -> bytes | Fault:
    """The content of a file as it was when opened; links are followed.

    A file that grows meanwhile gives what stood there at first; one that shrinks gives less (and is found to be cut
    by the parser).
    """
    opened = open_file(path)
    if isinstance(opened, Fault):
        return opened
    try:
        with opened.file:
            return _read(opened.file, opened.size)
    except OSError as error:
        return Fault(False, reason(error))
    except MemoryError:
        return Fault(False, "does not fit into memory")


def _read(file: io.RawIOBase, size: int) -> bytes:
    parts = []
    while size > 0:
        part = file.read(min(size, 1 << 30))  # one call gives at most 2 GiB
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
