"""No bad value is taken for gone without proof: the rules of ``def_use`` and ``endings`` about what ends where."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Rank, Run, blank, named, t, the_cause

from firstnan.answer.model import Verdict, Where

PROBABILITIES = t(1.0, 0.0)


def trained(rank: Rank) -> None:
    """A backward pass: what ended in forward before it was not in flight any more."""
    loss = rank.op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])


def padded_row(rank: Rank) -> None:
    """A softmax row of nothing but -Inf, dropped at once."""
    rank.op("Functional.softmax", [t(-INF, grad=False)], [t(NAN)])
    rank.op("Torch.nan_to_num", [t(NAN)], [PROBABILITIES])


@pytest.mark.parametrize("result", [None, [None], []], ids=["raised", "nothing", "empty"])
def test_no_result_proves_nothing(result: list[None] | None, tmp_path: Path) -> None:
    """A module that took in a NaN and shows no result has not dropped it: the backward pass tells."""
    run = Run()
    rank = run.rank(0)
    with rank.module("head", "Linear", [t(1.0)], [t(1.0)]):
        pass
    born = "Module.mid.Angle.backward.0"
    rank._put(born, {"input": [t(1.0)], "output": [t(NAN)]}, None)
    record = {"input": [t(NAN)]} | ({} if result is None else {"output": result})
    rank._put("Module.trunk.Trunk.backward.0", record, None)
    assert the_cause(run.analyze(tmp_path)).op_name == born


@pytest.mark.parametrize("inside", [True, False], ids=["in a module", "in a call"])
def test_a_run_that_dies_in_forward_leaves_its_values_in_flight(inside: bool, tmp_path: Path) -> None:
    """The file is valid JSON; its last record stands in a module without a record, or has no result."""
    run = Run()
    rank = run.rank(0)
    with rank.module("first", "Linear", [t(1.0)], [t(1.0)]):
        rank.op("Functional.linear", [t(1.0), t(1.0)], [t(1.0)])
    trained(rank)
    rank.inside.append("Module.head.Head.forward.0")
    born = rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN)])
    if inside:
        rank.op("Torch.relu", [t(2.0)], [t(2.0)])
    else:
        del rank.data[rank.op("Functional.linear", [t(NAN), t(1.0)], [])]["output"]
    assert the_cause(run.analyze(tmp_path)).op_name == born


def test_a_run_that_ends_in_forward_with_nothing_open_is_whole(tmp_path: Path) -> None:
    """Inference: every module has returned, and what was bad was dropped."""
    run = Run()
    rank = run.rank(0)
    with rank.module("model", "Model", [t(1.0)], [t(1.0)]):
        padded_row(rank)
    report = run.analyze(tmp_path)
    assert (report.verdict, report.complete, report.exit_code) == (Verdict.CLEAN, True, 0)


def test_what_is_drawn_from_bad_probabilities_matters(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    trained(rank)
    with rank.module("policy", "Policy", [t(1.0)], [t(3, 0, dtype="int64", grad=False)]):
        born = rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN)])
        rank.op("Torch.multinomial", [t(NAN), 1], [t(3, 0, dtype="int64", grad=False)])
    assert the_cause(run.analyze(tmp_path)).op_name == born


@pytest.mark.parametrize("harmless", [257, 395, 399, 401, 900])
def test_any_number_of_harmless_values_before_a_fault(harmless: int, tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    for _ in range(harmless):
        padded_row(rank)
    born = rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN, shape=(3, 3))])
    loss = rank.op("Torch.sum", [t(NAN, shape=(3, 3))], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0, shape=(3, 3))])
    assert the_cause(run.analyze(tmp_path)).op_name == born


@pytest.mark.parametrize("bad", [t(5.0, -INF, grad=False), t(INF, -5.0, grad=False)], ids=["minus", "plus"])
@pytest.mark.parametrize("ranks", [(0,), (0, 1)], ids=["one rank", "all ranks"])
def test_gradients_hold_no_masks(bad: object, ranks: tuple[int, ...], tmp_path: Path) -> None:
    """A weight gradient with -Inf on its way into the sum over the ranks is as bad as one with +Inf."""
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        trained(rank)
        name = rank.all_reduce(bad if number in ranks else t(5.0, grad=False), bad)
    report = run.analyze(tmp_path)
    assert {(cause.rank, cause.op_name) for cause in report.root_causes} == {(number, name) for number in ranks}
    assert {cause.where for cause in report.root_causes} == {Where.UNDUMPED_OPERATOR}


def test_a_maximum_over_masked_logits_is_legal(tmp_path: Path) -> None:
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        trained(rank)
        rank.all_reduce(t(5.0, -INF, grad=False), t(5.0, -INF, grad=False), op="MAX")
    assert run.analyze(tmp_path).exit_code == 0


def test_nothing_before_needs_a_gradient(tmp_path: Path) -> None:
    """exp(-Inf) = 0 is what a mask is for; a -Inf in a weight is the cause of 0 / 0 behind it."""
    run = Run()
    rank = run.rank(0)
    read = rank.op("Torch.exp", [t(0.5, -INF)], [t(1.7, 0.0)])
    rank.op("Torch.div", [t(1.7, 0.0), t(1.7, 0.0)], [t(NAN)])
    loss = rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(NAN)])
    rank.backward(read, [t(NAN)], [t(NAN)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where) == (read, Where.PARAMETER)


def test_a_mask_that_needs_no_gradient_is_one(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.exp", [t(0.5, -INF, grad=False)], [t(1.7, 0.0, grad=False)])
    assert named(run.analyze(tmp_path)) == []


@pytest.mark.parametrize(
    ("api", "operand", "given", "code"),
    [
        ("Tensor.__add__", blank(), t(1.0), 0),
        ("Tensor.fill_", blank(), blank(), 0),
        ("Tensor.__add__", t(1.0), blank(), 4),
    ],
    ids=["finite result", "constant", "unknown result"],
)
def test_harmless_unknowns_do_not_cost_the_exit_code(
    api: str, operand: object, given: object, code: int, tmp_path: Path
) -> None:
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.relu", [t(1.0)], [t(1.0)])
    rank.op(api, [operand, 0.0], [given])
    assert run.analyze(tmp_path).exit_code == code


def test_what_is_drawn_from_bad_probabilities_matters_outside_of_modules(tmp_path: Path) -> None:
    """Nothing else of the run is in the dump: the finite result of the draw proves nothing."""
    run = Run()
    born = run.rank(0).op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    run.rank(0).op("Torch.multinomial", [t(NAN), 1], [t(3, 0, dtype="int64", grad=False)])
    assert the_cause(run.analyze(tmp_path)).op_name == born


def test_a_value_whose_reader_shows_no_result_is_open(tmp_path: Path) -> None:
    """Not clean and complete: a call that raised in the middle of the step took the NaN in."""
    run = Run()
    rank = run.rank(0)
    with rank.module("model", "Model", [t(1.0)], [t(1.0)]):
        rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
        del rank.data[rank.op("Torch.cholesky", [t(NAN)], [])]["output"]
    trained(rank)
    report = run.analyze(tmp_path)
    assert (report.verdict, report.complete, report.exit_code) == (Verdict.CLEAN, False, 4)
    assert "open_values" in [problem.kind.value for problem in report.input.problems]


def test_a_loss_whose_gradient_stands_far_behind(tmp_path: Path) -> None:
    """In a long dump, among harmless values: what is looked at first does not reach its backward record."""
    run = Run()
    rank = run.rank(0)
    for _ in range(300):
        padded_row(rank)
    born = rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN, shape=())])
    rank.skip(700)
    rank.backward(born, [t(1.0, shape=())], [t(1.0)])
    rank.skip(700)
    padded_row(rank)
    rank.skip(700)
    assert the_cause(run.analyze(tmp_path)).op_name == born


@pytest.mark.parametrize("api", ["Torch.isnan", "Tensor.__gt__"])
@pytest.mark.parametrize("behind", [(), ("Tensor.any", "Tensor.item")], ids=["at once", "any and item between"])
def test_it_ended_because_of_what_it_saw(api: str, behind: tuple[str, ...], tmp_path: Path) -> None:
    """A guard of the program raises: the records end with the check, and the modules have returned."""
    run = Run()
    rank = run.rank(0)
    truth = t(True, False, dtype="bool", grad=False)
    with rank.module("policy", "Policy", [t(1.0)], [t(3, 0, dtype="int64", grad=False)]):
        born = rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN)])
    seen = rank.op(api, [t(NAN), 0.0], [truth])
    for name in behind:
        rank.op(name, [truth], [truth])
    report = run.analyze(tmp_path)
    assert the_cause(report).op_name == born
    (told,) = [problem for problem in report.input.problems if problem.kind.value == "ended_at_check"]
    assert told.detail == seen


@pytest.mark.parametrize(
    "look", [("Torch.argmax", t(3, 0, dtype="int64", grad=False)), ("Torch.relu", t(1.0))], ids=["index", "no look"]
)
def test_only_a_check_tells_that_it_ended_because_of_what_it_saw(look: tuple[str, object], tmp_path: Path) -> None:
    """A choice of the largest element decides nothing, and what is computed behind a check means that it went on."""
    api, given = look
    run = Run()
    rank = run.rank(0)
    with rank.module("policy", "Policy", [t(1.0)], [t(3, 0, dtype="int64", grad=False)]):
        rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN)])
    if api == "Torch.relu":
        rank.op("Torch.isnan", [t(NAN)], [t(True, False, dtype="bool", grad=False)])
    rank.op(api, [t(NAN) if api == "Torch.argmax" else t(1.0)], [given])
    report = run.analyze(tmp_path)
    assert (report.verdict, report.exit_code) == (Verdict.CLEAN, 4)


@pytest.mark.parametrize(
    ("grad", "shape", "code"), [(False, (), 4), (True, (), 1), (False, (4, 8), 1)], ids=["metric", "loss", "tensor"]
)
def test_an_unread_scalar_is_a_metric(grad: bool, shape: tuple[int, ...], code: int, tmp_path: Path) -> None:
    """Evaluation: the perplexity overflows, and the model's own results are finite. What needs a gradient is a loss."""
    run = Run()
    rank = run.rank(0)
    with rank.module("model", "Model", [t(1.0)], [t(1.0)]):
        rank.op("Functional.linear", [t(1.0), t(1.0)], [t(1.0)])
    metric = rank.op("Torch.exp", [t(120.0, shape=shape, grad=grad)], [t(INF, INF, shape=shape, grad=grad)])
    report = run.analyze(tmp_path)
    assert report.exit_code == code
    named = [p.detail for p in report.input.problems if p.kind.value == "open_values"]
    assert named == ([f"1 value (first: {metric})"] if code == 4 else [])


