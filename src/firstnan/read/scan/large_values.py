"""Whether a dump.json holds a value near the limit of float32, without parsing any of it."""

from __future__ import annotations

from firstnan.dump.folders import FileKind, RankFolder
from firstnan.read.scan.record_index import Doubt, RecordFile

_EXPONENTS = (b"e+36", b"e+37", b"e+38")
"""How values from 1e36 on are written; 1 % of the largest float32 (and of the largest bfloat16) is 3.4e36."""


def holds_large(folder: RankFolder) -> bool:
    """False as well where the file cannot be passed: its reader tells why."""
    try:
        parts = RecordFile(folder.path / FileKind.DUMP.value).first_pass()
        return any(part.text.find(mark, 0, end) >= 0 for part, end, _ in parts for mark in _EXPONENTS)
    except Doubt:
        return False
