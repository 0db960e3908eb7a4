"""Communication results that are finite and impossible, and those that are bad although all inputs are fine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from made_runs import INF, NAN, Json, Run, batch, named, t, the_cause

import firstnan
from firstnan.answer.model import Confidence, MechanismKind, Report, Verdict, Where
from firstnan.causes.step_answer import StepAnswer
from firstnan.step.corruption import impossible_ranks, result_bound


def reduced(path: Path, sent: Sequence[Json], received: Sequence[Json], op: str = "SUM", **more: Json) -> StepAnswer:
    run = Run()
    for rank, (one, other) in enumerate(zip(sent, received, strict=True)):
        run.rank(rank).all_reduce(one, other, op=op, **more)
    return run.judge(path)


def test_sum_within_bounds(tmp_path: Path) -> None:
    call = reduced(tmp_path, [t(2.0), t(3.0)], [t(5.0), t(7.0)]).matching.calls[0]
    assert result_bound(call) == 5.0
    assert impossible_ranks(call) == (1,)


def test_sum_within_bounds_allows_for_rounding(tmp_path: Path) -> None:
    call = reduced(tmp_path, [t(2.0), t(3.0)], [t(5.1), t(5.1)]).matching.calls[0]
    assert impossible_ranks(call) == ()


@pytest.mark.parametrize("op", ["AVG", "MAX", "MIN"])
def test_sum_within_bounds_of_the_largest_member(op: str, tmp_path: Path) -> None:
    call = reduced(tmp_path, [t(2.0), t(3.0)], [t(3.0), t(4.0)], op).matching.calls[0]
    assert (result_bound(call), impossible_ranks(call)) == (3.0, (1,))


def test_sum_within_bounds_says_nothing_about_products(tmp_path: Path) -> None:
    call = reduced(tmp_path, [t(2.0), t(3.0)], [t(6.0), t(6.0)], "PRODUCT").matching.calls[0]
    assert (result_bound(call), impossible_ranks(call)) == (None, ())


def test_sum_within_bounds_says_nothing_while_a_member_is_absent(tmp_path: Path) -> None:
    call = reduced(tmp_path, [t(2.0), t(3.0)], [t(50.0), t(50.0)], group=(0, 1, 2)).matching.calls[0]
    assert impossible_ranks(call) == ()


def test_sum_within_bounds_says_nothing_of_stale_results(tmp_path: Path) -> None:
    call = reduced(tmp_path, [t(2.0), t(3.0)], [t(5.0), t(7.0)], async_op=True).matching.calls[0]
    assert impossible_ranks(call) == ()


def test_sum_within_bounds_says_nothing_while_the_world_is_unknown(tmp_path: Path) -> None:
    """A run of eight that dumps rank 0 alone: the group is nowhere recorded, the sum is of eight members."""
    run = Run()
    rank = run.rank(0)
    rank.all_reduce(t(1.0), t(7.5))
    born = rank.op("Torch.log", [t(7.5, -7.5)], [t(NAN)])
    assert named(run.analyze(tmp_path)) == [(0, born)]


def test_sum_within_bounds_says_nothing_while_a_last_rank_may_be_absent(tmp_path: Path) -> None:
    """Ranks 0 to 2 of four, the default group, 3 in each part: 12 is beyond their 9, and fine."""
    run = Run()
    for rank in range(3):
        result = t(12.0 if rank == 1 else 5.0)
        run.rank(rank).reduce_scatter([t(3.0)] * 4, result)
        born = run.rank(rank).op("Torch.log", [result], [t(NAN) if rank == 1 else t(2.0)])
    assert (1, "Distributed.reduce_scatter.0.forward") not in named(run.analyze(tmp_path))
    assert named(run.analyze(tmp_path)) == [(1, born)]


def test_moved_within_bounds(tmp_path: Path) -> None:
    """all_gather moves values and makes none: 9 cannot come of 2 and 3."""
    run = Run()
    for rank in (0, 1):
        run.rank(rank).all_gather_into_tensor(t(2.0 + rank), t(3.0 if rank else 9.0, shape=(8, 8)))
    call = run.judge(tmp_path).matching.calls[0]
    assert (result_bound(call), impossible_ranks(call)) == (3.0, (0,))


def test_moved_within_bounds_of_the_root(tmp_path: Path) -> None:
    """What stands in the buffers of the other members before a broadcast does not count."""
    run = Run()
    run.rank(0).broadcast(t(2.0), t(2.0), 0)
    run.rank(1).broadcast(t(50.0), t(7.0), 0)
    call = run.judge(tmp_path).matching.calls[0]
    assert (result_bound(call), impossible_ranks(call)) == (2.0, (1,))


def test_members_agree(tmp_path: Path) -> None:
    call = reduced(tmp_path, [t(2.0), t(3.0), t(4.0)], [t(6.0), t(6.0), t(3.0)]).matching.calls[0]
    assert impossible_ranks(call) == (2,)


def test_members_agree_up_to_rounding(tmp_path: Path) -> None:
    call = reduced(tmp_path, [t(2.0), t(3.0), t(4.0)], [t(6.0), t(6.0), t(6.01)]).matching.calls[0]
    assert impossible_ranks(call) == ()


def test_members_agree_or_not_is_open_between_two(tmp_path: Path) -> None:
    call = reduced(tmp_path, [t(2.0), t(3.0)], [t(4.0), t(3.0)]).matching.calls[0]
    assert impossible_ranks(call) == ()


def test_members_agree_or_not_is_open_between_halves(tmp_path: Path) -> None:
    received = [t(9.0), t(9.0), t(3.0), t(3.0)]
    call = reduced(tmp_path, [t(2.0), t(3.0), t(4.0), t(5.0)], received).matching.calls[0]
    assert impossible_ranks(call) == ()


def test_receiver_equals_sender(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).send(t(2.0), 1)
    run.rank(1).recv(t(2.0e9), 0)
    assert impossible_ranks(run.judge(tmp_path).matching.calls[0]) == (1,)


def test_receiver_equals_sender_in_a_sound_message(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).send(t(2.0), 1)
    run.rank(1).recv(t(2.0), 0)
    assert impossible_ranks(run.judge(tmp_path).matching.calls[0]) == ()


def test_a_corrupt_result_is_the_cause_of_what_it_led_to(tmp_path: Path) -> None:
    """all_reduce of 2 and 3 gives 1e37 on rank 1, whose square overflows: the communication is the cause."""
    run = Run()
    for rank, value in enumerate([5.0, 1e37]):
        mine = run.rank(rank)
        call = mine.all_reduce(t(2.0 + rank), t(value), op="SUM")
        mine.op("Torch.square", [t(value)], [t(INF) if rank else t(25.0, 0.0)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.rank, cause.op_name, cause.where) == (1, call, Where.COMMUNICATION)
    assert (cause.mechanism.kind, cause.mechanism.confidence) == (MechanismKind.COMM_CORRUPTION, Confidence.CERTAIN)


def test_a_wrong_sum_that_explains_nothing_is_told_beside_the_cause(tmp_path: Path) -> None:
    """The sum is three times too large, and adding that to 1 gives Inf: no input of that size makes it."""
    run = Run()
    for rank, value in enumerate([5.0, 15.0]):
        mine = run.rank(rank)
        call = mine.all_reduce(t(2.0 + rank), t(value), op="SUM")
        born = mine.op("Tensor.__add__", [t(value), t(1.0)], [t(INF) if rank else t(6.0)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.rank, cause.op_name, cause.where) == (1, born, Where.OPERATOR)
    assert [(one.op_name, one.reason.key) for one in cause.alternatives] == [(call, "reason.impossible_result")]


def test_a_sound_large_result_is_no_corruption(tmp_path: Path) -> None:
    run = Run()
    for rank in (0, 1):
        mine = run.rank(rank)
        mine.all_reduce(t(5e36), t(1e37), op="SUM")
        born = mine.op("Torch.square", [t(1e37)], [t(INF)])
    assert set(named(run.analyze(tmp_path))) == {(0, born), (1, born)}


def overflowing(path: Path, sent: Sequence[float], received: Sequence[Json], dtype: str, op: str = "SUM") -> Report:
    run = Run()
    for rank, (value, result) in enumerate(zip(sent, received, strict=True)):
        run.rank(rank).all_reduce(t(value, dtype=dtype), result, op=op)
        run.rank(rank).op("Torch.sum", [result], [result])
    return run.analyze(path)


@pytest.mark.parametrize(
    ("dtype", "value"), [("float16", 4e4), ("bfloat16", 3e38), ("float32", 2e38)], ids=["fp16", "bf16", "fp32"]
)
def test_a_reduction_overflows_when_the_sum_is_beyond_the_type(dtype: str, value: float, tmp_path: Path) -> None:
    cause = the_cause(overflowing(tmp_path, [value, value], [t(INF, dtype=dtype)] * 2, dtype))
    assert (cause.where, {cause.rank, *cause.ranks_also}) == (Where.COMMUNICATION, {0, 1})
    assert cause.mechanism.kind is MechanismKind.REDUCTION_OVERFLOW
    assert cause.mechanism.confidence is Confidence.CERTAIN
    assert cause.mechanism.explanation.params["bound"] == 2 * value


def test_a_bad_result_of_small_inputs_is_corruption(tmp_path: Path) -> None:
    cause = the_cause(overflowing(tmp_path, [1.0, 2.0], [t(3.0), t(NAN)], "float32"))
    assert (cause.rank, cause.where) == (1, Where.COMMUNICATION)
    assert (cause.mechanism.kind, cause.mechanism.confidence) == (MechanismKind.COMM_CORRUPTION, Confidence.CERTAIN)


def test_a_maximum_does_not_overflow(tmp_path: Path) -> None:
    """MAX of 4e4 and 4e4 is 4e4: an Inf is corruption, not an overflow."""
    cause = the_cause(overflowing(tmp_path, [4e4, 4e4], [t(INF, dtype="float16")] * 2, "float16", "MAX"))
    assert cause.mechanism.kind is MechanismKind.COMM_CORRUPTION


def test_a_bad_message_of_a_clean_sender_is_corruption(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).send(t(2.0), 1)
    call = run.rank(1).recv(t(NAN), 0)
    run.rank(1).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.rank, cause.op_name, cause.where) == (1, call, Where.COMMUNICATION)
    assert cause.mechanism.kind is MechanismKind.COMM_CORRUPTION


def test_a_reduction_that_overflows_needs_no_absent_member(tmp_path: Path) -> None:
    """The members that are there suffice for the overflow, so that the absent one is not accused."""
    run = Run()
    for rank in (0, 1):
        run.rank(rank).all_reduce(t(4e4, dtype="float16"), t(INF, dtype="float16"), (0, 1, 2))
        run.rank(rank).op("Torch.sum", [t(INF, dtype="float16")], [t(INF, shape=(), dtype="float16")])
    report = run.analyze(tmp_path)
    cause = the_cause(report)
    assert (cause.where, cause.mechanism.kind) == (Where.COMMUNICATION, MechanismKind.REDUCTION_OVERFLOW)
    assert report.verdict is Verdict.ANOMALY


# -- results that may be older than the data -----------------------------------------------------------------


def _received_late(path: Path, *read: Json, sends: bool = True) -> Report:
    """Rank 0 sends [-2, 2] to rank 1, whose irecv shows the NaN of a buffer that nothing filled; rank 1 reads on."""
    run = Run()
    if sends:
        run.rank(0).send(t(2.0), 1)
    else:
        run.rank(0).op("Torch.relu", [t(2.0)], [t(2.0)])
    mine = run.rank(1)
    mine.comm("irecv", [None, 0], {}, {0: t(NAN)})
    for value in read:
        result = t(value["Max"], shape=())
        mine.op("Tensor.square", [value], [result])
    return run.analyze(path)


def test_reader_shows_what_was_sent(tmp_path: Path) -> None:
    report = _received_late(tmp_path, t(2.0))
    assert (report.verdict, report.complete) == (Verdict.CLEAN, True)


def test_a_late_message_is_corrupt_for_certain_when_its_reader_shows_it(tmp_path: Path) -> None:
    sure = the_cause(_received_late(tmp_path / "read", t(NAN)))
    assert (sure.where, sure.mechanism.kind) == (Where.COMMUNICATION, MechanismKind.COMM_CORRUPTION)
    assert sure.mechanism.confidence is Confidence.CERTAIN
    unread = the_cause(_received_late(tmp_path / "unread"))
    assert unread.mechanism.confidence is Confidence.POSSIBLE


def test_sides_that_differ_prove_nothing(tmp_path: Path) -> None:
    """No record of the message on rank 0: what is read next decides."""
    report = _received_late(tmp_path / "clean", t(1.0), sends=False)
    assert report.verdict is not Verdict.ANOMALY
    report = _received_late(tmp_path / "bad", t(NAN), sends=False)
    assert report.verdict is Verdict.ANOMALY


def test_a_sender_whose_file_is_cut_has_not_all_calls_recorded(tmp_path: Path) -> None:
    """The message of the cut file is not there; what is read next is finite, so that the buffer's NaN was none."""
    _received_late(tmp_path, t(1.0), t(1.0), sends=False)
    path = tmp_path / "step0" / "rank0" / "dump.json"
    path.write_text(path.read_text().rstrip().removesuffix("}").rstrip().removesuffix("}"))
    assert firstnan.analyze(tmp_path, firstnan.Options(jobs=1)).verdict is Verdict.CLEAN


