"""How surely a value is another record's: the rules of ``links`` and what a guess does to the answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Json, Rank, Run, batch, events, named, t, the_cause

from firstnan.answer.model import Where
from firstnan.rank.taint.events import EventKind

WIDE, NARROW = (4, 16), (4, 8)


def unrecorded(rank: Rank, *names: str) -> None:
    """Calls that construct.json lists and dump.json does not hold."""
    for name in names:
        rank.construct[f"{name}.0.forward"] = rank.inside[-1] if rank.inside else None


@pytest.mark.parametrize(
    ("hidden", "before", "after", "linked"),
    [
        ("Torch.cat", NARROW, WIDE, True),
        ("Torch.chunk", WIDE, NARROW, True),
        ("Tensor.reshape", NARROW, WIDE, False),
        ("Torch.cat", NARROW, (64,), True),
        (None, NARROW, WIDE, False),
        (None, WIDE, NARROW, True),  # slices leave no trace
    ],
)
def test_a_guess_needs_an_unrecorded_operator(
    hidden: str | None, before: tuple[int, ...], after: tuple[int, ...], linked: bool, tmp_path: Path
) -> None:
    rank = Run().rank(0)
    rank.op("Torch.div", [t(1.0, shape=before), t(1.0, 0.0)], [t(NAN, shape=before)])
    if hidden:
        unrecorded(rank, hidden)
    rank.op("Torch.relu", [t(NAN, shape=after)], [t(NAN, shape=after)])
    kinds = [event.kind for event in events(rank, tmp_path)]
    assert kinds == [EventKind.BIRTH] + ([] if linked else [EventKind.ENTRY])


def test_a_slice_that_would_be_listed_is_none(tmp_path: Path) -> None:
    rank = Run().rank(0)
    rank.op("Tensor.__getitem__", [t(1.0), 0], [t(1.0)])
    rank.op("Torch.div", [t(1.0, shape=WIDE), t(1.0, 0.0)], [t(NAN, shape=WIDE)])
    rank.op("Torch.relu", [t(NAN, shape=NARROW)], [t(NAN, shape=NARROW)])
    assert [event.kind for event in events(rank, tmp_path)] == [EventKind.BIRTH, EventKind.ENTRY]


@pytest.mark.parametrize(("bad", "apart"), [(t(INF, 0.0, WIDE), 0), (t(NAN, shape=WIDE), 80)], ids=["class", "far"])
def test_a_guess_keeps_the_class(bad: dict[str, object], apart: int, tmp_path: Path) -> None:
    """An Inf is not what became of a NaN; nor is a NaN that is read a hundred records later."""
    rank = Run().rank(0)
    rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN, shape=NARROW)])
    unrecorded(rank, "Torch.cat")
    rank.skip(apart)
    rank.op("Torch.relu", [bad], [bad])
    assert [event.kind for event in events(rank, tmp_path)] == [EventKind.BIRTH, EventKind.ENTRY]


def test_a_guess_never_enters_a_parameter(tmp_path: Path) -> None:
    """An unread NaN beside a bad weight: the weight is the cause."""
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.log", [batch(1.0, -1.0, NARROW)], [batch(NAN, shape=NARROW)])
    unrecorded(rank, "Torch.cat", "Torch.arange")
    read = rank.op("Functional.linear", [t(1.0), t(NAN, shape=(16, 8)), t(1.0)], [t(NAN, shape=(4, 16))])
    loss = rank.op("Torch.sum", [t(NAN, shape=(4, 16))], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0, shape=(4, 16))])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where) == (read, Where.PARAMETER)


def test_a_flat_shard_is_a_parameter(tmp_path: Path) -> None:
    """What fully sharded training gathers: the shard of one rank is bad, and the weight on both."""
    run = Run()
    good, bad = batch(1.0, shape=(64,)), batch(NAN, shape=(64,))
    for number in (0, 1):
        rank = run.rank(number)
        gathered = rank.all_gather(bad if number == 1 else good, [good, bad])
        rank.op("Functional.linear", [t(1.0), t(NAN, shape=(8, 8)), t(1.0)], [t(NAN)])
        loss = rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
        rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    report = run.analyze(tmp_path)
    assert named(report) == [(1, gathered)]
    assert the_cause(report).where is Where.PARAMETER


@pytest.mark.parametrize("sibling", [True, False])
def test_the_batch_is_at_the_door(sibling: bool, tmp_path: Path) -> None:
    """Modules alone: what a module takes in after another one gave a tensor of its size is not the batch."""
    run = Run()
    rank = run.rank(0)
    if sibling:
        with rank.module("frozen", "Linear", [batch(1.0)], [batch(1.0)], {"weight": t(1.0)}):
            pass
    with rank.module("head", "Linear", [batch(INF)], [t(NAN, shape=(4, 2))], {"weight": t(1.0)}) as head:
        pass
    rank._put("Module.head.Linear.backward.0", {"input": [t(1.0, shape=(4, 2))], "output": []}, None)
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where) == (head, Where.UNDUMPED_OPERATOR if sibling else Where.INPUT_DATA)


@pytest.mark.parametrize(
    ("written", "read", "shape", "apart", "linked"),
    [
        (t(INF, -3.0), t(NAN), (4, 8), 0, True),
        (t(INF, -3.0), t(INF, -0.17), (4, 8), 0, True),
        (t(NAN), t(INF, -3.0), (4, 8), 0, False),
        (t(INF, -3.0), t(NAN, shape=(4, 16)), (4, 16), 0, False),
        (t(INF, -3.0, grad=False), t(NAN, grad=True), (4, 8), 0, False),
        (t(INF, -3.0), t(NAN), (4, 8), 9, False),
    ],
    ids=["nan", "infinity", "reverse", "size", "graph", "far"],
)
def test_what_is_not_listed_keeps_the_size(
    written: Json, read: Json, shape: tuple[int, ...], apart: int, linked: bool, tmp_path: Path
) -> None:
    """An activation that the program bound before the tool wrapped it: neither dump nor construct.json holds it."""
    rank = Run().rank(0)
    unrecorded(rank, "Torch.arange")
    rank.op("Functional.linear", [t(1.0), t(0.5)], [written])
    rank.skip(apart)
    rank.op("Functional.linear", [read, t(0.5)], [t(NAN, shape=shape)])
    assert [event.kind for event in events(rank, tmp_path)] == [EventKind.BIRTH] + ([] if linked else [EventKind.ENTRY])


def test_an_infinity_is_the_last_guess(tmp_path: Path) -> None:
    """Beside a NaN that an unrecorded ``cat`` can have carried on, an infinity of the reader's size is none."""
    run = Run()
    rank = run.rank(0)
    with rank.module("net", "Net", [batch(1.0)], [t(NAN, shape=WIDE)]):
        lost = rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN, shape=NARROW)])
        unrecorded(rank, "Torch.cat")
        rank.op("Torch.reciprocal", [t(1.0, 0.0, WIDE)], [t(INF, 0.5, WIDE)])
        read = rank.op("Torch.relu", [t(NAN, shape=WIDE)], [t(NAN, shape=WIDE)])
    causes = {cause.op_name: cause for cause in run.analyze(tmp_path).root_causes}
    assert [other.op_name for other in causes[lost].alternatives if other.reason.key == "reason.guess"] == [read]


