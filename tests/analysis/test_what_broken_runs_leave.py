"""What broken runs really leave behind: each kind once, small, and its healthy twin where it has one.

Beside these: records without statistics (``test_blind_spots``), steps that the loss scaler skipped
(``test_skipped_steps``), trials on uninitialised memory (``test_islands``), buffers and unknowns of sharded training
(``test_harmless_unknowns``), reductions without a record (``test_spread``, gradients after backward), and the work for
many of a kind (``test_limits``).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Rank, Run, batch, named, t, the_cause

from firstnan.answer.model import Where

SCALAR = ()
ROW = (11, 7)


def loss_of(rank: Rank, value: object, *, bad: bool) -> None:
    given = t(NAN, shape=SCALAR) if bad else t(1.0, shape=SCALAR)
    loss = rank.op("Torch.mean", [value], [given])
    rank.backward(loss, [t(1.0, shape=SCALAR)], [t(1.0)])


# --- many harmless values before the fault ---------------------------------------------------------------------------


def masked_row(rank: Rank) -> None:
    """A padded row: softmax gives NaN, and it is masked at once."""
    masked, nan = t(-INF, shape=ROW, grad=False), t(NAN, shape=ROW, grad=False)
    rank.op("Tensor.masked_fill", [t(1.0, shape=ROW, grad=False), t(1.0, shape=ROW, dtype="bool"), -INF], [masked])
    rank.op("Functional.softmax", [masked], [nan])
    rank.op("Torch.where", [t(1.0, shape=ROW, dtype="bool"), nan], [t(0.5, shape=ROW, grad=False)])


@pytest.mark.parametrize("faulty", [True, False])
@pytest.mark.parametrize("rows", [399, 401, 700])
def test_harmless_values_hide_no_fault_however_many(rows: int, faulty: bool, tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    for _ in range(rows):
        masked_row(rank)
    value = t(NAN) if faulty else t(1.0)
    log = rank.op("Torch.log", [t(1.0, -1.0) if faulty else t(1.0, 0.5)], [value])
    loss_of(rank, value, bad=faulty)
    report = run.analyze(tmp_path)
    assert named(report) == ([(0, log)] if faulty else [])
    assert report.exit_code == (1 if faulty else 0)


# --- the run died ----------------------------------------------------------------------------------------------------


def died(rank: Rank, api: str, *, checks: bool = False) -> str:
    """A policy that makes NaN, and dies in what it does with it; its module never returns."""
    with rank.module("policy", "Policy", [batch(1.0)], []) as outer:
        with rank.module("policy.body", "Linear", [batch(1.0)], [t(1.0)]):
            rank.op("Functional.linear", [batch(1.0), t(0.5, shape=(8, 8))], [t(1.0)])
        name = rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(NAN)])
        rank.op("Torch.mul", [t(NAN), t(1.0)], [t(NAN)])
        flag = t(1.0, shape=SCALAR, dtype="bool", grad=False)
        last = rank.op(api, [t(NAN)], [flag] if checks else [])
    rank.data.pop(outer)
    if not checks:
        rank.data[last].pop("output")
    return name


@pytest.mark.parametrize(
    ("api", "checks"),
    [("Torch.multinomial", False), ("Torch.bernoulli", False), ("Torch.isfinite", True), ("Tensor.__ge__", True)],
)
def test_a_run_that_dies_of_what_it_samples_or_checks(api: str, checks: bool, tmp_path: Path) -> None:
    """The file is valid JSON, and ends in forward."""
    run = Run()
    name = died(run.rank(0), api, checks=checks)
    report = run.analyze(tmp_path)
    assert (report.exit_code, named(report)) == (1, [(0, name)])


# --- gradients -------------------------------------------------------------------------------------------------------


def test_every_gradient_is_bad_in_modules_whose_backward_gives_nothing(tmp_path: Path) -> None:
    """``output: []`` of an old backward module drops nothing."""
    run = Run()
    rank = run.rank(0)
    for path in ("a", "b"):
        with rank.module(path, "Linear", [batch(1.0) if path == "a" else t(1.0)], [t(1.0)]):
            pass
    for path in ("b", "a"):
        rank._put(f"Module.{path}.Linear.backward.0", {"input": [t(NAN)], "output": []}, None)
    report = run.analyze(tmp_path)
    assert report.exit_code == 1
    assert the_cause(report).op_name == "Module.b.Linear.backward.0"


@pytest.mark.parametrize("sign", [INF, -INF], ids=str)
@pytest.mark.parametrize("ranks", [(0, 1), (1,)], ids=["on all ranks", "on one"])
def test_an_infinite_weight_gradient(sign: float, ranks: tuple[int, ...], tmp_path: Path) -> None:
    """-Inf in a gradient is as bad as +Inf, and no overflow of the reduction that takes it in."""
    bad = t(sign, 1.0 if sign > 0 else -INF, shape=(8, 8), grad=False)
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        linear = rank.op("Functional.linear", [batch(1.0), t(0.5, shape=(8, 8))], [t(1.0)])
        loss_of(rank, t(1.0), bad=False)
        gradient = bad if number in ranks else t(1.0, shape=(8, 8), grad=False)
        backward = rank.backward(linear, [t(1.0)], [t(1.0), gradient])
        rank.all_reduce(gradient, bad)
    report = run.analyze(tmp_path)
    assert set(named(report)) == {(rank, backward) for rank in ranks}


# --- -Inf that nobody wrote ------------------------------------------------------------------------------------------


def online_softmax(rank: Rank, *, faulty: bool) -> None:
    """The running maximum starts at -Inf (``full`` has no record)."""

    def row(value: float) -> object:
        return t(NAN if faulty else value, shape=(4, 1))

    start = {**t(-INF, shape=(4, 1), grad=False), "Max": -INF}
    rank.construct["Torch.full.0.forward"] = None
    rank.op("Torch.maximum", [start, row(2.0)], [row(2.0)])
    rank.op("Tensor.__sub__", [start, row(2.0)], [row(NAN) if faulty else start])
    rank.op("Torch.exp", [row(NAN) if faulty else start], [row(0.0)])
    rank.op("Torch.mul", [row(0.0), t(1.0)], [t(NAN if faulty else 1.0)])


@pytest.mark.parametrize("faulty", [True, False])
def test_an_online_softmax_that_starts_at_minus_inf(faulty: bool, tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    weight, given = (t(NAN, shape=(8, 8)), t(NAN)) if faulty else (t(0.5, shape=(8, 8)), t(1.0))
    linear = rank.op("Functional.linear", [batch(1.0), weight], [given])
    online_softmax(rank, faulty=faulty)
    loss_of(rank, given, bad=faulty)
    report = run.analyze(tmp_path)
    assert named(report) == ([(0, linear)] if faulty else [])
    assert report.exit_code == (1 if faulty else 0)


# --- an unread value before the fault --------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [Where.PARAMETER, Where.INPUT_DATA])
def test_an_unread_infinity_is_not_blamed_for_a_weight_or_a_batch(where: Where, tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.exp", [t(100.0, 100.0, shape=SCALAR)], [t(INF, INF, shape=SCALAR)])
    weight = t(NAN if where is Where.PARAMETER else 0.5, shape=(8, 8))
    data = batch(1.0 if where is Where.PARAMETER else NAN)
    with rank.module("model", "Model", [data], [t(NAN)]):
        name = rank.op("Functional.linear", [data, weight], [t(NAN)])
    loss_of(rank, t(NAN), bad=True)
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where) == (name, where)
