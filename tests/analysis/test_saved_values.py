"""Dumps that hold only values saved with debugger.save: the rules of :mod:`firstnan.rank.saved_values`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_runs import INF, NAN, t

import firstnan
from firstnan.answer.model import Report, Verdict, Where
from firstnan.cli import main as cli
from firstnan.dump.problems import ProblemKind

MASK = t(1.0, -INF)


def saved(root: Path, forward: dict[str, Any], gradients: dict[str, Any] | None = None, rank: int = 0) -> Path:
    """One rank's debug.json: each value, and behind it its gradient."""
    data: dict[str, Any] = {}
    for name, value in forward.items():
        data[f"{name}.0.debug"] = value
        data[f"{name}_grad.0.debug"] = (gradients or {}).get(name)
    folder = root / "step0" / f"rank{rank}"
    folder.mkdir(parents=True)
    top = {"task": "statistics", "level": "debug", "framework": "pytorch", "dump_data_dir": None, "data": data}
    (folder / "debug.json").write_text(json.dumps(top), encoding="utf-8")
    return root


def analyze(root: Path) -> Report:
    return firstnan.analyze(root, firstnan.Options(jobs=1))


def places(report: Report) -> list[tuple[int, str, Where, object]]:
    """Rank, first bad value, kind of place, last good value."""
    return [
        (c.rank, c.op_name, c.where, next((n.params["before"] for n in c.evidence if "before" in n.params), None))
        for c in report.root_causes
    ]


def test_between_two_saved_values(tmp_path: Path) -> None:
    report = analyze(saved(tmp_path, {"emb": t(1.0), "layer0": t(2.0), "layer1": t(NAN), "loss": t(NAN, shape=())}))
    assert places(report) == [(0, "layer1.0.debug", Where.UNDUMPED_OPERATOR, "layer0.0.debug")]
    assert (report.verdict, report.exit_code) == (Verdict.ANOMALY, 1)


def test_gradients_come_back(tmp_path: Path) -> None:
    """The gradient of the last value comes first."""
    forward = {"emb": t(1.0), "layer0": t(2.0), "layer1": t(1.0)}
    report = analyze(saved(tmp_path, forward, {"emb": t(NAN), "layer0": t(NAN), "layer1": t(1.0)}))
    assert places(report) == [(0, "layer0_grad.0.debug", Where.UNDUMPED_OPERATOR, "layer1_grad.0.debug")]


def test_gradients_come_back_behind_a_bad_value_of_forward(tmp_path: Path) -> None:
    report = analyze(saved(tmp_path, {"emb": t(1.0), "layer0": t(NAN)}, {"emb": t(NAN), "layer0": t(NAN)}))
    assert [place[1] for place in places(report)] == ["layer0.0.debug"]


@pytest.mark.parametrize(("after", "verdict"), [(t(1.0), Verdict.CLEAN), (t(NAN), Verdict.ANOMALY)])
def test_a_saved_mask_is_absorbed(after: Any, verdict: Verdict, tmp_path: Path) -> None:
    report = analyze(saved(tmp_path, {"x": t(1.0), "scores": MASK, "probabilities": after}))
    assert report.verdict is verdict
    if verdict is Verdict.ANOMALY:
        assert [place[1] for place in places(report)] == ["scores.0.debug"]


def test_finite_values_are_a_sample(tmp_path: Path) -> None:
    report = analyze(saved(tmp_path, {"emb": t(1.0), "loss": t(1.0, shape=())}, {"emb": t(1.0)}))
    assert (report.verdict, report.complete, report.exit_code) == (Verdict.CLEAN, False, 4)
    assert [problem.kind for problem in report.input.problems] == [ProblemKind.SAVED_VALUES]


def test_values_nested_in_lists_are_looked_at(tmp_path: Path) -> None:
    report = analyze(saved(tmp_path, {"x": t(1.0), "pair": [t(1.0), {"b": t(INF)}]}))
    assert [place[1] for place in places(report)] == ["pair.0.debug"]


def test_the_rank_on_which_it_began_is_named_alone(tmp_path: Path) -> None:
    """Rank 1's first bad value is read on rank 0 too, after nothing of its own: it came from there."""
    saved(tmp_path, {"emb": t(1.0), "layer0": t(1.0), "layer1": t(NAN)}, rank=0)
    saved(tmp_path, {"emb": t(1.0), "layer0": t(NAN), "layer1": t(NAN)}, rank=1)
    assert [place[:2] for place in places(analyze(tmp_path))] == [(1, "layer0.0.debug")]


def test_every_command_reads_saved_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(saved(tmp_path / "dump", {"emb": t(1.0), "layer0": t(NAN)}))
    part = str(tmp_path / "part.json")
    codes = [
        cli.main([*command, "--lang", "en"])
        for command in (
            ["analyze", root],
            ["ranks", root],
            ["trace", root, "--rank", "0"],
            ["show", root, "--rank", "0"],
            ["scan", root, "-o", part],
            ["merge", part],
        )
    ]
    assert codes == [1, 1, 1, 0, 0, 1]
    assert "layer0.0.debug" in capsys.readouterr().out
