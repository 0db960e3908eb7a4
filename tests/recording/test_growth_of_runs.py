"""Runs that diverge tell since when their values grow; healthy warm-ups tell nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

import firstnan  # noqa: E402
from firstnan.answer.growth import GrowthKind  # noqa: E402
from firstnan.answer.model import MechanismKind, Verdict  # noqa: E402

pytestmark = pytest.mark.torch

Parameters = Iterable[Any]
STEPS = 24


class Block(torch.nn.Module):
    """x + w2(relu(w1(norm(x)))), with or without the norm."""

    def __init__(self, *, normed: bool) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(16) if normed else torch.nn.Identity()
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.relu(self.up(self.norm(x))))


def trained(
    folder: Path, optimizer: Callable[[Parameters], Any], *, normed: bool = True, warm_up: int = 0
) -> firstnan.Report:
    """Every step of a small regression recorded, until its loss is not finite."""
    torch.manual_seed(1)
    net = torch.nn.Sequential(*(Block(normed=normed) for _ in range(4)), torch.nn.Linear(16, 1))
    made = optimizer(net.parameters())
    rate = made.param_groups[0]["lr"]
    x = torch.randn(32, 16)
    y = x.sum(1, keepdim=True)
    for step in range(STEPS):
        if warm_up:
            made.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / warm_up)
        made.zero_grad()
        with firstnan.record(net, folder, step=step):
            loss = torch.nn.functional.mse_loss(net(x), y)
            loss.backward()
        if not torch.isfinite(loss):
            break
        made.step()
    return firstnan.analyze(folder, firstnan.Options(jobs=1))


def sgd(rate: float) -> Callable[[Parameters], Any]:
    return lambda parameters: torch.optim.SGD(parameters, lr=rate)


def adam(rate: float) -> Callable[[Parameters], Any]:
    return lambda parameters: torch.optim.Adam(parameters, lr=rate)


DIVERGING: dict[str, dict[str, Any]] = {
    "SGD, a learning rate 100 times too large": {"optimizer": sgd(5.0)},
    "no normalisation": {"optimizer": sgd(0.5), "normed": False},
}


@pytest.mark.parametrize("name", DIVERGING)
def test_a_run_that_diverges_tells_since_when(name: str, tmp_path: Path) -> None:
    report = trained(tmp_path / "dump", **DIVERGING[name])
    assert report.verdict is Verdict.ANOMALY
    assert report.root_causes[0].mechanism.kind is MechanismKind.DIVERGENCE
    assert report.step is not None
    assert GrowthKind.ACTIVATION in {growth.kind for growth in report.run_up_steps}
    for growth in report.run_up_steps:
        assert 0 < growth.since < report.step
        assert growth.rank == 0
        assert growth.name


HEALTHY: dict[str, dict[str, Any]] = {
    "SGD": {"optimizer": sgd(0.02)},
    "SGD that warms up": {"optimizer": sgd(0.02), "warm_up": 10},
    "Adam that warms up": {"optimizer": adam(0.01), "warm_up": 10},
    "Adam, whose steps are bounded at any learning rate": {"optimizer": adam(1.0)},
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_run_that_stays_finite_tells_nothing(name: str, tmp_path: Path) -> None:
    report = trained(tmp_path / "dump", **HEALTHY[name])
    assert (report.verdict, report.run_up_steps) == (Verdict.CLEAN, ())
    assert report.complete
