"""Dumps in a remote store, by fsspec: ``s3://bucket/run/step0``, and every other protocol that it knows.

The one module that knows fsspec. A listing is asked for once; those of the folders below it are fetched meanwhile, some
at a time and :data:`MAX_LISTINGS` at most. Files are read through blocks, from any place on, and never written.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstnan.read.sources.files import MAX_BYTES, Fault, Opened
from firstnan.read.sources.folders import Entry, Unlistable, in_natural_order, shown
from firstnan.read.sources.remote_path import address

if TYPE_CHECKING:
    from firstnan.read.sources.archive_members import Remark

AT_ONCE = 16
"""Listings that are fetched at the same time."""
MAX_LISTINGS = 20_000
"""Folders that are listed."""
MAX_ENTRIES = 200_000
"""Entries of one folder."""
_BLOCK = 4 << 20
"""Bytes that are fetched at once."""
_PACKAGES = {
    "s3": "s3fs", "obs": "s3fs", "oss": "ossfs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs",
    "az": "adlfs", "http": "aiohttp", "https": "aiohttp", "hdfs": "pyarrow", "webhdfs": "requests", "sftp": "paramiko",
    "ssh": "paramiko", "smb": "smbprotocol",
}  # fmt: skip
"""Protocols -> what fsspec needs for them."""
_SPOKEN_BY = {"obs:": "s3:"}
"""Protocols that fsspec does not know, and the one that their stores speak as well: OBS buckets take S3."""

_Listing = list[Mapping[str, Any]]


class Remote:
    """Implements :class:`firstnan.read.sources.places.Source` for what fsspec reaches."""

    def entries(self, path: Path) -> list[Entry] | Unlistable:
        found = _listing(path)
        if isinstance(found, Fault):
            return Unlistable(found.detail)
        names = [(_name(one), one.get("type") == "directory") for one in found]
        kept = [(name, is_folder) for name, is_folder in names if name and not name.startswith(".")]
        return in_natural_order([Entry(shown(name), path / name, is_folder) for name, is_folder in kept])

    def size(self, path: Path) -> int | Fault:
        found = _entry(path)
        if isinstance(found, Fault):
            return found
        if found.get("type") == "directory":
            return Fault(False, "a directory, not a file")
        size = found.get("size")
        return size if isinstance(size, int) else Fault(False, "the store does not tell its size")

    def open(self, path: Path) -> Opened | Fault:
        size, entry = self.size(path), _entry(path)
        if isinstance(size, Fault) or isinstance(entry, Fault):
            return size if isinstance(size, Fault) else Fault(False, "no such file")
        if size > MAX_BYTES:
            return Fault(False, f"{size} bytes, more than the limit of {MAX_BYTES}")
        store = _store_of(path)
        if isinstance(store, Fault):
            return store
        try:
            file = store.open(_url(path), "rb", block_size=_BLOCK, cache_type="readahead")
            return Opened(_Stream(file), size, _modified(entry))
        except Exception as error:  # noqa: BLE001  (every store has errors of its own)
            return _fault(error)

    def remarks(self, path: Path) -> tuple[Remark, ...]:  # noqa: ARG002
        return ()


class _Stream(io.RawIOBase):
    """A file of a store; whatever goes wrong while it is read is an OSError."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._file.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        target = memoryview(buffer).cast("B")
        filled = 0
        try:
            while filled < len(target):
                part = self._file.read(len(target) - filled)
                if not part:
                    break
                target[filled : filled + len(part)] = part
                filled += len(part)
        except Exception as error:  # stores raise errors of their own kinds, of packages that are not ours
            raise OSError(5, _fault(error).detail) from error
        return filled

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


# -- listings --------------------------------------------------------------------------------------------------


@cache
def _store(protocol: str, host: str) -> Any:
    """The file system of a protocol (``s3:``) and a host or bucket, made once in a process; a Fault: there is none."""
    if find_spec("fsspec") is None:
        return Fault(False, _needs(protocol))
    from fsspec.core import url_to_fs

    try:
        return url_to_fs(f"{_SPOKEN_BY.get(protocol, protocol)}//{host}", skip_instance_cache=True)[0]
    except Exception as error:  # noqa: BLE001  (no such protocol, its package is absent, no credentials, no Java ...)
        lacks = _needs(protocol) if isinstance(error, ImportError) else f"{protocol}//"
        return Fault(False, f"{lacks}: {_fault(error).detail}")


