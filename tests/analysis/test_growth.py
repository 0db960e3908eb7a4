"""Growth from step to step: told where a run diverged, and nowhere else."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from made_dumps import forward, rank_folder, tensor, text

import firstnan
from firstnan.answer.growth import GrowthKind
from firstnan.answer.model import Confidence, MechanismKind, Report, Verdict
from firstnan.answer.schema import json_schema
from firstnan.causes.growth import run_up_steps
from firstnan.causes.mechanisms.divergence import divergence
from firstnan.rank.magnitudes import Key, Magnitudes
from firstnan.show import Format, Settings, render

ROOT = Path(__file__).parents[2]
DIVERGED = ROOT / "examples" / "small" / "divergence"
OPTIONS = firstnan.Options(jobs=1)
LAYER: Key = (GrowthKind.ACTIVATION, "layer.Linear")
HEAD: Key = (GrowthKind.ACTIVATION, "head.Linear")
WEIGHT: Key = (GrowthKind.PARAMETER, "layer.weight")


def steps(**series: Sequence[float]) -> list[Magnitudes]:
    """The steps of one rank; a value's series by its name (``layer``, ``head``, ``weight``)."""
    keys = {"layer": LAYER, "head": HEAD, "weight": WEIGHT}
    count = max(map(len, series.values()))
    return [
        Magnitudes(step, 0, {keys[name]: values[step] for name, values in series.items() if step < len(values)})
        for step in range(count)
    ]


def test_growth_reaches_the_break() -> None:
    (growth,) = run_up_steps(steps(layer=[1, 1.2, 8, 90, 5000, math.inf]), 5)
    assert (growth.name, growth.since, round(growth.factor)) == ("layer.Linear", 2, 4167)
    assert run_up_steps(steps(layer=[1, 50, 60, 70, math.inf]), 4) == (), "it grew once and stood still"


def test_warm_up_is_no_run_up() -> None:
    assert run_up_steps(steps(layer=[1, 2, 5, 12, 20, math.inf]), 5) == ()
    assert run_up_steps(steps(layer=[1, 1.1, 1.2, 1e30]), 3) == (), "a batch that breaks in its own step"


def test_the_whole_rank_grows() -> None:
    adapter = steps(head=[3, 3.1, 3, 3.2, 3], layer=[1e-9, 1e-6, 1e-4, 1e-2, math.inf])
    assert run_up_steps(adapter, 4) == ()


def test_the_first_that_grew_is_told_and_its_weight() -> None:
    seen = steps(layer=[1, 9, 90, 1e5, math.inf], head=[1, 2, 100, 1e6, math.inf], weight=[1, 8, 80, 1e4, 1e5])
    assert [(growth.kind, growth.name) for growth in run_up_steps(seen, 4)] == [LAYER, WEIGHT]


def test_steps_that_are_not_dumped_count() -> None:
    slow = [Magnitudes(step, 0, {LAYER: value}) for step, value in ((0, 1.0), (10, 40.0), (20, 1600.0))]
    assert run_up_steps(slow, 21) == ()


def test_how_sure() -> None:
    values = [1, 9, 90, 1e5, math.inf]
    with_weight = divergence(run_up_steps(steps(layer=values, weight=[1, 8, 80, 1e4, 1e5]), 4))
    without = divergence(run_up_steps(steps(layer=values, weight=[1, 1, 1, 1, 1]), 4))
    assert with_weight is not None
    assert without is not None
    assert (with_weight.confidence, without.confidence) == (Confidence.LIKELY, Confidence.POSSIBLE)
    assert divergence(()) is None


# -- whole dumps ----------------------------------------------------------------------------------------------


def test_a_run_that_diverged() -> None:
    report = firstnan.analyze(DIVERGED, OPTIONS)
    assert report.root_causes[0].mechanism.kind is MechanismKind.DIVERGENCE
    assert [growth.kind for growth in report.run_up_steps] == list(GrowthKind)
    assert {growth.since for growth in report.run_up_steps} == {1}
    document = report.to_dict()
    Draft202012Validator(json_schema()).validate(document)
    assert Report.from_dict(json.loads(json.dumps(document))) == report
    assert "Growth from step to step" in render(report, Format.TEXT, Settings())
    page = render(report, Format.HTML, Settings())
    data = json.loads(re.findall(r'<script[^>]*id="page-data"[^>]*>(.*?)</script>', page, re.DOTALL)[0])
    drawn = data["causes"][0]["step_values"]
    assert len(drawn) == len(report.run_up_steps[0].values)


@pytest.mark.parametrize("kept", [(4,), (3, 4), (0, 4)])
def test_too_few_steps_tell_no_growth(kept: Sequence[int], tmp_path: Path) -> None:
    for step in kept:
        shutil.copytree(DIVERGED / f"step{step}", tmp_path / f"step{step}")
    report = firstnan.analyze(tmp_path, OPTIONS)
    assert report.run_up_steps == ()
    assert report.root_causes[0].mechanism.kind is MechanismKind.LARGE_VALUE_PROPAGATION


def made(folder: Path, values: Sequence[float]) -> Path:
    """A run of one linear whose result is each of the values, step by step."""
    for step, value in enumerate(values):
        data = {"Functional.linear.0.forward": forward([tensor(1.0, -1.0)], output=[tensor(value, -1.0)])}
        rank_folder(folder / f"step{step}" / "rank0", text(data), step)
    return folder


def test_finite_values_near_the_limit(tmp_path: Path) -> None:
    report = firstnan.analyze(made(tmp_path, [1.0, 1e6, 1e16, 1e28, 1e37]), OPTIONS)
    assert report.verdict is Verdict.CLEAN
    assert [growth.since for growth in report.run_up_steps] == [1]
    assert any(note.key == "caveat.growing" for note in report.caveats)


@pytest.mark.parametrize("values", [[1.0, 2.0, 4.0, 9.0], [1e37, 1e37, 1e37, 1e37], [1.0, 1e3, 1e6, 1e9]])
def test_other_finite_runs_are_told_nothing_of(tmp_path: Path, values: Sequence[float]) -> None:
    report = firstnan.analyze(made(tmp_path, values), OPTIONS)
    assert (report.verdict, report.complete, report.run_up_steps) == (Verdict.CLEAN, True, ())
