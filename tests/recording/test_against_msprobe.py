"""The dump of our recorder and MSProbe's dump of the same step give the same rank, line and mechanism.

The programs are those of ``tests/dumpgen``: real models with faults that arithmetic makes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")
pytest.importorskip("transformers", reason="the models of transformers are not installed")
pytest.importorskip("msprobe", reason="MSProbe is not installed (pip install mindstudio-probe==26.2.0)")

import firstnan  # noqa: E402
from firstnan.answer.model import Report  # noqa: E402

pytestmark = pytest.mark.torch

FAULTS = [
    "bert-exp",
    "clip-zero-embedding",
    "gpt2-distill-log0",
    "llama-ckpt-nonreentrant-exp",
    "t5-decoder-masked-softmax",
    "unet-ddp-snr-unclamped",
    "vit-acos-backward",
    "vit-ddp-sqrt-backward",
    "vit-bf16-divnorm",
]


class Said(NamedTuple):
    """What a report says of its first cause."""

    rank: int
    line: str
    mechanism: str

    @classmethod
    def of(cls, report: Report) -> Said:
        cause = report.root_causes[0]
        place = cause.location
        line = "" if place is None else f"{Path(place.file).name}:{place.line} {place.source}"
        return cls(cause.rank, line, cause.mechanism.kind.value)


@pytest.mark.parametrize("name", FAULTS)
def test_the_same_rank_line_and_mechanism(tmp_path: Path, name: str) -> None:
    program = Path(__file__).with_name("dump_twice.py")
    subprocess.run([sys.executable, str(program), name, str(tmp_path)], check=True, timeout=400)
    theirs = Said.of(firstnan.analyze(tmp_path / "theirs"))
    assert theirs.line
    assert Said.of(firstnan.analyze(tmp_path / "ours")) == theirs
