"""Everything that happens in one training step, as the records that MSProbe writes.

===============================  ==================================================
what                             how it is seen
===============================  ==================================================
functions of PyTorch             a ``TorchFunctionMode``; calls inside a call have no record
their gradients                  a hook on the ``grad_fn`` of the first result
modules                          forward hooks
gradients of parameters          a hook that runs when a gradient was accumulated
communication                    :mod:`firstnan.recording.collectives`
===============================  ==================================================

Nothing here computes with the program's tensors or changes them, and nothing stays behind.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeAlias

import torch
from torch.overrides import TorchFunctionMode

from firstnan.recording.collectives import Call, CommunicationRecorder
from firstnan.recording.names import api_name
from firstnan.recording.statistics import Statistics, TensorEntry
from firstnan.recording.values import Value, is_distributed, value_of

Models: TypeAlias = "torch.nn.Module | Sequence[torch.nn.Module]"
Place = tuple[CodeType, int]
"""A line of code: it is read from its file when the dump is written."""

_OWN_FOLDER = str(Path(__file__).parent)
_PLUMBING = (
    _OWN_FOLDER,
    str(Path(torch.nn.modules.module.__file__)),
    str(Path(torch.overrides.__file__)),
    str(Path(torch.utils._python_dispatch.__file__)),
)
"""Frames that only pass a call on."""

_SAME_ELEMENTS = frozenset(
    [
        "alias",
        "clone",
        "contiguous",
        "detach",
        "flatten",
        "movedim",
        "moveaxis",
        "permute",
        "ravel",
        "reshape",
        "reshape_as",
        "squeeze",
        "swapaxes",
        "swapdims",
        "t",
        "transpose",
        "unflatten",
        "unsqueeze",
        "view",
        "view_as",
    ]
)
"""Functions whose result holds the elements of their first argument, if it is as long and of the same dtype."""

_WRITE_UNSEEN = frozenset({"batch_norm", "instance_norm"})
"""Functions that write to an argument (running statistics) without giving it a new version."""

_CHECKPOINT_STOP = "_StopRecomputationError"
"""Raised by PyTorch's checkpoint when it has recomputed what it needs: no failure."""


@dataclass(slots=True)
class StepRecords:
    """One rank's records of one step: the content of dump.json, construct.json and stack.json."""

    records: dict[str, dict[str, Value]] = field(default_factory=dict)
    """Record name -> its keys, in order of execution."""
    callers: dict[str, str | None] = field(default_factory=dict)
    """Record name -> the module around it."""
    stacks: dict[str, tuple[Place, ...]] = field(default_factory=dict)
    """Record name -> where it was called, innermost first."""

    def tensors(self) -> Iterator[TensorEntry]:
        """Every tensor of every record; one that stands in several places comes several times."""
        waiting: list[Any] = [value for record in self.records.values() for value in record.values()]
        while waiting:
            value = waiting.pop()
            if isinstance(value, TensorEntry):
                yield value
            elif isinstance(value, list):
                waiting += value
            elif isinstance(value, dict):
                waiting += value.values()


@dataclass(slots=True)
class _Running:
    """A module whose forward has begun."""

    module: torch.nn.Module
    name: str
    handled: BaseException | None
    """The exception that the caller was handling."""


