"""guard.json beside a dump: what the guard of a training loop saw, and what the report makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import firstnan
from firstnan.answer.model import MechanismKind, Report, Verdict, Where
from firstnan.dump.guard_file import GuardFile, NotFinite, StepValues, Trigger, number_of, value_of
from firstnan.dump.problems import ProblemKind
from firstnan.run.parts import to_text

TENSOR = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Mean": None, "Norm": None}
FINE, BAD = {**TENSOR, "Max": 1.0, "Min": 0.0}, {**TENSOR, "Max": float("nan"), "Min": float("nan")}


def _dump(root: Path, rank: int, guard: object, *, bad: bool = False) -> None:
    folder = root / "step7" / f"rank{rank}"
    folder.mkdir(parents=True)
    record = {"input_args": [FINE], "input_kwargs": {}, "output": [BAD if bad else FINE]}
    reader = {"input_args": [BAD if bad else FINE], "input_kwargs": {}, "output": [BAD if bad else FINE]}
    data = {"Torch.sqrt.0.forward": record, "Functional.mse_loss.0.forward": reader}
    (folder / "dump.json").write_text(json.dumps({"task": "statistics", "framework": "pytorch", "data": data}))
    for name in ("construct.json", "stack.json"):
        (folder / name).write_text("{}")
    if guard is not None:
        (folder / "guard.json").write_text(guard if isinstance(guard, str) else json.dumps(guard))


def _guard(rank: int, first: dict[str, object], **more: object) -> dict[str, object]:
    return {
        "schema": "firstnan.guard/1", "step": 7, "rank": rank, "world": 2, "trigger": "loss", "first": first,
        "again": {"loss": 2.5}, "reproduced": False, "random_state": "restored", **more,
    }  # fmt: skip


def _kinds(report: Report) -> list[ProblemKind]:
    return [problem.kind for problem in report.input.problems]


def test_a_clean_second_run_is_an_anomaly_of_its_own(tmp_path: Path) -> None:
    _dump(tmp_path, 0, _guard(0, {"loss": 2.5, "gradient_norm": "NaN"}))
    _dump(tmp_path, 1, _guard(1, {"loss": "NaN", "gradient_norm": "NaN"}))
    report = firstnan.analyze(tmp_path)
    (cause,) = report.root_causes
    assert (report.verdict, report.step, report.exit_code) == (Verdict.ANOMALY, 7, 1)
    assert (cause.rank, cause.ranks_also, cause.where) == (1, (), Where.FIRST_RUN)
    assert cause.mechanism.kind is MechanismKind.TRANSIENT
    assert [note.key for note in cause.advice] == ["mechanism.transient.advice"]


def test_a_bad_gradient_on_every_rank_names_them_all(tmp_path: Path) -> None:
    for rank in (0, 1):
        _dump(tmp_path, rank, _guard(rank, {"loss": 2.5, "gradient_norm": "Infinity"}))
    (cause,) = firstnan.analyze(tmp_path).root_causes
    assert (cause.rank, cause.ranks_also) == (0, (1,))


def test_a_fault_that_came_again_is_told_from_the_records(tmp_path: Path) -> None:
    _dump(tmp_path, 0, _guard(0, {"loss": "NaN"}, reproduced=True), bad=True)
    report = firstnan.analyze(tmp_path)
    assert [cause.op_name for cause in report.root_causes] == ["Torch.sqrt.0.forward"]
    assert _kinds(report) == []


def test_a_fault_that_came_again_without_a_record_is_not_clean(tmp_path: Path) -> None:
    _dump(tmp_path, 0, _guard(0, {"loss": "NaN"}, reproduced=True))
    report = firstnan.analyze(tmp_path)
    assert (report.verdict, report.complete, report.exit_code) == (Verdict.CLEAN, False, 4)
    assert _kinds(report) == [ProblemKind.SECOND_RUN_UNEXPLAINED]


def test_a_second_run_that_raised_is_not_clean(tmp_path: Path) -> None:
    _dump(tmp_path, 0, _guard(0, {"loss": "NaN"}, reproduced=None, again=None, error="ValueError: used up"))
    report = firstnan.analyze(tmp_path)
    assert (report.complete, _kinds(report)) == (False, [ProblemKind.SECOND_RUN_RAISED])
    assert report.input.problems[0].detail == "ValueError: used up"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"schema": "firstnan.guard/2"}',
        json.dumps(_guard(0, {"loss": "nan"})),
        json.dumps(_guard(-1, {"loss": "NaN"})),
        json.dumps(_guard(0, {"loss": "NaN"}, reproduced="no")),
        "[" * 100_000,
        " " * (1 << 20) + "{}",
    ],
    ids=["empty", "list", "object", "version", "spelling", "negative", "kind", "deep", "long"],
)
def test_a_file_that_no_guard_writes_leaves_the_step_undecided(tmp_path: Path, content: str) -> None:
    _dump(tmp_path, 0, content)
    report = firstnan.analyze(tmp_path)
    assert (report.complete, _kinds(report), report.root_causes) == (False, [ProblemKind.GUARD_FILE], ())


def test_a_dump_without_a_guard_is_as_before(tmp_path: Path) -> None:
    _dump(tmp_path, 0, None)
    report = firstnan.analyze(tmp_path)
    assert (report.verdict, report.complete, report.input.problems) == (Verdict.CLEAN, True, ())


def test_parts_of_several_hosts_carry_it(tmp_path: Path) -> None:
    for rank in (0, 1):
        _dump(tmp_path / f"host{rank}", rank, _guard(rank, {"loss": "NaN" if rank else 2.5}))
    parts = [tmp_path / f"part{rank}.json" for rank in (0, 1)]
    for rank, part in enumerate(parts):
        part.write_text(to_text(firstnan.scan(tmp_path / f"host{rank}")))
    (cause,) = firstnan.merge(parts).root_causes
    assert (cause.rank, cause.mechanism.kind) == (1, MechanismKind.TRANSIENT)


def test_the_report_survives_json(tmp_path: Path) -> None:
    _dump(tmp_path, 0, _guard(0, {"loss": "NaN"}))
    report = firstnan.analyze(tmp_path)
    assert Report.from_dict(report.to_dict()).to_dict() == report.to_dict()


@pytest.mark.parametrize("number", [2.5, float("inf"), float("-inf"), None])
def test_values_go_there_and_back(number: float | None) -> None:
    assert number_of(value_of(number)) == number


def test_the_value_of_a_trigger() -> None:
    values = StepValues(loss=2.5, gradient_norm=NotFinite.NAN)
    assert (values.of(Trigger.LOSS), values.of(Trigger.GRADIENT_NORM)) == (2.5, NotFinite.NAN)
    assert GuardFile(step=0, rank=0, world=1, trigger=Trigger.LOSS, first=values).reproduced is None


@pytest.mark.parametrize("trigger", ["loss", "gradient_norm"])
def test_only_values_that_the_guard_saw_are_said(tmp_path: Path, trigger: str) -> None:
    _dump(tmp_path, 0, _guard(0, {trigger: "NaN"}, again={trigger: 2.5}, trigger=trigger))
    (cause,) = firstnan.analyze(tmp_path).root_causes
    told = {note.key: note.params["value"] for note in cause.evidence}
    values = {
        "loss": ("evidence.first_run_loss", "evidence.again_run_loss"),
        "gradient_norm": ("evidence.first_run_gradient_norm", "evidence.again_run_gradient_norm"),
    }
    first, again = values[trigger]
    assert told.keys() == {first, again}
    assert (str(told[first]), told[again]) == ("nan", 2.5)
