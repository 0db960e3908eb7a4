"""Changes of the analysis that no other test noticed (see tools/mutation_check.py): legal values and large ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, Rank, Run, record, t

from firstnan.answer.model import RunUp
from firstnan.causes.mechanisms.large_value_propagation import first_jump
from firstnan.operators.table import load
from firstnan.rank.taint.legality import Legality


def rank0() -> Rank:
    return Run().rank(0)


def judged(legality: Legality, rank: Rank, name: str, root: Path) -> bool:
    made = record(rank, name, root)
    return legality.legal_output(made, made.outputs[0], made.inputs)


def test_a_mask_over_a_mask_is_counted_as_a_mask(tmp_path: Path) -> None:
    """It is legal by itself, and not only because what it reads is."""
    rank, legality = rank0(), Legality(load())
    first = rank.op("Tensor.masked_fill", [t(1.0)], [t(2.0, -INF)])
    second = rank.op("Tensor.masked_fill", [t(2.0, -INF)], [t(1.5, -INF)])
    assert judged(legality, rank, first, tmp_path / "a")
    assert judged(legality, rank, second, tmp_path / "b")
    assert legality.suppressed == {"legal_minus_inf": (2, first)}


def test_a_mask_over_what_is_known_to_be_illegal_is_none(tmp_path: Path) -> None:
    rank, legality = rank0(), Legality(load())
    first = rank.op("Torch.log", [t(2.0, 0.0)], [t(0.69, -INF)])
    second = rank.op("Tensor.masked_fill", [t(0.69, -INF)], [t(0.69, -INF)])
    assert not judged(legality, rank, first, tmp_path / "a")
    assert not judged(legality, rank, second, tmp_path / "b")
    assert legality.suppressed == {}


@pytest.mark.parametrize(
    ("operator", "count", "legal", "counted"),
    [
        ("Functional.softmax", True, True, {"mask_from_outside": (1, "Functional.softmax.0.forward")}),
        ("Functional.softmax", False, True, {}),
        ("Functional.linear", True, False, {}),
    ],
)
def test_a_mask_from_outside_is_counted_where_it_is_asked_for(
    tmp_path: Path, operator: str, count: bool, legal: bool, counted: dict[str, tuple[int, str]]
) -> None:
    rank, legality = rank0(), Legality(load())
    made = record(rank, rank.op(operator, [t(2.0, -INF)], [t(1.0)]), tmp_path)
    assert legality.legal_input(made, made.inputs[0], count=count) is legal
    assert legality.suppressed == counted


def test_an_illegal_value_says_nothing_about_tensors_of_another_size(tmp_path: Path) -> None:
    rank, legality = rank0(), Legality(load())
    assert not judged(legality, rank, rank.op("Torch.log", [t(2.0, 0.0)], [t(0.69, -INF)]), tmp_path / "a")
    read = rank.op("Functional.softmax", [t(0.69, -INF, shape=(4, 4)), t(0.69, -INF), t(0.69, -1.0)], [t(1.0)])
    made = record(rank, read, tmp_path / "b")
    assert [legality.legal_input(made, tensor) for tensor in made.inputs] == [True, False, False]


@pytest.mark.parametrize(
    ("before", "after", "is_jump"),
    [(100.0, 1e6, True), (100.0, 999_999.0, False), (101.0, 1e6, False), (0.001, 1e6, True), (None, 1e6, True)],
)
def test_where_an_absurd_value_entered(before: float | None, after: float, is_jump: bool) -> None:
    """Ten thousand times as large, and a million at least."""
    step = RunUp("Torch.mul.0.forward", 0, before, after)
    assert first_jump((step,)) == (step if is_jump else None)
