"""Records that only look: what the printing of a tensor leaves, in the middle of a run and at its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.made_runs import NAN, Rank, Run, named, t, the_cause
from firstnan.answer.model import Report, Verdict


def printed(rank: Rank, finite: bool = True, views: bool = False) -> None:
    """What torch calls to print a tensor of 32 elements with a NaN in it, without gradients.

    ``finite``: whether any element is; ``views``: dumped at a risk level (or by a version) that records views.
    """
    truth = t(True, False, dtype="bool", shape=(32,), grad=False)
    flat = t(NAN, shape=(32,))
    if views:
        rank.op("Tensor.reshape", [t(NAN)], [flat])
    rank.op("Torch.isfinite", [flat], [truth])
    rank.op("Tensor.ne", [flat, 0], [truth])
    rank.op("Tensor.__and__", [truth, truth], [truth])
    if not finite:
        empty = t(None, None, shape=(0,), grad=False)
        rank.op("Torch.masked_select", [flat, truth], [empty])
        return
    some, most, least = (t(high, low, shape=shape, grad=False) for high, low, shape in (
        (0.75, -2.5, (20,)), (2.5, 2.5, ()), (0.25, 0.25, ())))  # fmt: skip
    sizes = t(2.5, 0.25, shape=(20,), grad=False)
    one = t(-1.5, -1.5, shape=(), grad=False)
    yes = t(True, True, dtype="bool", shape=(), grad=False)
    rank.op("Torch.masked_select", [flat, truth], [some])
    rank.op("Tensor.abs", [some], [sizes])
    rank.op("Tensor.min", [sizes], [least])
    rank.op("Tensor.max", [sizes], [most])
    if views:
        rank.op("Tensor.unbind", [some], [one, t(0.5, 0.5, shape=(), grad=False)])
    rank.op("Torch.ceil", [one], [t(-1.0, -1.0, shape=(), grad=False)])
    rank.op("Tensor.__ne__", [one, t(-1.0, -1.0, shape=(), grad=False)], [yes])
    rank.op("Tensor.__truediv__", [most, least], [t(10.0, 10.0, shape=(), grad=False)])
    rank.op("Tensor.__gt__", [t(10.0, 10.0, shape=(), grad=False), 1000.0], [yes])
    rank.op("Tensor.__lt__", [least, 0.0001], [yes])
    if views:
        for _ in range(20):
            rank.op("Tensor.__bool__", [yes], [True])


@pytest.mark.parametrize("finite", [True, False], ids=["some finite", "all NaN"])
@pytest.mark.parametrize("views", [False, True], ids=["few records", "all records"])
def test_a_selection_for_the_eye(finite: bool, views: bool, tmp_path: Path) -> None:
    """The policy's distribution refuses a NaN, and the message of its exception prints the tensor: the run ends."""
    run = Run()
    rank = run.rank(0)
    born = rank.op("Torch.sqrt", [t(1.0, -1.0)], [t(NAN)])
    truth = t(True, False, dtype="bool", grad=False)
    rank.op("Tensor.__eq__", [t(NAN), t(NAN)], [truth])
    rank.op("Tensor.all", [truth], [truth])
    printed(rank, finite, views)
    report = run.analyze(tmp_path)
    assert the_cause(report).op_name == born
    assert "ended_at_check" in [problem.kind.value for problem in report.input.problems]
    assert report.accounts.values == sum(entry.count for entry in report.accounts.entries)


def test_a_selection_for_the_eye_closes_nothing(tmp_path: Path) -> None:
    """A tensor that was printed is read on: its NaN has a writer, and it is the cause."""
    run = Run()
    rank = run.rank(0)
    born = rank.op("Torch.sqrt", [t(1.0, -1.0)], [t(NAN)])
    printed(rank)
    loss = rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    rank.backward(born, [t(1.0)], [t(NAN)])
    assert named(run.analyze(tmp_path)) == [(0, born)]


@pytest.mark.parametrize("views", [False, True], ids=["few records", "all records"])
@pytest.mark.parametrize("checked", [True, False], ids=["a check before", "printed alone"])
def test_what_printed_it_is_not_the_check(checked: bool, views: bool, tmp_path: Path) -> None:
    """An evaluation prints weights with the NaN of a padded row, which it has replaced: it ended as it should."""
    run = Run()
    rank = run.rank(0)
    truth = t(True, False, dtype="bool", grad=False)
    rank.op("Torch.softmax", [t(1.0), -1], [t(NAN)])
    rank.op("Torch.nan_to_num", [t(NAN)], [t(1.0, 0.0)])
    if checked:
        rank.op("Tensor.__eq__", [t(NAN), t(NAN)], [truth])
    printed(rank, views=views)
    assert run.analyze(tmp_path).exit_code == (1 if checked else 0)


def filtered(tmp_path: Path, *, into_loss: bool, apart: int = 0) -> Report:
    """The finite elements are picked out, and their mean is the result; both looked at together, or ``apart`` records
    behind the NaN of a long dump."""
    run = Run()
    rank = run.rank(0)
    truth = t(True, False, dtype="bool", grad=False)
    rank.op("Torch.sqrt", [t(1.0, -1.0)], [t(NAN, grad=into_loss)])
    rank.skip(apart)
    rank.op("Torch.isfinite", [t(NAN, grad=into_loss)], [truth])
    some = t(0.75, 0.25, shape=(20,), grad=into_loss)
    rank.op("Torch.masked_select", [t(NAN, grad=into_loss), truth], [some])
    rank.op("Tensor.ne", [some], [truth])
    rank.op("Tensor.mean", [some], [t(0.5, 0.5, shape=(), grad=into_loss)])
    rank.skip(700 if apart else 0)
    return run.analyze(tmp_path)


@pytest.mark.parametrize("into_loss", [True, False], ids=["training", "evaluation"])
def test_a_selection_that_is_used_drops(into_loss: bool, tmp_path: Path) -> None:
    report = filtered(tmp_path, into_loss=into_loss)
    assert (report.verdict, report.exit_code) == (Verdict.CLEAN, 0)


@pytest.mark.parametrize("apart", range(248, 254))
def test_a_selection_at_the_edge_of_what_was_looked_at_drops(apart: int, tmp_path: Path) -> None:
    """What reads the elements stands behind the last record that was looked at."""
    assert filtered(tmp_path, into_loss=False, apart=apart).exit_code == 0
