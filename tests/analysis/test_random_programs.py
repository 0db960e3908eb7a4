"""Whatever the program: the record that made the first NaN is named, and nothing else."""

from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from made_runs import Run, named, the_cause
from random_pipeline import Fault, Pipeline, pipe, pipelines
from random_programs import Program, Source, play, programs
from random_training import Fault as TrainingFault
from random_training import Reduction, Training, train, trainings

from firstnan.answer.model import Report, Verdict, Where

MODEST = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def analyzed(run: Run) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        return run.analyze(Path(folder))


def forget(run: Run, *, chains: bool) -> None:
    if not chains:
        for rank in run.ranks.values():
            rank.construct.clear()


@MODEST
@given(programs())
def test_the_source_is_named(program: Program) -> None:
    played = play(program)
    report = analyzed(played.run)
    assert report.verdict is Verdict.ANOMALY
    assert named(report) == [played.cause]
    entered = {Where.UNDUMPED_OPERATOR, Where.BEFORE_DUMP}
    assert the_cause(report).where in ({Where.OPERATOR} if program.source is Source.BIRTH else entered)


@MODEST
@given(programs(), st.randoms(use_true_random=False))
def test_numbers_of_ranks_do_not_matter(program: Program, dice: random.Random) -> None:
    numbers = list(range(program.world))
    dice.shuffle(numbers)
    played = play(program, numbers)
    items = list(played.run.ranks.items())
    dice.shuffle(items)
    played.run.ranks = dict(items)
    assert named(analyzed(played.run)) == [played.cause]


@MODEST
@given(programs(named=True), st.integers(0, 5))
def test_an_uninvolved_rank_does_not_matter(program: Program, choice: int) -> None:
    assume(program.source is Source.BIRTH)  # an entry may always have come from the absent rank
    played = play(program)
    healthy = sorted(set(range(program.world)) - played.infected)
    assume(healthy)
    played.run.drop(healthy[choice % len(healthy)])
    assert named(analyzed(played.run)) == [played.cause]


@MODEST
@given(programs())
def test_a_missing_source_is_named_by_its_number(program: Program) -> None:
    played = play(program)
    source = played.cause[0]
    assume(played.provable)
    played.run.drop(source)
    report = analyzed(played.run)
    cause = the_cause(report)
    assert (cause.rank, cause.where, cause.op_name) == (source, Where.MISSING_RANK, "")
    assert report.verdict is Verdict.ANOMALY
    assert source in report.input.missing_ranks
    assert not report.complete


@MODEST
@given(trainings(), st.booleans())
def test_the_fault_of_a_training_step_is_named(training: Training, chains: bool) -> None:
    """With and without construct.json."""
    trained = train(training)
    forget(trained.run, chains=chains)
    cause = the_cause(analyzed(trained.run))
    assert cause.rank in trained.ranks
    assert (cause.op_name, cause.where) == (trained.op_name, trained.where)


@MODEST
@given(trainings())
def test_modules_alone_name_the_module(training: Training) -> None:
    """Level L0: neither operators nor communication are dumped."""
    fault, layer = training.fault, training.layer
    assume(fault not in (TrainingFault.BACKWARD, TrainingFault.REDUCTION))
    run = train(replace(training, modules=True, reduction=Reduction.HIDDEN)).run
    for rank in run.ranks.values():
        rank.header["level"] = "L0"
        rank.data = {name: record for name, record in rank.data.items() if name.startswith("Module")}
    product = fault is TrainingFault.FORWARD and training.in_product
    if product or fault in (TrainingFault.WEIGHT, TrainingFault.BATCH):
        first = 0 if fault is TrainingFault.BATCH else layer
        name = f"Module.model.{first}.fc.Linear.forward.{0 if fault is TrainingFault.WEIGHT else training.batch}"
    else:
        name = f"Module.model.{layer}.Layer.forward.{training.batch}"
    cause = the_cause(analyzed(run))
    assert (cause.rank, cause.op_name) == (training.rank, name)


@MODEST
@given(pipelines(), st.booleans())
def test_the_fault_of_a_pipeline_is_named(pipeline: Pipeline, chains: bool) -> None:
    piped = pipe(pipeline)
    forget(piped.run, chains=chains)
    cause = the_cause(analyzed(piped.run))
    assert (cause.rank, cause.op_name, cause.where) == (pipeline.stage, piped.op_name, pipeline.fault.where)


@MODEST
@given(pipelines())
def test_an_absent_stage_is_named(pipeline: Pipeline) -> None:
    piped = pipe(pipeline)
    assume(piped.infected and pipeline.fault is not Fault.MESSAGE)
    piped.run.drop(pipeline.stage)
    cause = the_cause(analyzed(piped.run))
    assert (cause.rank, cause.where) == (pipeline.stage, Where.MISSING_RANK)
