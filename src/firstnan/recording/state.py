"""What a step starts from: saved before it, so that the same step can run again.

Saved are random numbers (PyTorch on every device in use, Python, NumPy, generators of the program), buffers, gradients
that are there already (accumulation), and whatever else the program names. Parameters are not copied: that they did
not change is checked.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch


class Stateful(Protocol):
    """Anything with a state of its own, as PyTorch spells it: a loss scaler, a tracker of random numbers."""

    def state_dict(self) -> dict[str, Any]:
        """A copy of the state."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> object:
        """Go back to a state."""


def local(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a DTensor that this process holds; any other tensor itself."""
    part = getattr(tensor, "_local_tensor", tensor)
    return part if isinstance(part, torch.Tensor) else tensor


@dataclass(slots=True)
class _Saved:
    """A tensor and its content. Versions of tensors do not help here: batch normalisation writes without one."""

    tensor: torch.Tensor
    content: torch.Tensor

    @classmethod
    def of(cls, tensor: torch.Tensor) -> _Saved:
        return cls(tensor, local(tensor).detach().clone())

    def restore(self) -> None:
        local(self.tensor).detach().copy_(self.content)


@dataclass(slots=True)
class _Gradient:
    """One attribute of a parameter that holds a gradient: ``grad``, or Megatron's ``main_grad``."""

    parameter: torch.Tensor
    attribute: str
    saved: _Saved | None
    """None: there was no gradient."""

    def restore(self) -> None:
        if self.saved is None:
            setattr(self.parameter, self.attribute, None)
            return
        self.saved.restore()
        setattr(self.parameter, self.attribute, self.saved.tensor)


_GRADIENTS = ("grad", "main_grad")


class Watched:
    """The model and everything else whose state belongs to a step."""

    def __init__(
        self,
        models: Sequence[torch.nn.Module],
        generators: Iterable[torch.Generator] = (),
        also: Iterable[Stateful] = (),
    ) -> None:
        self.models = tuple(models)
        self.generators = tuple(generators)
        self.also = tuple(also)

    def parameters(self) -> list[torch.nn.Parameter]:
        """All parameters, each once."""
        return list({id(p): p for model in self.models for p in model.parameters()}.values())

    def buffers(self) -> list[torch.Tensor]:
        """All buffers, each once."""
        return list({id(b): b for model in self.models for b in model.buffers()}.values())

    def devices(self) -> list[torch.device]:
        """Accelerators that hold parameters or buffers."""
        found = {t.device for t in (*self.parameters(), *self.buffers())}
        return sorted((d for d in found if d.type not in ("cpu", "meta")), key=str)


class StepState:
    """The state at one moment. It holds a copy of the gradients if there are any, and of the buffers."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._random = _RandomState(watched)
        with torch.no_grad():
            self._buffers = [_Saved.of(buffer) for buffer in watched.buffers()]
            self._gradients = [
                _Gradient(p, name, None if (g := getattr(p, name, None)) is None else _Saved.of(g))
                for p in watched.parameters()
                for name in _GRADIENTS
                if name == "grad" or hasattr(p, name)
            ]
        self._also = [(one, one.state_dict()) for one in watched.also]
        self._versions = self._parameter_versions()

    def _parameter_versions(self) -> list[tuple[int, int]]:
        return [(id(p), local(p)._version) for p in self._watched.parameters()]

    def parameters_changed(self) -> bool:
        """Whether a parameter was written to, or replaced, since this state was saved."""
        return self._versions != self._parameter_versions()

    def restore(self) -> None:
        """Put everything back, in place."""
        with torch.no_grad():
            for saved in self._buffers:
                saved.restore()
            for gradient in self._gradients:
                gradient.restore()
        for one, state in self._also:
            one.load_state_dict(state)
        self._random.restore()


class _RandomState:
    """Where every source of random numbers stands."""

    def __init__(self, watched: Watched) -> None:
        self._cpu = torch.get_rng_state()
        self._devices = [(_module_of(d), d, _module_of(d).get_rng_state(*_arguments(d))) for d in watched.devices()]
        self._generators = [(g, g.get_state()) for g in watched.generators]
        self._python = random.getstate()
        numpy = sys.modules.get("numpy")  # a program that does not use it draws nothing from it
        self._numpy = numpy.random.get_state() if numpy is not None else None

    def restore(self) -> None:
        torch.set_rng_state(self._cpu)
        for module, device, state in self._devices:
            module.set_rng_state(state, *_arguments(device))
        for generator, state in self._generators:
            generator.set_state(state)
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)


def _module_of(device: torch.device) -> Any:
    """``torch.cuda``, ``torch.npu`` ..."""
    return getattr(torch, device.type)


def _arguments(device: torch.device) -> tuple[torch.device, ...]:
    return () if device.type == "mps" else (device,)
