"""Paths that are addresses of a remote store: ``Path("s3://bucket/run")`` keeps its protocol as its first part."""

from __future__ import annotations

from pathlib import Path


def is_remote(path: Path) -> bool:
    """Whether a path is an address.

    >>> is_remote(Path("s3://bucket/run")), is_remote(Path("/data/run")), is_remote(Path("run"))
    (True, False, False)
    """
    first = path.parts[0] if path.parts else ""
    return len(first) > 2 and first.endswith(":") and first[:-1].isalnum()


def address(path: Path) -> str:
    """The address that a path stands for.

    >>> address(Path("s3://bucket/run/step0"))
    's3://bucket/run/step0'
    """
    protocol, *rest = path.parts
    return f"{protocol}//{'/'.join(rest)}"


def named(path: Path) -> str:
    """A path as people write it."""
    return address(path) if is_remote(path) else str(path)


def absolute(path: Path) -> Path:
    """A path that means the same in every folder and process."""
    return path if is_remote(path) else path.absolute()
