"""Reading compressed data as if it were a file: any place can be asked for, and no place costs memory.

Deflate (gzip, zip) is entered again at marks that the first pass leaves, at most :data:`MAX_MARKS` of them. zstd cannot
be entered in the middle: going back starts at the beginning.
"""

from __future__ import annotations

import errno
import io
import zlib
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from firstnan.read.sources.files import MAX_BYTES

FREE = 64 << 20
"""Bytes that may come out before the ratio is looked at."""
MAX_MARKS = 128
"""Places at which decompression can begin; each takes some 50 KB of memory."""
_SPACING = 4 << 20
_CHUNK = 1 << 16
_ZSTD_CHUNK = 1 << 10
"""Bytes of zstd that are decompressed at once: 1 KB becomes 32 MB at most."""
_GZIP, _RAW = 31, -15


class Damaged(OSError):  # noqa: N818  (what is wrong with the data, not with the program)
    """The data cannot be decompressed, or is made to fill the machine."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EIO, why)


class Decoder(Protocol):
    """A decompressor, somewhere in its input."""

    is_cut: bool
    """The input ended before its end mark."""

    def pull(self, file: io.RawIOBase, limit: int) -> bytes:
        """The next bytes, at most ``limit`` where the format allows it; none at the end.

        Raises:
            Damaged: the input is not what the format allows.
        """
        ...

    def copy(self) -> Decoder | None:
        """The same decompressor at the same place; None: the format has no such thing."""
        ...


class _Inflater:
    """gzip, with any number of members; or the deflated data of one zip member."""

    def __init__(self, wbits: int) -> None:
        self.is_cut = False
        self._wbits = wbits
        self._object = zlib.decompressobj(wbits)
        self._waiting = b""
        """Input that was read and not used yet."""
        self._at = 0
        """Place of the next byte to read."""

    def pull(self, file: io.RawIOBase, limit: int) -> bytes:
        while True:
            if not self._waiting:
                self._waiting = _read_at(file, self._at)
                self._at += len(self._waiting)
            if self._object.eof and not self._next_member():
                return b""
            if not self._waiting:
                self.is_cut = not self._object.eof
                return b""
            try:
                found = self._object.decompress(self._waiting, limit)
            except zlib.error as error:
                raise Damaged(f"damaged: {error}") from error
            self._waiting = self._object.unused_data if self._object.eof else self._object.unconsumed_tail
            if found:
                return found

    def _next_member(self) -> bool:
        """Whether another gzip member follows; zeros behind the last one are padding."""
        if self._wbits == _RAW:
            return False
        rest = self._waiting.lstrip(b"\0")
        if not rest:
            more, self._waiting = bool(self._waiting), b""
            return more
        if not rest.startswith(b"\x1f"):
            raise Damaged("damaged: something stands behind the compressed data")
        self._waiting = rest
        self._object = zlib.decompressobj(self._wbits)
        return True

    def copy(self) -> _Inflater:
        made = _Inflater(self._wbits)
        made._object, made._waiting, made._at = self._object.copy(), self._waiting, self._at
        return made


class _Zstd:
    """zstd, with any number of frames."""

    def __init__(self) -> None:
        import zstandard

        self.is_cut = False
        self._module = zstandard
        self._object = zstandard.ZstdDecompressor().decompressobj()
        self._waiting = b""
        self._at = 0
        self._is_open = False
        """Inside a frame."""

    def pull(self, file: io.RawIOBase, limit: int) -> bytes:  # noqa: ARG002  (bounded by what is given to it)
        while True:
            if not self._waiting:
                self._waiting = _read_at(file, self._at)
                self._at += len(self._waiting)
                if not self._waiting:
                    self.is_cut = self._is_open
                    return b""
            given, self._waiting = self._waiting[:_ZSTD_CHUNK], self._waiting[_ZSTD_CHUNK:]
            try:
                found: bytes = self._object.decompress(given)
            except self._module.ZstdError as error:
                raise Damaged(f"damaged: {error}") from error
            self._is_open = not self._object.eof
            if self._object.eof:
                self._waiting = self._object.unused_data + self._waiting
                self._object = self._module.ZstdDecompressor().decompressobj()
            if found:
                return found

    def copy(self) -> None:
        return None


def _read_at(file: io.RawIOBase, place: int) -> bytes:
    file.seek(place)
    return file.read(_CHUNK) or b""


class Format(Struct, frozen=True):
    """A way to compress."""

    name: str
    start: Callable[[], Decoder]
    max_ratio: int
    """Bytes that may come out of one; dumps give 15 to 100 (the same ranks again and again: zstd finds them)."""
    package: str = ""
    """The package it needs; empty: none."""
    extra: str = ""
    """The extra of firstnan that brings the package."""


GZIP = Format("gzip", lambda: _Inflater(_GZIP), 500)
DEFLATE = Format("deflate", lambda: _Inflater(_RAW), 500)
ZSTD = Format("zstd", _Zstd, 20_000, "zstandard", "zstd")
SUFFIXES = {".gz": GZIP, ".zst": ZSTD}


def lacking(form: Format) -> str | None:
    """What to install; None: nothing."""
    from importlib.util import find_spec

    if not form.package or find_spec(form.package) is not None:
        return None
    return f"compressed with {form.name}, which needs: pip install 'firstnan[{form.extra}]'"


class Index(Struct):
    """What the first pass over compressed data found; shared by all that read the same data again."""

    form: Format
    size: int = 0
    """Bytes that came out."""
    crc: int = 0
    """CRC-32 of what came out."""
    is_cut: bool = False
    marks: list[tuple[int, Decoder]] = []
    """Places at which decompression can begin."""
    spacing: int = _SPACING

    def remember(self, place: int, decoder: Decoder) -> None:
        """Leaves a mark, unless one is near; where there are many, every other one goes."""
        if place < (self.marks[-1][0] if self.marks else 0) + self.spacing:
            return
        copy = decoder.copy()
        if copy is None:
            return
        self.marks.append((place, copy))
        if len(self.marks) > MAX_MARKS:
            self.marks, self.spacing = self.marks[1::2], 2 * self.spacing

    def before(self, place: int) -> tuple[int, Decoder]:
        """Where decompression begins to reach a place."""
        for at, decoder in reversed(self.marks):
            if at <= place:
                copy = decoder.copy()
                if copy is not None:
                    return at, copy
        return 0, self.form.start()


class Unpacked(io.RawIOBase):
    """What comes out of compressed data, as a file; ``file`` is closed with it if it ``owns`` it.

    Raises:
        Damaged: from reading.
    """

    def __init__(self, file: io.RawIOBase, size: int, index: Index, *, owns: bool = True) -> None:
        super().__init__()
        self._file = file
        self._owns = owns
        self._packed = size
        """Bytes of the compressed data."""
        self._index = index
        self._at, self._decoder = index.before(0)
        self._waiting = memoryview(b"")
        """What came out and was not asked for yet; it stands at ``_at``."""
        self._wanted = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._wanted

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET:
            raise io.UnsupportedOperation("only from the beginning")
        self._wanted = offset
        return offset

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        target = memoryview(buffer).cast("B")
        if not self._reach(self._wanted):
            return 0
        filled = 0
        while filled < len(target) and self._has_more():
            taken = min(len(target) - filled, len(self._waiting))
            target[filled : filled + taken] = self._waiting[:taken]
            self._drop(taken)
            filled += taken
        self._wanted += filled
        return filled

    def read_to_end(self) -> None:
        """Decompresses all that is left, so that sizes and checksums are known."""
        while self._has_more():
            self._drop(len(self._waiting))

    def _reach(self, place: int) -> bool:
        """Goes to a place; False: the data ends before it."""
        at, decoder = self._index.before(place)
        if place < self._at or at > self._at + len(self._waiting):
            self._at, self._decoder, self._waiting = at, decoder, memoryview(b"")
        while self._at < place:
            if not self._has_more():
                return False
            self._drop(min(place - self._at, len(self._waiting)))
        return True

    def _drop(self, count: int) -> None:
        self._waiting = self._waiting[count:]
        self._at += count

    def _has_more(self) -> bool:
        if self._waiting:
            return True
        index = self._index
        found = self._decoder.pull(self._file, _CHUNK)
        end = self._at + len(found)
        if end > MAX_BYTES:
            raise Damaged(f"unpacks to more than the limit of {MAX_BYTES} bytes")
        if end > FREE and end > index.form.max_ratio * self._packed:
            raise Damaged(f"unpacks to more than {index.form.max_ratio} times its size: not taken for a dump")
        if end > index.size:
            index.size, index.crc = end, zlib.crc32(found, index.crc)
            index.remember(end, self._decoder)
        if not found:
            index.is_cut = self._decoder.is_cut
            return False
        self._waiting = memoryview(found)
        return True

    def close(self) -> None:
        if self._owns:
            self._file.close()
        super().close()


class Part(io.RawIOBase):
    """A part of a file, as a file; ``file`` stays open."""

    def __init__(self, file: io.RawIOBase, offset: int, size: int) -> None:
        super().__init__()
        self._file = file
        self._offset = offset
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError(22, "a place before the beginning")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        target = memoryview(buffer).cast("B")[: max(self._size - self._at, 0)]
        self._file.seek(self._offset + self._at)
        filled = 0
        while filled < len(target):
            count = self._file.readinto(target[filled:])
            if not count:
                break
            filled += count
        self._at += filled
        return filled


class Window(Part):
    """A part of a file, as a file; ``file`` is closed with it."""

    def close(self) -> None:
        self._file.close()
        super().close()


def measured(file: io.RawIOBase, size: int, form: Format) -> Index:
    """What a first pass over compressed data finds; the file stays open.

    Raises:
        Damaged: the data cannot be decompressed.
    """
    index = Index(form)
    Unpacked(file, size, index, owns=False).read_to_end()
    return index
