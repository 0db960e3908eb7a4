"""Two dumps held against each other: the first record that differs, and what has no counterpart."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_dumps import NAN, forward, rank_folder, scalar, tensor, text

from firstnan.cli import main as cli
from firstnan.dump.errors import InputError, UsageError
from firstnan.dump.options import Options
from firstnan.run.compare import compare

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "dp2-tp2"
Data = dict[str, Any]
OPTIONS = Options(jobs=1)


def chain(*values: float, dtype: str = "torch.float32") -> Data:
    """Linear after linear, each with the result before it as its input."""
    data, before = {}, 1.0
    for number, value in enumerate(values):
        data[f"Functional.linear.{number}.forward"] = forward(
            [tensor(before, -before, dtype)], output=[tensor(value, -value, dtype)]
        )
        before = value
    return data


def run(path: Path, *ranks: Data, step: int = 0) -> Path:
    for rank, data in enumerate(ranks):
        rank_folder(path / f"step{step}" / f"rank{rank}", text(data), step, rank)
    return path


def test_the_same_run(tmp_path: Path) -> None:
    found = compare(run(tmp_path / "a", chain(1, 2, 3)), run(tmp_path / "b", chain(1, 2, 3)), options=OPTIONS)
    assert (found.differs, found.complete, found.exit_code) == (False, True, 0)


def test_the_first_record_whose_result_differs(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", chain(1, 2, 3, 4)), run(tmp_path / "b", chain(1, 2, 30, 40))
    (rank,) = compare(a, b, options=OPTIONS).ranks
    assert rank.first is not None
    assert (rank.first.op_name, rank.first.begins_here, rank.differing) == ("Functional.linear.2.forward", True, 2)
    assert (rank.first.statistic, rank.first.value_a, rank.first.value_b) == ("Max", 3.0, 30.0)


def test_another_input_is_told_as_one(tmp_path: Path) -> None:
    other = chain(1, 2, 3)
    other["Functional.linear.1.forward"]["input_args"] = [tensor(9.0, -9.0)]
    (rank,) = compare(run(tmp_path / "a", chain(1, 2, 3)), run(tmp_path / "b", other), options=OPTIONS).ranks
    assert rank.first is not None
    assert (rank.first.op_name, rank.first.begins_here) == ("Functional.linear.1.forward", False)


@pytest.mark.parametrize(("dtype", "small", "large"), [("float32", 5e-5, 5e-4), ("bfloat16", 1e-2, 1e-1)])
def test_the_stated_tolerance(tmp_path: Path, dtype: str, small: float, large: float) -> None:
    a = run(tmp_path / "a", chain(1.0, dtype=f"torch.{dtype}"))
    for change, differs in ((small, False), (large, True)):
        b = run(tmp_path / str(change), chain(1.0 + change, dtype=f"torch.{dtype}"))
        assert compare(a, b, options=OPTIONS).differs is differs


def test_noise_is_what_healthy_runs_differ_by(tmp_path: Path) -> None:
    a, noise = run(tmp_path / "a", chain(1, 2, 3)), run(tmp_path / "c", chain(1, 2.02, 3))
    near, far = run(tmp_path / "near", chain(1, 2, 3.06)), run(tmp_path / "far", chain(1, 2, 3.9))
    assert compare(a, near, options=OPTIONS).differs
    assert not compare(a, near, noise, OPTIONS).differs
    assert compare(a, far, noise, OPTIONS).differs
    early = run(tmp_path / "early", chain(1.06, 2, 3))
    assert compare(a, early, noise, OPTIONS).differs, "noise that comes later excuses nothing"


def test_a_value_that_is_finite_in_one_run_only(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", chain(1, 2)), run(tmp_path / "b", chain(1, NAN))
    (rank,) = compare(a, b, a, OPTIONS).ranks
    assert rank.first is not None
    assert rank.first.statistic == "state"


def test_a_call_more_does_not_move_all_that_follow(tmp_path: Path) -> None:
    inserted = {f"Functional.relu.{n}.forward": forward([tensor()], output=[tensor()]) for n in range(1)}
    data = chain(1, 2, 3, 4)
    names = list(data)
    more = {names[0]: data[names[0]], **inserted, **{name: data[name] for name in names[1:]}}
    (rank,) = compare(run(tmp_path / "a", data), run(tmp_path / "b", more), options=OPTIONS).ranks
    assert (rank.matched, rank.count_only_a, rank.count_only_b) == (4, 0, 1)
    assert rank.only_b == ("Functional.relu.0.forward",)
    assert rank.first is None


def test_another_argument_explains_another_result(tmp_path: Path) -> None:
    def update(rate: float) -> Data:
        return {
            "Tensor.add_.0.forward": forward([tensor()], {"alpha": scalar(rate)}, [tensor(1 + abs(rate), -1.0)]),
        }

    (rank,) = compare(run(tmp_path / "a", update(-0.05)), run(tmp_path / "b", update(-5.0)), options=OPTIONS).ranks
    assert rank.first is not None
    assert (rank.first.statistic, rank.first.value_a, rank.first.value_b) == ("argument", -0.05, -5.0)


def test_the_rank_on_which_it_began_comes_first(tmp_path: Path) -> None:
    taken = chain(1, 2, 3)
    taken["Functional.linear.0.forward"]["input_args"] = [tensor(5.0, -5.0)]
    a = run(tmp_path / "a", chain(1, 2, 3), chain(1, 2, 3))
    b = run(tmp_path / "b", taken, chain(1, 2, 9))
    assert [one.rank for one in compare(a, b, options=OPTIONS).ranks] == [1, 0]


def test_two_steps_of_one_run(tmp_path: Path) -> None:
    root = run(run(tmp_path / "a", chain(1, 2)), chain(1, 3), step=1)
    (rank,) = compare(root / "step0", root / "step1", options=OPTIONS).ranks
    assert (rank.step_a, rank.step_b) == (0, 1)
    assert rank.first is not None


def test_what_is_absent_is_told(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", chain(1, 2), chain(1, 2)), run(tmp_path / "b", chain(1, 2))
    found = compare(a, b, options=OPTIONS)
    assert (found.ranks_only_a, found.complete, found.exit_code) == ((1,), False, 4)
    cut = tmp_path / "b" / "step0" / "rank0" / "dump.json"
    cut.write_bytes(cut.read_bytes()[:-60])
    assert not compare(a, b, options=OPTIONS).complete


def test_nothing_in_common(tmp_path: Path) -> None:
    a, b = (
        run(run(tmp_path / "a", chain(1)), chain(1), step=1),
        run(run(tmp_path / "b", chain(1), step=2), chain(1), step=3),
    )
    with pytest.raises(UsageError, match="no step in common"):
        compare(a, b, options=OPTIONS)
    with pytest.raises(InputError):
        compare(a, tmp_path / "nothing", options=OPTIONS)


# -- the command ----------------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    """The example, and the same with another result on one rank."""
    good, bad = tmp_path / "good", tmp_path / "bad"
    for copy in (good, bad):
        shutil.copytree(EXAMPLE, copy)
    file = bad / "step0" / "rank1" / "dump.json"
    document = json.loads(file.read_text("utf-8"))
    record = document["data"]["Functional.linear.1.forward"]["output"][0]
    record["Max"] *= 3
    file.write_text(json.dumps(document, indent=1), "utf-8")
    return str(good), str(bad)


def test_text_json_and_page(pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked: Callable[..., list[str]] = lambda *more: ["compare", *pair, "--jobs", "1", *more]  # noqa: E731
    assert cli.main(asked("--lang", "en")) == 1
    assert "rank 1, step 0, in Functional.linear.1.forward: same inputs" in " ".join(capsys.readouterr().out.split())
    assert cli.main(asked("--lang", "zh")) == 1
    assert "两次运行最早在 rank 1" in capsys.readouterr().out
    assert cli.main(asked("--format", "json")) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "firstnan.comparison/1"
    assert document["ranks"][0]["first"]["op_name"] == "Functional.linear.1.forward"
    page = tmp_path / "page.html"
    assert cli.main(asked("-o", str(page))) == 1
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert cli.main(["compare", pair[0], pair[0], "--jobs", "1"]) == 0
    assert cli.main(["compare", pair[0], str(tmp_path / "none")]) == 3
    assert cli.main(asked("-o", f"{pair[0]}/step0/a.txt")) == 2
