"""Dumps without results (``data_mode: ["input"]``): a bad input is a place between two records."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Rank, Run, named, t, the_cause

from firstnan.answer.model import Verdict, Where
from firstnan.dump.problems import ProblemKind


def trained(rank: Rank, *values: float) -> None:
    """A forward pass through linear layers that take these values, and its backward."""
    calls = [rank.op("Functional.linear", [t(value), t(1.0, shape=(8, 8))], []) for value in values]
    for call, value in zip(reversed(calls), reversed(values), strict=True):
        rank.backward(call, [t(value)], [])
    for record in rank.data.values():
        record.pop("output")


@pytest.mark.parametrize("values", [(NAN, NAN, NAN), (INF, NAN, NAN), (INF, INF, NAN), (-INF, INF, NAN)], ids=str)
def test_what_was_not_dumped_passes_the_value_on(values: tuple[float, ...], tmp_path: Path) -> None:
    run = Run()
    trained(run.rank(0), 1.0, 2.0, *values)
    report = run.analyze(tmp_path)
    cause = the_cause(report)
    assert (report.exit_code, cause.op_name, cause.where) == (1, "Functional.linear.2.forward", Where.UNDUMPED_OPERATOR)
    assert [n.params["before"] for n in cause.evidence if n.key == "evidence.between"] == [
        "Functional.linear.1.forward"
    ]
    assert [problem.kind for problem in report.input.problems] == [ProblemKind.INPUTS_ONLY]


def test_finite_inputs_alone_are_not_complete(tmp_path: Path) -> None:
    run = Run()
    trained(run.rank(0), 1.0, 2.0, 3.0)
    report = run.analyze(tmp_path)
    assert (report.verdict, report.complete) == (Verdict.CLEAN, False)


def test_calls_that_raised_one_inside_the_other_are_unfinished(tmp_path: Path) -> None:
    """The first pass died in its first operator: nothing was left out on purpose."""
    run = Run()
    mine = run.rank(0)
    with mine.module("model", "Model", [t(1.0)], []), mine.module("model.fc", "Linear", [t(1.0)], []):
        mine.op("Torch.exp", [t(1.0)], [])
    mine.data = dict(reversed(mine.data.items()))
    for record in mine.data.values():
        record.pop("output")
    assert [problem.kind for problem in run.analyze(tmp_path).input.problems] == [ProblemKind.UNFINISHED_RECORDS]


def test_a_call_that_raised_is_no_dump_of_inputs(tmp_path: Path) -> None:
    run = Run()
    mine = run.rank(0)
    mine.op("Torch.relu", [t(1.0)], [t(1.0)])
    mine.op("Torch.exp", [t(1.0)], [t(2.0)])
    last = mine.op("Torch.relu", [t(1.0)], [])
    mine.data[last].pop("output")
    report = run.analyze(tmp_path)
    assert [problem.kind for problem in report.input.problems] == [ProblemKind.UNFINISHED_RECORDS]
    assert not named(report)
