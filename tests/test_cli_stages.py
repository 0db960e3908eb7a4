"""``firstnan scan`` and ``firstnan merge`` as a user runs them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

import firstnan
from analysis.made_runs import Run, p2p_op, t
from firstnan.cli import main as cli
from firstnan.run import two_stage

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "dp2-tp2"
HEALTHY = Path(__file__).resolve().parents[1] / "examples" / "small" / "masks"


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


def run(arguments: Sequence[str | Path], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = cli.main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def halves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[Path]:
    """The parts of two hosts."""
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for file, ranks in zip(files, ("0,1", "2-3"), strict=True):
        assert run(["scan", EXAMPLE, "--ranks", ranks, "-o", file], capsys)[0] == 0
    return files


def test_a_scan_ends_with_0_and_says_what_is_suspected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(["scan", EXAMPLE, "-o", tmp_path / "part.json"], capsys)
    assert (code, out) == (0, "")
    assert "read ranks 0-3, found something suspicious on 0-3" in err
    code, _, err = run(["scan", HEALTHY, "-o", tmp_path / "part.json"], capsys)
    assert code == 0
    assert "found nothing suspicious" in err


def test_a_part_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(["scan", HEALTHY], capsys)
    assert (code, json.loads(out)["schema"]) == (0, "firstnan.part/2")


def test_the_words_of_a_scan_are_chinese_where_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert "没有可疑之处" in run(["scan", HEALTHY, "--lang", "zh"], capsys)[2]


def test_no_dump_ends_with_3_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    code, _, err = run(["scan", folder, "-o", tmp_path / "part.json"], capsys)
    assert code == 3
    assert "no dump" in err
    assert not (tmp_path / "part.json").exists()


def test_a_part_in_the_dump_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    target = EXAMPLE / "part.json"
    assert run(["scan", EXAMPLE, "-o", target], capsys)[0] == 2
    assert not target.exists()


def test_the_merged_report_and_its_code_are_those_of_analyze(
    halves: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(["merge", *halves], capsys)
    assert code == 1
    assert out == run(["analyze", EXAMPLE], capsys)[1]


def test_merge_has_the_forms_of_analyze(halves: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, mission = tmp_path / "report.json", tmp_path / "cross_rank_analysis.json"
    assert run(["merge", *halves, "-o", target, "--mission-file", mission], capsys)[0] == 1
    assert json.loads(target.read_text()) == firstnan.analyze(EXAMPLE).to_dict()
    assert json.loads(mission.read_text())


def clean_calls(folder: Path) -> Path:
    """Two ranks with collectives, messages and more calls than a part keeps judged."""
    made = Run()
    for rank in range(2):
        for _ in range(two_stage.MAX_CALLS + 1):
            made.rank(rank).all_reduce(t(1.0), t(2.0))
        kind = "isend" if rank == 0 else "irecv"
        made.rank(rank).comm("batch_isend_irecv", [[p2p_op(kind, t(1.0), 1 - rank)]], {}, {})
    return made.write(folder)


@pytest.mark.parametrize("faulty", [True, False], ids=["faulty", "clean"])
def test_the_merged_mission_file_lists_every_call(
    faulty: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As ``firstnan ranks`` does, without the dump at hand: of a clean run too."""
    dump = EXAMPLE if faulty else clean_calls(tmp_path / "clean")
    whole, merged = tmp_path / "whole.json", tmp_path / "merged.json"
    run(["ranks", dump, "--mission-file", whole], capsys)
    copy, parts = tmp_path / "copy", []
    shutil.copytree(dump, copy)
    for rank in firstnan.analyze(copy).input.ranks:
        parts.append(tmp_path / f"part-{rank}.json")
        run(["scan", copy, "--ranks", str(rank), "-o", parts[-1]], capsys)
    shutil.rmtree(copy)
    _, _, err = run(["merge", *parts, "--mission-file", merged], capsys)
    assert "affected calls only" not in err
    assert merged.read_text() == whole.read_text()
    assert faulty or len(json.loads(merged.read_text())) == two_stage.MAX_CALLS + 2


def test_parts_without_the_calls_are_told(
    halves: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(two_stage, "roster_of", lambda _: None)
    _, _, err = run(["merge", *halves, "--mission-file", tmp_path / "calls.json"], capsys)
    assert "lists affected calls only" in err


def test_a_part_is_not_overwritten_with_the_report(halves: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    before = halves[0].read_text()
    link = halves[0].with_name("link.json")
    link.symlink_to(halves[0])
    for option, target in (("-o", halves[0]), ("-o", link), ("--mission-file", halves[0].parent / ".." / halves[0])):
        code, _, err = run(["merge", *halves, option, target], capsys)
        assert code == 2
        assert "both a part and the report" in err
        assert halves[0].read_text() == before


def test_a_report_in_the_dump_of_a_part_is_refused(halves: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    target = EXAMPLE / "step0" / "report.md"
    assert run(["merge", *halves, "-o", target], capsys)[0] == 2
    assert not target.exists()


def test_no_usable_part_ends_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(["merge", tmp_path / "nowhere.json"], capsys)
    assert code == 3
    assert "nowhere.json" in err


def test_a_cut_part_is_in_the_report(halves: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    halves[1].write_text(halves[1].read_text()[:400])
    code, out, _ = run(["merge", *halves], capsys)
    assert code == 1
    assert "b.json" in out.replace("\n", "").replace(" ", "")


def test_others_that_are_no_parts_are_told(
    halves: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    halves[1].write_text("{}")
    code, _, err = run(["scan", EXAMPLE, "--others", halves[1], "-o", tmp_path / "c.json"], capsys)
    assert code == 3
    assert "b.json" in err
    code, _, err = run(["scan", EXAMPLE, "--others", *halves, "-o", tmp_path / "c.json"], capsys)
    assert code == 0
    assert "b.json" in err


def test_a_scan_with_others_is_a_part_as_well(
    halves: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = tmp_path / "c.json"
    assert run(["scan", EXAMPLE, "--ranks", "0,1", "--others", halves[1], "-o", again], capsys)[0] == 0
    assert run(["merge", again, halves[1]], capsys)[1] == run(["merge", *halves], capsys)[1]