def test_a_stale_result_is_disproved(tmp_path: Path) -> None:
    """What comes after is no consequence of it: the logarithm's own NaN of the same size is the cause."""
    run = Run()
    run.rank(0).send(t(2.0), 1)
    mine = run.rank(1)
    mine.comm("irecv", [None, 0], {}, {0: t(NAN)})
    mine.op("Tensor.square", [t(2.0)], [t(4.0)])
    born = mine.op("Torch.log", [t(4.0, -4.0)], [t(NAN)])
    mine.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    assert named(run.analyze(tmp_path)) == [(1, born)]


@pytest.mark.parametrize("label_is_forbidden", [True, False])
def test_a_mask_is_judged_where_it_was_made(label_is_forbidden: bool, tmp_path: Path) -> None:
    """Logits with forbidden classes go to the stage with the loss: the message is right, the label may be wrong."""
    run = Run()
    first, last = run.rank(0), run.rank(1)
    first.op("Tensor.masked_fill", [t(1.0)], [t(1.0, -INF)])
    first.send(batch(1.0, -INF), 1)
    last.recv(batch(1.0, -INF), 0)
    value = t(INF, INF, ()) if label_is_forbidden else t(1.0, shape=())
    loss = last.op("Functional.cross_entropy", [t(1.0, -INF), batch(3, 0, (4,), "int64")], [value])
    last.backward(loss, [t(1.0, shape=())], [t(1.0)])
    report = run.analyze(tmp_path)
    assert named(report) == ([(1, loss)] if label_is_forbidden else [])
    assert report.exit_code == (1 if label_is_forbidden else 0)


def test_minus_inf_that_nobody_put_in_is_corrupt(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).send(batch(1.0), 1)
    last = run.rank(1)
    last.recv(batch(1.0, -INF), 0)
    loss = last.op("Functional.cross_entropy", [t(1.0, -INF), batch(3, 0, (4,), "int64")], [t(INF, INF, ())])
    last.backward(loss, [t(1.0, shape=())], [t(1.0)])
    assert the_cause(run.analyze(tmp_path)).where is Where.COMMUNICATION
