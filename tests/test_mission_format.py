"""The mission's text from end to end: its illustrative dump in, its two files out, with exactly its fields."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mission_dump
from firstnan.cli import main as cli


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return mission_dump.write(tmp_path / "input_path")


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    code = cli.main([*(str(argument) for argument in arguments), "--lang", "en"])
    out, err = capsys.readouterr()
    assert code == 1, err
    return out


@pytest.mark.parametrize("option", ["-o", "--mission-file"])
def test_ranks_writes_cross_rank_analysis(
    option: str, dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "cross_rank_analysis.json"
    run(capsys, "ranks", dump, option, target)
    assert json.loads(target.read_text("utf-8")) == mission_dump.CROSS_RANK


@pytest.mark.parametrize("option", ["-o", "--mission-file"])
@pytest.mark.parametrize("place", [("input_path", "--rank", "2"), ("input_path/rank2",)], ids=["all", "one"])
def test_trace_writes_single_rank_trace(
    option: str, place: tuple[str, ...], dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "single_rank_trace.json"
    run(capsys, "trace", dump.parent / place[0], *place[1:], option, target)
    assert json.loads(target.read_text("utf-8")) == mission_dump.SINGLE_RANK


def test_the_calls_stand_in_causal_order(dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "cross_rank_analysis.json"
    run(capsys, "ranks", dump, "-o", target)
    assert list(json.loads(target.read_text("utf-8"))) == list(mission_dump.CROSS_RANK)


def test_analyze_names_rank_operator_and_line(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = run(capsys, "analyze", dump)
    assert told.startswith("+Inf began on rank 2, step 0, in Torch.ops.aten.matmul_0_0")
    assert "forward.py:123" in told
    assert "calls were matched by record name" in " ".join(told.split())


def test_the_order_in_the_file_decides_not_the_numbers_in_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``matmul_7_0`` before ``matmul_0_0`` in the file is first."""
    dump = mission_dump.write(tmp_path / "input_path")
    file = dump / "rank2" / "dump.json"
    document = json.loads(file.read_text("utf-8"))
    overflow = document["data"]["Torch.ops.aten.matmul_0_0"]
    document["data"] = {"Torch.ops.aten.matmul_7_0": overflow, **document["data"]}
    file.write_text(json.dumps(document), "utf-8")
    target = tmp_path / "single_rank_trace.json"
    run(capsys, "trace", dump, "--rank", "2", "-o", target)
    first = json.loads(target.read_text("utf-8"))["first_anomaly"]
    assert (first["op_name"], first["exec_order"]) == ("Torch.ops.aten.matmul_7_0", 0)


def test_a_rejected_candidate_gives_the_next(dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The mission's step 6: when the first candidate is ruled out, go on with those behind it."""
    target = tmp_path / "single_rank_trace.json"
    run(capsys, "trace", dump, "--rank", "2", "--exclude-op", "Torch.ops.aten.matmul_0_0", "-o", target)
    first = json.loads(target.read_text("utf-8"))["first_anomaly"]
    assert first["exec_order"] > mission_dump.SINGLE_RANK["first_anomaly"]["exec_order"]  # type: ignore[index]