def _needs(protocol: str) -> str:
    package = _PACKAGES.get(protocol[:-1])
    beside = " and the package of its protocol" if package is None else ""
    return f"a remote path, which needs: pip install 'firstnan[remote]'{beside or f' {package}'}"


def _store_of(path: Path) -> Any:
    return _store(path.parts[0], path.parts[1] if len(path.parts) > 1 else "")


def _url(path: Path) -> str:
    """The address as the store's package takes it."""
    protocol, *rest = path.parts
    return address(Path(_SPOKEN_BY.get(protocol, protocol), *rest))


class _Listings:
    """The folders that were listed, and those that are being listed; a listing is asked for once in a process."""

    def __init__(self) -> None:
        self._found: dict[Path, Future[_Listing | Fault]] = {}
        self._pool: ThreadPoolExecutor | None = None

    def of(self, path: Path) -> _Listing | Fault:
        """What a folder holds; those of the folders in it are fetched from now on."""
        found = self._asked(path).result()
        if not isinstance(found, Fault):
            for one in found:
                if one.get("type") == "directory" and len(self._found) < MAX_LISTINGS:
                    self._asked(path / _name(one))
        return found

    def _asked(self, path: Path) -> Future[_Listing | Fault]:
        if path not in self._found:
            self._pool = self._pool or ThreadPoolExecutor(AT_ONCE, thread_name_prefix="firstnan-listing")
            self._found[path] = self._pool.submit(_list, path)
        return self._found[path]

    def holds(self, path: Path) -> bool:
        """Whether a folder was listed, or is being listed."""
        return path in self._found

    def forget(self) -> None:
        """Asks again from now on: what is there may have changed."""
        self._found.clear()


_LISTINGS = _Listings()


def forget() -> None:
    """What is there may have changed: ask again from now on."""
    _LISTINGS.forget()
    _told.cache_clear()


def _listing(path: Path) -> _Listing | Fault:
    return _LISTINGS.of(path)


def _list(path: Path) -> _Listing | Fault:
    store = _store_of(path)
    if isinstance(store, Fault):
        return store
    try:
        found: _Listing = store.ls(_url(path), detail=True)
    except Exception as error:  # noqa: BLE001  (every store has errors of its own)
        return _fault(error)
    if len(found) > MAX_ENTRIES:
        return Fault(False, f"more than {MAX_ENTRIES} entries")
    own = _url(path).partition("//")[2].rstrip("/")
    return [one for one in found if str(one.get("name", "")).rstrip("/").removeprefix(own) not in ("", "/")]


def _entry(path: Path) -> Mapping[str, Any] | Fault:
    """What the listing of its folder says of a file; of one whose folder was not listed, what the store says."""
    if not _LISTINGS.holds(path.parent):
        return _told(path)
    found = _listing(path.parent)
    if isinstance(found, Fault):
        return found
    entry = next((one for one in found if _name(one) == path.name), None)
    if entry is None:
        return Fault(True, "no such file")
    is_told = entry.get("type") == "directory" or isinstance(entry.get("size"), int)
    return entry if is_told else _told(path)  # listings of web servers hold names alone


@cache
def _told(path: Path) -> Mapping[str, Any] | Fault:
    store = _store_of(path)
    if isinstance(store, Fault):
        return store
    try:
        found: Mapping[str, Any] = store.info(_url(path))
    except Exception as error:  # noqa: BLE001  (every store has errors of its own)
        return _fault(error)
    return found


def _modified(entry: Mapping[str, Any]) -> int:
    """When a file was last written to, in nanoseconds; 0 where the store does not tell."""
    for key in ("LastModified", "mtime", "last_modified", "modified"):
        value = entry.get(key)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1e9)
        if isinstance(value, (int, float)):
            return int(value * 1e9)
    return 0


def _name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("name", "")).rstrip("/").rpartition("/")[2]


def _fault(error: Exception) -> Fault:
    missing = isinstance(error, FileNotFoundError)
    detail = "no such file or directory" if missing else f"{type(error).__name__}: {error}".rstrip(": ")
    return Fault(missing, " ".join(detail.split())[:300])
