"""What a recorded step looks like on disk, and what the analysis makes of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

from nets import batch, loss_of, seeded_net  # noqa: E402

import firstnan  # noqa: E402
from firstnan.dump.errors import OutputError, UsageError  # noqa: E402
from firstnan.recording.recorder import StepRecorder  # noqa: E402
from firstnan.recording.writer import write  # noqa: E402

pytestmark = pytest.mark.torch


def _recorded(tmp_path: Path, net: Any, function: Any) -> dict[str, Any]:
    with firstnan.record(net, tmp_path / "dump"):
        function()
    return _data(tmp_path / "dump")


def _data(dump: Path) -> dict[str, Any]:
    document = json.loads((dump / "step0" / "rank0" / "dump.json").read_text())
    data = document["data"]
    assert isinstance(data, dict)
    return data


def test_the_operator_the_line_and_the_mechanism_are_found(tmp_path: Path) -> None:
    net = seeded_net()
    with firstnan.record(net, tmp_path / "dump"):
        loss_of(net, batch(0), 400.0).backward()
    report = firstnan.analyze(tmp_path / "dump")
    (cause,) = report.root_causes
    assert (cause.op_name, cause.mechanism.kind.value, cause.module) == ("Torch.exp.0.forward", "exp_overflow", "gate")
    assert cause.location is not None
    assert cause.location.file == str(Path(__file__).with_name("nets.py"))
    assert cause.location.source == "weights = torch.exp(self.scores(x))"


def test_a_healthy_step_is_clean_and_complete(tmp_path: Path) -> None:
    net = seeded_net(checkpointed=True)
    with firstnan.record(net, tmp_path / "dump"):
        loss_of(net, batch(0)).backward()
    report = firstnan.analyze(tmp_path / "dump")
    assert (report.verdict.value, report.complete, report.input.problems) == ("clean", True, ())


def test_files_are_spelled_as_json_with_an_indent_of_one(tmp_path: Path) -> None:
    net = seeded_net()
    _recorded(tmp_path, net, lambda: loss_of(net, batch(0), 400.0).backward())
    for name in ("dump.json", "construct.json", "stack.json"):
        text = (tmp_path / "dump" / "step0" / "rank0" / name).read_text()
        assert text == json.dumps(json.loads(text), indent=1)


@pytest.mark.parametrize(
    ("tensor", "numbers"),
    [
        (torch.tensor([1.0, -2.0]), (1.0, -2.0, -0.5, math.sqrt(5.0))),
        (torch.tensor([1.0, math.inf]), (math.inf, 1.0, math.inf, math.inf)),
        (torch.tensor([-math.inf, 1.0]), (1.0, -math.inf, -math.inf, math.inf)),
        (torch.tensor(-3.0), (-3.0, -3.0, -3.0, -3.0)),
        (torch.tensor([1, 7]), (7, 1, None, None)),
        (torch.tensor([True, False]), (True, False, None, None)),
        (torch.tensor([1e300], dtype=torch.float64), (1e300, 1e300, None, None)),
        (torch.tensor([3 + 4j]), (5.0, 5.0, None, None)),
        (torch.empty(0), (None, None, None, None)),
        (torch.empty(2, device="meta"), (None, None, None, None)),
        (torch.zeros(2, dtype=torch.float8_e4m3fn), (None, None, None, None)),
        (torch.tensor([1, 60000], dtype=torch.uint16), (60000, 1, None, None)),
        (torch.eye(2).to_sparse(), (None, None, None, None)),
    ],
    ids=str,
)
def test_statistics_of_one_tensor(tmp_path: Path, tensor: Any, numbers: tuple[Any, ...]) -> None:
    data = _recorded(tmp_path, torch.nn.Identity(), lambda: torch.clone(tensor))
    (entry,) = data["Torch.clone.0.forward"]["input_args"]
    found = tuple(entry[key] for key in ("Max", "Min", "Mean", "Norm"))
    assert found == pytest.approx(numbers) if None not in numbers else found == numbers
    assert entry["shape"] == list(tensor.shape)


def test_a_nan_makes_all_four_statistics_nan(tmp_path: Path) -> None:
    data = _recorded(tmp_path, torch.nn.Identity(), lambda: torch.tensor([1.0, math.nan]).exp())
    (entry,) = data["Tensor.exp.0.forward"]["output"]
    assert all(math.isnan(entry[key]) for key in ("Max", "Min", "Mean", "Norm"))


def test_a_write_in_place_is_seen_before_and_after(tmp_path: Path) -> None:
    x = torch.ones(3)

    def step() -> None:
        x.mul_(2.0)
        x.add_(1.0)
        x[0] = math.nan
        x.exp()

    data = _recorded(tmp_path, torch.nn.Identity(), step)
    maxima = [(r["input_args"][0]["Max"], (r["output"][0] or {}).get("Max")) for r in data.values()]
    assert maxima[:2] == [(1.0, 2.0), (2.0, 3.0)]
    assert maxima[2] == (3.0, None)
    assert math.isnan(maxima[3][0])


def test_running_statistics_are_looked_at_again(tmp_path: Path) -> None:
    """Batch normalisation writes to them without a new version."""
    norm = torch.nn.Sequential(torch.nn.BatchNorm1d(1))
    x = torch.tensor([[2.0], [4.0]])
    data = _recorded(tmp_path, norm, lambda: (norm(x), norm(x)))
    means = [data[f"Functional.batch_norm.{n}.forward"]["input_args"][1]["Max"] for n in (0, 1)]
    assert means == pytest.approx([0.0, 0.3])


def test_a_view_repeats_the_statistics_of_its_elements(tmp_path: Path) -> None:
    x = torch.tensor([[1.0, 5.0], [2.0, 3.0]])

    def step() -> None:
        y = x.exp().t()
        y[0].sum()
        x.view(2, 2, 1).expand(2, 2, 3).exp()

    data = _recorded(tmp_path, torch.nn.Identity(), step)
    made, turned = data["Tensor.exp.0.forward"]["output"][0], data["Tensor.t.0.forward"]["output"][0]
    assert [made[k] for k in ("Max", "Min", "Norm")] == [turned[k] for k in ("Max", "Min", "Norm")]
    assert data["Tensor.__getitem__.0.forward"]["output"][0]["shape"] == [2]
    assert data["Tensor.expand.0.forward"]["output"][0]["Norm"] == pytest.approx(math.sqrt(3 * 39.0))


def test_operators_have_the_names_of_python(tmp_path: Path) -> None:
    x = torch.ones(2, 2)

    def step() -> None:
        y = x + 1
        y = y.add(1)
        y += 1
        y = -y @ x
        torch.linalg.vector_norm(y / 2)
        torch.nn.functional.relu(y)

    names = [name.rpartition(".0.")[0] for name in _recorded(tmp_path, torch.nn.Identity(), step)]
    assert names == [
        "Tensor.__add__",
        "Tensor.add",
        "Tensor.__iadd__",
        "Tensor.__neg__",
        "Tensor.__matmul__",
        "Tensor.__truediv__",
        "Torch.linalg.vector_norm",
        "Functional.relu",
    ]


def test_gradients_and_modules_are_recorded_in_order(tmp_path: Path) -> None:
    net = seeded_net()
    names = list(_recorded(tmp_path, net, lambda: loss_of(net, batch(0)).backward()))
    after = names[names.index("Functional.cross_entropy.0.forward") + 1 :]
    assert after[0] == "Functional.cross_entropy.0.backward"
    assert after.index("Functional.linear.1.backward") < after.index("Module.out.Linear.parameters_grad.0")
    assert after.index("Module.out.Linear.parameters_grad.0") < after.index("Torch.exp.0.backward")
    assert names.index("Torch.exp.0.forward") < names.index("Module.gate.Gate.forward.0")
    callers = json.loads((tmp_path / "dump" / "step0" / "rank0" / "construct.json").read_text())
    assert callers["Torch.exp.0.backward"] == "Module.gate.Gate.backward.0"
    assert callers["Functional.linear.0.forward"] == "Module.gate.scores.Linear.forward.0"
    assert callers["Module.gate.scores.Linear.forward.0"] == "Module.gate.Gate.forward.0"


def test_recomputed_calls_are_recorded_and_the_early_stop_is_no_failure(tmp_path: Path) -> None:
    net = seeded_net(checkpointed=True)
    data = _recorded(tmp_path, net, lambda: loss_of(net, batch(0)).backward())
    assert "Torch.exp.1.forward" in data
    assert [name for name, record in data.items() if name.endswith("forward") and "output" not in record] == []


def test_a_call_that_raises_has_no_output_and_the_files_are_written(tmp_path: Path) -> None:
    net = seeded_net()
    with pytest.raises(RuntimeError, match="shapes"), firstnan.record(net, tmp_path / "dump"):
        torch.ones(2, 3) @ torch.ones(2, 3)
    assert list(_data(tmp_path / "dump")["Tensor.__matmul__.0.forward"]) == ["input_args", "input_kwargs"]


def test_nothing_stays_behind(tmp_path: Path) -> None:
    net = seeded_net()
    backward = torch.autograd._engine_run_backward
    loss = loss_of(net, batch(0))
    with firstnan.record(net, tmp_path / "dump"):
        loss = loss_of(net, batch(0))
        loss.backward(retain_graph=True)
    before = (tmp_path / "dump" / "step0" / "rank0" / "dump.json").read_bytes()
    loss.backward()
    assert (tmp_path / "dump" / "step0" / "rank0" / "dump.json").read_bytes() == before
    assert torch.autograd._engine_run_backward is backward
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in net.modules())
    assert all(not p._post_accumulate_grad_hooks for p in net.parameters() if p._post_accumulate_grad_hooks is not None)


def test_recording_changes_no_number(tmp_path: Path) -> None:
    plain, recorded = seeded_net(checkpointed=True), seeded_net(checkpointed=True)
    torch.manual_seed(1)
    first = loss_of(plain, batch(0))
    first.backward()
    torch.manual_seed(1)
    with firstnan.record(recorded, tmp_path / "dump"):
        second = loss_of(recorded, batch(0))
        second.backward()
    assert torch.equal(first, second)
    for mine, other in zip(plain.parameters(), recorded.parameters(), strict=True):
        assert torch.equal(mine.grad, other.grad)
    assert all(torch.equal(a, b) for a, b in zip(plain.buffers(), recorded.buffers(), strict=True))


def test_a_dump_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    net = seeded_net()
    with firstnan.record(net, tmp_path / "dump"):
        loss_of(net, batch(0))
    before = (tmp_path / "dump" / "step0" / "rank0" / "dump.json").read_bytes()
    with pytest.raises(UsageError), firstnan.record(net, tmp_path / "dump"):
        pytest.fail("the block has run")
    assert (tmp_path / "dump" / "step0" / "rank0" / "dump.json").read_bytes() == before


def test_a_dump_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = StepRecorder(seeded_net())
    recorder.record(lambda: torch.ones(2).exp())

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OutputError, match="No space left"):
        write(recorder.step, tmp_path / "step0" / "rank0")
    assert list((tmp_path / "step0").iterdir()) == []


def test_several_models_are_told_apart(tmp_path: Path) -> None:
    nets = [torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.nn.Sequential(torch.nn.Linear(2, 2))]
    data = _recorded(tmp_path, nets, lambda: nets[1](nets[0](torch.ones(1, 2))))
    assert {"Module.0.0.Linear.forward.0", "Module.1.0.Linear.forward.0"} <= set(data)


def test_arguments_keep_their_kinds(tmp_path: Path) -> None:
    x = torch.ones(2, 3)

    def step() -> None:
        torch.sum(x, dim=1, keepdim=True, dtype=torch.float64)
        x[0, 1:, ...].max(0)

    data = _recorded(tmp_path, torch.nn.Identity(), step)
    assert data["Torch.sum.0.forward"]["input_kwargs"] == {
        "dim": {"type": "int", "value": 1},
        "keepdim": {"type": "bool", "value": True},
        "dtype": {"type": "torch.dtype", "value": "torch.float64"},
    }
    assert data["Tensor.__getitem__.0.forward"]["input_args"][1] == [
        {"type": "int", "value": 0},
        {"type": "slice", "value": [1, None, None]},
        {"type": "ellipsis", "value": "..."},
    ]
    values, places = data["Tensor.max.0.forward"]["output"]
    assert (values["dtype"], places["dtype"]) == ("torch.float32", "torch.int64")
