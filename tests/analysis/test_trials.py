"""Stages that were tried on uninitialised memory, in dumps of modules alone that only infer (``step/trials.py``)."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Json, Rank, Run, batch, named

from firstnan.answer.model import Verdict


def stage(rank: Rank, calls: list[tuple[Json, Json]], weight: Json = None, *, head: bool = True) -> None:
    """A stage of one layer and maybe a head: what each call takes in and gives."""
    rank.header["level"] = "L0"
    for read, given in calls:
        with rank.module("layer", "Linear", [read], [given], {"weight": weight or batch(0.5)}):
            pass
        if head:
            with rank.module("head", "Linear", [given], [given], {"weight": batch(0.5)}):
                pass


FINE, BAD = (batch(1.0), batch(1.0)), (batch(NAN), batch(NAN))
LARGE = (batch(1e36), batch(INF, 0.0))


@pytest.mark.parametrize("garbage", [BAD, LARGE], ids=["nan", "large"])
@pytest.mark.parametrize("stages", [True, False])
def test_stages_run_other_modules(garbage: tuple[Json, Json], stages: bool, tmp_path: Path) -> None:
    """The first call of the last stage is open, that of a replica is the cause."""
    run = Run()
    stage(run.rank(0), [FINE, FINE, FINE], head=not stages)
    stage(run.rank(1), [garbage, FINE, FINE])
    report = run.analyze(tmp_path)
    assert (report.verdict, report.exit_code) == ((Verdict.CLEAN, 4) if stages else (Verdict.ANOMALY, 1))
    assert {rank for rank, _ in named(report)} == (set() if stages else {1})


@pytest.mark.parametrize(("calls", "exit_code"), [(3, 1), (4, 4), (5, 1)], ids=["same", "one more", "two more"])
def test_a_replica_may_run_more_batches(calls: int, exit_code: int, tmp_path: Path) -> None:
    """Only one call more than the others make may have been a trial of a stage with the same modules."""
    run = Run()
    stage(run.rank(0), [FINE] * 3)
    stage(run.rank(1), [BAD] + [FINE] * (calls - 1))
    assert run.analyze(tmp_path).exit_code == exit_code


def test_what_ran_once_was_no_trial(tmp_path: Path) -> None:
    """A run that died in its first call."""
    run = Run()
    stage(run.rank(0), [FINE], head=False)
    stage(run.rank(1), [BAD])
    assert named(run.analyze(tmp_path)) == [(1, "Module.layer.Linear.forward.0")]


def test_what_is_bad_behind_a_trial_is_the_cause(tmp_path: Path) -> None:
    """A bad weight; the garbage of the trial came into the layer before."""
    run = Run()
    stage(run.rank(0), [FINE, FINE], head=False)
    last = run.rank(1)
    last.header["level"] = "L0"
    for read, given in (BAD, FINE):
        with last.module("norm", "LayerNorm", [read], [given]):
            pass
        with last.module("layer", "Linear", [given], [batch(NAN)], {"weight": batch(NAN, shape=(8, 8))}):
            pass
    assert [name.rpartition(".")[0] for _, name in named(run.analyze(tmp_path))] == ["Module.layer.Linear.forward"]


def test_a_stage_reads_no_batch(tmp_path: Path) -> None:
    """What the second stage takes in began inside the first."""
    run = Run()
    first = run.rank(0)
    stage(first, [FINE], head=False)
    for _ in range(2):
        with first.module("out", "Linear", [batch(INF, 0.0)], [batch(NAN)], {"weight": batch(0.5)}):
            pass
    stage(run.rank(1), [FINE, BAD])
    assert named(run.analyze(tmp_path)) == [(0, "Module.out.Linear.forward.0")]
