"""Every real sample and every case is read without an exception (they lie beside the repository, where present)."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_dumps import SHARED

from firstnan.dump.folders import FileKind
from firstnan.dump.problems import ProblemKind
from firstnan.read.callers import call_site
from firstnan.read.layout import dump_layout
from firstnan.read.records import full_reader

ROOTS = sorted(
    path for folder in ("format/samples", "cases/bug-reports") for path in (SHARED / folder).glob("*/") if path.is_dir()
)


@pytest.mark.skipif(not ROOTS, reason="the samples are not here")
def test_there_are_samples() -> None:
    assert len(ROOTS) > 30


@pytest.mark.parametrize("root", ROOTS, ids=lambda path: path.name)
def test_every_sample_is_read(root: Path) -> None:
    found = dump_layout.find(root)
    assert found.folders
    for folder in found.folders:
        dump = full_reader.read(folder)
        assert dump.records or any(not p.judged for p in dump.problems)
        assert ProblemKind.BAD_CONTENT not in {p.kind for p in dump.problems}
        names = [record.name.full for record in dump.records]
        assert all(record.name.api for record in dump.records)
        assert all(record.name.prefix or folder.file is FileKind.SAVED for record in dump.records)
        assert all(record.name.call is not None or "parameters_grad" in record.name.full for record in dump.records)
        sites, problems = call_site.read(folder, names)
        assert set(sites) == set(names)
        assert ProblemKind.BAD_CONTENT not in {p.kind for p in problems}
