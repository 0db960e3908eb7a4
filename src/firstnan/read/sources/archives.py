"""Dumps inside archives: ``host0.tar.gz/step0/rank3/dump.json`` is a path like any other.

The archive is passed once; what it holds is kept as a tree of places in it, and nothing is ever unpacked to disk.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from firstnan.read.sources.archive_members import Archive, Folder, Member, Refused, Remark, of_tar, of_zip
from firstnan.read.sources.compressed import DEFLATE, GZIP, ZSTD, Damaged, Unpacked, Window, measured
from firstnan.read.sources.files import Fault, Opened, reason
from firstnan.read.sources.folders import Entry, Unlistable, in_natural_order, shown

_CACHED = 16
_MEASURED = 8
"""Archives, and deflated members of each, of which the marks are kept."""
_SUFFIX = re.compile(r"\.(?:tar|tar\.gz|tgz|tar\.zst|tzst|zip)\Z", re.IGNORECASE)
_FORMATS = {".gz": GZIP, ".tgz": GZIP, ".zst": ZSTD, ".tzst": ZSTD}
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")


def stem(name: str) -> str | None:
    """The name of an archive without what says that it is one; None: it is none.

    >>> stem("rank3.tar.gz")
    'rank3'
    """
    found = _SUFFIX.search(name)
    return name[: found.start()] if found else None


Opener = Callable[[Path], Opened | Fault]
"""Opens the file that an archive is."""


class Archives:
    """Implements :class:`firstnan.read.sources.places.Source` for what lies in archives."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener

    def entries(self, path: Path) -> list[Entry] | Unlistable:
        archive, parts = self._archive(path)
        if isinstance(archive, Fault):
            return Unlistable(archive.detail)
        found = archive.at(parts)
        if isinstance(found, Folder):
            listing = [Entry(shown(name), path / name, isinstance(one, Folder)) for name, one in found.inside.items()]
            return in_natural_order(listing)
        if found is None:
            return Unlistable("no such file or directory")
        return Unlistable(found.why if isinstance(found, Refused) else "a regular file", file=True)

    def size(self, path: Path) -> int | Fault:
        archive, parts = self._archive(path)
        if isinstance(archive, Fault):
            return archive
        found = archive.at(parts)
        return found.size if isinstance(found, Member) else _no_file(found)

    def open(self, path: Path) -> Opened | Fault:
        archive, parts = self._archive(path)
        if isinstance(archive, Fault):
            return archive
        found = archive.at(parts)
        if not isinstance(found, Member):
            return _no_file(found)
        opened = self._opener(split(path)[0])
        if isinstance(opened, Fault):
            return opened
        try:
            return Opened(_member(archive, found, opened), found.size, opened.modified)
        except OSError as error:
            opened.file.close()
            return Fault(False, reason(error))

    def remarks(self, path: Path) -> tuple[Remark, ...]:
        archive, parts = self._archive(path)
        return () if parts or isinstance(archive, Fault) else tuple(archive.remarks)

    def _archive(self, path: Path) -> tuple[Archive | Fault, tuple[str, ...]]:
        file, parts = split(path)
        if any(stem(part) is not None for part in parts):
            return Fault(False, "an archive in an archive: unpack the outer one"), parts
        opened = self._opener(file)
        if isinstance(opened, Fault):
            return opened, parts
        opened.file.close()
        return _kept(file, self._opener, opened.size, opened.modified), parts


def split(path: Path) -> tuple[Path, tuple[str, ...]]:
    """The first archive in a path, by name, and the path inside; the path itself where there is none."""
    parts = path.parts
    for count, part in enumerate(parts, 1):
        if stem(part) is not None:
            return Path(*parts[:count]), parts[count:]
    return path, ()


def _no_file(found: Folder | Refused | Member | None) -> Fault:
    if found is None:
        return Fault(True, "no such file")
    return Fault(False, found.why if isinstance(found, Refused) else "a directory, not a file")


def _member(archive: Archive, member: Member, opened: Opened) -> io.RawIOBase:
    """A member as a file.

    Raises:
        OSError: it is not what the archive's directory says.
    """
    if member.packed is not None:
        return _of_zip_member(archive, member, opened.file)
    if archive.index is None:
        return Window(opened.file, member.offset, member.size)
    return Window(Unpacked(opened.file, opened.size, archive.index), member.offset, member.size)


def _of_zip_member(archive: Archive, member: Member, file: io.RawIOBase) -> io.RawIOBase:
    file.seek(member.offset)
    header = file.read(_LOCAL_HEADER.size) or b""
    if len(header) < _LOCAL_HEADER.size or header[:4] != b"PK\x03\x04":
        raise Damaged("damaged: the archive's directory leads elsewhere")
    fields = _LOCAL_HEADER.unpack(header)
    window = Window(file, member.offset + _LOCAL_HEADER.size + fields[-2] + fields[-1], member.packed or 0)
    if not member.is_deflated:
        return window
    index = archive.measured.get(member.offset)
    if index is None:
        index = measured(window, member.packed or 0, DEFLATE)
        if index.is_cut or (index.size, index.crc) != (member.size, member.crc):
            raise Damaged("damaged: not what the archive's directory says")
        archive.measured[member.offset] = index
        while len(archive.measured) > _MEASURED:
            del archive.measured[next(iter(archive.measured))]
    return Unpacked(window, member.packed or 0, index)


@lru_cache(maxsize=_CACHED)
def _kept(path: Path, opener: Opener, size: int, modified: int) -> Archive | Fault:  # noqa: ARG001  (part of the key)
    """What an archive holds, as long as it does not change."""
    opened = opener(path)
    if isinstance(opened, Fault):
        return opened
    with opened.file:
        if path.suffix.lower() == ".zip":
            return of_zip(opened)
        return of_tar(opened, _FORMATS.get(path.suffix.lower()))