def test_a_bad_writer_is_not_the_last_good_record(tmp_path: Path) -> None:
    """Far behind a record of the reader's size that gave NaN itself, and that no link leads from."""
    run = Run()
    rank = run.rank(0)
    unrecorded(rank, "Torch.arange")
    rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(INF, -1.0)])
    rank.skip(20)
    read = rank.op("Functional.linear", [t(NAN), t(0.5)], [t(NAN, shape=(8,))])
    loss = rank.op("Torch.sum", [t(NAN, shape=(8,))], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0, shape=(8,))])
    causes = {cause.op_name: cause for cause in run.analyze(tmp_path).root_causes}
    assert "evidence.between" not in {note.key for note in causes[read].evidence}


def test_the_batch_of_a_later_micro_batch_is_at_the_door(tmp_path: Path) -> None:
    """Modules alone: the module that opens the pass takes in the batch, whatever it gave for the micro-batch before."""
    run = Run()
    rank = run.rank(0)
    for read, given in ((batch(1.0), t(1.0)), (batch(NAN), t(NAN))):
        with rank.module("fc", "Linear", [read], [given], {"weight": t(1.0)}) as name:
            pass
        rank._put(name.replace("forward", "backward"), {"input": [given], "output": []}, None)
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where) == ("Module.fc.Linear.forward.1", Where.INPUT_DATA)


