"""At which records anything that matters can begin: ``analysis/watch.py``."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Json, Rank, Run, t

from firstnan import rulebook
from firstnan.analysis.watch import Lookout

MASK, NOTHING_ELSE = t(-INF), t(-INF, -INF)


def suspects(rank: Rank, path: Path, excluded: tuple[str, ...] = ()) -> tuple[list[str], Lookout]:
    """Names of the suspects of one rank, and the watch that named them."""
    watch = Lookout(rulebook.load(), 0, frozenset(excluded))
    records = Run({(0, 0): rank}).dumps(path)[0].records
    return [record.name.full for record in records if watch.is_suspect(record)], watch


def test_bad_values_are_suspects(tmp_path: Path) -> None:
    rank = Run().rank(0)
    rank.op("Torch.sin", [t(1.0)], [t(1.0)])
    names = [
        rank.op("Torch.log", [t(1.0)], [t(NAN)]),
        rank.op("Torch.mul", [t(NAN)], [t(1.0)]),
        rank.op("Torch.exp", [t(1.0)], [t(INF)]),
    ]
    assert suspects(rank, tmp_path)[0] == names
    assert suspects(rank, tmp_path, tuple(names[:1]))[0] == names[1:]


def test_legal_minus_inf_is_no_suspect(tmp_path: Path) -> None:
    rank = Run().rank(0)
    rank.op("Tensor.masked_fill", [t(1.0)], [MASK])
    rank.op("Torch.add", [MASK, t(2.0)], [t(2.0, -INF)])
    rank.op("Torch.softmax", [t(2.0, -INF)], [t(1.0, 0.0)])
    found, watch = suspects(rank, tmp_path)
    assert found == []
    assert set(watch.benign) == {"legal_minus_inf", "inherited_minus_inf"}


def test_legal_minus_inf_is_no_suspect_from_outside(tmp_path: Path) -> None:
    rank = Run().rank(0)
    rank.op("Torch.add", [t(2.0), MASK], [t(2.0, -INF)])
    found, watch = suspects(rank, tmp_path)
    assert (found, set(watch.benign)) == ([], {"mask_from_outside"})


def test_legal_minus_inf_is_no_suspect_but_in_backward(tmp_path: Path) -> None:
    rank = Run().rank(0)
    forward = rank.op("Tensor.masked_fill", [t(1.0)], [MASK])
    backward = rank.backward(forward, [t(1.0)], [MASK])
    assert suspects(rank, tmp_path)[0] == [backward]


def test_legal_minus_inf_is_no_suspect_until_something_is_made_of_it(tmp_path: Path) -> None:
    rank = Run().rank(0)
    rank.op("Tensor.masked_fill", [t(1.0)], [MASK])
    summed = rank.op("Torch.mean", [MASK], [t(-INF, -INF, ())])
    turned = rank.op("Torch.neg", [MASK], [t(INF)])
    assert suspects(rank, tmp_path)[0] == [summed, turned]


def test_nothing_but_minus_inf(tmp_path: Path) -> None:
    rank = Run().rank(0)
    read = rank.op("Torch.add", [NOTHING_ELSE, t(1.0)], [NOTHING_ELSE])
    assert suspects(rank, tmp_path / "outside")[0] == [read]
    again = Run().rank(0)
    again.op("Torch.full_like", [t(1.0), -INF], [NOTHING_ELSE])
    again.op("Torch.triu", [NOTHING_ELSE], [NOTHING_ELSE])
    again.op("Torch.add", [NOTHING_ELSE, t(1.0)], [NOTHING_ELSE])
    assert suspects(again, tmp_path / "written")[0] == []


@pytest.mark.parametrize(
    ("operator", "inputs", "suspected"),
    [
        ("Torch.log", [t(1.0, 0.0)], True),
        ("Torch.mul", [t(1.0), -INF], False),
        ("Torch.add", [t(0.0, -3.4e38)] * 2, False),
        ("Torch.add", [t(3e38)] * 2, True),
        ("Torch.cat", [MASK, t(1.0)], False),
    ],
    ids=["logarithm", "constant", "two masks of the lowest number", "large values", "inherited"],
)
def test_minus_inf_from_nowhere(operator: str, inputs: list[Json], suspected: bool, tmp_path: Path) -> None:
    rank = Run().rank(0)
    name = rank.op(operator, inputs, [MASK])
    assert suspects(rank, tmp_path)[0] == ([name] if suspected else [])


def test_gradient_of_a_parameter_comes_last(tmp_path: Path) -> None:
    rank = Run().rank(0)
    with rank.module("fc", "Linear", [t(1.0)], [t(1.0)]) as module:
        pass
    gradient = rank.parameters_grad(module, weight=t(NAN))
    found, watch = suspects(rank, tmp_path)
    assert (found, watch.late) == ([], list(rank.data).index(gradient))


def test_unfilled_memory_is_no_suspect(tmp_path: Path) -> None:
    rank = Run().rank(0)
    memory = rank.op("Torch.empty", [4, 8], [t(NAN)])
    view = rank.op("Tensor.narrow", [t(NAN)], [t(NAN)])
    reader = rank.op("Torch.add", [t(NAN), t(1.0)], [t(NAN)])
    found, watch = suspects(rank, tmp_path)
    assert found == [reader]
    assert [record.name.full for record in watch.garbage] == [memory, view]


def test_receive_buffers_are_no_suspects(tmp_path: Path) -> None:
    rank = Run().rank(0)
    rank.comm("all_gather_into_tensor", [t(NAN), t(1.0)], {}, {0: t(1.0)})
    rank.comm("broadcast", [t(NAN)], {"src": 1}, {0: t(1.0)})
    bad = rank.all_reduce(t(1.0), t(NAN))
    assert suspects(rank, tmp_path)[0] == [bad]


@pytest.mark.parametrize("operator", ["Torch.isnan", "Tensor.__gt__"])
def test_observers_are_no_suspects(operator: str, tmp_path: Path) -> None:
    rank = Run().rank(0)
    rank.op(operator, [t(NAN)], [t(True, False, dtype="bool")])
    assert suspects(rank, tmp_path)[0] == []
