"""The commands that an answer ends with, MSProbe's configuration for what is open, and the answer in one line."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import firstnan
from analysis.made_runs import INF, NAN, Run, t
from firstnan.answer.model import MechanismKind, Where
from firstnan.cli import main as cli
from firstnan.report.dump_again import dump_again

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "dp2-tp2"


def run(arguments: Sequence[str | Path], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = cli.main([*map(str, arguments), "--lang", "en"])
    out, err = capsys.readouterr()
    return code, out, err


def commands(out: str) -> list[list[str]]:
    """The command lines below ``Next commands``."""
    part = out.partition("Next commands\n")[2].partition("\n\n")[0]
    return [shlex.split(line) for line in re.findall(r"^ +(firstnan .*)$", part, re.MULTILINE)]


def two_steps(folder: Path) -> Path:
    """The second step goes wrong on rank 1, in a folder whose name has a blank."""
    run = Run()
    for step, rank in ((0, 0), (0, 1), (1, 0), (1, 1)):
        bad = (step, rank) == (1, 1)
        mine = run.rank(rank, step)
        mine.op("Torch.exp", [t(100.0 if bad else 1.0)], [t(INF if bad else 2.0)])
        mine.all_reduce(t(INF if bad else 1.0), t(INF if step else 2.0))
        mine.op("Torch.sum", [t(INF if step else 1.0)], [t(INF if step else 1.0, shape=())])
    run.write(folder / "my dump")
    return folder / "my dump"


def test_every_command_runs_as_it_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = two_steps(tmp_path)
    printed = commands(run(["analyze", dump], capsys)[1])
    assert [line[1] for line in printed] == ["show", "analyze", "analyze"]
    shown = run(printed[0][1:], capsys)
    assert shown[0] == 0
    assert "Torch.exp.0.forward" in shown[1]
    assert "step 1" in shown[1]
    rejected = run(printed[1][1:], capsys)[1].splitlines()[0]
    assert not rejected.startswith("+Inf began on rank 1, step 1, in Torch.exp.0.forward")


def test_the_record_where_the_value_changed_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_ = Run()
    rank = run_.rank(0)
    rank.op("Torch.mul", [t(1.0), 95.0], [t(95.0)])
    rank.op("Torch.exp", [t(95.0)], [t(INF)])
    rank.op("Torch.sum", [t(INF)], [t(INF, shape=())])
    run_.write(tmp_path / "dump")
    printed = commands(run(["analyze", tmp_path / "dump"], capsys)[1])
    assert [line[-1] for line in printed if line[1] == "show"] == ["1", "0"]


def test_the_program_is_named_as_it_can_be_called(tmp_path: Path) -> None:
    """Not on the PATH: from a module, with and without the package beside the interpreter."""
    source = str(Path(firstnan.__file__).parents[1])
    alone = {"PATH": "/usr/bin:/bin", "PYTHONPATH": source, "LC_ALL": "C.UTF-8"}
    shown = subprocess.run(
        [sys.executable, "-m", "firstnan", "analyze", EXAMPLE], env=alone, cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    printed = re.findall(
        r"^ {6}(\S.*)$", shown.stdout.partition("Next commands\n")[2].partition("\n\n")[0], re.MULTILINE
    )
    assert len(printed) == 4
    for line in printed[:3]:
        done = subprocess.run(["sh", "-c", line], env=alone, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), (line, done.stderr)


def test_step_1_leads_to_step_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = commands(run(["ranks", two_steps(tmp_path)], capsys)[1])
    assert printed[0][1] == "trace"
    code, out, _ = run(printed[0][1:], capsys)
    assert code == 1
    assert "Torch.exp.0.forward" in out


def test_earlier_rejections_stay_in_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    printed = commands(run(["analyze", EXAMPLE, "--exclude-op", "2:Torch.exp.0.forward"], capsys)[1])
    reject = next(line for line in printed if "--write-config" not in line and line[1] == "analyze")
    assert reject.count("--exclude-op") == 2
    assert "2:Torch.exp.0.forward" in reject


def test_a_clean_run_has_no_next_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Run()
    made.rank(0).op("Torch.exp", [t(1.0)], [t(2.0)])
    made.write(tmp_path / "dump")
    assert "Next commands" not in run(["analyze", tmp_path / "dump"], capsys)[1]


def test_redacted_commands_hold_no_path(capsys: pytest.CaptureFixture[str]) -> None:
    printed = commands(run(["analyze", EXAMPLE, "--redact"], capsys)[1])
    assert printed
    assert all("PATH" in line for line in printed)


# --- config.json --------------------------------------------------------------------------------------------------


def test_the_configuration_asks_for_the_elements_of_the_operator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.json"
    assert run(["analyze", EXAMPLE, "--write-config", file], capsys)[0] == 1
    assert json.loads(file.read_text("utf-8")) == {
        "task": "tensor",
        "dump_path": "./dump_again",
        "rank": [2],
        "step": [0],
        "level": "L1",
        "risk_level": "ALL",
        "tensor": {"scope": [], "list": ["Torch.exp.0.forward"], "data_mode": ["all"]},
    }


def test_between_two_records_is_a_range(tmp_path: Path) -> None:
    """Within a range MSProbe records everything, also what its risk level leaves out."""
    made = Run()
    rank = made.rank(0)
    with rank.module("model", "Model", [t(1.0)], [t(NAN)]):
        before = rank.op("Functional.linear", [t(1.0), t(1.0, shape=(8, 8))], [t(2.0)])
        after = rank.op("Torch.mul", [t(NAN), t(1.0)], [t(NAN)])
    rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    report = made.analyze(tmp_path)
    assert report.root_causes[0].where is Where.UNDUMPED_OPERATOR
    wanted = dump_again(report)
    assert (wanted.task, wanted.level, wanted.scope, wanted.ranks) == ("statistics", "mix", (before, after), (0,))


def test_a_rank_without_a_dump_is_dumped_whole(tmp_path: Path) -> None:
    made = Run()
    for number in range(4):
        if number != 1:
            made.rank(number).all_reduce(t(1.0), t(NAN))
            made.rank(number).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    report = made.analyze(tmp_path)
    assert report.root_causes[0].where is Where.MISSING_RANK
    wanted = dump_again(report)
    assert (wanted.ranks, wanted.scope, wanted.records) == ((1,), (), ())


def test_communication_asks_for_all_its_members(tmp_path: Path) -> None:
    made = Run()
    for number in range(2):
        made.rank(number).all_reduce(t(60000.0, dtype="float16"), t(INF, dtype="float16"))
        made.rank(number).op("Torch.sum", [t(INF)], [t(INF, shape=())])
    report = made.analyze(tmp_path)
    assert report.root_causes[0].mechanism.kind is MechanismKind.REDUCTION_OVERFLOW
    wanted = dump_again(report)
    assert (wanted.task, wanted.ranks) == ("tensor", (0, 1))
    assert wanted.records == ("Distributed.all_reduce.0.forward",)


def test_without_statistics_all_ranks_are_dumped_with_them(tmp_path: Path) -> None:
    made = Run()
    for number in range(2):
        made.rank(number).op("Torch.exp", [t(None, None)], [t(None, None)])
    wanted = dump_again(made.analyze(tmp_path))
    assert (wanted.task, wanted.ranks, wanted.steps) == ("statistics", (), (0,))
    assert wanted.config()["statistics"] == {
        "scope": [],
        "list": [],
        "data_mode": ["all"],
        "summary_mode": "statistics",
    }


def test_the_configuration_is_not_written_into_the_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = two_steps(tmp_path)
    assert run(["analyze", dump, "--write-config", dump / "config.json"], capsys)[0] == 2
    assert not (dump / "config.json").exists()
    same = tmp_path / "x.json"
    assert run(["analyze", dump, "--write-config", same, "-o", same], capsys)[0] == 2


# --- one line -----------------------------------------------------------------------------------------------------


def test_one_line_for_chat(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(["analyze", EXAMPLE, "--format", "line"], capsys)
    assert (code, err) == (1, "")
    assert out == (
        "+Inf began on rank 2, step 0, in Torch.exp.0.forward (forward): exp overflow (certain), "
        "at /workspace/train/branches.py:107\n"
    )


def test_several_causes_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Run()
    made.rank(0).op("Torch.exp", [t(100.0)], [t(INF)])
    made.rank(1).op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    for number, value in ((0, INF), (1, NAN)):
        made.rank(number).op("Torch.sum", [t(value)], [t(value, shape=())])
    made.write(tmp_path / "dump")
    out = run(["analyze", tmp_path / "dump", "--format", "line"], capsys)[1]
    assert out.count("\n") == 1
    assert out.startswith("2 independent causes: ")
    assert "Torch.exp.0.forward" in out
