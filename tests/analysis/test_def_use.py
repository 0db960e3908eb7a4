"""Who wrote a bad value, who read it, where it ends: the rules of ``rank/taint/def_use.py`` on one rank."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Run, events, named, t, the_cause

from firstnan.answer.model import Verdict, Where
from firstnan.rank.taint.events import Ending, EventKind


def test_nearest_open_writer(tmp_path: Path) -> None:
    """The reader of a NaN takes it from a writer of the same shape, else size, else from the nearest unread one."""
    rank = Run().rank(0)
    born = rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN, shape=(8, 2))])
    rank.op("Torch.add", [t(NAN, shape=(16,)), t(1.0)], [t(NAN, shape=(16,))])  # an undumped view
    rank.construct["Tensor.expand.0.forward"] = None  # listed there alone
    rank.op("Torch.mul", [t(NAN, shape=(5, 5)), t(1.0)], [t(NAN, shape=(5, 5))])
    found = events(rank, tmp_path)
    assert [(e.kind, e.record.name.full) for e in found] == [(EventKind.BIRTH, born)]


def test_nearest_open_writer_needs_the_same_numbers(tmp_path: Path) -> None:
    """Nobody wrote an Inf of another Min, nor a NaN, where no operator without a record can have made it."""
    rank = Run().rank(0)
    rank.op("Torch.div", [t(3.0), t(1.0, 0.0)], [t(INF, 3.0)])
    rank.skip(10)
    rank.op("Torch.relu", [t(NAN)], [t(NAN)])
    rank.op("Torch.sqrt", [t(INF, 5.0)], [t(INF, 5.0)])
    found = [(e.kind, e.record.name.api) for e in events(rank, tmp_path)]
    assert found == [(EventKind.BIRTH, "div"), (EventKind.ENTRY, "relu"), (EventKind.ENTRY, "sqrt")]


def test_negation_has_no_record(tmp_path: Path) -> None:
    rank = Run().rank(0)
    born = rank.op("Torch.log", [t(3.0, 0.0)], [t(1.1, -INF)])
    rank.op("Torch.add", [t(1.0), t(INF, -1.1)], [t(INF, -2.0)])
    assert [e.record.name.full for e in events(rank, tmp_path)] == [born]


@pytest.mark.parametrize("left", [t(1.0), t(NAN)], ids=["nothing", "another NaN"])
def test_overwritten_in_part(left: object, tmp_path: Path) -> None:
    """``x[mask] = 0`` drops what the mask selects; the next reader shows whether that was all."""
    run = Run()
    rank = run.rank(0)
    with rank.module("model", "Model", [t(1.0)], [left]):
        born = rank.op("Torch.pow", [t(1.0, -1.0), -0.5], [t(NAN)])
        rank.op("Tensor.__setitem__", [t(NAN), t(True, False, dtype="bool", grad=False), 0.0], [None])
        rank.op("Torch.mul", [left, t(1.0)], [left])
    report = run.analyze(tmp_path)
    if left == t(1.0):
        assert report.exit_code == 0
    else:
        assert the_cause(report).op_name == born


def test_forward_never_writes_gradient(tmp_path: Path) -> None:
    """A backward record does not get its NaN from a forward value of the same shape: it is a birth."""
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    loss = rank.op("Torch.sum", [t(2.0)], [t(8.0, 8.0, shape=())])
    square = rank.op("Torch.sqrt", [t(2.0, 0.0)], [t(1.0, 0.0)])
    rank.backward(loss, [t(1.0, 1.0, shape=())], [t(1.0, 1.0)])
    born = rank.backward(square, [t(1.0)], [t(NAN)])
    found = {e.record.name.full: e for e in events(rank, tmp_path)}
    assert found[born].kind is EventKind.BIRTH
    assert found["Torch.log.0.forward"].endings == {Ending.UNREAD}


def test_forward_never_writes_gradient_of_an_activation_from_that_of_a_parameter(tmp_path: Path) -> None:
    rank = Run().rank(0)
    with rank.module("fc", "Linear", [t(1.0)], [t(1.0)], {"weight": t(1.0)}) as module:
        product = rank.op("Functional.linear", [t(1.0), t(1.0)], [t(1.0)])
    loss = rank.op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    rank.parameters_grad(module, weight=t(NAN))
    later = rank.backward(product, [t(NAN)], [t(NAN)])
    found = [e for e in events(rank, tmp_path) if e.record.name.full == later]
    assert [e.kind for e in found] == [EventKind.ENTRY]


def test_a_module_reads_its_own_weights(tmp_path: Path) -> None:
    """A GRU without a record of its kernel, which older versions dump between views that have one."""
    run = Run()
    rank = run.rank(0)
    with rank.module("rnn", "GRU", [t(1.0)], [t(NAN)], {"weight_hh_l0": t(NAN, shape=(8, 8))}) as module:
        rank.op("Tensor.view_as", [t(1.0), t(1.0)], [t(1.0)])
    loss = rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where) == (module, Where.PARAMETER)


@pytest.mark.parametrize("result", [INF, 3.0, NAN], ids=["overflow", "finite", "NaN"])
def test_a_number_that_was_read_later(result: float, tmp_path: Path) -> None:
    """The exponential of a learnt temperature, of which the dump shows the value after the update."""
    run = Run()
    rank = run.rank(0)
    made = rank.op("Tensor.exp", [t(NAN, shape=())], [t(result, result, shape=())])
    scaled = t(4.0) if result == 3.0 else t(NAN)
    rank.op("Tensor.mul", [t(result, result, shape=()), t(1.0)], [scaled])
    loss = rank.op("Torch.sum", [scaled], [t(scaled["Max"], scaled["Min"], shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    report = run.analyze(tmp_path)
    if result == 3.0:
        assert report.root_causes == ()
    else:
        assert named(report) == [(0, made)]
        assert the_cause(report).where is (Where.OPERATOR if result == INF else Where.BEFORE_DUMP)


def test_closed_inside_module(tmp_path: Path) -> None:
    """What was written inside a module with a finite output stays there; the NaN outside has another writer."""
    run = Run()
    rank = run.rank(0)
    with rank.module("attn", "Attention", [t(1.0)], [t(1.0)]):
        rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
        rank.op("Torch.nanmean", [t(NAN)], [t(0.5)])
    with rank.module("head", "Head", [t(1.0)], [t(NAN)]):
        rank.op("Torch.mul", [t(NAN), t(1.0)], [t(NAN)])
    report = run.analyze(tmp_path)
    assert named(report) == [(0, "Torch.mul.0.forward")]
    assert the_cause(report).where is Where.UNDUMPED_OPERATOR
    assert [c.op_name for c in report.contained] == ["Torch.log.0.forward"]


def test_carried_out_by_attribute(tmp_path: Path) -> None:
    """A scalar that a module with a finite output keeps as an attribute (an auxiliary loss) is read outside."""
    run = Run()
    rank = run.rank(0)
    with rank.module("router", "Router", [t(1.0)], [t(1.0)]):
        born = rank.op("Torch.logsumexp", [t(200.0), 0], [t(INF, INF, shape=())])
    rank.op("Torch.add", [t(2.0, 2.0, shape=()), t(INF, INF, shape=())], [t(INF, INF, shape=())])
    assert named(run.analyze(tmp_path)) == [(0, born)]


def test_used_beside_selection(tmp_path: Path) -> None:
    """``where`` drops the NaN, and the next operator of the same module takes the tensor as it was all the same."""
    run = Run()
    rank = run.rank(0)
    with rank.module("loss", "Loss", [t(1.0)], [t(NAN)]):
        born = rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
        rank.op("Torch.where", [t(True, False, dtype="bool"), t(NAN), t(1.0)], [t(1.0)])
        rank.op("Torch.mul", [t(NAN), t(2.0)], [t(NAN)])
    assert named(run.analyze(tmp_path)) == [(0, born)]


def test_written_in_place(tmp_path: Path) -> None:
    """``x[0] = nan`` has no output; the next reader of x gets the NaN from there."""
    run = Run()
    rank = run.rank(0)
    born = rank.op("Torch.log", [t(1.0, -1.0, shape=(8,))], [t(NAN, shape=(8,))])
    rank.op("Tensor.__setitem__", [t(1.0, shape=(4, 8)), 0, t(NAN, shape=(8,))], [])
    rank.op("Torch.sum", [t(NAN, shape=(4, 8))], [t(NAN, shape=())])
    assert named(run.analyze(tmp_path)) == [(0, born)]


def test_absorbed_by_selection(tmp_path: Path) -> None:
    """A NaN that ``where`` drops is contained; a later NaN of the same shape has another writer."""
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    rank.op("Torch.where", [t(True, False, dtype="bool"), t(NAN), t(1.0)], [t(1.0)])
    born = rank.op("Torch.sqrt", [t(1.0, -1.0)], [t(NAN)])
    rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    report = run.analyze(tmp_path)
    assert named(report) == [(0, born)]
    contained = {c.op_name: c.reason.params.get("closer") for c in report.contained}
    assert contained == {"Torch.log.0.forward": "Torch.where.0.forward"}


def test_absorbed_by_selection_alone_is_clean(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    rank.op("Torch.nan_to_num", [t(NAN)], [t(1.0)])
    rank.op("Torch.sum", [t(1.0)], [t(8.0, shape=())])
    report = run.analyze(tmp_path)
    assert (report.verdict, report.exit_code) == (Verdict.CLEAN, 0)
    assert [c.op_name for c in report.contained] == ["Torch.log.0.forward"]


def test_module_repeats(tmp_path: Path) -> None:
    """Modules repeat the values of the records inside: one event, the operator's, with the module as context."""
    run = Run()
    rank = run.rank(0)
    with (
        rank.module("model", "Model", [t(1.0)], [t(NAN, shape=(2, 2))]),
        rank.module("model.mlp", "Mlp", [t(1.0)], [t(NAN)]),
    ):
        born = rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    report = run.analyze(tmp_path)
    cause = the_cause(report)
    assert (cause.op_name, cause.module) == (born, "model.mlp")
    assert cause.construct_chain == (born, "Module.model.mlp.Mlp.forward.0", "Module.model.Model.forward.0")


