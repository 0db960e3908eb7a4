"""Where bad gradients go, and where backward begins."""

from __future__ import annotations

from pathlib import Path

import pytest

import firstnan
from analysis.made_runs import INF, NAN, Run, batch, named, t
from firstnan.answer.model import Confidence, MechanismKind, Report, Verdict


def gate(tmp_path: Path, last: float, read_by_others: bool = True) -> Report:
    """``p = relu(x); q = p + 1e-5; tanh(q * log1p(q - 1))``: -Inf that tanh swallows, NaN in backward; what comes out
    of relu's backward is ``last``. ``read_by_others``: q was recorded as it went into both of its readers.
    """
    run = Run()
    rank = run.rank(0)
    small = t(0.75, 1e-5)
    with rank.module("model", "Model", [batch(1.0)], [t(0.5)]):
        weighed = rank.op("Functional.linear", [batch(1.0), t(0.25)], [t(2.0)])
        relu = rank.op("Functional.relu", [t(2.0)], [t(3.0, 0.0)])
        added = rank.op("Tensor.__add__", [t(3.0, 0.0), 1e-5], [small])
        less = rank.op("Tensor.__sub__", [small, 1.0], [t(-0.25, -1.0)])
        log = rank.op("Torch.log1p", [t(-0.25, -1.0)], [t(-0.5, -INF)])
        product = rank.op("Tensor.__mul__", [small if read_by_others else t(0.8, 2e-5), t(-0.5, -INF)], [t(-0.5, -INF)])
        tanh = rank.op("Torch.tanh", [t(-0.5, -INF)], [t(0.5, -1.0)])
    total = rank.op("Torch.sum", [t(0.5)], [t(8.0, 8.0, shape=())])
    rank.backward(total, [t(1.0, 1.0, shape=())], [t(1.0)])
    rank.backward(tanh, [t(1.0)], [t(0.0)])
    rank.backward(product, [t(0.0)], [t(NAN), t(0.0)])
    rank.backward(log, [t(0.0)], [t(NAN)])
    rank.backward(less, [t(NAN)], [t(NAN)])
    rank.backward(added, [t(NAN)], [t(NAN)])
    rank.backward(relu, [t(NAN)], [t(last)])
    rank.backward(weighed, [t(last)], [t(last)])
    run.write(tmp_path)
    return firstnan.analyze(tmp_path)


def test_gradient_goes_to_the_producer(tmp_path: Path) -> None:
    """``mul.backward`` and ``log1p.backward`` both end in ``add.backward``, and the mask of relu drops what comes."""
    report = gate(tmp_path, last=0.0)
    assert report.verdict is Verdict.CLEAN
    assert report.complete


def test_a_swallowed_value_whose_gradient_goes_on_is_a_cause(tmp_path: Path) -> None:
    assert named(gate(tmp_path, last=NAN)) == [(0, "Torch.log1p.0.forward")]


def test_a_gradient_whose_producer_is_not_known_is_one(tmp_path: Path) -> None:
    assert named(gate(tmp_path, last=0.0, read_by_others=False)) == [(0, "Tensor.__mul__.0.backward")]


@pytest.mark.parametrize("call", ["all_to_all_single", "all_reduce"])
def test_a_call_in_backward_is_no_new_beginning(call: str, tmp_path: Path) -> None:
    """Communication is recorded as forward in backward too: the operator before it gives no loss."""
    run = Run()
    garbage, shape = t(NAN, shape=(8, 8)), (8, 8)
    for number in (0, 1):
        rank = run.rank(number)
        with rank.module("moe", "Moe", [batch(1.0)], [t(1.0)]):
            filled = rank.op("Tensor.index_copy", [garbage, t(3, 0, dtype="int64"), t(1.0)], [garbage])
            rank.comm("all_to_all_single", [None, garbage], {}, {0: garbage})
            used = rank.op("Tensor.__mul__", [t(1.0), t(2.0)], [t(2.0)])
        total = rank.op("Torch.sum", [t(2.0)], [t(8.0, 8.0, shape=())])
        rank.backward(total, [t(1.0, 1.0, shape=())], [t(1.0)])
        rank.backward(used, [t(1.0)], [t(2.0)])
        if call == "all_reduce":
            rank.all_reduce(t(2.0), t(4.0))
        else:
            rank.comm("all_to_all_single", [None, t(2.0, shape=shape)], {}, {0: t(2.0, shape=shape)})
        rank.backward(filled, [t(2.0, shape=shape)], [t(2.0, shape=shape)])
    run.write(tmp_path)
    assert firstnan.analyze(tmp_path).verdict is Verdict.CLEAN


