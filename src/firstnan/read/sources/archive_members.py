"""What an archive holds: a tree of places in it, found in one pass.

``later_members_replace``
    Two members of one name: the last one counts, as it does when an archive is unpacked; that there were two is told.
``links_are_not_followed``
    A link, a device, an encrypted or sparse member is there and cannot be read: told like any unreadable file.
``names_stay_inside``
    A member whose name is absolute or leads upwards has no place in the tree; it is told and not looked at.
``an_end_is_an_end``
    A tar that does not end with its end mark is cut or damaged, whatever its last member looks like.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct, field

from firstnan.dump.problems import ProblemKind
from firstnan.read.sources.compressed import Damaged, Format, Index, Part, Unpacked, lacking
from firstnan.read.sources.files import Fault, Opened, reason
from firstnan.read.sources.folders import shown

if TYPE_CHECKING:
    import tarfile

MAX_MEMBERS = 200_000
"""Members of one archive that are looked at."""
MAX_DEPTH = 32
"""Folders above a member."""
MAX_HEADER = 1 << 20
"""Bytes of one header; a dump's are below 2 KB."""
MAX_DIRECTORY = 256 << 20
"""Bytes of a zip archive's directory."""
_HEADERS_OF_MACOS = "__MACOSX"
_NAMED = 3


class Member(Struct, frozen=True):
    """A file in an archive."""

    offset: int
    """Place of its data: in the tar, or of its header in the zip."""
    size: int
    """Bytes, unpacked."""
    packed: int | None = None
    """Bytes as stored in a zip; None: in a tar."""
    is_deflated: bool = False
    crc: int = 0
    """CRC-32 of what is unpacked (zip)."""


class Refused(Struct, frozen=True):
    """A member that is not read."""

    why: str


class Folder(Struct):
    """A folder in an archive."""

    inside: dict[str, Folder | Member | Refused] = {}


class Remark(Struct, frozen=True):
    """Something wrong with an archive as a whole; what it hides was not looked at."""

    kind: ProblemKind
    detail: str


class Archive(Struct):
    """What an archive holds."""

    root: Folder = field(default_factory=Folder)
    remarks: list[Remark] = []
    index: Index | None = None
    """Of the compressed tar."""
    measured: dict[int, Index] = {}
    """By offset: the deflated members that were opened."""

    def at(self, parts: tuple[str, ...]) -> Folder | Member | Refused | None:
        """What stands at a path inside."""
        found: Folder | Member | Refused | None = self.root
        for part in parts:
            if not isinstance(found, Folder):
                return found if isinstance(found, Refused) else None
            found = found.inside.get(part)
        return found