class StepRecorder(TorchFunctionMode):
    """Records what happens while it is entered; :attr:`step` holds it afterwards."""

    def __init__(self, models: Models, keep: Collection[str] = ()) -> None:
        """``keep``: names of records whose tensors are kept with their elements."""
        super().__init__()
        self._keep = frozenset(keep)
        self.step = StepRecords()
        self._modules = dict(_named_modules(models))
        self._statistics = Statistics()
        self._numbers: Counter[str] = Counter()
        self._running: list[_Running] = []
        self._accumulated: Counter[int] = Counter()
        self._stack: ExitStack | None = None

    # Life ------------------------------------------------------------------------------------------------------------

    def record(self, function: Callable[[], Any]) -> Any:
        """What the function returns, recorded."""
        with self:
            return function()

    def __enter__(self) -> StepRecorder:
        with ExitStack() as stack:
            self._watch_modules(stack)
            self._watch_backward(stack)
            if is_distributed():
                stack.enter_context(CommunicationRecorder(self))
            super().__enter__()
            stack.push(super().__exit__)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.__exit__(*error)
            self._statistics.forget()

    def _watch_modules(self, stack: ExitStack) -> None:
        seen: set[int] = set()
        for module, name in self._modules.items():
            before = module.register_forward_pre_hook(self._module_begins, with_kwargs=True)
            after = module.register_forward_hook(self._module_ends, with_kwargs=True, always_call=True)
            stack.callback(before.remove)
            stack.callback(after.remove)
            for key, parameter in module.named_parameters(recurse=False):
                if parameter.requires_grad and parameter.is_leaf and id(parameter) not in seen:
                    seen.add(id(parameter))
                    hook = parameter.register_post_accumulate_grad_hook(self._accumulation_hook(name, key))
                    stack.callback(hook.remove)

    def _watch_backward(self, stack: ExitStack) -> None:
        """Stay on during a backward pass, where activation checkpointing runs the program's code again.

        PyTorch takes a mode off for the time of a call that the mode sees, and it sees the call that runs backward.
        """
        original = torch.autograd._engine_run_backward

        def run(*args: Any, **kwargs: Any) -> Any:
            TorchFunctionMode.__enter__(self)
            try:
                return original(*args, **kwargs)
            finally:
                TorchFunctionMode.__exit__(self, None, None, None)

        torch.autograd._engine_run_backward = run
        stack.callback(setattr, torch.autograd, "_engine_run_backward", original)

    # Functions -------------------------------------------------------------------------------------------------------

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        caller: FrameType | None = sys._getframe(1)
        name = api_name(func, caller)
        if name is None:
            return func(*args, **kwargs)
        stem = f"{name.prefix}.{name.api}.{self._number(f'{name.prefix}.{name.api}')}"
        record = self._begin(f"{stem}.forward", args, kwargs, caller)
        try:
            result = func(*args, **kwargs)
        except Exception as error:  # whatever the operator raises goes on to the caller, below
            if type(error).__name__ == _CHECKPOINT_STOP:
                self._take_back(f"{stem}.forward", f"{name.prefix}.{name.api}")
            raise
        if name.api in _WRITE_UNSEEN:
            self._statistics.forget()
        first = next(_results(result), None)
        if first is None and not (name.api == "__setitem__" or name.api.startswith("_foreach_")):
            self._take_back(f"{stem}.forward", f"{name.prefix}.{name.api}")
            return result
        with torch._C.DisableTorchFunction():
            if first is result and name.api in _SAME_ELEMENTS and args and isinstance(args[0], torch.Tensor):
                self._statistics.same_elements(args[0], result)
            record["output"] = self._outputs(result, f"{stem}.forward")
            if first is not None:
                self._watch_gradient(first, args, stem)
        return result

    def _begin(self, name: str, args: Any, kwargs: Any, caller: FrameType | None) -> dict[str, Value]:
        with torch._C.DisableTorchFunction():
            record: dict[str, Value] = {
                "input_args": self._value(list(args), name, "input"),
                "input_kwargs": self._value(kwargs, name, "kwargs"),
            }
        self.step.records[name] = record
        self.step.callers[name] = self._running[-1].name if self._running else None
        self.step.stacks[name] = _places(caller)
        return record

    def _take_back(self, name: str, counted: str) -> None:
        """It is no record: it gave no tensor, or PyTorch ended it before its result."""
        del self.step.records[name], self.step.callers[name], self.step.stacks[name]
        self._numbers[counted] -= 1

    def _number(self, counted: str) -> int:
        number = self._numbers[counted]
        self._numbers[counted] += 1
        return number

    def _value(self, value: object, record: str, side: str) -> Value:
        if record not in self._keep:
            return value_of(value, self._statistics.of)
        number = itertools.count()

        def kept(tensor: torch.Tensor) -> TensorEntry:
            return self._statistics.kept(tensor, f"{record}.{side}.{next(number)}.npy")

        return value_of(value, kept)

    def _outputs(self, result: object, record: str) -> Value:
        """A tuple is spread, everything else is one element (dump format, section 4)."""
        is_spread = isinstance(result, tuple) and not hasattr(result, "_fields")
        return self._value(list(result) if is_spread and isinstance(result, tuple) else [result], record, "output")

    # Gradients -------------------------------------------------------------------------------------------------------

    def _watch_gradient(self, result: torch.Tensor, args: Any, stem: str) -> None:
        node = result.grad_fn
        if node is None or any(isinstance(arg, torch.Tensor) and arg.grad_fn is node for arg in args):
            return  # nothing was computed: the same tensor came back
        step, caller = self.step, self._running[-1].name if self._running else None

        def hook(of_inputs: Any, of_outputs: Any) -> None:
            if self._stack is None:  # the graph lives on after the step
                return
            with torch._C.DisableTorchFunction():
                step.records[f"{stem}.backward"] = {
                    "input": self._value(list(of_outputs), f"{stem}.backward", "input"),
                    "output": self._value(list(of_inputs), f"{stem}.backward", "output"),
                }
            step.callers[f"{stem}.backward"] = self._backward_module(caller)

        node.register_hook(hook)

    def _backward_module(self, forward: str | None) -> str | None:
        """The name of a module's backward call, which is entered with its own callers."""
        if forward is None:
            return None
        name = _backward_name(forward)
        while forward is not None and (backward := _backward_name(forward)) not in self.step.callers:
            above = self.step.callers.get(forward)
            self.step.callers[backward] = None if above is None else _backward_name(above)
            forward = above
        return name

    def _accumulation_hook(self, module: str, key: str) -> Callable[[torch.Tensor], None]:
        def hook(parameter: torch.Tensor) -> None:
            gradient = parameter.grad
            if self._stack is None or gradient is None:
                return
            name = f"Module.{module}.parameters_grad.{self._accumulated[id(parameter)]}"
            self._accumulated[id(parameter)] += 1
            with torch._C.DisableTorchFunction():
                self.step.records.setdefault(name, {})[key] = [self._statistics.of(gradient)]

        return hook

    # Modules ---------------------------------------------------------------------------------------------------------

    def _module_begins(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        stem = f"Module.{self._modules[module]}.forward"
        name = f"{stem}.{self._number(stem)}"
        record = self._begin(name, args, kwargs, sys._getframe(1))
        with torch._C.DisableTorchFunction():
            record["parameters"] = self._value(dict(module.named_parameters(recurse=False)), name, "parameters")
        self._running.append(_Running(module, name, sys.exc_info()[1]))

    def _module_ends(self, module: torch.nn.Module, _args: Any, _kwargs: Any, result: Any) -> None:
        if not any(running.module is module for running in self._running):
            return
        while (running := self._running.pop()).module is not module:
            pass  # left by an exception that passed it
        error = sys.exc_info()[1]
        if error is not None and error is not running.handled:
            if type(error).__name__ == _CHECKPOINT_STOP:
                self._take_back(running.name, running.name.rpartition(".")[0])
            return
        record = self.step.records.pop(running.name)
        with torch._C.DisableTorchFunction():
            output = self._outputs(result, running.name)
        order = {"input_args": record["input_args"], "input_kwargs": record["input_kwargs"], "output": output}
        self.step.records[running.name] = {**order, "parameters": record["parameters"]}

    # Communication ---------------------------------------------------------------------------------------------------

    def begin_call(self, call: Call) -> str:
        """See :class:`~firstnan.recording.collectives.CommunicationSink`."""
        self._statistics.forget()  # DDP fills its buckets below the level at which tensors get new versions
        counted = f"Distributed.{call.api}"
        name = f"{counted}.{self._number(counted)}.forward"
        record = self._begin(name, call.before, {}, sys._getframe(2))
        record["input_args"] = [*_as_list(record["input_args"]), *call.extra()]
        record["input_kwargs"] = dict(call.kwargs)
        return name

    def end_call(self, name: str, call: Call, *, is_over: bool) -> None:
        """See :class:`~firstnan.recording.collectives.CommunicationSink`."""
        record = self.step.records[name]
        self._statistics.forget()
        with torch._C.DisableTorchFunction():
            after = _as_list(self._value(call.after, name, "output"))
        kwargs: dict[str, Value] = dict(call.kwargs)
        if not is_over:
            kwargs["async_op"] = {"type": "bool", "value": True}
        record["input_kwargs"] = kwargs
        record["output"] = [*after, *call.extra(), *kwargs.values()]


def _as_list(value: Value) -> Sequence[Value]:
    return value if isinstance(value, list) else [value]


def _results(result: object) -> Iterator[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, tuple | list):
        for one in result:
            yield from _results(one)
    elif isinstance(result, Mapping):
        for one in result.values():
            yield from _results(one)


def _named_modules(models: Models) -> Iterator[tuple[torch.nn.Module, str]]:
    """Every module but the outermost, with its path and class; ``0.`` ... before the paths of several models."""
    is_one = isinstance(models, torch.nn.Module)
    for number, model in enumerate([models] if is_one else models):
        for path, module in model.named_modules():
            place = path.replace("_orig_mod.", "").removesuffix("_orig_mod")
            if place and not place.endswith("."):
                yield module, f"{'' if is_one else f'{number}.'}{place}.{type(module).__name__}"


def _backward_name(forward: str) -> str:
    stem, _, number = forward.rpartition(".forward.")
    return f"{stem}.backward.{number}"


def _places(frame: FrameType | None) -> tuple[Place, ...]:
    found: list[Place] = []
    while frame is not None:
        code = frame.f_code
        if frame.f_lineno and not code.co_filename.startswith(_PLUMBING):
            found.append((code, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)
