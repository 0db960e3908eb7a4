"""The skill text that skills/nan-overflow-detection implements, from end to end: its dump in, its two files out."""

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
    assert "firstnan matched calls by record name" in " ".join(told.split())


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
    """Step 6 of the skill text: when the first candidate is ruled out, go on with those behind it."""
    target = tmp_path / "single_rank_trace.json"
    run(capsys, "trace", dump, "--rank", "2", "--exclude-op", "Torch.ops.aten.matmul_0_0", "-o", target)
    first = json.loads(target.read_text("utf-8"))["first_anomaly"]
    assert first["exec_order"] > mission_dump.SINGLE_RANK["first_anomaly"]["exec_order"]  # type: ignore[index]


@pytest.mark.parametrize("forms", list(mission_dump.Forms.all()), ids=str)
def test_every_form_of_the_format_gives_the_same_answer(
    forms: mission_dump.Forms, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Inputs under ``input``, ``input_args`` or ``input_kwargs``, numbers or text, output as list or object."""
    dump = mission_dump.write_two_ranks(tmp_path / "input_path", forms)
    run(capsys, "ranks", dump, "-o", tmp_path / "cross_rank_analysis.json")
    call = json.loads((tmp_path / "cross_rank_analysis.json").read_text("utf-8"))["Distributed.all_reduce_0_0"]
    assert call == {"source_ranks": [1], "propagated_ranks": [0], "normal_ranks": [], "total_ranks": 2}
    run(capsys, "trace", dump, "--rank", "1", "-o", tmp_path / "single_rank_trace.json")
    first = json.loads((tmp_path / "single_rank_trace.json").read_text("utf-8"))["first_anomaly"]
    assert first["op_name"] == "Torch.ops.aten.matmul_0_0"
    assert first["output"] == {"0": {"Max": "inf", "Min": "-0.25"}}
    assert {tuple(tensor["shape"]) for tensor in first["input_info"]} == {(4, 4)}
    assert first["construct_chain"][1] == "Torch.nn.functional.linear_0_0"
    assert "forward.py" in str(first["stack_info"])
    assert "rank 1, step 0, in Torch.ops.aten.matmul_0_0" in run(capsys, "analyze", dump)


def test_a_receive_buffer_under_input_is_no_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``all_gather_into_tensor(output, input)``: what the first argument held before the call was not sent."""
    for rank in (0, 1):
        tensor = {"shape": [4], "dtype": "float32", "Max": "nan" if rank else "1.0", "Min": "nan" if rank else "0.0"}
        bad = {**tensor, "Max": "nan", "Min": "nan"}
        record = {"input": [bad, tensor], "input_args": [], "input_kwargs": {}, "output": [bad, tensor]}
        (tmp_path / "dump" / f"rank{rank}").mkdir(parents=True)
        document = {"framework": "pytorch", "data": {"Distributed.all_gather_into_tensor_0_0": record}}
        (tmp_path / "dump" / f"rank{rank}" / "dump.json").write_text(json.dumps(document), "utf-8")
    run(capsys, "ranks", tmp_path / "dump", "-o", tmp_path / "cross_rank_analysis.json")
    call = json.loads((tmp_path / "cross_rank_analysis.json").read_text("utf-8"))
    (states,) = call.values()
    assert states == {"source_ranks": [1], "propagated_ranks": [0], "normal_ranks": [], "total_ranks": 2}
