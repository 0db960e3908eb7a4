"""The guard on one process: when it fires, what it runs again, and that it changes nothing."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

from nets import batch, loss_of, seeded_net  # noqa: E402

import firstnan  # noqa: E402
from firstnan.dump.errors import OutputError  # noqa: E402
from firstnan.dump.folders import RankFolder  # noqa: E402
from firstnan.dump.guard_file import GuardFile, NotFinite, StepValues, Trigger, number_of  # noqa: E402
from firstnan.dump.language import Language  # noqa: E402
from firstnan.read import guard_file  # noqa: E402
from firstnan.recording import closed_loop, eager  # noqa: E402
from firstnan.recording import guard as guard_module  # noqa: E402
from firstnan.recording.outcome import Answer, Failure, Finding, Off  # noqa: E402

pytestmark = pytest.mark.torch

BAD_STEP = 3


def _train(
    out: Path | None,
    *,
    steps: int = 6,
    scale: Callable[[int], float] = lambda step: 400.0 if step == BAD_STEP else 1.0,
    spoil: Callable[[Any, int], None] = lambda *_: None,
    checkpointed: bool = False,
    **options: Any,
) -> tuple[list[str], Any]:
    """The losses of a run, and its guard. Without ``out`` there is none."""
    net = seeded_net(checkpointed=checkpointed)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    guard = None if out is None else firstnan.guard(net, out, **{"analyze": False, **options})
    losses = []
    for step in range(steps):
        ids = batch(step)

        def forward_backward(step: int = step, ids: Any = ids) -> Any:
            loss = loss_of(net, ids, scale(step))
            loss.backward()
            spoil(net, step)
            return loss

        optimizer.zero_grad()
        loss = forward_backward() if guard is None else guard.step(forward_backward)
        optimizer.step()
        losses.append(repr(loss.item()))
    if guard is not None:
        guard.close()
    return losses, guard


def _guard_file(dump: Path, step: int) -> GuardFile:
    folder = RankFolder(step, 0, dump / f"step{step}" / "rank0", f"step{step}/rank0")
    file, problems = guard_file.read(folder)
    assert problems == ()
    assert file is not None
    return file


def _once(net: Any, step: int, *, done: list[int]) -> None:
    """A value that is wrong the first time only."""
    if step == BAD_STEP and not done:
        done.append(step)
        net.out.weight.grad[3, 5] = math.nan


@pytest.mark.parametrize("check", ["loss", "gradients"])
@pytest.mark.parametrize("immediate", [False, True])
def test_fifty_losses_are_the_same_with_and_without_a_guard(tmp_path: Path, check: str, immediate: bool) -> None:
    healthy, _ = _train(None, steps=50, scale=lambda _: 1.0)
    guarded, guard = _train(tmp_path / "d", steps=50, scale=lambda _: 1.0, check=check, immediate=immediate)
    assert guarded == healthy
    assert (guard.findings, guard.off) == ([], None)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("immediate", [False, True])
@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_run_that_turns_bad_goes_on_as_without_a_guard(tmp_path: Path, immediate: bool, checkpointed: bool) -> None:
    plain, _ = _train(None, checkpointed=checkpointed)
    guarded, guard = _train(tmp_path / "d", immediate=immediate, checkpointed=checkpointed)
    assert guarded == plain
    assert "nan" in plain
    (finding,) = guard.findings
    assert (finding.step, finding.trigger, finding.reproduced) == (BAD_STEP, Trigger.LOSS, True)
    (cause,) = firstnan.analyze(tmp_path / "d").root_causes
    assert (cause.step, cause.op_name, cause.mechanism.kind.value) == (BAD_STEP, "Torch.exp.0.forward", "exp_overflow")


def test_a_transient_fault_does_not_come_again(tmp_path: Path) -> None:
    done: list[int] = []
    plain, _ = _train(None, scale=lambda _: 1.0, spoil=lambda net, step: _once(net, step, done=done))
    done.clear()
    guarded, guard = _train(
        tmp_path / "d", scale=lambda _: 1.0, spoil=lambda net, step: _once(net, step, done=done), check="gradients"
    )
    assert guarded == plain
    (finding,) = guard.findings
    assert (finding.trigger, finding.reproduced) == (Trigger.GRADIENT_NORM, False)
    assert finding.again is not None
    assert finding.first.gradient_norm is NotFinite.NAN
    assert math.isfinite(number_of(finding.again.gradient_norm) or math.nan)
    file = _guard_file(tmp_path / "d", BAD_STEP)
    assert (file.reproduced, file.step, file.rank, file.world, file.torch) == (False, BAD_STEP, 0, 1, torch.__version__)


def test_the_second_run_draws_the_same_random_numbers(tmp_path: Path) -> None:
    net = seeded_net()
    seen = []

    def step() -> Any:
        own = torch.rand(1, generator=generator)
        seen.append((torch.rand(1).item(), own.item(), net.norm.running_mean.clone()))
        return loss_of(net, batch(0)) * math.nan

    generator = torch.Generator().manual_seed(5)
    guard = firstnan.guard(net, tmp_path / "d", immediate=True, analyze=False, generators=[generator])
    guard.step(step)
    (one, mine, mean), (two, also_mine, again) = seen
    assert (one, mine) == (two, also_mine)
    assert torch.equal(mean, again)
    assert torch.rand(1, generator=generator).item() != mine


def test_accumulated_gradients_are_the_same_after_a_second_run(tmp_path: Path) -> None:
    def gradients(guard_options: dict[str, Any] | None) -> list[Any]:
        net = seeded_net()
        guard = None if guard_options is None else firstnan.guard(net, tmp_path / "d", analyze=False, **guard_options)
        for micro in range(3):

            def forward_backward(micro: int = micro) -> Any:
                loss = loss_of(net, batch(micro), 400.0 if micro == 2 else 1.0)
                loss.backward()
                return loss

            forward_backward() if guard is None else guard.step(forward_backward)
        if guard is not None:
            guard.close()
            assert [f.step for f in guard.findings] == [2]
        return [p.grad for p in net.parameters()]

    plain, guarded = gradients(None), gradients({"check": "gradients", "immediate": True})
    assert all(torch.equal(a, b) or (torch.equal(a.isnan(), b.isnan())) for a, b in zip(plain, guarded, strict=True))
    assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(plain, guarded, strict=True))


def _scaled(tmp_path: Path, bad: Callable[[int], bool], steps: int, **options: Any) -> Any:
    net, scaler = seeded_net(), torch.amp.GradScaler("cpu", init_scale=8.0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    guard = firstnan.guard(net, tmp_path / "d", check="gradients", scaler=scaler, analyze=False, **options)
    for step in range(steps):

        def forward_backward(step: int = step) -> Any:
            loss = loss_of(net, batch(step))
            scaler.scale(loss).backward()
            if bad(step):
                net.out.weight.grad[0, 0] = math.inf
            return loss

        optimizer.zero_grad()
        guard.step(forward_backward)
        scaler.step(optimizer)
        scaler.update()
    guard.close()
    return guard


def test_a_step_that_the_loss_scaler_skips_is_no_reason_to_fire(tmp_path: Path) -> None:
    assert _scaled(tmp_path, lambda step: step in (1, 2, 4), 6).findings == []


def test_steps_that_are_skipped_again_and_again_are_one(tmp_path: Path) -> None:
    guard = _scaled(tmp_path, lambda step: step >= 1, 8, skipped_steps=4)
    assert [f.step for f in guard.findings] == [4]


def test_a_step_whose_parameters_have_changed_is_not_run_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    net, runs = seeded_net(), []

    def step() -> Any:
        runs.append(1)
        return loss_of(net, batch(0)) * math.nan

    guard = firstnan.guard(net, tmp_path / "d", analyze=False)
    guard.step(step)
    with torch.no_grad():
        net.out.weight.mul_(0.5)  # an optimizer that PyTorch does not know
    guard.step(step)
    guard.step(step)
    assert (len(runs), guard.off, guard.findings) == (3, Off.PARAMETERS_CHANGED, [])
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert not (tmp_path / "d").exists()


def test_the_guard_fires_as_often_as_it_may(tmp_path: Path) -> None:
    _, once = _train(tmp_path / "a", scale=lambda _: 400.0, immediate=True)
    _, twice = _train(tmp_path / "b", scale=lambda _: 400.0, immediate=True, times=2)
    assert ([f.step for f in once.findings], [f.step for f in twice.findings]) == ([0], [0, 1])
    assert sorted(p.name for p in (tmp_path / "b").iterdir()) == ["step0", "step1"]


def test_dumps_of_two_runs_do_not_mix(tmp_path: Path) -> None:
    _train(tmp_path / "d")
    _, guard = _train(tmp_path / "d")
    assert guard.findings[0].dump == tmp_path / "d-2"


def test_elements_of_an_earlier_run_are_not_taken_for_those_of_this_one(tmp_path: Path) -> None:
    (tmp_path / "d-tensors" / "step3").mkdir(parents=True)
    _, guard = _train(tmp_path / "d")
    assert guard.findings[0].dump == tmp_path / "d-2"


def test_each_finding_has_the_answer_of_its_own_step(tmp_path: Path) -> None:
    scale = lambda step: 400.0 if step >= BAD_STEP else 1.0  # noqa: E731
    _, guard = _train(tmp_path / "d", scale=scale, times=2, analyze=True)
    first, second = (finding.answer for finding in guard.findings)
    assert (first.op_name, first.mechanism) == ("Torch.exp.0.forward", "exp_overflow")
    assert second.mechanism == "bad_parameter"


def test_exceptions_of_the_step_pass_through(tmp_path: Path) -> None:
    net = seeded_net()
    guard = firstnan.guard(net, tmp_path / "d")

    def fails() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        guard.step(fails)
    assert guard.step(lambda: loss_of(net, batch(0)).detach()).isfinite()
    assert (guard.off, guard.findings) == (None, [])


def test_an_exception_of_the_second_run_stays_inside(tmp_path: Path) -> None:
    net, runs = seeded_net(), []

    def step() -> Any:
        runs.append(1)
        if len(runs) == 2:
            raise ValueError("the batch is used up")
        return loss_of(net, batch(0)) * math.nan

    guard = firstnan.guard(net, tmp_path / "d", immediate=True, analyze=False)
    assert guard.step(step).isnan()
    file = _guard_file(tmp_path / "d", 0)
    assert (file.reproduced, file.again, file.error) == (None, None, "ValueError: the batch is used up")


def test_a_full_disk_loses_the_dump_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plain, _ = _train(None)

    def full(*_: object) -> None:
        raise OutputError("No space left on device")

    monkeypatch.setattr(guard_module, "write", full)
    guarded, guard = _train(tmp_path / "d", analyze=True)
    assert guarded == plain
    assert (guard.findings[0].dump, guard.findings[0].reproduced, guard.off) == (None, True, None)
    assert "No space left on device" in caplog.text


def test_a_failure_of_the_guard_itself_ends_the_guard_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plain, _ = _train(None)

    def fails(*_: object) -> None:
        raise AttributeError("no such state")

    monkeypatch.setattr(guard_module, "values_of", fails)
    guarded, guard = _train(tmp_path / "d")
    assert (guarded, guard.off) == (plain, Off.FAILED)
    assert "no such state" in caplog.text


def test_nothing_is_done_while_a_graph_is_captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard_module, "_is_capturing", lambda _: True)
    plain, _ = _train(None)
    guarded, guard = _train(tmp_path / "d")
    assert (guarded, guard.off) == (plain, Off.GRAPH_CAPTURE)


@pytest.mark.parametrize("has_stance", [True, False])
def test_compiled_models_run_eagerly_in_the_second_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_stance: bool
) -> None:
    if not has_stance:
        monkeypatch.delattr(torch.compiler, "set_stance")
    torch._dynamo.reset()
    net = seeded_net()
    compiled = torch.compile(net, backend="eager")
    guard = firstnan.guard(compiled, tmp_path / "d", immediate=True, analyze=False)

    def step() -> Any:
        loss = loss_of(compiled, batch(0), 400.0)
        loss.backward()
        return loss

    assert guard.step(step).isnan()
    file = _guard_file(tmp_path / "d", 0)
    assert (file.reproduced, file.eager_regions) == (True, ("(model)",))
    (cause,) = firstnan.analyze(tmp_path / "d").root_causes
    assert (cause.op_name, cause.module) == ("Torch.exp.0.forward", "gate")


def test_a_module_compiled_in_place_is_named() -> None:
    net = seeded_net()
    net.gate.compile(backend="eager")
    assert eager.compiled_regions([net]) == ("gate",)


def test_adapters_with_frozen_weights(tmp_path: Path) -> None:
    """Low-rank adapters: frozen weights have no gradients, and the fault lies in the adapter."""

    class Adapted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = torch.nn.Linear(4, 4).requires_grad_(False)
            self.down, self.up = torch.nn.Linear(4, 2, bias=False), torch.nn.Linear(2, 4, bias=False)

        def forward(self, x: Any) -> Any:
            return self.base(x) + self.up(torch.log(self.down(x).abs() * 0.0))

    torch.manual_seed(0)
    net = torch.nn.Sequential(Adapted())
    guard = firstnan.guard(net, tmp_path / "d", check="gradients", immediate=True, analyze=False)

    def step() -> Any:
        loss = net(torch.ones(3, 4)).sum()
        loss.backward()
        return loss

    guard.step(step)
    (cause,) = firstnan.analyze(tmp_path / "d").root_causes
    assert (cause.op_name, cause.mechanism.kind.value) == ("Torch.log.0.forward", "log_zero")


@pytest.mark.parametrize(
    ("result", "fires"),
    [
        (lambda: torch.tensor(math.nan), True),
        (lambda: math.inf, True),
        (lambda: {"loss": torch.tensor(1.0), "parts": [torch.tensor([math.nan])]}, True),
        (lambda: (torch.tensor(1.0), 2.0), False),
        (lambda: torch.tensor([1.0, math.nan]), False),
        (lambda: torch.tensor(1e300, dtype=torch.float64), False),
        (lambda: None, False),
    ],
)
def test_what_is_looked_at(tmp_path: Path, result: Callable[[], Any], fires: bool) -> None:
    guard = firstnan.guard(seeded_net(), tmp_path / "d", immediate=True, analyze=False)
    guard.step(result)
    assert bool(guard.findings) is fires


def _finding(**changes: Any) -> Finding:
    values = StepValues(NotFinite.NAN)
    return Finding(**{
        "step": 7, "trigger": Trigger.LOSS, "first": values, "again": values, "reproduced": True,
        "dump": Path("nan-dump"), **changes,
    })  # fmt: skip


def test_the_message_tells_place_and_what_to_run(tmp_path: Path) -> None:
    net = seeded_net()
    with firstnan.record(net, tmp_path / "d"):
        loss_of(net, batch(0), 400.0).backward()
    answer = closed_loop.analyze(tmp_path / "d", 0)
    assert (answer.rank, answer.mechanism, answer.failure) == (0, "exp_overflow", None)
    said = closed_loop.message(_finding(answer=answer), Language.EN)
    assert "The same step, run again, is not finite again." in said
    assert "exp overflow (certain) on rank 0, in Torch.exp.0.forward" in said
    assert "nets.py:" in said
    assert "firstnan analyze nan-dump -o report.html" in said
    assert "exp 溢出" in closed_loop.message(_finding(answer=answer), Language.ZH)


def test_an_analysis_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    assert closed_loop.analyze(tmp_path, 0, limit=0.01) == Answer(failure=Failure.TIME_LIMIT)
    assert closed_loop.analyze(tmp_path / "absent", 0) == Answer(failure=Failure.NO_REPORT)
    said = closed_loop.message(_finding(answer=Answer(failure=Failure.TIME_LIMIT)), Language.EN)
    assert "The analysis was stopped at its time limit." in said


def test_one_message_comes_from_a_guard_that_fires(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "firstnan"):
        _, guard = _train(tmp_path / "d", analyze=True, language=Language.EN)
    assert len(caplog.records) == 1
    assert f"the loss of step {BAD_STEP} is not finite (rank 0 has NaN)" in caplog.text
    assert guard.findings[0].answer.mechanism == "exp_overflow"


@pytest.mark.skipif(not closed_loop.can_replay(), reason="records cannot run again here")
def test_the_named_record_runs_again_on_the_cpu(tmp_path: Path) -> None:
    plain, _ = _train(None)
    guarded, guard = _train(tmp_path / "d", analyze=True, language=Language.EN)
    assert guarded == plain
    assert guard.findings[0].replay is not None
    assert guard.findings[0].replay.is_reproduced
    kept = tmp_path / "d-tensors" / f"step{BAD_STEP}" / "rank0" / "dump_tensor_data"
    names = sorted(path.name for path in kept.iterdir())
    assert names == ["Torch.exp.0.forward.input.0.npy", "Torch.exp.0.forward.output.0.npy"]
    assert "Run again on the CPU, it gives the same" in closed_loop.message(guard.findings[0], Language.EN)


def test_guard_json_is_strict_json(tmp_path: Path) -> None:
    _train(tmp_path / "d")

    def no(token: str) -> None:
        pytest.fail(f"not strict: {token}")

    text = (tmp_path / "d" / f"step{BAD_STEP}" / "rank0" / "guard.json").read_text()
    assert json.loads(text, parse_constant=no)["first"] == {"loss": "NaN"}