@pytest.mark.parametrize("first", ["Inf", "finite"])
@pytest.mark.parametrize("numbered", [True, False])
def test_own_parameters_take_the_gradient(numbered: bool, first: str, tmp_path: Path) -> None:
    """The gradient that a layer takes in holds Inf, the one that it hands on is finite, and its weight has the Inf: in
    the first micro-batch, or in the second one, and what the first one dropped had not reached the weight."""
    run = Run()
    rank = run.rank(0)
    rank.header["level"] = "L0"
    layers = []
    for _ in range(2):
        with rank.module("net", "Linear", [batch(1.0)], [t(1.0)]) as net:
            layers.append(net)
    for layer, weight in zip(layers, (t(INF) if first == "Inf" else t(1.0), t(INF)), strict=True):
        if numbered:
            rank.parameters_grad(layer, weight=weight)
        rank.backward(layer, [t(INF)], [t(1.0)])
    if not numbered:
        first_call, *rest = rank.data.items()  # it stands right behind that, whenever the gradient came
        rank.data = dict([first_call, ("Module.net.Linear.parameters_grad", {"weight": [t(INF)]}), *rest])
    guilty = layers[1] if numbered and first == "finite" else layers[0]
    report = run.analyze(tmp_path)
    assert report.exit_code == 1
    assert named(report) == [(0, guilty.replace(".forward", ".backward"))]


def test_a_gradient_of_parameters_counts_beside_one_that_was_dropped(tmp_path: Path) -> None:
    """``where`` drops a NaN in backward; behind it the weight gradient of a layer overflows all by itself."""
    run = Run()
    rank = run.rank(0)
    with rank.module("net", "Linear", [batch(1.0)], [t(1.0)]) as net:
        chosen = rank.op("Torch.where", [t(1.0), t(1.0)], [t(1.0)])
    rank.backward(chosen, [t(NAN)], [t(0.5)])
    gradient = rank.parameters_grad(net, weight=t(INF))
    rank.backward(net, [t(0.5)], [t(0.5)])
    report = run.analyze(tmp_path)
    assert report.exit_code == 1
    assert named(report) == [(0, gradient)]


@pytest.mark.parametrize("again", ["", "forward", "graph"])
@pytest.mark.parametrize("module", [False, True])
def test_code_in_backward_makes_gradients(module: bool, again: str, tmp_path: Path) -> None:
    """A custom autograd function divides by zero in its backward, which is recorded as a forward call.

    Where a forward pass runs again behind it (another micro-batch), or the call builds a graph, it is none.
    """
    run = Run()
    rank = run.rank(0)
    with rank.module("net", "Net", [batch(1.0)], [t(1.0, grad=True)]) as net:
        below = rank.op("Functional.linear", [batch(1.0), t(0.25)], [t(2.0, grad=True)])
        above = rank.op("Functional.gelu", [t(2.0, grad=True)], [t(1.0, grad=True)])
    loss = rank.op("Torch.sum", [t(1.0, grad=True)], [t(8.0, 8.0, shape=(), grad=True)])
    rank.backward(loss, [t(1.0, 1.0, shape=())], [t(1.0)])
    rank.backward(above, [t(1.0)], [t(0.5)])
    rank.inside = [net.replace(".forward", ".backward")] if module else []
    inner = rank.op("Torch.div", [t(0.5, grad=False), t(0.0, 0.0, grad=False)], [t(INF, -INF, grad=again == "graph")])
    rank.inside = []
    if again == "forward":
        rank.op("Torch.relu", [t(2.0, grad=True)], [t(2.0, grad=True)])
    rank.backward(below, [t(INF, -INF)], [t(NAN)])
    rank.backward(net, [t(1.0)], [t(NAN)])
    report = run.analyze(tmp_path)
    if again:
        assert named(report) != [(0, inner)]
        return
    assert named(report) == [(0, inner)]
    assert report.root_causes[0].mechanism.kind is MechanismKind.DIV_BY_ZERO
    assert [note.key for note in report.story] == ["story.gradient"]


@pytest.mark.parametrize("numbered", [True, False])
def test_clipping_scales_every_gradient(numbered: bool, tmp_path: Path) -> None:
    """One weight gradient is NaN; the norm, and with it what the optimizer reads of every other parameter, follows."""
    run = Run()
    rank = run.rank(0)
    with rank.module("net", "Linear", [batch(1.0)], [t(1.0)]) as net:
        loss = rank.op("Torch.sum", [t(1.0)], [t(8.0, 8.0, shape=())])
    rank.backward(loss, [t(1.0, 1.0, shape=())], [t(1.0)])
    name = rank.parameters_grad(net, weight=t(NAN))
    if not numbered:
        rank.data[name.removesuffix(".0")] = rank.data.pop(name)
        name = name.removesuffix(".0")
    rank.backward(net, [t(1.0)], [t(0.5)])
    rank.op("Torch._foreach_norm", [[t(0.5, shape=(64,)), t(NAN)]], [[t(1.0, shape=()), t(NAN, shape=())]])
    for at in range(100):
        read = t(NAN, shape=(64 + at,), grad=False)
        rank.op("Tensor.lerp_", [t(0.0, 0.0, shape=(64 + at,), grad=False), read, 0.1], [read])
    report = run.analyze(tmp_path)
    assert named(report) == [(0, name)]
    assert "evidence.forward_twin" not in {note.key for note in report.root_causes[0].evidence}


