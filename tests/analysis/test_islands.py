"""Garbage that is computed with and thrown away: the rules of ``islands``."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Rank, Run, batch, t, the_cause

from firstnan.answer.model import Report, Verdict
from firstnan.dump.problems import ProblemKind
from firstnan.rank.taint.limits import Limit


def stage(rank: Rank, read: object, given: object, factor: object = 1.0) -> str:
    """One run of a pipeline stage; the name of its product."""
    with rank.module("layers.0", "Block", [read], [given]):
        return rank.op("Torch.mul", [read, factor], [given])


def trial(rank: Rank) -> None:
    """The stage on uninitialised buffers, with its backward pass."""
    with rank.module("layers.0", "Block", [t(1e37)], [t(NAN)]) as module:
        rank.op("Functional.layer_norm", [t(1e37)], [t(NAN)])
    loss = rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(NAN)])
    rank._put(module.replace("forward", "backward"), {"input": [t(NAN)], "output": [t(NAN)]}, None)


def pipeline(tmp_path: Path, given: object, factor: object = 1.0, *, sends_first: bool = False) -> tuple[Report, str]:
    run = Run()
    first, last = run.rank(0), run.rank(1)
    stage(first, t(1.0), t(1.0))
    first.comm("send", [t(1.0), 1], {}, {})
    if sends_first:
        last.comm("send", [t(1.0), 0], {}, {})
        first.comm("recv", [None, 1], {}, {0: t(1.0)})
    trial(last)
    last.comm("recv", [None, 0], {}, {0: t(1.0)})
    name = stage(last, t(1.0), given, factor)
    loss = last.op("Torch.mean", [given], [given])
    last.backward(loss, [t(1.0)], [t(1.0)])
    return run.analyze(tmp_path), name


def test_a_stage_is_tried_on_garbage(tmp_path: Path) -> None:
    report, _ = pipeline(tmp_path, t(1.0))
    assert (report.verdict, report.exit_code) == (Verdict.CLEAN, 0)


def test_a_fault_behind_the_island_is_found(tmp_path: Path) -> None:
    report, name = pipeline(tmp_path, t(INF, 0.0), 1e39)
    assert the_cause(report).op_name == name


def test_a_rank_that_has_sent_a_tensor_is_no_island(tmp_path: Path) -> None:
    report, _ = pipeline(tmp_path, t(1.0), sends_first=True)
    assert the_cause(report).op_name == "Functional.layer_norm.0.forward"


def operators(rank: Rank, read: object, gain: object, given: object) -> str:
    """One run of a stage of which no module is recorded; the name of its exponential."""
    rank.op("Functional.layer_norm", [read], [t(1.0)])
    rank.op("Functional.linear", [t(1.0), t(0.5)], [t(1.0)])
    name = rank.op("Torch.exp", [gain], [given])
    rank.op("Torch.mul", [given, given], [given])
    return name


def pipeline_of_operators(
    tmp_path: Path, gain: object, given: object, *, fed: object, metadata: int = 1
) -> tuple[Report, str]:
    """The last of two stages at level L1: metadata, a trial with its backward, the first tensor, the stage."""
    run = Run()
    first, last = run.rank(0), run.rank(1)
    for rank, call in metadata * ((first, "send"), (last, "recv")):
        rank.comm(call, [batch(1.0, shape=(1,), dtype="int64") if call == "send" else None, 1 - rank.number], {}, {})
    tried = operators(last, t(1e31), t(1e30), t(INF, 0.0))
    last.backward(tried, [t(1.0, 1.0)], [t(NAN)])
    first.comm("send", [fed, 1], {}, {})
    last.comm("recv", [None, 0], {}, {0: fed})
    name = operators(last, fed, gain, given)
    last.backward(name, [given], [given])
    return run.analyze(tmp_path), name


def test_the_same_operators_run_again_where_no_module_is_recorded(tmp_path: Path) -> None:
    report, _ = pipeline_of_operators(tmp_path, t(1.0), t(2.0), fed=t(1.0))
    assert (report.verdict, report.exit_code) == (Verdict.CLEAN, 0)


def test_the_first_tensor_is_found_behind_any_number_of_other_messages(tmp_path: Path) -> None:
    report, _ = pipeline_of_operators(tmp_path, t(1.0), t(2.0), fed=t(1.0), metadata=100)
    assert (report.verdict, report.exit_code) == (Verdict.CLEAN, 0)


@pytest.mark.parametrize("most", [2, 1024])
def test_a_trial_that_is_not_recognised_is_told(most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where what it repeats is not looked for to the end, its garbage is taken for real, and the limit is named."""
    monkeypatch.setattr("firstnan.rank.taint.islands.MAX_BEHIND", most)
    report, _ = pipeline_of_operators(tmp_path, t(1.0), t(2.0), fed=t(1.0))
    told = [problem.detail for problem in report.input.problems if problem.kind is ProblemKind.LIMIT]
    if most == 2:
        assert (report.verdict, report.complete, told) == (Verdict.ANOMALY, False, [Limit.TRIAL.value])
    else:
        assert (report.verdict, report.complete, told) == (Verdict.CLEAN, True, [])


