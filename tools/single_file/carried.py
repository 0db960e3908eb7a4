"""Inside ``firstnan.pyz``: makes the packages that it carries importable.

The archive holds wheels of the packages that firstnan needs, for CPython on Linux. Those of this Python and machine are
unpacked once into a cache folder of the user, since compiled modules cannot be loaded out of an archive. No file there
is trusted without a look: one that is not the archive's is replaced.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shutil
import stat
import sys
import sysconfig
import tempfile
import zipfile
import zlib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

ARCHIVE = Path(__file__).resolve().parent
"""This module lies at the top of the archive."""
INDEX = "wheels/index.json"
"""For each Python and machine the wheels with their SHA-256."""


def add() -> None:
    """Put the carried packages in front of the import path; without a fit, what is installed has to do."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        index = json.loads(archive.read(INDEX))
        wanted = index["wheels"].get(_platform())
        if wanted is None:
            missing = [name for name in index["packages"] if find_spec(name) is None]
            if missing:
                _stop(index["fits"], missing)
            return
        wheels = [zipfile.ZipFile(io.BytesIO(_checked(archive, name, digest))) for name, digest in wanted]
    key = hashlib.sha256(json.dumps(wanted).encode()).hexdigest()[:16]
    place = _unpacked(wheels, f"{_platform()}-{key}")
    sys.path.insert(0, str(place))
    try:
        for name in index["packages"]:
            import_module(name)
    except ImportError as error:  # a place from which nothing may be run
        print(f"firstnan: what was unpacked to {place} cannot be loaded: {error}", file=sys.stderr)
        print("  set XDG_CACHE_HOME to a folder of yours from which programs may be run", file=sys.stderr)
        sys.exit(2)


def _platform() -> str:
    """As in the index: ``cp311-x86_64``; empty for a Python for which no wheel fits."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED") or sys.maxsize < 2**32:
        return ""
    if sys.platform != "linux" or not _has_glibc():
        return ""
    return f"cp{sys.version_info.major}{sys.version_info.minor}-{platform.machine()}"


def _has_glibc() -> bool:
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        major, minor = version.split(".")[:2]
        return name == "glibc" and (int(major), int(minor)) >= (2, 17)
    except (ValueError, OSError):  # another C library
        return False


def _stop(fits: str, missing: list[str]) -> NoReturn:
    names = " ".join(missing)
    here = f"{platform.python_implementation()} {platform.python_version()} on {sys.platform} {platform.machine()}"
    print(f"firstnan: this file carries {' and '.join(missing)} for {fits}; this is {here}", file=sys.stderr)
    print(f"  run it with such a Python, or install them for this one: pip install {names}", file=sys.stderr)
    sys.exit(2)


def _checked(archive: zipfile.ZipFile, name: str, digest: str) -> bytes:
    content = archive.read(f"wheels/{name}")
    if hashlib.sha256(content).hexdigest() != digest:
        print(f"firstnan: {ARCHIVE} is damaged ({name}): copy it again", file=sys.stderr)
        sys.exit(2)
    return content


def _unpacked(wheels: list[zipfile.ZipFile], name: str) -> Path:
    """The folder with the packages: in the user's cache, or for this run alone where there is none to write into."""
    cache = _cache()
    if cache is None:
        return _for_this_run(wheels)
    place = cache / name
    if _is_ours(place) and _is_whole(wheels, place):
        return place
    try:
        made = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=cache))  # for the user alone
        _extract(wheels, made)
        _put(made, place)
    except OSError:  # a full disk; a folder that may not be written
        return _for_this_run(wheels)
    return place if _is_ours(place) and _is_whole(wheels, place) else _for_this_run(wheels)


def _cache() -> Path | None:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111  (it may not be known)
    cache = Path(base, "firstnan")
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return cache if cache.is_absolute() and _is_ours(cache) else None


def _is_ours(folder: Path) -> bool:
    """A folder, no link, of this user, into which nobody else can write."""
    try:
        seen = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid() and not seen.st_mode & 0o022


def _is_whole(wheels: list[zipfile.ZipFile], place: Path) -> bool:
    """Every file is there with the content that it has in the wheel."""
    try:
        return all(
            zlib.crc32((place / entry.filename).read_bytes()) == entry.CRC
            for wheel in wheels
            for entry in wheel.infolist()
            if not entry.is_dir()
        )
    except OSError:
        return False


def _extract(wheels: list[zipfile.ZipFile], place: Path) -> None:
    before = os.umask(0o077)
    try:
        for wheel in wheels:
            wheel.extractall(place)
    finally:
        os.umask(before)


def _put(made: Path, place: Path) -> None:
    """In one step; another process may have been faster, or an older state is in the way."""
    try:
        made.rename(place)
    except OSError:
        old = Path(tempfile.mkdtemp(prefix="old-", dir=made.parent))
        try:
            place.rename(old / "it")
            made.rename(place)
        except OSError:  # another process has done the same
            shutil.rmtree(made, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _for_this_run(wheels: list[zipfile.ZipFile]) -> Path:
    import atexit

    place = Path(tempfile.mkdtemp(prefix="firstnan-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    _extract(wheels, place)
    return place