@pytest.mark.parametrize(("least", "code"), [(-(2.0**63), 0), (-5.0, 1)], ids=["limit", "other integers"])
def test_a_cast_to_integers_drops(least: float, code: int, tmp_path: Path) -> None:
    """The buckets of relative positions: log(0) is cast to an integer, and the cast leaves no record."""
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.log", [t(2.0, 0.0, grad=False)], [t(0.6, -INF, grad=False)])
    rank.op("Tensor.__radd__", [t(3, least, dtype="int64", grad=False), 1], [t(4, 1, dtype="int64", grad=False)])
    rank.op("Torch.relu", [t(1.0)], [t(1.0)])
    assert run.analyze(tmp_path).exit_code == code


@pytest.mark.parametrize(
    ("grad", "first", "code"), [(False, True, 0), (True, True, 1), (False, False, 1)], ids=["", "gradient", "written"]
)
def test_a_buffer_of_minus_inf_is_filled(grad: bool, first: bool, code: int, tmp_path: Path) -> None:
    """Generation allows some tokens alone: the ``full`` leaves no record. What is written somewhere is no buffer."""
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.relu", [t(1.0, grad=False)], [t(1.0, grad=False)])
    filled = t(-INF, -INF, grad=grad)
    target, value = (filled, 0.0) if first else (t(1.0, grad=False), filled)
    rank.op("Tensor.__setitem__", [target, 1, value], [])
    rank.op("Functional.softmax", [t(0.0, -INF, grad=grad)], [t(1.0, 0.0, grad=grad)])
    assert run.analyze(tmp_path).exit_code == code
