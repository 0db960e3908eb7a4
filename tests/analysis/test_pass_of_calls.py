"""The pass that a communication fault belongs to follows where the call stands, not the name of its record."""

from __future__ import annotations

from pathlib import Path

from analysis.made_runs import INF, Run, t, the_cause
from firstnan.answer.model import MechanismKind, Where
from firstnan.dump.records import Direction

HALF = "float16"


def trained(fault: str) -> Run:
    """Tensor parallel: an all_reduce in forward, one in backward, one of the gradients; ``fault`` names the bad one."""
    run = Run()
    for number in range(2):
        rank = run.rank(number)

        def reduced(place: str) -> tuple[float, float]:
            return (60000.0, INF) if place == fault else (1.0, 2.0)

        forward, backward, late = map(reduced, ("forward", "backward", "late"))
        bad = [INF if fault == "forward" else 1.0, INF if fault in ("forward", "backward") else 1.0]
        linear = rank.op("Functional.linear", [t(1.0, dtype=HALF)], [t(forward[0], dtype=HALF)])
        rank.all_reduce(t(forward[0], dtype=HALF), t(forward[1], dtype=HALF))
        loss = rank.op("Functional.mse_loss", [t(forward[1], dtype=HALF)], [t(bad[0], shape=())])
        rank.backward(loss, [t(1.0, shape=())], [t(backward[0], dtype=HALF)])
        rank.all_reduce(t(backward[0], dtype=HALF), t(backward[1], dtype=HALF))
        rank.backward(linear, [t(backward[1], dtype=HALF)], [t(bad[1], dtype=HALF), t(late[0], dtype=HALF)])
        rank.all_reduce(t(late[0], dtype=HALF), t(late[1], dtype=HALF))
        rank.op("Torch.norm", [t(late[1], dtype=HALF)], [t(late[1], shape=())])
    return run


def test_a_reduction_in_forward(tmp_path: Path) -> None:
    report = trained("forward").analyze(tmp_path)
    cause = the_cause(report)
    assert (cause.where, cause.direction) == (Where.COMMUNICATION, Direction.FORWARD)
    assert [note.key for note in report.story] == ["story.loss"]


def test_a_reduction_in_backward(tmp_path: Path) -> None:
    report = trained("backward").analyze(tmp_path)
    cause = the_cause(report)
    assert cause.mechanism.kind is MechanismKind.REDUCTION_OVERFLOW
    assert cause.op_name.endswith(".forward")
    assert (cause.where, cause.direction) == (Where.COMMUNICATION, Direction.BACKWARD)
    assert [note.key for note in report.story] == ["story.gradient"]


def test_a_reduction_of_gradients_after_backward(tmp_path: Path) -> None:
    report = trained("late").analyze(tmp_path)
    cause = the_cause(report)
    assert (cause.where, cause.direction) == (Where.COMMUNICATION, Direction.BACKWARD)
    assert [note.key for note in report.story] == ["story.reduction"]


def test_a_reduction_in_the_forward_pass_of_a_later_micro_batch(tmp_path: Path) -> None:
    """Between two backward passes, inside a module's forward call."""
    run = Run()
    for number in range(2):
        rank = run.rank(number)
        one = rank.op("Functional.mse_loss", [t(1.0, dtype=HALF)], [t(1.0, shape=())])
        rank.backward(one, [t(1.0, shape=())], [t(1.0, dtype=HALF)])
        with rank.module("layer", "Layer", [t(1.0, dtype=HALF)], [t(INF, dtype=HALF)]):
            rank.all_reduce(t(60000.0, dtype=HALF), t(INF, dtype=HALF))
        two = rank.op("Functional.mse_loss", [t(INF, dtype=HALF)], [t(INF, shape=())])
        rank.backward(two, [t(1.0, shape=())], [t(INF, dtype=HALF)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.where, cause.direction) == (Where.COMMUNICATION, Direction.FORWARD)


def test_a_call_inside_the_backward_of_a_module(tmp_path: Path) -> None:
    """construct.json names the module's backward call as the caller."""
    run = trained("backward")
    for rank in run.ranks.values():
        call = next(name for name in list(rank.data)[2:] if name.startswith("Distributed"))
        rank.construct[call] = "Module.layer.Layer.backward.0"
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.where, cause.direction) == (Where.COMMUNICATION, Direction.BACKWARD)
