"""Several causes on one rank, and how sure each is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made_runs import INF, NAN, Rank, Run, batch, named, t, the_cause

import firstnan
from firstnan.answer.model import Confidence, Where

SCALAR = ()


def ended(rank: Rank, bad: object) -> None:
    """The loss of a bad value, and its gradient."""
    loss = rank.op("Torch.mean", [bad], [t(NAN, shape=SCALAR)])
    rank.backward(loss, [t(1.0, shape=SCALAR)], [t(1.0)])


def test_every_clean_birth_is_a_cause(tmp_path: Path) -> None:
    """Two faults on one rank; on another, which the first had reached, a third one."""
    run = Run()
    one, two = run.rank(0), run.rank(1)
    div = one.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN)])
    for rank in (one, two):
        rank.all_reduce(t(NAN) if rank is one else t(1.0), t(NAN))
        exp = rank.op("Torch.exp", [t(200.0)], [t(INF, 0.0)])
        rank.op("Torch.add", [t(NAN), t(INF, 0.0)], [t(NAN)])
        ended(rank, t(NAN))
    report = run.analyze(tmp_path)
    assert set(named(report)) == {(0, div), (0, exp), (1, exp)}
    assert report.root_causes[0].op_name == div


def test_what_follows_from_a_swallowed_value_is_no_cause(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    exp = rank.op("Torch.exp", [t(200.0)], [t(INF, 1.0)])
    inverse = rank.op("Torch.reciprocal", [t(INF, 1.0)], [t(1.0, 0.0)])
    rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(INF, -INF)])
    ended(rank, t(INF, -INF))
    rank.backward(inverse, [t(1.0)], [t(NAN)])
    rank.backward(exp, [t(NAN)], [t(NAN)])
    assert the_cause(run.analyze(tmp_path)).op_name == exp


def guessed(rank: Rank) -> tuple[str, str]:
    """A birth whose value is read through an operator without a record; and that reader."""
    born = rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN, shape=(4, 8))])
    rank.construct["Torch.cat.0.forward"] = None
    read = rank.op("Torch.relu", [t(NAN, shape=(4, 16))], [t(NAN, shape=(4, 16))])
    return born, read


def test_a_cause_that_hangs_on_a_guess_is_possible(tmp_path: Path) -> None:
    """... and the reader itself is the first alternative."""
    run = Run()
    rank = run.rank(0)
    born, read = guessed(rank)
    ended(rank, t(NAN, shape=(4, 16)))
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.alternatives[0].op_name) == (born, read)
    assert (cause.place_confidence, cause.mechanism.confidence) == (Confidence.POSSIBLE, Confidence.POSSIBLE)


def test_the_first_writer_is_not_dropped_when_its_chain_ends_in_an_unrecorded_cat(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    born = rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN)])
    rank.op("Torch.mul", [t(NAN), t(1.0)], [t(NAN)])
    rank.op("Torch.add", [t(NAN), t(1.0)], [t(NAN)])
    rank.construct["Torch.cat.0.forward"] = None
    wide = t(NAN, shape=(4, 16))
    rank.op("Torch.relu", [wide], [wide])
    ended(rank, wide)
    assert the_cause(run.analyze(tmp_path)).op_name == born


@pytest.mark.parametrize("writer", [True, False], ids=["written before", "by nobody"])
def test_an_unfinished_module_reads_its_input(writer: bool, tmp_path: Path) -> None:
    """No construct.json, and the run died in the module that took the value in."""
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.relu", [t(1.0)], [t(1.0)])
    born = rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN)]) if writer else ""
    with rank.module("head", "Sampler", [t(NAN)], []) as module:
        pass
    rank.data[module].pop("output")
    root = run.write(tmp_path)
    (root / "step0" / "rank0" / "construct.json").unlink()
    report = firstnan.analyze(root)
    assert the_cause(report).op_name == (born or module)
    assert not report.complete


def test_sure_links_beat_guesses(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    guessed(rank)
    exp = rank.op("Torch.exp", [t(200.0)], [t(INF, 0.0)])
    ended(rank, t(INF, 0.0))
    assert named(run.analyze(tmp_path))[0] == (0, exp)


@pytest.mark.parametrize("first", [0, 1])
def test_causes_stand_in_causal_order(first: int, tmp_path: Path) -> None:
    """One rank has many records before its fault, a message, and the other one's fault follows with few."""
    run = Run()
    one, two = run.rank(first), run.rank(1 - first)
    one.skip(40)
    div = one.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN)])
    one.send(t(NAN), 1 - first)
    two.recv(t(NAN), first)
    exp = two.op("Torch.exp", [t(200.0)], [t(INF, 0.0)])
    two.op("Torch.add", [t(NAN), t(INF, 0.0)], [t(NAN)])
    for rank in (one, two):
        ended(rank, t(NAN))
    assert named(run.analyze(tmp_path)) == [(first, div), (1 - first, exp)]


