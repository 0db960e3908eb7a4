"""Run one recorded operator on a device, many times, and compare every result with the CPU.

    python repro.py --device npu:0 --times 100

Run it on the suspect device and on another one. The folder holds all it needs (record.json, tensors.pt, operator
modules beside it); it needs torch, and torch_npu for an Ascend device. It ends with 0 when every result is what the CPU
gets, with 1 when one is not.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent


def filled(tree: Any, tensors: list[torch.Tensor]) -> Any:
    """Arguments out of record.json, with tensors in their places."""
    if isinstance(tree, list):
        return [filled(item, tensors) for item in tree]
    if isinstance(tree, dict):
        kind, value = tree["kind"], tree["value"]
        if kind == "tensor":
            return tensors[value]
        if kind == "dict":
            return {key: filled(item, tensors) for key, item in value}
        if kind == "slice":
            return slice(*value)
        if kind == "dtype":
            return getattr(torch, value)
        if kind == "memory_format":
            return getattr(torch, value)
        if kind == "size":
            return torch.Size(value)
        return Ellipsis if kind == "ellipsis" else float(value)
    return tree


def tensors_of(value: Any) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_of(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_of(item)


def operator_of(record: dict[str, Any], device: str) -> Any:
    """The function that the record's name stands for: on an Ascend device its own operator, elsewhere a formula."""
    from operators.find import find  # type: ignore[import-not-found]  # beside this file

    function = find(record["prefix"], record["api"], record["framework"])
    if function is None:
        raise SystemExit("there is no such operator here")
    if record["prefix"] == "NPU" and device.startswith("npu"):
        import torch_npu

        return getattr(torch_npu, record["api"])
    return function


def run(record: dict[str, Any], saved: dict[str, list[torch.Tensor]], device: str, dtype: Any) -> list[torch.Tensor]:
    """One run on one device; the results, on the CPU."""
    function = operator_of(record, device)

    def placed(tensor: torch.Tensor, wants_gradient: bool = False) -> torch.Tensor:
        tensor = tensor.clone()
        if dtype is not None and tensor.is_floating_point():
            tensor = tensor.to(dtype)
        return tensor.to(device).requires_grad_(wants_gradient and tensor.is_floating_point())

    backward = record["backward"]
    wanted = record["requires_grad"] if backward else [False] * len(saved["arguments"])
    given = [placed(tensor, wants) for tensor, wants in zip(saved["arguments"], wanted)]  # noqa: B905
    leaves = given
    if backward and record["in_place"]:
        given = [tensor * 1 if tensor.requires_grad else tensor for tensor in given]
    with torch.set_grad_enabled(backward):
        result = function(*filled(record["args"], given), **filled(record["kwargs"], given))
    if result is None and given:
        result = given[0]
    results = list(tensors_of(result))
    if backward:
        differentiable = [tensor for tensor in results if tensor.requires_grad]
        gradients = [placed(tensor) for tensor in saved["gradients"]]
        pairs = [(a, b.to(a.dtype)) for a, b in zip(differentiable, gradients) if a.shape == b.shape]  # noqa: B905
        torch.autograd.backward([a for a, _ in pairs], [b for _, b in pairs])
        results = [leaf.grad for leaf in leaves if leaf.grad is not None]
    return [tensor.detach().cpu() for tensor in results]


def described(results: list[torch.Tensor], truth: list[torch.Tensor]) -> tuple[str, int, int]:
    """One line, how many NaN and Inf, and how many of them the CPU does not get."""
    bad = alone = 0
    worst = 0.0
    first: list[int] | None = None
    for result, exact in zip(results, truth):  # noqa: B905
        if not result.is_floating_point() or result.shape != exact.shape:
            continue
        here = ~torch.isfinite(result)
        only = here & torch.isfinite(exact.to(result.dtype))
        bad += int(here.sum())
        alone += int(only.sum())
        if first is None and bool(only.any()):
            first = only.nonzero()[0].tolist()
        error = (result.double() - exact.double()).abs() / exact.double().abs().clamp_min(1e-30)
        finite = error[torch.isfinite(error) & (exact.double().abs() > 1e-6)]
        worst = max(worst, float(finite.max()) if finite.numel() else 0.0)
    text = f"{bad} NaN/Inf, {alone} of them not on the CPU{'' if first is None else f', first at {first}'}"
    return f"{text}; largest relative difference {worst:.3g}", bad, alone


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--device", default="cpu", help="cpu, cuda:0, npu:0 ...")
    options.add_argument("--times", type=int, default=1, help="how often it is run")
    chosen = options.parse_args()
    if chosen.device.startswith("npu"):
        import torch_npu  # noqa: F401
    record = json.loads((HERE / "record.json").read_text("utf-8"))
    saved = torch.load(HERE / "tensors.pt", map_location="cpu", weights_only=True)
    cpu = run(record, saved, "cpu", None)
    print("CPU            ", described(cpu, cpu)[0])
    try:
        print("CPU, float64   ", described(run(record, saved, "cpu", torch.float64), cpu)[0])
    except (RuntimeError, TypeError, ValueError) as error:
        print("CPU, float64    not possible:", type(error).__name__)
    if not record["backward"]:
        print("recorded       ", described(saved["recorded"], cpu)[0])
    differing = 0
    before: list[torch.Tensor] | None = None
    unstable = 0
    for number in range(chosen.times):
        results = run(record, saved, chosen.device, None)
        line, _, alone = described(results, cpu)
        differing += alone > 0
        same = before is None or all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(results, before))  # noqa: B905
        unstable += not same
        before = results
        if number < 3 or not same or alone:
            print(f"{chosen.device} run {number + 1:<6}", line)
    print(f"{chosen.device}: {differing} of {chosen.times} runs give NaN/Inf that the CPU does not")
    print(f"{chosen.device}: {unstable} runs differ from the run before")
    return 1 if differing or unstable else 0


if __name__ == "__main__":
    sys.exit(main())
