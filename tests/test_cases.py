"""Dumps with a known truth: the repository's own of real models, and more beside the repository where present."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import firstnan
from firstnan.answer.model import Report
from firstnan.cli import main as cli

ROOT = Path(__file__).parents[1]
OWN = sorted((ROOT / "tests" / "data" / "own").glob("*.tar.gz"))
SHARED = ROOT.parent / "shared"
ARCHIVES, REPORTS = SHARED / "cases", SHARED / "cases" / "bug-reports"
SAMPLES = sorted(path for path in (SHARED / "format" / "samples").glob("*/") if path.is_dir())


def _accuracy() -> ModuleType:
    """``benchmarks/accuracy.py``, which is a script and no package."""
    name = "accuracy_benchmark"
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / "accuracy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


accuracy = _accuracy()


def scored(paths: Sequence[Path]) -> list[Any]:
    with ExitStack() as stack:
        return [accuracy.score(case) for case in accuracy.cases(paths, stack)]


def share(scores: Sequence[Any], mark: str) -> float:
    """Percentage of the cases to which a mark applies that have it."""
    values = [float(value) for score in scores if (value := getattr(score, mark)) is not None]
    return 100 * sum(values) / len(values)


@pytest.mark.parametrize("archive", OWN, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_own_dumps_of_real_models(archive: Path) -> None:
    for score in scored([archive]):
        right = (score.verdict, score.rank, score.exact, score.where, score.why, score.first)
        assert False not in right, "\n".join(score.details)
        assert not score.false_alarm


DEMO = ROOT / "examples" / "dp2-tp2"


def _with_truth(folder: Path, **changes: Any) -> Any:
    """The score of the example dump against a truth that is its own answer, but for some changes."""
    report = firstnan.analyze(DEMO)
    (cause,) = report.root_causes
    true = {
        "step": cause.step,
        "rank": cause.rank,
        "op_names": [cause.op_name],
        "where": cause.where.value,
        "mechanism": cause.mechanism.kind.value,
        **changes,
    }
    truth = {"verdict": "anomaly", "root_causes": [true], "source_ranks_first_comm": None}
    shutil.copytree(DEMO, folder, dirs_exist_ok=True)
    (folder / "truth.json").write_text(json.dumps(truth), encoding="utf-8")
    return accuracy.score(folder)


def test_calibration_counts_place_and_mechanism_apart(tmp_path: Path) -> None:
    right, wrong_place, wrong_mechanism = (
        _with_truth(tmp_path / "right"),
        _with_truth(tmp_path / "place", op_names=["Torch.exp.99.forward"]),
        _with_truth(tmp_path / "mechanism", mechanism="reduction_overflow"),
    )
    assert (right.exact, right.why, wrong_place.exact, wrong_mechanism.why) == (True, True, False, False)
    assert accuracy.calibration([right, wrong_place, wrong_mechanism]).splitlines()[1].split() == [
        *("certain", "2", "of", "3"),
        *("2", "of", "3"),
    ]


def test_a_first_call_is_right_when_one_of_the_accepted_is() -> None:
    call = firstnan.analyze(DEMO).collectives[0]
    right = {"op": {str(rank): name for rank, name in call.ops.items()}, "ranks_input_nonfinite": [*call.source_ranks]}
    wrong = {**right, "ranks_input_nonfinite": []}
    truth = {"source_ranks_first_comm": wrong}
    report = firstnan.analyze(DEMO)
    assert accuracy._first(truth, report) is False
    assert accuracy._first({**truth, "first_comm_ok": [right]}, report) is True


def test_there_are_own_dumps() -> None:
    assert len(OWN) >= 15


THRESHOLDS = [
    pytest.param(
        ARCHIVES,
        {"verdict": 99, "rank": 98, "exact": 96, "where": 97, "why": 95, "first": 97},
        id="runs",
        marks=pytest.mark.skipif(not list(ARCHIVES.glob("*.tar.gz")), reason="the archives are not here"),
    ),
    pytest.param(
        REPORTS,
        {"verdict": 97, "exact": 93, "where": 95, "why": 92},
        id="reports",
        marks=pytest.mark.skipif(not REPORTS.is_dir(), reason="the reports are not here"),
    ),
]


@pytest.mark.parametrize(("folder", "least"), THRESHOLDS)
def test_marks_on_known_cases(folder: Path, least: dict[str, float]) -> None:
    scores = scored(sorted(folder.glob("*.tar.gz")) or [folder])
    failing = "\n".join(f"{score.case}: {line}" for score in scores for line in score.details)
    reached = {mark: share(scores, mark) for mark in least}
    assert all(reached[mark] >= bound for mark, bound in least.items()), f"{reached}\n{failing}"
    assert sum(score.false_alarm for score in scores) == 0, failing


# -- whatever was dumped is read -----------------------------------------------------------------------


def _looks(path: Path) -> Iterator[Callable[[], Report]]:
    options = firstnan.Options(jobs=1)
    yield partial(firstnan.analyze, path, options)
    ranks = firstnan.analyze(path, options).input.ranks
    yield from (partial(firstnan.trace, path, rank, options) for rank in ranks)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_every_sample_is_analysed(sample: Path) -> None:
    for look in _looks(sample):
        report = look()
        assert Report.from_dict(report.to_dict()).verdict is report.verdict
        assert report.exit_code in (0, 1, 4)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_every_sample_has_step_one(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["ranks", str(sample), "--format", "json", "--jobs", "1"])
    assert code in (0, 1, 4)
    assert capsys.readouterr()


@pytest.mark.skipif(not SAMPLES, reason="the samples are not here")
def test_there_are_samples() -> None:
    assert len(SAMPLES) > 30