def sigmoid_by_hand(rank: Rank) -> str:
    exp = rank.op("Torch.exp", [t(120.0, shape=(5,))], [t(INF, 1.0, shape=(5,))])
    rank.op("Torch.reciprocal", [t(INF, 1.0, shape=(5,))], [t(1.0, 0.0, shape=(5,))])
    return exp


def perplexity(rank: Rank) -> str:
    return rank.op("Torch.exp", [t(100.0, 100.0, shape=SCALAR)], [t(INF, INF, shape=SCALAR)])


def root_of_negative(rank: Rank) -> str:
    return rank.op("Torch.sqrt", [t(1.0)], [t(NAN)])


@pytest.mark.parametrize("aside", [sigmoid_by_hand, perplexity])
@pytest.mark.parametrize("begins", ["with a birth", "with a weight"])
def test_in_flight_beats_set_aside(aside: Callable[[Rank], str], begins: str, tmp_path: Path) -> None:
    """The run dies inside a module: before the value that it dies of, and behind it, it computed others."""
    run = Run()
    rank = run.rank(0)
    with rank.module("model", "Model", [t(1.0)], []) as module:
        with rank.module("model.first", "First", [t(1.0)], [t(1.0)]):
            rank.op("Torch.relu", [t(1.0)], [t(1.0)])
        aside(rank)
        weight = t(NAN, shape=(8, 8))
        linear = rank.op("Functional.linear", [t(1.0), weight if begins == "with a weight" else t(1.0)], [t(NAN)])
        if begins == "with a birth":
            rank.data.pop(linear)
            linear = root_of_negative(rank)
        aside(rank)
        last = rank.op("Torch.multinomial", [t(NAN)], [])
    rank.data.pop(module)
    rank.data[last].pop("output")
    assert named(run.analyze(tmp_path)) == [(0, linear)]


@pytest.mark.parametrize("recorded", [True, False], ids=["mean", "no record of the mean"])
def test_a_module_gives_what_was_not_swallowed(recorded: bool, tmp_path: Path) -> None:
    """``-log(p).mean()``: the negation has no record, and +Inf beside it went into a sigmoid by hand."""
    run = Run()
    rank = run.rank(0)
    loss = t(INF, INF, shape=SCALAR)
    with rank.module("model", "Model", [t(1.0)], [loss]) as module:
        sigmoid_by_hand(rank)
        log = rank.op("Torch.log", [t(1.0, 0.0)], [t(-INF)])
        if recorded:
            rank.op("Tensor.mean", [t(-INF)], [t(-INF, -INF, shape=SCALAR)])
        sigmoid_by_hand(rank)
    backward = module.replace(".forward", ".backward")
    rank.data[backward] = {"input": [t(1.0, 1.0, shape=SCALAR)], "output": [t(1.0)]}
    rank.construct[backward] = None
    assert the_cause(run.analyze(tmp_path)).op_name == log


