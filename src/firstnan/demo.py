"""The example dump that comes with the package: four ranks, data and tensor parallel, one float32 exp overflow."""

from __future__ import annotations

import zipfile
from importlib import resources
from pathlib import Path

NAME = "dp2-tp2"


def unpack(folder: Path) -> Path:
    """Write the example dump below ``folder``; gives the dump's root.

    Raises:
        OSError: the folder cannot be written.
    """
    packed = resources.files("firstnan").joinpath("demo_data") / f"{NAME}.zip"
    with packed.open("rb") as stream, zipfile.ZipFile(stream) as archive:
        archive.extractall(folder)
    return folder / NAME