def test_a_fault_behind_them_is_found(tmp_path: Path) -> None:
    report, name = pipeline_of_operators(tmp_path, t(900.0), t(INF, 0.0), fed=t(1.0))
    assert the_cause(report).op_name == name


def test_other_operators_behind_the_message_prove_nothing(tmp_path: Path) -> None:
    """What was computed on the numbers of the first is the cause: nothing like it runs again."""
    run = Run()
    first, last = run.rank(0), run.rank(1)
    name = operators(last, t(1.0), t(900.0), t(INF, 0.0))
    last.backward(name, [t(1.0)], [t(INF, 0.0)])
    first.comm("send", [t(1.0), 1], {}, {})
    last.comm("recv", [None, 0], {}, {0: t(1.0)})
    last.op("Functional.linear", [t(1.0), t(0.5)], [t(1.0)])
    assert the_cause(run.analyze(tmp_path)).op_name == name


def test_one_operator_again_is_no_second_run_of_a_stage(tmp_path: Path) -> None:
    """Additions stand before and behind every message."""
    run = Run()
    first, last = run.rank(0), run.rank(1)
    name = last.op("Tensor.__add__", [t(1.0), t(1.0)], [t(NAN)])
    last.op("Tensor.__add__", [t(1.0), t(1.0)], [t(2.0)])
    first.comm("send", [t(1.0), 1], {}, {})
    last.comm("recv", [None, 0], {}, {0: t(1.0)})
    for _ in range(2):
        last.op("Tensor.__add__", [t(1.0), t(1.0)], [t(2.0)])
    for rank in (first, last):
        rank.comm("all_reduce", [t(1.0) if rank is first else t(NAN)], {}, {0: t(NAN)})
    assert the_cause(run.analyze(tmp_path)).op_name == name


def call_of_modules(rank: Rank, read: object, given: object) -> str:
    outer = rank.module("stage", "Sequential", [read], [given])
    with outer as name, rank.module("stage.0", "Linear", [read], [given]):
        return name


def backward_of_modules(rank: Rank, outer: str, gradient: object, result: object) -> None:
    name = outer.replace("forward", "backward")
    inner = name.replace("stage.", "stage.0.").replace("Sequential", "Linear")
    rank._put(inner, {"input": [gradient], "output": [result]}, name)
    rank._put(name, {"input": [gradient], "output": [result]}, None)


def stage_of_modules(rank: Rank, read: object, given: object, tried: object = None, *, shows: bool = True) -> str:
    """A stage at level L0, where messages leave no record: a trial, then the call of the only micro-batch."""
    outer = call_of_modules(rank, tried or t(3e34, 0.0), t(NAN))
    backward_of_modules(rank, outer, t(1.0, 1.0), t(NAN))
    name = call_of_modules(rank, read, given)
    if shows:
        rank.parameters_grad("Module.stage.0.Linear.forward.0", weight=given)
    backward_of_modules(rank, name, given, given)
    return name.replace("stage.", "stage.0.").replace("Sequential", "Linear")


def test_what_is_thrown_away_leaves_no_gradient(tmp_path: Path) -> None:
    run = Run()
    stage_of_modules(run.rank(0), t(1.0), t(2.0))
    assert run.analyze(tmp_path).exit_code == 0