@pytest.mark.parametrize("end", ["\n }\n}", ",\n"], ids=["closed", "cut"])
@pytest.mark.parametrize("aside", [sigmoid_by_hand, perplexity])
def test_what_was_dropped_is_not_in_flight(aside: Callable[[Rank], str], end: str, tmp_path: Path) -> None:
    """The run dies with nothing bad but a value that a finite result swallowed: no cause; or that nobody read yet: the
    only one there is."""
    run = Run()
    rank = run.rank(0)
    with rank.module("model", "Model", [t(1.0)], []) as module:
        with rank.module("model.first", "First", [t(1.0)], [t(1.0)]):
            rank.op("Torch.relu", [t(1.0)], [t(1.0)])
        exp = aside(rank)
        rank.op("Torch.relu", [t(1.0)], [t(1.0)])
    rank.data.pop(module)
    root = run.write(tmp_path)
    path = root / "step0" / "rank0" / "dump.json"
    path.write_text(path.read_text().rstrip().removesuffix("}").rstrip().removesuffix("}").rstrip() + end)
    found = named(firstnan.analyze(root))
    assert found == ([] if aside is sigmoid_by_hand else [(0, exp)])


@pytest.mark.parametrize(
    ("inputs", "sure"),
    [
        ([t(1.0), t(1.0, 0.0)], Confidence.CERTAIN),
        ([t(1.0), t(None, None)], Confidence.LIKELY),
        ([batch(NAN), t(1.0)], Confidence.LIKELY),
    ],
    ids=["birth", "unknown operand", "batch"],
)
def test_the_place_has_a_confidence_of_its_own(inputs: list[object], sure: Confidence, tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    with rank.module("model", "Model", [inputs[0]], [t(NAN)]):
        rank.op("Torch.div", inputs, [t(NAN)])
    ended(rank, t(NAN))
    assert the_cause(run.analyze(tmp_path)).place_confidence is sure


@pytest.mark.parametrize("end", ["", "\n }\n}"], ids=["cut", "closed"])
def test_gradients_of_a_cut_rank_tell_its_end(end: str, tmp_path: Path) -> None:
    """firstnan uses what stands before the cut is not where it began: the rank is named, not the record."""
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        with rank.module("fc", "Linear", [t(1.0)], [t(1.0)], {"weight": t(1.0)}) as module:
            rank.op("Functional.linear", [t(1.0), t(1.0)], [t(1.0)])
        rank.parameters_grad(module, weight=t(NAN) if number else t(1.0))
        loss = rank.op("Torch.sum", [t(1.0)], [t(1.0, shape=SCALAR)])
        if number == 0:
            rank.backward(loss, [t(1.0, shape=SCALAR)], [t(1.0)])
            rank.all_reduce(t(1.0), t(NAN))
    root = run.write(tmp_path)
    path = root / "step0" / "rank1" / "dump.json"
    text = path.read_text()
    path.write_text(text[: text.rindex('"Torch.sum.0.forward"')].rstrip().rstrip(",") + end)
    cause = the_cause(firstnan.analyze(root))
    assert (cause.rank, cause.where, cause.op_name) == (1, Where.MISSING_RANK, "")


# --- a weight behind a fault ------------------------------------------------------------------------------------------


def layers(rank: Rank, first: object, weights: list[object], *, between: bool = False) -> list[str]:
    """A fault or a received value, and layers with weights behind it; ``between``: backward runs before them."""
    names = []
    if between:
        loss = rank.op("Torch.sum", [first], [t(NAN, shape=())])
        rank.backward(loss, [t(1.0, shape=())], [t(NAN)])
    for weight in weights:
        names.append(rank.op("Functional.linear", [first, weight], [t(NAN)]))
    loss = rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(NAN)])
    return names


BAD_WEIGHT, GOOD_WEIGHT = t(NAN, shape=(8, 8)), t(0.5, shape=(8, 8))