@pytest.mark.parametrize("penalty", [True, False])
def test_a_second_backward_writes_over_the_first(penalty: bool, tmp_path: Path) -> None:
    """A gradient penalty with a root of zero: the judge's records show the NaN of the second backward in the place
    of the first, before the derivative of the root. Where the sum gave the judge a bad gradient, that came first."""
    run = Run()
    rank = run.rank(0)
    judge = rank.op("Torch.sigmoid", [t(2.0)], [t(0.9)])
    total = rank.op("Torch.sum", [t(0.9)], [t(3.0, shape=())])
    rank.backward(total, [t(1.0, shape=())], [t(1.0, 1.0) if penalty else t(NAN)])
    judged = rank.backward(judge, [t(NAN)], [t(NAN)])
    root = rank.op("Torch.sqrt", [t(1.0, 0.0, (4,))], [t(1.0, 0.0, (4,))])
    loss = rank.op("Torch.mean", [t(1.0, 0.0, (4,))], [t(0.5, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(0.25, 0.25, (4,))])
    derived = rank.backward(root, [t(0.25, 0.25, (4,))], [t(INF, 0.125, (4,))])
    rank.all_reduce(t(NAN), t(NAN))
    cause = run.analyze(tmp_path).root_causes[0]
    assert cause.op_name == (derived if penalty else total.replace("forward", "backward"))
    assert judged


@pytest.mark.parametrize("first", [True, False], ids=["gradient first", "hook first"])
def test_what_a_hook_made_of_the_gradient_of_a_parameter(first: bool, tmp_path: Path) -> None:
    """A hook behind the accumulation divides by zero; in some versions the record of the gradient stands before it."""
    run = Run()
    rank = run.rank(0)
    weight = (4, 8)
    with rank.module("fc", "Linear", [t(1.0)], [t(1.0)], {"weight": t(1.0, shape=weight)}) as module:
        product = rank.op("Functional.linear", [t(1.0), t(1.0)], [t(1.0)])
    loss = rank.op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    zero = t(0.0, 0.0, shape=weight, grad=False)
    if first:
        rank.parameters_grad(module, weight=t(NAN, shape=weight, grad=False))
    made = rank.op("Tensor.__truediv__", [zero, t(0.0, 0.0, shape=(), grad=False)], [t(NAN, shape=weight, grad=False)])
    if not first:
        rank.parameters_grad(module, weight=t(NAN, shape=weight, grad=False))
    rank.backward(product, [t(1.0)], [t(1.0)])
    assert named(run.analyze(tmp_path)) == [(0, made)]


@pytest.mark.parametrize("grad", [False, True])
def test_code_in_backward_begins_no_pass(grad: bool, tmp_path: Path) -> None:
    """``where`` drops a NaN of forward; a hook computes a number before the backward of what made it."""
    run = Run()
    rank = run.rank(0)
    diff = rank.op("Tensor.__sub__", [t(1.0), batch(NAN)], [t(NAN)])
    rank.op("Torch.where", [batch(1.0, 0.0, dtype="bool"), 0.0, t(NAN)], [t(1.0)])
    loss = rank.op("Torch.mean", [t(1.0)], [t(1.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(0.1)])
    rank.op("Torch.norm", [batch(0.1)], [t(0.5, shape=(), grad=grad)])
    rank.backward(diff, [t(0.1)], [t(0.1)])
    found = [cause.op_name for cause in run.analyze(tmp_path).root_causes]
    assert found == ([diff] if grad else [])


@pytest.mark.parametrize("number", [INF, -INF])
def test_a_number_of_numbers_is_a_guess(number: float, tmp_path: Path) -> None:
    """A metric behind backward and the gradient of a parameter of one element are both infinite: the operator that
    made the loss NaN is the cause, and the metric is none that is certain."""
    run = Run()
    rank = run.rank(0)
    born = rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN)])
    loss = rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, 1.0, shape=())], [t(1.0)])
    rank.backward(born, [t(1.0)], [t(NAN)])
    made = t(number, number, shape=(), grad=False)
    metric = rank.op("Torch.exp", [t(100.0, 100.0, shape=(), grad=False)], [made])
    lowest = t(-INF, -INF, shape=(), grad=False)
    rank.op("Tensor.div_", [lowest, 2], [lowest])
    causes = {cause.op_name: cause for cause in run.analyze(tmp_path).root_causes}
    assert born in causes
    assert metric not in causes or causes[metric].place_confidence is Confidence.POSSIBLE