class _Tree:
    """Puts members in their places."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.count = 0
        self._twice: list[str] = []
        self._outside: list[str] = []

    def add(self, name: str, member: Member | Refused | None) -> None:
        """One member; None: a folder."""
        self.count += 1
        plain = name.replace("\\", "/")
        parts = [part for part in plain.split("/") if part not in ("", ".")]
        if plain.startswith("/") or ".." in parts or re.match(r"[A-Za-z]:", plain) or len(parts) > MAX_DEPTH:
            self._outside.append(shown(name[:200]))
            return
        if parts[:1] == [_HEADERS_OF_MACOS] or any(part.startswith(".") for part in parts):
            return
        folder = self.archive.root
        for part in parts[: len(parts) if member is None else -1]:
            below = folder.inside.get(part)
            if not isinstance(below, Folder):
                if below is not None:
                    self._twice.append(shown(name[:200]))
                below = folder.inside[part] = Folder()
            folder = below
        if member is not None and parts:
            if parts[-1] in folder.inside:
                self._twice.append(shown(name[:200]))
            folder.inside[parts[-1]] = member

    def conclude(self) -> Archive:
        """The archive, with all that is to be told of it."""
        if self._outside:
            detail = f"members outside of the archive, not looked at: {_some(self._outside)}"
            self.tell(ProblemKind.UNREADABLE, detail)
        if self._twice:
            self.tell(ProblemKind.BAD_CONTENT, f"more than one member, the last one was used: {_some(self._twice)}")
        return self.archive

    def tell(self, kind: ProblemKind, detail: str) -> None:
        self.archive.remarks.append(Remark(kind, detail))


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


class _Headers:
    """A tar as :mod:`tarfile` reads it; what it would take into memory is bounded."""

    def __init__(self, file: io.RawIOBase) -> None:
        self._file = file
        self.seek = file.seek
        self.tell = file.tell

    def read(self, size: int) -> bytes:
        if size > MAX_HEADER:
            raise Damaged(f"damaged: a header of {size} bytes")
        return self._file.read(size) or b""


def of_tar(opened: Opened, form: Format | None) -> Archive | Fault:
    """What a tar holds, compressed in a form or not."""
    import tarfile

    missing = None if form is None else lacking(form)
    if missing is not None:
        return Fault(False, missing)
    archive = Archive()
    tree = _Tree(archive)
    file = opened.file
    if form is not None:
        archive.index = Index(form)
        file = Unpacked(file, opened.size, archive.index)
    end = 0
    damage = ""
    try:
        with tarfile.TarFile(fileobj=_Headers(file), mode="r", errorlevel=0) as tar:  # type: ignore[arg-type]
            for member in _members(tar):
                tree.add(member.name, _tar_member(member))
                end = tar.offset
                if tree.count > MAX_MEMBERS:
                    tree.tell(ProblemKind.LIMIT, f"more than {MAX_MEMBERS} members, the rest was not looked at")
                    return tree.conclude()
            end = tar.offset
        damage = _end_of_tar(file, end)
        if isinstance(file, Unpacked):
            file.read_to_end()
    except (tarfile.TarError, OSError, ValueError, OverflowError, RecursionError) as error:
        damage = (reason(error) if isinstance(error, OSError) else str(error)) or type(error).__name__
    if damage and not tree.count:
        return Fault(False, f"no tar archive that can be read: {damage}")
    if damage:
        detail = f"{damage}; {tree.count} members before byte {end} were found"
        tree.tell(ProblemKind.TRUNCATED, detail)
    return tree.conclude()


def _members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members one after the other, without keeping them.

    Raises:
        Damaged: a header that leads backwards, and round and round.
    """
    end = -1
    while (member := tar.next()) is not None:
        if tar.offset <= end:
            raise Damaged("damaged: a member of negative size")
        end = tar.offset
        tar.members = []  # type: ignore[attr-defined]
        yield member


def _tar_member(member: tarfile.TarInfo) -> Member | Refused | None:
    if member.isdir():
        return None
    if member.issym() or member.islnk():
        return Refused("a link in an archive, not followed")
    if not member.isreg():
        return Refused("a special file in an archive, not a file")
    if member.issparse():
        return Refused("stored with holes, not read")
    return Member(member.offset_data, member.size)


def _end_of_tar(file: io.RawIOBase, place: int) -> str:
    """an_end_is_an_end."""
    file.seek(place)
    block = file.read(512) or b""
    if len(block) == 512 and not any(block):
        return ""
    return "cut: its end mark is missing" if len(block) < 512 else "damaged: no header where one should be"


def of_zip(opened: Opened) -> Archive | Fault:
    """What a zip holds, by its directory."""
    import zipfile

    archive = Archive()
    tree = _Tree(archive)
    try:
        with zipfile.ZipFile(_Directory(opened.file, 0, opened.size)) as directory:
            for info in directory.infolist():
                tree.add(info.filename, _zip_member(info))
                if tree.count > MAX_MEMBERS:
                    tree.tell(ProblemKind.LIMIT, f"more than {MAX_MEMBERS} members, the rest was not looked at")
                    break
    except (zipfile.BadZipFile, OSError, ValueError, OverflowError, NotImplementedError, struct.error) as error:
        detail = reason(error) if isinstance(error, OSError) else str(error)
        return Fault(False, f"no zip archive that can be read, or one that is cut: {detail or type(error).__name__}")
    return tree.conclude()


class _Directory(Part):
    """A zip as :mod:`zipfile` reads it: from either end, and never much at once."""

    def read(self, size: int = -1) -> bytes:
        wanted = max(self._size - self._at, 0) if size < 0 else size
        if wanted > MAX_DIRECTORY:
            raise Damaged(f"a directory of {wanted} bytes")
        return super().read(wanted) or b""


def _zip_member(info: object) -> Member | Refused | None:
    import zipfile

    assert isinstance(info, zipfile.ZipInfo)
    if info.is_dir():
        return None
    if info.flag_bits & 0x1:
        return Refused("encrypted")
    kind = info.external_attr >> 28
    if kind not in (0, 0o10):  # 0: made without Unix modes
        return Refused("a link or a special file in an archive, not followed")
    if info.compress_type == zipfile.ZIP_DEFLATED:
        return Member(info.header_offset, info.file_size, info.compress_size, True, info.CRC)
    if info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size:
        return Member(info.header_offset, info.file_size, info.compress_size)
    return Refused(f"compression method {info.compress_type} of zip, not supported")
