"""One record made ready to be run: its operator, its inputs, its recorded result.

Backward: the forward call is made again, and the gradients are taken where MSProbe takes them, at the node of the first
result (``grad_fn``): so they stand in the node's order, not in that of the arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from msgspec import Struct
from torch import Tensor

from firstnan.answer.replay import NotRun
from firstnan.dump.names import parse_name
from firstnan.dump.records import Direction, RecordKind, RecordName
from firstnan.replaying.arguments import Arguments, Change, Leaf, decode, raw_tensors, tensors_of
from firstnan.replaying.names import Operator, check_chance, resolve
from firstnan.replaying.operators.npu import NoReferenceError
from firstnan.replaying.refusal import RefusedError
from firstnan.replaying.tensors import TensorFolder

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class RankTensors(Struct, frozen=True):
    """One rank's dump with its tensors: dump.json as JSON values, and the folder of tensors."""

    records: Mapping[str, Mapping[str, object]]
    framework: str | None
    folder: TensorFolder

    @classmethod
    def of(cls, records: Mapping[str, Any], framework: str | None, rank: Path) -> RankTensors:
        """Records that are no objects are left out."""
        kept = {name: raw for name, raw in records.items() if isinstance(raw, dict)}
        return cls(kept, framework, TensorFolder(rank))