def test_module_repeats_unless_nothing_inside_was_bad(tmp_path: Path) -> None:
    """The NaN came up in something inside the module that is not dumped: then the module is the event."""
    run = Run()
    rank = run.rank(0)
    with rank.module("attn", "FlashAttention", [t(1.0)], [t(NAN)]) as module:
        rank.op("Functional.linear", [t(1.0), t(1.0)], [t(1.0)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where) == (module, Where.OPERATOR)


def test_module_repeats_links_values_through_it(tmp_path: Path) -> None:
    """The value chain goes through the module's output, although its shape differs from the operator's."""
    run = Run()
    rank = run.rank(0)
    with rank.module("norm", "Norm", [t(1.0)], [t(NAN, shape=(2, 16))]):
        born = rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN, shape=(32,))])
        rank.op("Torch.cumsum", [t(2.0), 0], [t(3.0)])
    rank.op("Torch.mul", [t(NAN, shape=(2, 16)), t(1.0)], [t(NAN, shape=(2, 16))])
    assert named(run.analyze(tmp_path)) == [(0, born)]


def test_modules_alone_are_the_operators(tmp_path: Path) -> None:
    """Level L0: nothing but modules was dumped, the innermost bad one is the answer."""
    run = Run()
    rank = run.rank(0)
    rank.header["level"] = "L0"
    with rank.module("model", "Model", [t(1.0)], [t(NAN)]):
        with rank.module("model.fc1", "Linear", [t(1.0)], [t(1.0)]):
            pass
        with rank.module("model.act", "Log", [t(1.0, -1.0)], [t(NAN)]) as born:
            pass
        with rank.module("model.fc2", "Linear", [t(NAN)], [t(NAN)]):
            pass
    assert named(run.analyze(tmp_path)) == [(0, born)]


def test_operators_alone_have_no_chain(tmp_path: Path) -> None:
    """Level L1: construct.json is empty."""
    run = Run()
    rank = run.rank(0)
    rank.header["level"] = "L1"
    born = rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    rank.construct.clear()
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.construct_chain, cause.module) == (born, (born,), None)


@pytest.mark.parametrize("overwritten", [True, False])
def test_received_beside_an_overwrite(overwritten: bool, tmp_path: Path) -> None:
    """A buffer that held garbage of the same size is written over: that is not where the received gradient ended."""
    run = Run()
    first, second = run.rank(0), run.rank(1)
    log = second.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    second.send(t(NAN), 0)
    lin = first.op("Functional.linear", [t(1.0), t(1.0)], [t(1.0)])
    first.recv(t(NAN), 1)
    if overwritten:
        first.op("Tensor.__setitem__", [t(NAN), t(2.0)])
    first.backward(lin, [t(NAN)], [t(NAN), t(NAN)])
    assert named(run.analyze(tmp_path)) == [(1, log)]
