"""Reads the guard.json of a rank folder, where there is one."""

from __future__ import annotations

import msgspec

from firstnan.dump.folders import RankFolder
from firstnan.dump.guard_file import GUARD_FILE, GuardFile
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.read.sources.files import Fault
from firstnan.read.sources.places import read_bytes, size

_LARGEST = 1 << 20
"""Bytes; a guard writes some hundred."""
_DECODER = msgspec.json.Decoder(GuardFile)


def read(folder: RankFolder) -> tuple[GuardFile | None, tuple[Problem, ...]]:
    """What the guard of this rank saw, and what was wrong with its file. Nearly all folders have none."""
    path = folder.path / GUARD_FILE
    length = size(path)
    if isinstance(length, Fault):
        return None, () if length.missing else (_problem(folder, length.detail),)
    if length > _LARGEST:
        return None, (_problem(folder, f"{length} bytes, more than any guard writes"),)
    content = read_bytes(path)
    if isinstance(content, Fault):
        return None, (_problem(folder, content.detail),)
    try:
        return _DECODER.decode(content), ()
    except (msgspec.DecodeError, RecursionError) as error:
        return None, (_problem(folder, str(error)),)


def _problem(folder: RankFolder, detail: str) -> Problem:
    """Without it nobody knows whether the step was finite in its second run."""
    label = f"{folder.label}/{GUARD_FILE}"
    return Problem(ProblemKind.GUARD_FILE, folder.step, folder.rank, label, detail, judged=False)