class Experiment(Struct, frozen=True):
    """Everything that one record's run needs."""

    name: RecordName
    operator: Operator
    args: Arguments
    kwargs: Arguments
    gradients: tuple[Leaf | None, ...] | None
    """Gradients of the results, of a backward record; None: forward."""
    recorded: tuple[Leaf, ...]
    """The recorded result."""

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The tensors that go in: arguments, then gradients."""
        given = tuple(leaf for leaf in self.gradients or () if leaf is not None)
        return (*self.args.leaves, *self.kwargs.leaves, *given)

    def run(self, change: Change | None = None, dtype: torch.dtype | None = None) -> list[Tensor | None]:
        """The result from the recorded inputs, one entry for each recorded tensor (None: nothing to compare it with).

        ``change`` is applied to every floating tensor that goes in; with ``dtype`` they are cast to it first, and so is
        every dtype among the arguments.

        Raises:
            RefusedError: it cannot be run, or its result has another form than the recorded one.
        """
        leaves = [self._prepared(leaf, change, dtype) for leaf in (*self.args.leaves, *self.kwargs.leaves)]
        if self.operator.is_copy:
            return self._copied(leaves, change, dtype)
        args = self.args.filled(leaves[: len(self.args.leaves)])
        kwargs = self._options(self.kwargs.filled(leaves[len(self.args.leaves) :]), dtype)
        check_chance(self.operator.api, tuple(args), kwargs)
        if self.gradients is None:
            return self._forward(args, kwargs)
        return self._backward(args, kwargs, leaves, change, dtype)

    def results(self) -> list[Tensor]:
        """What the forward call gives, whatever the recorded result looks like.

        Raises:
            RefusedError: it cannot be run.
        """
        leaves = [self._prepared(leaf, None, None) for leaf in (*self.args.leaves, *self.kwargs.leaves)]
        if self.operator.is_copy and leaves:
            return [leaves[0].to(self.recorded[0].tensor.dtype)]
        args = self.args.filled(leaves[: len(self.args.leaves)])
        kwargs = self._options(self.kwargs.filled(leaves[len(self.args.leaves) :]), None)
        with torch.no_grad():
            return tensors_of(self._call(args, kwargs))

    def _prepared(self, leaf: Leaf, change: Change | None, dtype: torch.dtype | None) -> Tensor:
        tensor = leaf.tensor
        if tensor.dtype in FLOATING:
            if dtype is not None:
                tensor = tensor.to(dtype)
            if change is not None:
                tensor = change(tensor)
        if self.operator.works_in_place and tensor is leaf.tensor:
            tensor = tensor.clone()
        if self.gradients is not None and leaf.requires_grad and tensor.is_floating_point():
            tensor = tensor.detach().requires_grad_()
        return tensor

    def _copied(self, leaves: list[Tensor], change: Change | None, dtype: torch.dtype | None) -> list[Tensor | None]:
        """A cast or copy: the recorded result says into which dtype."""
        source = leaves[0].detach() if self.gradients is None and leaves else None
        if self.gradients is not None:
            given = next((leaf for leaf in self.gradients if leaf is not None), None)
            source = None if given is None else self._prepared(given, change, dtype).detach()
        if source is None or len(self.recorded) != 1:
            raise RefusedError(NotRun.OTHER_RESULT, self.operator.api)
        target = self.recorded[0].tensor
        if self.gradients is not None and source.dtype == target.dtype:
            raise RefusedError(NotRun.NO_GRADIENT)  # nothing was cast: the node is that of the operator before
        wide = dtype is not None and target.dtype in FLOATING
        return _checked([source if wide else source.to(target.dtype)], self.recorded)

    def _options(self, kwargs: dict[str, Any], dtype: torch.dtype | None) -> dict[str, Any]:
        kwargs = {key: value for key, value in kwargs.items() if key not in ("device", "generator", "pin_memory")}
        if dtype is None:
            return kwargs
        return {
            key: dtype if isinstance(value, torch.dtype) and value in FLOATING else value
            for key, value in kwargs.items()
        }

    def _call(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        try:
            result = self.operator.call(*args, **kwargs)
        except NoReferenceError as error:
            raise RefusedError(NotRun.NO_OPERATOR, str(error)) from error
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AttributeError) as error:
            raise _raised(error) from error
        if result is None and self.operator.writes_first and args:
            return args[0]
        return result

    def _forward(self, args: list[Any], kwargs: dict[str, Any]) -> list[Tensor | None]:
        with torch.no_grad():
            result = self._call(args, kwargs)
        if self.operator.has_nodes or not isinstance(result, tuple):
            return _checked(tensors_of(result), self.recorded)
        given = [result[at] if at < len(result) else None for at in range(len(self.recorded))]
        return [
            tensor if tensor is not None and tensor.shape == leaf.tensor.shape else None
            for tensor, leaf in zip(given, self.recorded, strict=True)
        ]

    def _backward(
        self,
        args: list[Any],
        kwargs: dict[str, Any],
        leaves: list[Tensor],
        change: Change | None,
        dtype: torch.dtype | None,
    ) -> list[Tensor | None]:
        if self.operator.works_in_place:
            args, kwargs = _unleafed(args), _unleafed(kwargs)
        with torch.enable_grad():
            results = tensors_of(self._call(args, kwargs))
        differentiable = [tensor for tensor in results if tensor.requires_grad]
        if not differentiable or differentiable[0].grad_fn is None:
            raise RefusedError(NotRun.NO_GRADIENT)
        given = [self._prepared(leaf, change, dtype).detach() for leaf in self.gradients or () if leaf is not None]
        pairs = [
            (result, gradient.to(result.dtype))
            for result, gradient in zip(differentiable, given, strict=False)
            if result.shape == gradient.shape
        ]
        if not pairs:
            raise RefusedError(NotRun.NO_GRADIENT)
        try:
            found = _reduced(_at_node(pairs), self.recorded)
            if self.operator.has_nodes and _same_form(found, self.recorded):
                return list(found)
            torch.autograd.backward([result for result, _ in pairs], [gradient for _, gradient in pairs])
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
            raise _raised(error) from error
        return _by_shape([leaf.grad for leaf in leaves if leaf.grad is not None], self.recorded)


def _at_node(pairs: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
    """What the node of the first result makes of the gradients of its results."""
    node = pairs[0][0].grad_fn
    by_number = {result.output_nr: gradient for result, gradient in pairs if result.grad_fn is node}
    with torch.no_grad():
        made = node(*(by_number.get(number) for number in range(max(by_number) + 1)))
    return [made] if torch.is_tensor(made) else [gradient for gradient in made if gradient is not None]


def _reduced(found: Sequence[Tensor], recorded: Sequence[Leaf]) -> list[Tensor]:
    """Gradients of arguments that were broadcast are summed to their size, as the engine does behind the node."""
    if len(found) != len(recorded):
        return list(found)
    return [
        gradient.sum_to_size(leaf.tensor.shape)
        if gradient.shape != leaf.tensor.shape and _is_broadcast(leaf.tensor.shape, gradient.shape)
        else gradient
        for gradient, leaf in zip(found, recorded, strict=True)
    ]


def _is_broadcast(small: Sequence[int], large: Sequence[int]) -> bool:
    pairs = zip(reversed(small), reversed(large), strict=False)
    return len(small) <= len(large) and all(a in (1, b) for a, b in pairs)


def experiment(name: str, rank: RankTensors) -> Experiment:
    """The experiment that a record is.

    Raises:
        RefusedError: the record cannot be run again.
    """
    parsed, raw = parse_name(name), rank.records[name]
    if parsed.kind is not RecordKind.API:
        raise RefusedError(NotRun.MODULE)
    operator = resolve(parsed, rank.framework)
    if "output" not in raw:
        raise RefusedError(NotRun.UNFINISHED)
    if next(raw_tensors(raw["output"]), None) is None:
        raise RefusedError(NotRun.NO_RESULT)
    forward, gradients = raw, None
    if parsed.direction is Direction.BACKWARD:
        found = rank.records.get(f"{parsed.prefix}.{parsed.api}.{parsed.call}.forward")
        if found is None:
            raise RefusedError(NotRun.NO_FORWARD)
        forward = found
        given = decode(raw.get("input"), "input", rank.folder)
        gradients = given.leaves
    positional, keywords = forward.get("input_args", forward.get("input", [])), forward.get("input_kwargs", {})
    if operator.is_copy:  # the dtype it is cast to may not be recorded, and stands in the result
        positional, keywords = positional[:1] if isinstance(positional, list) else [], {}
    args = decode(positional, "input_args", rank.folder)
    kwargs = decode(keywords, "input_kwargs", rank.folder)
    if not isinstance(args.tree, list) or not isinstance(kwargs.tree, dict):
        raise RefusedError(NotRun.ARGUMENT, "arguments of another form")
    recorded = decode(raw["output"], "output", rank.folder)
    return Experiment(parsed, operator, args, kwargs, gradients, recorded.leaves)


def _raised(error: Exception) -> RefusedError:
    """An error of torch in one line; that memory was refused is told as such."""
    words = " ".join(str(error).split())
    if "alloc" in words and "memory" in words:
        return RefusedError(NotRun.TOO_LARGE)
    return RefusedError(NotRun.RAISED, f"{type(error).__name__}: {words[:160]}")


def _unleafed(value: Any) -> Any:
    """Operators that work in place refuse tensors that a gradient is wanted of."""
    if isinstance(value, torch.Tensor):
        return value * 1 if value.requires_grad else value
    if isinstance(value, list):
        return [_unleafed(item) for item in value]
    if isinstance(value, dict):
        return {key: _unleafed(item) for key, item in value.items()}
    return value


def _same_form(found: Sequence[Tensor], recorded: Sequence[Leaf]) -> bool:
    return len(found) == len(recorded) and all(
        tensor.shape == leaf.tensor.shape for tensor, leaf in zip(found, recorded, strict=True)
    )


def _checked(found: list[Tensor], recorded: Sequence[Leaf]) -> list[Tensor | None]:
    if not _same_form(found, recorded):
        here = [list(tensor.shape) for tensor in found[:4]]
        there = [list(leaf.tensor.shape) for leaf in recorded[:4]]
        raise RefusedError(NotRun.OTHER_RESULT, f"{here} here, {there} recorded")
    return list(found)


def _by_shape(gradients: Sequence[Tensor], recorded: Sequence[Leaf]) -> list[Tensor | None]:
    """Gradients of the arguments in the place of recorded ones, where the shapes leave one way only."""
    found: list[Tensor | None] = []
    for leaf in recorded:
        fitting = [tensor for tensor in gradients if tensor.shape == leaf.tensor.shape]
        rivals = [other for other in recorded if other.tensor.shape == leaf.tensor.shape]
        found.append(fitting[0] if len(fitting) == len(rivals) == 1 else None)
    if not any(tensor is not None for tensor in found):
        raise RefusedError(NotRun.NO_GRADIENT)
    return found
