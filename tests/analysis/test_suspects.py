"""Where anything that matters can begin."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Rank, Run, blank, t
from views import looked_at, suspect

MASK = t(2.0, -INF, grad=False)


def rank() -> Rank:
    made = Run().rank(0)
    made.op("Torch.relu", [t(1.0)], [t(1.0)])
    return made


@pytest.mark.parametrize("bad", [t(NAN), t(INF), t(INF, -INF), t(-INF, -INF), t(2.0, NAN), t(2.0, INF)], ids=repr)
def test_a_bad_value_is_a_suspect_where_it_is_read_and_where_it_is_written(
    bad: dict[str, object], tmp_path: Path
) -> None:
    read, written = rank(), rank()
    reader = read.op("Torch.add", [bad], [t(1.0)])
    writer = written.op("Torch.div", [t(1.0)], [bad])
    assert suspect(read, tmp_path / "read") == reader
    assert suspect(written, tmp_path / "written") == writer


def test_nothing_bad_is_nothing_suspect(tmp_path: Path) -> None:
    assert suspect(rank(), tmp_path) is None


def test_legal_minus_inf_is_no_suspect(tmp_path: Path) -> None:
    made = rank()
    made.op("Tensor.masked_fill", [t(2.0), -INF], [MASK])
    made.op("Torch.add", [MASK, t(1.0)], [t(3.0, -INF)])
    made.op("Functional.softmax", [t(3.0, -INF)], [t(1.0, 0.0)])
    view, watch = looked_at(made, tmp_path)
    assert view.overview.suspect is None
    assert watch.benign == {
        "legal_minus_inf": (1, "Tensor.masked_fill.0.forward"),
        "inherited_minus_inf": (1, "Torch.add.0.forward"),
    }


def test_a_mask_from_outside_is_counted_until_one_is_written(tmp_path: Path) -> None:
    made = rank()
    made.op("Functional.scaled_dot_product_attention", [t(1.0), MASK], [t(1.0)])
    made.op("Torch.add", [t(1.0), MASK], [t(3.0, -INF)])
    made.op("Functional.softmax", [t(3.0, -INF)], [t(1.0, 0.0)])
    _, watch = looked_at(made, tmp_path)
    assert watch.benign == {"mask_from_outside": (2, "Functional.scaled_dot_product_attention.0.forward")}


def test_nothing_but_minus_inf(tmp_path: Path) -> None:
    nothing_else = t(-INF, -INF, grad=False)
    made = rank()
    made.op("Torch.full", [[4, 8], -INF], [nothing_else])
    made.op("Torch.triu", [nothing_else], [t(0.0, -INF)])
    assert suspect(made, tmp_path / "written") is None
    other = rank()
    reader = other.op("Torch.triu", [nothing_else], [t(0.0, -INF)])
    assert suspect(other, tmp_path / "from outside") == reader


def test_minus_inf_from_nowhere(tmp_path: Path) -> None:
    made = rank()
    log = made.op("Torch.log", [t(2.0, 0.0)], [MASK])
    assert suspect(made, tmp_path) == log


@pytest.mark.parametrize(
    "arguments", [[t(1.0, 0.0), -INF], [t(0.0, -3.4e38), t(0.0, -3.4e38)]], ids=["constant", "sum"]
)
def test_minus_inf_that_was_asked_for(arguments: list[object], tmp_path: Path) -> None:
    made = rank()
    made.op("Torch.add", arguments, [t(0.0, -INF)])
    assert suspect(made, tmp_path) is None


def test_a_module_repeats_the_mask_that_was_written_inside(tmp_path: Path) -> None:
    made = rank()
    with made.module("mask", "Mask", [t(2.0)], [MASK]):
        made.op("Tensor.masked_fill", [t(2.0), -INF], [MASK])
    assert suspect(made, tmp_path / "inside") is None
    other = rank()
    with other.module("mask", "Mask", [t(2.0)], [MASK]) as module:
        other.op("Torch.relu", [t(2.0)], [t(2.0)])
    assert suspect(other, tmp_path / "from nowhere") == module


def test_minus_inf_in_a_gradient(tmp_path: Path) -> None:
    made = rank()
    relu = made.op("Torch.relu", [t(1.0)], [t(1.0)])
    gradient = made.backward(relu, [t(1.0)], [MASK])
    assert suspect(made, tmp_path) == gradient


def test_unfilled_memory_is_no_suspect(tmp_path: Path) -> None:
    made = rank()
    made.op("Torch.empty", [4, 8], [t(NAN)])
    made.op("Tensor.narrow", [t(NAN, shape=(64,))], [t(NAN, shape=(32,))])
    reader = made.op("Torch.add", [t(NAN)], [t(NAN)])
    view, watch = looked_at(made, tmp_path)
    assert view.records(3, 4)[0].name.full == reader
    assert view.overview.suspect == 3
    assert [record.name.full for record in watch.garbage] == ["Torch.empty.0.forward", "Tensor.narrow.0.forward"]


def test_who_only_looks_is_no_suspect(tmp_path: Path) -> None:
    made = rank()
    made.op("Torch.isnan", [t(NAN)], [t(1.0, 0.0, dtype="bool")])
    made.op("Torch.argmax", [MASK], [t(3, 3, dtype="int64")])
    assert suspect(made, tmp_path) is None


def test_a_receive_buffer_is_no_suspect(tmp_path: Path) -> None:
    made = rank()
    made.comm(
        "all_gather_into_tensor", [], {"output_tensor": t(NAN), "input_tensor": t(1.0)}, {"output_tensor": t(1.0)}
    )
    assert suspect(made, tmp_path) is None


def test_an_out_buffer_holds_what_nobody_reads(tmp_path: Path) -> None:
    made = rank()
    made.op("Torch.add", [t(1.0)], [t(1.0)], out=t(NAN))
    assert suspect(made, tmp_path / "nan") is None
    masked = rank()
    add = masked.op("Torch.add", [t(1.0)], [MASK], out=MASK)
    assert suspect(masked, tmp_path / "mask") == add


def test_gradient_of_a_parameter_comes_last(tmp_path: Path) -> None:
    made = rank()
    with made.module("fc", "Linear", [t(1.0)], [t(1.0)]) as module:
        linear = made.op("Functional.linear", [t(1.0), t(1.0)], [t(1.0)])
    gradient = made.parameters_grad(module, weight=t(NAN))
    assert suspect(made, tmp_path / "alone") == gradient
    born = made.backward(linear, [t(1.0)], [t(NAN)])
    assert suspect(made, tmp_path / "with its reason") == born


def test_what_the_user_ruled_out_is_no_suspect(tmp_path: Path) -> None:
    made = rank()
    first = made.op("Torch.div", [t(1.0)], [t(NAN)])
    second = made.op("Torch.add", [t(NAN)], [t(NAN)])
    assert suspect(made, tmp_path / "first") == first
    assert suspect(made, tmp_path / "second", frozenset({first})) == second


def test_a_saturated_product_is_found_where_there_is_float16(tmp_path: Path) -> None:
    large, limit = t(3000.0, dtype="float16", shape=(64, 64)), t(65504.0, dtype="float16", shape=(64, 64))
    made = rank()
    made.op("Tensor.masked_fill", [large, -65504.0], [t(1.0, -65504.0, dtype="float16")])
    made.op("Torch.matmul", [large, large], [limit])
    view, _ = looked_at(made, tmp_path / "among the first")
    assert view.overview.saturated == 2
    late = rank()
    late.skip(200)
    late.op("Torch.matmul", [large, large], [limit])
    view, _ = looked_at(late, tmp_path / "later")
    assert view.overview.saturated is None


def test_records_without_statistics_are_told(tmp_path: Path) -> None:
    made = rank()
    made.op("Torch.relu", [blank()], [blank()])
    made.op("Torch.div", [t(1.0)], [t(NAN)])
    made.op("Torch.relu", [blank()], [t(1.0)])
    view, _ = looked_at(made, tmp_path)
    assert [problem.detail for problem in view.overview.problems] == [
        "null statistics: 1 record (first: Torch.relu.1.forward) of 4",
        "1 record (first: Torch.relu.2.forward) of 4",  # settled by its finite result
    ]
