"""Dumps of modules alone (L0), where communication leaves no record: what one rank tells of another."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import NAN, Rank, Run, batch, named, t, the_cause

from firstnan.answer.model import Verdict, Where
from firstnan.dump.problems import ProblemKind


def split_layer(rank: Rank, *, inside: object, given: object) -> None:
    """A layer that tensor parallelism splits: its last product is added up over the ranks inside the layer."""
    with rank.module("layer", "Mlp", [t(1.0)], [given]):
        with rank.module("layer.up", "Linear", [t(1.0)], [t(2.0)]):
            pass
        with rank.module("layer.down", "Linear", [inside], [inside]):
            pass
    with rank.module("head", "Linear", [given], [given]):
        pass


def backward(rank: Rank, name: str, gradient: object, given: object) -> str:
    return rank._put(name, {"input": [gradient], "output": [given]}, None)


def test_a_module_communicates_inside(tmp_path: Path) -> None:
    """Rank 1 makes it between two modules, rank 0 shows it first in the result of the layer."""
    run = Run()
    for number in (0, 1):
        split_layer(run.rank(number), inside=t(NAN) if number else t(1.0), given=t(NAN))
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.rank, cause.op_name) == (1, "Module.layer.Mlp.forward.0")  # between two of its modules


def test_a_module_whose_inside_is_clean_everywhere_is_a_cause(tmp_path: Path) -> None:
    run = Run()
    for number in (0, 1):
        split_layer(run.rank(number), inside=t(1.0), given=t(NAN) if number == 0 else t(1.0))
    assert named(run.analyze(tmp_path)) == [(0, "Module.layer.Mlp.forward.0")]


def test_what_begins_inside_a_clean_module_explains_the_stage_before(tmp_path: Path) -> None:
    """Two stages of a pipeline: the later one makes NaN in backward, the earlier one only gets it."""
    run = Run()
    for number in (0, 1):
        rank, gradient = run.rank(number), t(0.5) if number else t(NAN)
        around = rank.module(f"{number}", "Block", [t(1.0)], [t(1.0)])
        with around, rank.module(f"{number}.down", "Linear", [t(1.0)], [t(1.0)]):
            pass
        outer = f"Module.{number}.Block.backward.0"
        inner = backward(rank, f"Module.{number}.down.Linear.backward.0", t(NAN), t(NAN))
        rank.construct[inner] = outer
        backward(rank, outer, gradient, t(NAN))
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.rank, cause.op_name) == (1, "Module.1.Block.backward.0")


def test_a_parameter_is_one_cause(tmp_path: Path) -> None:
    """A shard is bad on one rank, and gathered on all; which one it is, the dump does not tell."""
    run = Run()
    for number in (0, 1, 2):
        rank = run.rank(number)
        with rank.module("fc", "Linear", [batch(1.0)], [t(NAN)], {"weight": t(NAN, shape=(8, 8))}):
            pass
        with rank.module("head", "Linear", [t(NAN)], [t(NAN)]):
            pass
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.where, cause.rank, cause.ranks_also) == (Where.PARAMETER, 0, (1, 2))


@pytest.mark.parametrize("behind", ["Module.fc.Linear.backward.0", "Module.fc.Linear.parameters_grad.0", ""])
def test_a_rank_that_ends_in_forward_while_others_do_not_is_short(behind: str, tmp_path: Path) -> None:
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        with rank.module("fc", "Linear", [batch(1.0)], [t(1.0)]) as module:
            pass
        if number and behind.endswith("backward.0"):
            backward(rank, behind, t(1.0), t(1.0))
        elif number and behind:
            rank.parameters_grad(module, weight=t(1.0))
    report = run.analyze(tmp_path)
    short = [(p.rank, p.detail) for p in report.input.problems if p.kind is ProblemKind.SHORT_RANK]
    assert report.verdict is Verdict.CLEAN
    assert report.complete is not bool(behind)
    expected = f"rank 1 goes on to {behind}; its last record is Module.fc.Linear.forward.0"
    assert short == ([(0, expected)] if behind else [])


@pytest.mark.parametrize("grad", [True, False])
def test_a_rank_that_only_infers_is_not_short(grad: bool, tmp_path: Path) -> None:
    """An actor computes without gradients beside the learner that trains."""
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        rank.header["level"] = "L0"
        given = t(1.0, grad=grad or number == 1)
        with rank.module("fc", "Linear", [batch(1.0)], [given], {"weight": t(1.0)}) as module:
            pass
        if number:
            rank.parameters_grad(module, weight=t(1.0))
    short = [p.rank for p in run.analyze(tmp_path).input.problems if p.kind is ProblemKind.SHORT_RANK]
    assert short == ([0] if grad else [])
