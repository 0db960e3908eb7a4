"""What a plain analysis loads: nothing of archives, stores, servers or comparisons that it does not use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UNUSED = (
    *("tarfile", "zipfile", "difflib", "fsspec", "mcp", "zstandard", "concurrent.futures"),
    *("firstnan.read.sources.archives", "firstnan.read.sources.remote", "firstnan.read.scan.large_values"),
    *("firstnan.run.watch", "firstnan.run.compare", "firstnan.run.growth", "firstnan.rank.magnitudes"),
    *("firstnan.rank.comparing", "firstnan.serving", "firstnan.show.comparison", "firstnan.words.zh"),
    *("hashlib", "firstnan.report.redaction", "firstnan.show.json", "firstnan.show.mission_files"),
)
PROGRAM = """
import sys
from firstnan.cli.main import main
main(sys.argv[1:])
print("\\n".join(sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize("dump", ["examples/small/exp_overflow", "examples/dp2-tp2/step0/rank0"])
def test_a_plain_analysis_loads_nothing_that_it_does_not_use(dump: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "analyze", str(ROOT / dump), "--jobs", "1", "--lang", "en"],
        env={"PYTHONPATH": str(ROOT / "src")},
        text=True,
        capture_output=True,
        check=True,
    )
    loaded = set(done.stderr.split())
    assert "firstnan.run.pipeline" in loaded
    assert loaded & set(UNUSED) == set()
