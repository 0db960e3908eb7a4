"""The example dump that comes with the package: four ranks, data and tensor parallel, one float32 exp overflow."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Traversable  # the name that Python 3.10 has

NAME = "dp2-tp2"
_PACKAGED = "demo_data"


def unpack(folder: Path) -> Path:
    """Write the example dump below ``folder``; gives the dump's root.

    Raises:
        OSError: the folder cannot be written.
    """
    root = folder / NAME
    _copy(_example(), root)
    return root


def _example() -> Traversable:
    """The plain folder in ``examples/``; built packages carry it inside, a checkout has it beside ``src``."""
    packaged = resources.files("firstnan") / _PACKAGED / NAME
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "examples" / NAME


def _copy(source: Traversable, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        if entry.is_dir():
            _copy(entry, target / entry.name)
        else:
            (target / entry.name).write_bytes(entry.read_bytes())
