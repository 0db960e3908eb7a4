"""The check of every step: one flag for each kind of value, the same on all ranks, without waiting for the device."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
import torch.distributed as dist

from firstnan.dump.guard_file import StepValues, Trigger, value_of
from firstnan.recording.state import local
from firstnan.recording.values import is_distributed


class Check(Enum):
    """What the guard looks at after every step."""

    LOSS = "loss"
    """What the step returns. Nearly free."""
    GRADIENTS = "gradients"
    """Also the largest absolute value of all gradients."""


@dataclass(slots=True)
class Values:
    """The checked values of one run of a step, on their device."""

    loss: torch.Tensor | None
    gradient_norm: torch.Tensor | None

    def on_host(self) -> StepValues:
        """Waits for the device."""
        return StepValues(*(None if v is None else value_of(float(v)) for v in (self.loss, self.gradient_norm)))


class NoAnswerError(Exception):
    """A rank did not answer in the time of the process group."""


class Flag:
    """Whether loss and gradient norm are bad on any rank. The answer is under way until :meth:`read`."""

    def __init__(self, values: Values, device: torch.device, group: Any) -> None:
        with torch.no_grad():
            bits = [
                torch.zeros((), device=device) if v is None else (~torch.isfinite(v)).to(device, torch.float32)
                for v in (values.loss, values.gradient_norm)
            ]
            self._bits = torch.stack(bits)
        self._work = None
        if is_distributed():
            try:
                self._work = dist.all_reduce(self._bits, dist.ReduceOp.MAX, group, async_op=True)
            except RuntimeError as error:
                raise NoAnswerError(str(error)) from error

    def read(self) -> frozenset[Trigger]:
        """The kinds of values that are bad on some rank.

        Raises:
            NoAnswerError: a rank did not answer in the group's time.
        """
        if self._work is not None:
            try:
                self._work.wait()
            except RuntimeError as error:
                raise NoAnswerError(str(error)) from error
        loss, gradient = self._bits.tolist()
        return frozenset(t for t, bit in ((Trigger.LOSS, loss), (Trigger.GRADIENT_NORM, gradient)) if bit)


def agree(numbers: Sequence[int], device: torch.device, group: Any) -> tuple[int, ...]:
    """The largest of each number over all ranks.

    Raises:
        NoAnswerError: a rank did not answer in the group's time.
    """
    together = torch.tensor(list(numbers), dtype=torch.int64, device=device)
    if is_distributed():
        try:
            dist.all_reduce(together, dist.ReduceOp.MAX, group)
        except RuntimeError as error:
            raise NoAnswerError(str(error)) from error
    return tuple(int(n) for n in together.tolist())


def values_of(result: object, check: Check, parameters: Sequence[torch.Tensor], device: torch.device) -> Values:
    """The values to check after a run: one-element tensors and floats that it returned, and its gradients.

    A result can be a loss, a list of losses, a mapping (``{"loss": ...}``) or nothing (a pipeline stage without loss).
    """
    with torch.no_grad():
        losses = [one.detach().reshape(()).to(device, _widest(device)) for one in _losses(result, device)]
        loss = None if not losses else losses[0] if len(losses) == 1 else torch.stack(losses).sum()
        norm = gradient_norm(parameters, device) if check is Check.GRADIENTS else None
    return Values(loss, norm)


def _losses(result: object, device: torch.device) -> Iterator[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        if result.numel() == 1 and result.is_floating_point():
            yield local(result)
    elif isinstance(result, float):
        yield torch.tensor(result, device=device)
    elif isinstance(result, Mapping):
        for one in result.values():
            yield from _losses(one, device)
    elif isinstance(result, tuple | list):
        for one in result:
            yield from _losses(one, device)


def gradient_norm(parameters: Sequence[torch.Tensor], device: torch.device) -> torch.Tensor | None:
    """The largest absolute value of all gradients, NaN if one holds a NaN; None without gradients."""
    there = [g for p in parameters for g in (getattr(p, "main_grad", None), p.grad) if g is not None]
    dense = [local(g) if local(g).layout is torch.strided else g.coalesce().values() for g in there]
    norms = torch._foreach_norm([g for g in dense if g.numel()], math.inf) if dense else []
    if not norms:
        return None
    return torch.stack([n.to(device, _widest(device)) for n in norms]).amax()


def _widest(device: torch.device) -> torch.dtype:
    """A dtype in which no finite value becomes infinite."""
    return torch.float32 if device.type == "mps" else torch.float64
