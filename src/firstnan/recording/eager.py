"""torch.compile regions run eagerly in the second run: compiled code has no calls to see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch


def compiled_regions(models: Sequence[torch.nn.Module]) -> tuple[str, ...]:
    """Paths of the modules that are compiled; the outermost module is ``(model)``."""
    return tuple(
        path.removesuffix("._orig_mod").removesuffix("_orig_mod") or "(model)"
        for model in models
        for path, module in model.named_modules()
        if _is_compiled(module)
    )


def _is_compiled(module: torch.nn.Module) -> bool:
    return hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None


@contextmanager
def run_eagerly(models: Sequence[torch.nn.Module]) -> Iterator[None]:
    """Everything that was compiled runs as it was written."""
    if hasattr(torch.compiler, "set_stance"):
        with torch.compiler.set_stance("force_eager"):
            yield
        return
    with _original_callables(models):
        yield


@contextmanager
def _original_callables(models: Sequence[torch.nn.Module]) -> Iterator[None]:
    """Before PyTorch 2.6: call the modules themselves. A compiled function that is no module stays compiled."""
    changed: list[tuple[torch.nn.Module, str, object]] = []
    try:
        for module in {id(m): m for model in models for m in model.modules()}.values():
            if hasattr(module, "_orig_mod"):
                changed.append((module, "forward", module.forward))
                module.forward = module._orig_mod.__call__
            elif getattr(module, "_compiled_call_impl", None) is not None:
                changed.append((module, "_compiled_call_impl", module._compiled_call_impl))
                module._compiled_call_impl = None
        yield
    finally:
        for module, name, before in changed:
            setattr(module, name, before)