@pytest.mark.parametrize("case", ["one", "good", "behind backward"])
def test_a_weight_follows_from_nothing_in_its_step(case: str, tmp_path: Path) -> None:
    """A division by 0, and a weight that was bad when the step began: the one says nothing of the other. Behind
    backward an update may have made the weight bad."""
    run = Run()
    rank = run.rank(0)
    born = rank.op("Tensor.__truediv__", [t(0.0), t(0.0)], [t(NAN)])
    weights = [GOOD_WEIGHT, GOOD_WEIGHT if case == "good" else BAD_WEIGHT]
    names = layers(rank, t(NAN), weights, between=case == "behind backward")
    found = [(cause.op_name, cause.where) for cause in run.analyze(tmp_path).root_causes]
    second = [(names[1], Where.PARAMETER)] if case == "one" else []
    assert found == [(born, Where.OPERATOR), *second]


def test_of_bad_weights_the_first_is_told(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    born = rank.op("Tensor.__truediv__", [t(0.0), t(0.0)], [t(NAN)])
    first, _ = layers(rank, t(NAN), [BAD_WEIGHT, t(NAN, shape=(8, 8))])
    assert named(run.analyze(tmp_path)) == [(0, born), (0, first)]


def test_beside_a_bad_weight_another_one_is_no_second_cause(tmp_path: Path) -> None:
    run = Run()
    first, _ = layers(run.rank(0), t(1.0), [BAD_WEIGHT, BAD_WEIGHT])
    assert named(run.analyze(tmp_path)) == [(0, first)]


def test_a_bad_weight_on_a_rank_that_was_reached_is_told(tmp_path: Path) -> None:
    run = Run()
    first, other = run.rank(0), run.rank(1)
    born = first.op("Tensor.__truediv__", [t(0.0), t(0.0)], [t(NAN)])
    first.all_reduce(t(NAN), t(NAN), (0, 1))
    layers(first, t(NAN), [GOOD_WEIGHT])
    other.all_reduce(t(1.0), t(NAN), (0, 1))
    (second,) = layers(other, t(NAN), [BAD_WEIGHT])
    assert named(run.analyze(tmp_path)) == [(0, born), (1, second)]


@pytest.mark.parametrize("ranks", [3, 20])
def test_many_causes_stand_in_causal_order(ranks: int, tmp_path: Path) -> None:
    """The first fault has many records before it; behind the call that carries it on every other rank has its own."""
    run = Run()
    everyone = tuple(range(ranks))
    last = run.rank(ranks - 1)
    last.skip(40)
    div = last.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN)])
    for number in everyone:
        rank = run.rank(number)
        rank.all_reduce(t(NAN) if rank is last else t(1.0), t(NAN), everyone)
        if rank is not last:
            rank.op("Torch.exp", [t(200.0)], [t(INF, 0.0)])
            rank.op("Torch.add", [t(NAN), t(INF, 0.0)], [t(NAN)])
        ended(rank, t(NAN))
    found = named(run.analyze(tmp_path))
    assert len(found) == ranks
    assert found[0] == (ranks - 1, div)


@pytest.mark.parametrize("flat", [True, False])
def test_weights_that_arrived_are_no_cause_of_their_own(flat: bool, tmp_path: Path) -> None:
    """A server sends its weights as one flat vector; what is bad in them was bad before. An activation is no weight."""
    run = Run()
    server, worker = run.rank(0), run.rank(1)
    sent = batch(NAN, shape=(96,)) if flat else batch(NAN, shape=(4, 24))
    name = server.send(sent, 1)
    worker.recv(sent, 0)
    if not flat:
        worker.op("Torch.relu", [sent], [sent])
    read = worker.op("Functional.linear", [batch(1.0), t(NAN, shape=(8, 8))], [t(NAN)])
    loss = worker.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    worker.backward(loss, [t(1.0, shape=())], [t(1.0)])
    worker.send(batch(NAN, shape=(96,)), 0)
    found = named(run.analyze(tmp_path))
    assert found[0] == (0, name) or not flat
    assert ((1, read) in found) is not flat
