"""Which -Inf are legal, and which tensors of a record count at all (``rank/legality.py``)."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Rank, Run, batch, named, record, t, the_cause

from firstnan.answer.model import MechanismKind, Report, Verdict
from firstnan.operators.communication import calls
from firstnan.rank.taint.legality import read_tensors, written_tensors

MASK = t(-INF)


def reported(rank: Rank, path: Path) -> Report:
    return Run({(0, 0): rank}).analyze(path)


@pytest.mark.parametrize(
    "operator",
    [
        "Tensor.masked_fill", "Torch.where", "Tensor.triu", "Torch.tril", "Torch.full", "Tensor.masked_fill_",
        "Tensor.index_fill", "Functional.pad", "Torch.full_like", "Tensor.new_full",
    ],
)  # fmt: skip
def test_masks_may_write_minus_inf(operator: str, tmp_path: Path) -> None:
    rank = Run().rank(0)
    rank.op(operator, [t(1.0)], [MASK])
    rank.op("Torch.sum", [t(1.0)], [t(1.0)])
    report = reported(rank, tmp_path)
    assert report.verdict is Verdict.CLEAN
    assert report.benign[0].count == 1
    assert report.benign[0].example.endswith(f"{operator}.0.forward")


@pytest.mark.parametrize("value", [t(NAN), t(INF), t(INF, -INF)], ids=["nan", "inf", "both"])
def test_masks_may_not_write_anything_else(value: object, tmp_path: Path) -> None:
    rank = Run().rank(0)
    born = rank.op("Tensor.masked_fill", [t(1.0)], [value])
    rank.op("Torch.sum", [value], [t(NAN)])
    assert named(reported(rank, tmp_path)) == [(0, born)]


@pytest.mark.parametrize(
    "operator", ["Torch.add", "Tensor.clone", "Torch.narrow", "Torch.amax", "Torch.topk", "Torch.cat", "Tensor.to"]
)
def test_minus_inf_is_inherited(operator: str, tmp_path: Path) -> None:
    rank = Run().rank(0)
    rank.op("Tensor.masked_fill", [t(1.0)], [t(1.0, -INF)])
    rank.op(operator, [t(1.0, -INF), t(2.0)], [t(3.0, -INF)])
    rank.op("Torch.softmax", [t(3.0, -INF)], [t(1.0, 0.0)])
    report = reported(rank, tmp_path)
    assert report.verdict is Verdict.CLEAN
    assert {rule.rule for rule in report.benign} >= {"legal_minus_inf", "inherited_minus_inf"}


@pytest.mark.parametrize(
    ("operator", "inputs", "output", "why"),
    [
        ("Functional.softmax", [t(0.0, -INF)], t(NAN), MechanismKind.MASKED_SOFTMAX),
        ("Torch.sub", [t(0.0, -INF), t(0.0, -INF)], t(NAN), MechanismKind.INF_MINUS_INF),
        ("Torch.mul", [t(0.0, -INF), t(1.0, 0.0)], t(NAN), MechanismKind.ZERO_TIMES_INF),
        ("Torch.neg", [t(0.0, -INF)], t(INF), MechanismKind.UNKNOWN),
    ],
)
def test_who_makes_worse_of_a_mask_is_the_cause(
    operator: str, inputs: list[object], output: object, why: MechanismKind, tmp_path: Path
) -> None:
    rank = Run().rank(0)
    rank.op("Tensor.masked_fill", [t(0.0)], [t(0.0, -INF)])
    born = rank.op(operator, inputs, [output])
    rank.op("Torch.sum", [output], [t(NAN)])
    report = reported(rank, tmp_path)
    assert named(report) == [(0, born)]
    assert the_cause(report).mechanism.kind is why


def test_a_mask_from_outside_is_legal(tmp_path: Path) -> None:
    rank = Run().rank(0)
    rank.op("Torch.add", [t(3.0), batch(0.0, -INF)], [t(3.0, -INF)])
    rank.op("Torch.softmax", [t(3.0, -INF)], [t(1.0, 0.0)])
    report = reported(rank, tmp_path)
    assert report.verdict is Verdict.CLEAN
    assert "mask_from_outside" in {rule.rule for rule in report.benign}


def test_nothing_but_minus_inf_from_outside_is_not_legal(tmp_path: Path) -> None:
    rank = Run().rank(0)
    rank.op("Torch.cumsum", [t(1.0), 0], [t(1.0)])
    read = rank.op("Torch.add", [t(3.0), t(-INF, -INF)], [t(-INF, -INF)])
    assert named(reported(rank, tmp_path)) == [(0, read)]


def test_the_logarithm_of_zero_is_not_legal(tmp_path: Path) -> None:
    rank = Run().rank(0)
    born = rank.op("Torch.log", [t(3.0, 0.0)], [t(1.1, -INF)])
    rank.op("Torch.sum", [t(1.1, -INF)], [t(-INF, -INF, shape=())])
    assert named(reported(rank, tmp_path)) == [(0, born)]


def test_minus_inf_in_a_gradient_is_not_legal(tmp_path: Path) -> None:
    rank = Run().rank(0)
    masked = rank.op("Tensor.masked_fill", [t(1.0)], [t(1.0, -INF)])
    loss = rank.op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    born = rank.backward(masked, [t(1.0)], [t(1.0, -INF)])
    assert named(reported(rank, tmp_path)) == [(0, born)]


def test_two_masks_of_the_most_negative_number_add_up(tmp_path: Path) -> None:
    """finfo.min + finfo.min is -Inf, and softmax does not mind."""
    lowest = -65504.0
    rank = Run().rank(0)
    rank.op("Torch.add", [t(0.0, lowest, dtype="float16")] * 2, [t(0.0, -INF, dtype="float16")])
    rank.op("Torch.softmax", [t(0.0, -INF, dtype="float16")], [t(1.0, 0.0, dtype="float16")])
    report = reported(rank, tmp_path)
    assert report.verdict is Verdict.CLEAN
    assert "mask_sum" in {rule.rule for rule in report.benign}


def test_minus_inf_as_a_constant_is_asked_for(tmp_path: Path) -> None:
    rank = Run().rank(0)
    rank.op("Torch.mul", [t(1.0, 0.0), -INF], [t(0.0, -INF)])
    rank.op("Torch.softmax", [t(0.0, -INF)], [t(1.0, 0.0)])
    report = reported(rank, tmp_path)
    assert report.verdict is Verdict.CLEAN
    assert "minus_inf_constant" in {rule.rule for rule in report.benign}


def test_a_suppressed_value_is_counted_once(tmp_path: Path) -> None:
    rank = Run().rank(0)
    rank.op("Torch.full", [4, 8, -INF], [MASK])
    rank.op("Torch.sum", [t(1.0)], [t(1.0)])
    assert sum(rule.count for rule in reported(rank, tmp_path).benign) == 1


def test_an_illegal_minus_inf_stays_illegal_after_an_undumped_cast(tmp_path: Path) -> None:
    rank = Run().rank(0)
    born = rank.op("Torch.log", [t(3.0, 0.0)], [t(1.0986, -INF)])
    rank.op("Torch.add", [t(1.1016, -INF, dtype="bfloat16"), t(1.0)], [t(2.1, -INF)])
    assert named(reported(rank, tmp_path)) == [(0, born)]


def test_a_negated_infinity_is_no_mask(tmp_path: Path) -> None:
    """+Inf from an overflow, negated by something that is not dumped, has mask form and is none."""
    rank = Run().rank(0)
    born = rank.op("Torch.exp", [t(100.0, -3.0)], [t(INF, 0.5)])
    rank.op("Torch.sum", [t(-0.5, -INF)], [t(-INF, -INF, shape=())])
    assert named(reported(rank, tmp_path)) == [(0, born)]


def test_the_old_content_of_an_out_buffer_is_not_read(tmp_path: Path) -> None:
    rank = Run().rank(0)
    name = rank.op("Torch.add", [t(1.0), t(1.0)], [t(2.0)], out=t(NAN))
    found = record(rank, name, tmp_path)
    assert [x.slot for x in read_tensors(found, ())] == ["input_args.0", "input_args.1"]
    assert reported(rank, tmp_path).verdict is Verdict.CLEAN


def test_a_receive_buffer_is_not_read(tmp_path: Path) -> None:
    rank = Run().rank(0)
    name = rank.comm(
        "all_gather_into_tensor", [], {"output_tensor": t(NAN), "input_tensor": t(1.0)}, {"output_tensor": t(1.0)}
    )
    found = record(rank, name, tmp_path)
    ways = calls(found, 0)
    assert [x.slot for x in read_tensors(found, ways)] == ["input_kwargs.input_tensor"]
    assert [x.slot for x in written_tensors(found, ways)] == ["output.0"]
    assert reported(rank, tmp_path).verdict is Verdict.CLEAN


def test_fresh_memory_is_no_source_until_it_is_read(tmp_path: Path) -> None:
    rank = Run().rank(0)
    rank.op("Torch.empty", [4, 8], [t(NAN)])
    rank.op("Torch.sum", [t(1.0)], [t(1.0)])
    report = reported(rank, tmp_path)
    assert report.verdict is Verdict.CLEAN
    assert [(rule.rule, rule.count) for rule in report.benign] == [("memory_initialisation", 1)]


@pytest.mark.parametrize("read", [True, False])
def test_an_unread_log_of_zero_is_no_mask(read: bool, tmp_path: Path) -> None:
    """Log-probabilities that are joined with rewards and sent to the learner: what rank 1 gets is the log of zero.
    Where an operator reads the logarithm's result, the -Inf in the message is another one."""
    run = Run()
    actor, learner = run.rank(0), run.rank(1)
    born = actor.op("Torch.log", [batch(1.0, 0.0, (6,))], [batch(0.0, -INF, (6,))])
    if read:
        actor.op("Torch.exp", [batch(0.0, -INF, (6,))], [batch(1.0, 0.0, (6,))])
    actor.construct["Torch.cat.0.forward"] = None
    actor.send(batch(4.0, -INF, (6, 3)), 1)
    learner.recv(batch(4.0, -INF, (6, 3)), 0)
    ratio = learner.op("Torch.sub", [t(1.0, 0.0, (6, 3)), batch(4.0, -INF, (6, 3))], [t(INF, -3.0, (6, 3))])
    loss = learner.op("Torch.sum", [t(INF, -3.0, (6, 3))], [t(INF, INF, ())])
    learner.backward(loss, [t(1.0, shape=())], [t(1.0)])
    assert named(run.analyze(tmp_path)) == ([(1, ratio)] if read else [(0, born)])


def test_a_mask_minus_infinity_is_no_mask(tmp_path: Path) -> None:
    """All of the result is -Inf, and most of it came of the +Inf."""
    rank = Run().rank(0)
    born = rank.op("Torch.exp", [t(100.0, shape=(8,))], [t(INF, 0.0, (8,))])
    rank.op("Tensor.masked_fill", [t(1.0)], [t(1.0, -INF)])
    rank.op("Torch.sub", [t(1.0, -INF), t(INF, 0.0, (8,))], [t(-INF, -INF)])
    loss = rank.op("Torch.sum", [t(-INF, -INF)], [t(-INF, -INF, ())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    assert named(reported(rank, tmp_path)) == [(0, born)]