def test_a_single_number_is_no_batch(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    rank.all_reduce(t(1.0), t(1.0))
    name = rank.op("Torch.mul", [t(1.0), batch(INF, INF, ())], [t(INF)])
    loss = rank.op("Torch.sum", [t(INF)], [t(INF, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where) == (name, Where.UNDUMPED_OPERATOR)


@pytest.mark.parametrize("before", [1.0, NAN])
def test_a_weight_that_was_finite_here_is_written_here(before: float, tmp_path: Path) -> None:
    """Two optimizers at level L0: the judge's weight is bad in its second call, since what rank 1 made came with the
    gradients. Where it is bad in the first call too, it was before the step."""
    run = Run()
    for number in (0, 1):
        rank, is_bad = run.rank(number), number == 1
        rank.header["level"] = "L0"
        with rank.module("start", "Linear", [batch(1.0)], [t(1.0)], {"weight": t(1.0)}):
            pass
        with rank.module("maker", "Linear", [t(INF if is_bad else 1.0)], [t(NAN if is_bad else 1.0)]) as maker:
            pass
        for weight in (before, NAN):
            given = t(1.0) if weight == 1.0 and not is_bad else t(NAN)
            with rank.module("judge", "Linear", [t(NAN if is_bad else 1.0)], [given], {"weight": t(weight)}) as judge:
                pass
    assert named(run.analyze(tmp_path)) == [(1, maker) if before == 1.0 else (0, judge.replace(".1", ".0"))]


@pytest.mark.parametrize("arrives", [True, False])
def test_what_arrived_may_be_joined_with_a_batch(arrives: bool, tmp_path: Path) -> None:
    """The edge of the neighbour's part is put beside the own one, which needs no gradient."""
    run = Run()
    mine, other = run.rank(0), run.rank(1)
    edge, wide = batch(NAN if arrives else 1.0, shape=(4, 1)), batch(NAN, shape=(4, 9))
    other.send(edge, 0)
    mine.recv(edge, 1)
    unrecorded(mine, "Torch.cat")
    with mine.module("conv", "Conv1d", [wide], [t(NAN)]):
        read = mine.op("Functional.conv1d", [wide, t(1.0, shape=(2, 4, 3))], [t(NAN)])
    loss = mine.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    mine.backward(loss, [t(1.0, shape=())], [t(1.0)])
    report = run.analyze(tmp_path)
    ranks = [rank for rank, _ in named(report)]
    assert ranks == ([1] if arrives else [0])
    assert arrives or the_cause(report).op_name == read


@pytest.mark.parametrize("again", [True, False], ids=["the same numbers", "others"])
def test_the_batch_may_be_read_again(again: bool, tmp_path: Path) -> None:
    """Operators alone: a memory with an infinity is cleaned for the keys, and forgotten for the values, far behind."""
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.nan_to_num", [t(INF, -2.5, grad=False)], [t(1.0, -2.5, grad=False)])
    rank.skip(20)
    read = rank.op("Torch.matmul", [t(0.75, 0.0), t(INF, -2.5 if again else -2.25, grad=False)], [t(NAN)])
    loss = rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where) == (read, Where.INPUT_DATA if again else Where.UNDUMPED_OPERATOR)


def test_the_nearest_of_what_looks_alike(tmp_path: Path) -> None:
    """A perplexity that nothing reads, and a maximum that is infinite too: who reads an infinite number reads the
    nearest."""
    run = Run()
    rank = run.rank(0)
    number = batch(INF, INF, shape=())
    rank.op("Torch.exp", [batch(100.0, 100.0, shape=())], [number])
    square = rank.op("Torch.square", [t(1e25)], [t(INF)])
    rank.op("Tensor.amax", [t(INF)], [number])
    rank.op("Tensor.__truediv__", [t(1.0), number], [t(0.0)])
    rank.op("Tensor.mul", [t(1.0), number], [t(INF)])
    loss = rank.op("Torch.mean", [t(INF)], [t(INF, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    assert the_cause(run.analyze(tmp_path)).op_name == square


# --- values that nothing tells apart ---------------------------------------------------------------------------------

NUMBER = batch(NAN, NAN, shape=())


def noise(rank: Rank) -> str:
    """log(-1) of a number, which nothing reads."""
    return rank.op("Torch.log", [batch(-1.0, -1.0, shape=())], [NUMBER])


def broken(rank: Rank) -> tuple[str, str]:
    """A loss of 0 / 0, and its backward."""
    mean = rank.op("Tensor.__truediv__", [batch(0.0, shape=()), batch(0.0, shape=())], [NUMBER])
    loss = rank.op("Tensor.mul", [NUMBER, t(1.0, shape=())], [t(NAN, shape=())])
    return mean, loss


def test_what_nothing_tells_apart_proves_no_birth(tmp_path: Path) -> None:
    """A NaN that was read, another one behind it, and a call that takes in one of them."""
    run = Run()
    rank = run.rank(0)
    mean, loss = broken(rank)
    rank.backward(loss, [t(1.0, shape=())], [t(NAN, shape=())])
    noise(rank)
    rank.all_reduce(NUMBER, NUMBER, (0, 1))
    run.rank(1).op("Torch.relu", [t(1.0)], [t(1.0)])
    assert (0, mean) in named(run.analyze(tmp_path))
    assert "Torch.log.0.forward" not in [name for _, name in named(run.analyze(tmp_path))]


@pytest.mark.parametrize("grad", [True, False])
def test_a_graph_has_no_gap(grad: bool, tmp_path: Path) -> None:
    """Behind a NaN with a graph stands one without: who reads one with a graph reads the first."""
    run = Run()
    rank = run.rank(0)
    value = t(NAN, shape=(), grad=grad)
    root = rank.op("Tensor.__truediv__", [t(0.0, shape=()), t(0.0, shape=())], [t(NAN, shape=())])
    log = noise(rank)
    loss = rank.op("Tensor.mul", [value, t(1.0, shape=())], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0, shape=())])
    assert the_cause(run.analyze(tmp_path)).op_name == (root if grad else log)


@pytest.mark.parametrize("shape", [(), (4, 8)])
def test_a_guess_does_not_cross_backward(shape: tuple[int, ...], tmp_path: Path) -> None:
    """An infinity of forward that nothing reads, and a gradient that is infinite behind backward."""
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        unrecorded(rank, "Torch.cat")
        rank.op("Torch.exp", [batch(100.0, 100.0, shape=shape)], [batch(INF, INF, shape=shape)])
        loss = rank.op("Torch.mean", [t(1.0)], [t(1.0, shape=())])
        rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
        rank.all_reduce(batch(INF, 1.0, shape=(64,)), batch(INF, 1.0, shape=(64,)), (0, 1))
    causes = run.analyze(tmp_path).root_causes
    assert {cause.op_name for cause in causes} == {"Distributed.all_reduce.0.forward"}


def test_a_guess_explains_nothing_before_it(tmp_path: Path) -> None:
    """The norm of bad gradients reads an infinite number as the perplexity is one; the gradients stand before it."""
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        rank.op("Torch.exp", [batch(100.0, 100.0, shape=())], [batch(INF, INF, shape=())])
        loss = rank.op("Torch.mean", [t(1.0)], [t(1.0, shape=())])
        rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
        rank.all_reduce(batch(INF, 1.0), batch(INF, 1.0), (0, 1))
        rank.op("Torch.norm", [batch(INF, 1.0)], [batch(INF, INF, shape=())])
        rank.op("Tensor.add", [batch(INF, INF, shape=()), 1e-6], [batch(INF, INF, shape=())])
    causes = run.analyze(tmp_path).root_causes
    assert {cause.op_name for cause in causes} == {"Distributed.all_reduce.0.forward"}


def test_a_module_gives_the_last_of_what_looks_alike(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    bad = rank.op("Torch.log", [t(-1.0, -2.0)], [t(NAN)])
    with rank.module("head", "Head", [t(NAN)], [t(NAN, shape=())]):
        noise(rank)
        loss = rank.op("Torch.mean", [t(NAN)], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    assert the_cause(run.analyze(tmp_path)).op_name == bad


@pytest.mark.parametrize("shape", [(64,), (8, 8)])
def test_a_flat_vector_that_is_cut_up_is_no_batch(shape: tuple[int, ...], tmp_path: Path) -> None:
    """The memory of a collective of sharded training at the beginning of a pass; a batch has more dimensions."""
    run = Run()
    rank = run.rank(0)
    name = rank.op("Torch.split", [batch(NAN, shape=shape), [32, 32]], [[batch(NAN, shape=(32,))] * 2])
    rank.op("Torch.mul", [batch(NAN, shape=(32,)), t(1.0, shape=(32,))], [t(NAN, shape=(32,))])
    loss = rank.op("Torch.sum", [t(NAN, shape=(32,))], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    cause = the_cause(run.analyze(tmp_path))
    assert cause.op_name == name
    assert (cause.where is Where.INPUT_DATA) is (len(shape) > 1)


@pytest.mark.parametrize("same", [True, False])
def test_a_weight_is_read_again_by_the_optimizer(same: bool, tmp_path: Path) -> None:
    """tanh swallows what an infinite weight gives; the update takes the weight in again. Other numbers are another
    tensor."""
    run = Run()
    rank, weight = run.rank(0), t(INF, -0.5, (8, 8))
    read = rank.op("Functional.linear", [batch(1.0), weight], [t(INF, -1.0)])
    rank.op("Torch.tanh", [t(INF, -1.0)], [t(1.0, -0.7)])
    loss = rank.op("Torch.sum", [t(1.0, -0.7)], [t(1.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    taken = weight if same else t(INF, -0.25, (8, 8))
    updated = rank.op("Tensor.add_", [taken, batch(0.1, shape=(8, 8))], [taken])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where is Where.PARAMETER) == (read if same else updated, same)


@pytest.mark.parametrize("call", [True, False])
def test_a_number_is_no_gradient(call: bool, tmp_path: Path) -> None:
    """A number of the backward pass that nothing reads, and shards that are bad where no record made them."""
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        loss = rank.op("Torch.mean", [t(1.0)], [t(1.0, shape=())])
        rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
        unrecorded(rank, "Torch.cat")
        noise(rank)
        if call:
            rank.all_reduce(batch(NAN, shape=(64,)), batch(NAN, shape=(64,)), (0, 1))
        else:
            rank.op("Tensor.add_", [batch(1.0, shape=(64,)), batch(NAN, shape=(64,))], [batch(NAN, shape=(64,))])
    assert "Torch.log.0.forward" not in [name for _, name in named(run.analyze(tmp_path))]