def test_a_trial_gives_way(tmp_path: Path) -> None:
    """On the rank itself, to whatever is bad behind it."""
    run = Run()
    name = stage_of_modules(run.rank(0), t(1.0), t(NAN))
    run.rank(0).data.pop("Module.stage.0.Linear.parameters_grad.0")
    assert the_cause(run.analyze(tmp_path)).op_name == name


def test_a_trial_is_no_cause_beside_others(tmp_path: Path) -> None:
    """On another rank: the last stage was tried, and then got the NaN of the first one."""
    run = Run()
    first = run.rank(0)
    name = call_of_modules(first, batch(1.0), t(NAN)).replace("stage.", "stage.0.").replace("Sequential", "Linear")
    stage_of_modules(run.rank(1), t(NAN), t(NAN))
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.rank, cause.op_name) == (0, name)


def test_without_a_gradient_nothing_shows_that_it_was_thrown_away(tmp_path: Path) -> None:
    """No recorded gradient of a parameter; nothing else is bad: the first call is the cause, whatever it looks like."""
    run = Run()
    stage_of_modules(run.rank(0), t(1.0), t(2.0), shows=False)
    assert the_cause(run.analyze(tmp_path)).op_name == "Module.stage.0.Linear.forward.0"


def test_absurd_numbers_look_like_a_trial(tmp_path: Path) -> None:
    """A real fault behind it makes the gradients bad, so that nothing proves it; the real one is named."""
    run = Run()
    name = stage_of_modules(run.rank(0), t(1.0), t(NAN))
    cause = the_cause(run.analyze(tmp_path))
    assert cause.op_name == name
    assert "reason.trial" in {other.reason.key for other in cause.alternatives}


def test_usual_numbers_do_not_look_like_a_trial(tmp_path: Path) -> None:
    """The first micro-batch of two: what was bad in it is the cause."""
    run = Run()
    stage_of_modules(run.rank(0), t(1.0), t(NAN), tried=t(2.0))
    assert the_cause(run.analyze(tmp_path)).op_name == "Module.stage.0.Linear.forward.0"


def test_a_batch_is_no_trial(tmp_path: Path) -> None:
    """Absurd input data that needs no gradient was not allocated for a message."""
    run = Run()
    stage_of_modules(run.rank(0), t(1.0), t(NAN), tried=batch(3e34, 0.0))
    assert the_cause(run.analyze(tmp_path)).op_name == "Module.stage.0.Linear.forward.0"


