"""What a guard and a recorded step cost: processor time of a step, as a ratio to the same step without either.

    python benchmarks/record.py [--rounds 12] [--layers 4] [--width 384] [--tokens 256]

Needs PyTorch; with ``mindstudio-probe`` installed, MSProbe's levels L1 and mix are measured beside, each in a process
of its own, since MSProbe stays in place once it was started. A small decoder in the manner of Llama (normalisation by
root mean square, rotary positions, gated feed-forward) runs on one thread. The ways take turns within a round, so that
what else the machine does hits all of them; each row shows the median over the rounds of the ratio to the bare step of
the same round. Only ratios can be compared between machines.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import firstnan
from firstnan.recording.recorder import StepRecorder

VOCABULARY = 8192
HEADS = 6


class Norm(nn.Module):
    """Normalisation by the root mean square."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Attention(nn.Module):
    """Causal attention with rotary positions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (f(x).view(batch, length, HEADS, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = (t * cos + torch.cat((-t.chunk(2, -1)[1], t.chunk(2, -1)[0]), -1) * sin for t in (q, k))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    """Attention and gated feed-forward, each behind a normalisation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.attention, self.norm2 = Norm(width), Attention(width), Norm(width)
        inner = width * 8 // 3
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), cos, sin)
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """The whole model; gives the loss."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(VOCABULARY, width), Norm(width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.register_buffer("frequencies", 10000.0 ** -(torch.arange(0, width // HEADS, 2) / (width // HEADS)))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        angles = torch.outer(torch.arange(ids.shape[1]), self.frequencies).repeat(1, 2)
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, angles.cos(), angles.sin())
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), ids.flatten())


Step = Callable[[], torch.Tensor]
Way = Callable[[Step], AbstractContextManager[Step]]


@contextmanager
def anomaly_mode(step: Step) -> Iterator[Step]:
    """PyTorch's own search for NaN in backward."""
    with torch.autograd.detect_anomaly():
        yield step


def guarded(model: nn.Module, folder: Path, check: str) -> Way:
    """A guard that finds nothing."""
    guard = firstnan.guard(model, folder / check, check=check)

    def way(step: Step) -> AbstractContextManager[Step]:
        return nullcontext(lambda: guard.step(step))

    return way


def recorded(model: nn.Module, folder: Path, *, written: bool) -> Way:
    """A recorded step, with or without writing its dump."""

    def run(step: Step) -> torch.Tensor:
        if not written:
            loss: torch.Tensor = StepRecorder(model).record(step)
            return loss
        with firstnan.record(model, folder / "record"):
            return step()

    def way(step: Step) -> AbstractContextManager[Step]:
        shutil.rmtree(folder / "record", ignore_errors=True)
        return nullcontext(lambda: run(step))

    return way


def msprobe(model: nn.Module, folder: Path, level: str) -> Way:
    """MSProbe at one level, its files included."""
    from msprobe.pytorch import PrecisionDebugger

    options = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"}
    config = {"task": "statistics", "dump_path": str(folder), "rank": [], "step": [], "level": level}
    file = folder / f"{level}.json"
    file.write_text(json.dumps(config | {"statistics": options}), "utf-8")
    debugger: Any = PrecisionDebugger(config_path=str(file), dump_path=str(folder / level), level=level)

    def run(step: Step) -> torch.Tensor:
        debugger.start(model=model)
        loss = step()
        debugger.stop()
        debugger.step()
        return loss

    return lambda step: nullcontext(lambda: run(step))


def measure(ways: dict[str, Way], model: nn.Module, step: Step, rounds: int) -> dict[str, list[float]]:
    """Seconds of processor time of one step in each round, by way."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            model.zero_grad(set_to_none=True)
            with way(step) as run:
                begin = time.process_time()
                run()
                if number:  # the first round warms up
                    found[name].append(time.process_time() - begin)
    return found


def shown(found: dict[str, list[float]]) -> Iterator[str]:
    """One row for each way."""
    bare = found["bare step"]
    for name, seconds in found.items():
        ratio = statistics.median(one / other for one, other in zip(seconds, bare, strict=True))
        yield f"{name:28} {statistics.median(seconds) * 1e3:9.1f} ms  {ratio:6.3f}"


def main() -> int:
    """Print one row for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rounds", 12), ("layers", 4), ("width", 384), ("tokens", 256)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--msprobe", choices=("L1", "mix"), help="measure this level of MSProbe alone")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Decoder(chosen.layers, chosen.width)
    ids = torch.randint(0, VOCABULARY, (2, chosen.tokens // 2))

    def step() -> torch.Tensor:
        loss: torch.Tensor = model(ids)
        loss.backward()
        return loss

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ways: dict[str, Way] = {"bare step": nullcontext}
        if chosen.msprobe is None:
            ways["guard, loss"] = guarded(model, folder, "loss")
            ways["guard, own gradient norm"] = guarded(model, folder, "gradients")
            ways["recorded"] = recorded(model, folder, written=False)
            ways["recorded and written"] = recorded(model, folder, written=True)
            ways["torch detect_anomaly"] = anomaly_mode
        found = measure(ways, model, step, chosen.rounds)
        if chosen.msprobe is not None:
            ways = {f"MSProbe {chosen.msprobe}": msprobe(model, folder, chosen.msprobe)}
            found |= measure(ways, model, step, chosen.rounds)
    print("\n".join(shown(found)), flush=True)
    if chosen.msprobe is None and importlib.util.find_spec("msprobe"):
        sizes = [f"--{name}={getattr(chosen, name)}" for name in ("rounds", "layers", "width", "tokens")]
        for level in ("L1", "mix"):
            command = [sys.executable, __file__, "--msprobe", level, *sizes]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            print(done.stdout.strip().splitlines()[-1], flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