@pytest.mark.parametrize("view", ["Torch.split", "Torch.chunk"])
def test_views_of_unfilled_memory_are_unfilled(view: str, tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    buffer, half = t(NAN, shape=(64,), grad=False), t(NAN, shape=(32,), grad=False)
    rank.op("Torch.empty", [64], [buffer])
    rank.op(view, [buffer, 32], [half, half])
    rank.op("Torch.mul", [t(1.0), t(1.0)], [t(1.0)])
    assert run.analyze(tmp_path).exit_code == 0


def tried_stage(rank: Rank, read: object, given: object, gradient: object, weight: object = None) -> str:
    """A stage of an affine layer and a root, with its backward; the name of the root."""
    weight = weight or t(0.5, shape=(8, 8))
    rank.op("Functional.linear", [read, weight], [given])
    name = rank.op("Torch.sqrt", [given], [given])
    rank.backward(name, [given], [gradient])
    return name


@pytest.mark.parametrize("arrives", [t(1.0), t(NAN)], ids=["finite", "bad"])
def test_a_stage_computes_on_what_it_received(arrives: dict[str, object], tmp_path: Path) -> None:
    """The trial on zeros gives an infinite derivative of its own, whatever arrives behind it: only the fault of the
    first rank counts."""
    run = Run()
    first, last = run.rank(0), run.rank(1)
    is_bad = arrives != t(1.0)
    born = first.op("Torch.log", [batch(1.0, -1.0 if is_bad else 0.5)], [arrives])
    first.send(arrives, 1)
    tried_stage(last, t(1.0, 0.0), t(1.0, 0.0), t(INF, 0.0))
    last.recv(arrives, 0)
    tried_stage(last, arrives, arrives, arrives)
    report = run.analyze(tmp_path)
    assert [(c.rank, c.op_name) for c in report.root_causes] == ([(0, born)] if is_bad else [])
    assert report.exit_code == int(is_bad)


def test_what_a_stage_did_on_its_own_batch_is_no_trial(tmp_path: Path) -> None:
    """It needs no gradient: each rank works on data of its own before ranks exchange what they made."""
    run = Run()
    first, last = run.rank(0), run.rank(1)
    first.send(t(NAN), 1)
    born = tried_stage(last, batch(1.0, 0.0), t(1.0, 0.0), t(INF, 0.0))
    last.recv(t(NAN), 0)
    tried_stage(last, t(NAN), t(NAN), t(NAN))
    assert (1, born.replace("forward", "backward")) in [(c.rank, c.op_name) for c in run.analyze(tmp_path).root_causes]


@pytest.mark.parametrize("before", [0, 1500])
def test_what_a_stage_did_on_what_the_rank_made_is_no_trial(before: int, tmp_path: Path) -> None:
    """However many records stand before the one that made it."""
    shape = (3, 5)
    run = Run()
    first, last = run.rank(0), run.rank(1)
    last.skip(before)
    last.op("Torch.mul", [t(1.0, shape=shape)], [t(1.0, 0.0, shape=shape)])
    for rank in (first, last):
        rank.all_reduce(t(1.0), t(2.0), (0, 1))
    first.send(t(NAN, shape=shape), 1)
    born = tried_stage(last, t(1.0, 0.0, shape=shape), t(1.0, 0.0), t(INF, 0.0))
    last.recv(t(NAN, shape=shape), 0)
    tried_stage(last, t(NAN, shape=shape), t(NAN), t(NAN))
    assert (1, born.replace("forward", "backward")) in [(c.rank, c.op_name) for c in run.analyze(tmp_path).root_causes]


def test_a_weight_is_no_garbage(tmp_path: Path) -> None:
    """What a trial on absurd numbers reads first is a bad weight: the step that reads it is the one that is told. (The
    message is larger than what the stage reads of it, so that nothing proves the trial.)"""
    run = Run()
    weight = t(NAN, shape=(8, 8))
    for step in (0, 1):
        first, last = run.rank(0, step), run.rank(1, step)
        first.send(t(1.0, shape=(4, 16)), 1)
        if step == 0:
            tried_stage(last, t(1e30), t(NAN), t(NAN), weight)
        last.recv(t(1.0, shape=(4, 16)), 0)
        tried_stage(last, t(1.0), t(NAN), t(NAN), weight)
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.step, cause.rank, cause.where.value) == (0, 1, "parameter")


@pytest.mark.parametrize("place", ["before", "inside"])
def test_a_number_that_is_told_once_is_of_no_stage(place: str, tmp_path: Path) -> None:
    """A perplexity before the metadata or in the trial does not hide that the operators behind it run again."""
    run = Run()
    first, last = run.rank(0), run.rank(1)
    number = batch(100.0, 100.0, shape=()), batch(INF, INF, shape=())
    if place == "before":
        last.op("Torch.exp", number[:1], number[1:])
    for rank, call in ((first, "send"), (last, "recv")):
        rank.comm(call, [batch(1.0, shape=(1,), dtype="int64") if call == "send" else None, 1 - rank.number], {}, {})
    last.op("Functional.layer_norm", [t(1e31)], [t(1.0)])
    if place == "inside":
        last.op("Torch.exp", number[:1], number[1:])
    tried = last.op("Torch.sinh", [t(1e30)], [t(INF, 0.0)])
    last.op("Torch.mul", [t(INF, 0.0), t(INF, 0.0)], [t(INF, 0.0)])
    last.backward(tried, [t(1.0, 1.0)], [t(NAN)])
    first.comm("send", [t(1.0), 1], {}, {})
    last.comm("recv", [None, 0], {}, {0: t(1.0)})
    last.op("Functional.layer_norm", [t(1.0)], [t(1.0)])
    last.op("Torch.sinh", [t(1.0)], [t(2.0)])
    again = last.op("Torch.mul", [t(2.0), t(2.0)], [t(4.0)])
    last.backward(again, [t(1.0, 1.0)], [t(1.0)])
    assert run.analyze(tmp_path).verdict is Verdict.CLEAN
