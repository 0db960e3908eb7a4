"""Communication of a step, seen below Python: what the program calls, and what DDP, FSDP and DTensor do inside.

Every call of a process group passes PyTorch's dispatcher as an operator of ``c10d`` or ``_c10d_functional``. That is
the one place that sees all of them, and nothing of ``torch.distributed`` has to be replaced for it.

An operator returns before the communication is over. Its result is looked at when ``Work.wait()`` returns. DDP waits
in C++, out of sight: at the end of the step the result is looked at if nothing else has written to it since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from firstnan.recording.values import Value, group_value, reduction_value

_REDUCTIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")
"""By number, as PyTorch's C++ counts them."""

Tensors: TypeAlias = "list[torch.Tensor]"
Slot: TypeAlias = "torch.Tensor | Tensors | None"


@dataclass(slots=True)
class Call:
    """One communication call, in the form that dump.json has for it."""

    api: str
    before: list[Slot]
    """Positional tensors as they go in; None for buffers that only receive."""
    after: list[Slot]
    """The same positions as they are read when the call is over."""
    group: Any
    """A ``ProcessGroup``."""
    reduction: str | None = None
    kwargs: dict[str, Value] = field(default_factory=dict)
    """Peer, root and tag."""

    def extra(self) -> list[Value]:
        """The positional arguments behind the tensors: reduction and group."""
        reduction = [] if self.reduction is None else [reduction_value(self.reduction)]
        return [*reduction, group_value(dist.get_process_group_ranks(self.group))]


def _tensors(value: Any) -> Tensors:
    return [value] if isinstance(value, torch.Tensor) else list(value)


def _group(boxed: Any) -> Any:
    return dist.ProcessGroup.unbox(boxed) if isinstance(boxed, torch.ScriptObject) else boxed


def _reduction(boxed: Any) -> str:
    number = int(boxed.op()) if isinstance(boxed, torch.ScriptObject) else -1
    return _REDUCTIONS[number] if 0 <= number < len(_REDUCTIONS) else "UNUSED"


def _global(group: Any, rank: int) -> Value:
    return {"type": "int", "value": dist.get_global_rank(group, rank)}


def _in_place(api: str) -> Callable[..., list[Call]]:
    def calls(tensors: Any, group: Any, op: Any = None, *_: Any) -> list[Call]:
        return [Call(api, [t], [t], _group(group), _reduction(op)) for t in _tensors(tensors)]

    return calls


def _broadcast(tensors: Any, group: Any, root: int, *_: Any) -> list[Call]:
    pg = _group(group)
    return [Call("broadcast", [t], [t], pg, kwargs={"src": _global(pg, root)}) for t in _tensors(tensors)]


def _reduce(tensors: Any, group: Any, op: Any, root: int, *_: Any) -> list[Call]:
    pg = _group(group)
    kwargs = {"dst": _global(pg, root)}
    return [Call("reduce", [t], [t], pg, _reduction(op), dict(kwargs)) for t in _tensors(tensors)]


def _into(api: str, *, reduces: bool) -> Callable[..., list[Call]]:
    """One output buffer, one input."""

    def calls(output: Any, given: Any, group: Any, op: Any = None, *_: Any) -> list[Call]:
        pairs = zip(_tensors(output), _tensors(given), strict=True)
        kind = _reduction(op) if reduces else None
        return [Call(api, [None, i], [o, i], _group(group), kind) for o, i in pairs]

    return calls


def _all_gather(outputs: Any, given: Any, group: Any, *_: Any) -> list[Call]:
    pairs = zip(outputs, given, strict=True)
    return [Call("all_gather", [None, i], [list(o), i], _group(group)) for o, i in pairs]


def _reduce_scatter(outputs: Any, given: Any, group: Any, op: Any, *_: Any) -> list[Call]:
    pairs = zip(outputs, given, strict=True)
    return [Call("reduce_scatter", [None, list(i)], [o, list(i)], _group(group), _reduction(op)) for o, i in pairs]


def _all_to_all(outputs: Any, given: Any, group: Any, *_: Any) -> list[Call]:
    return [Call("all_to_all", [None, list(given)], [list(outputs), list(given)], _group(group))]


def _gather(outputs: Any, given: Any, group: Any, root: int, *_: Any) -> list[Call]:
    pg = _group(group)
    there: Sequence[Slot] = [list(o) for o in outputs] or [None]
    kwargs = {"dst": _global(pg, root)}
    return [Call("gather", [i, None], [i, o], pg, None, dict(kwargs)) for i, o in zip(given, there, strict=True)]


def _scatter(outputs: Any, given: Any, group: Any, root: int, *_: Any) -> list[Call]:
    pg = _group(group)
    there: Sequence[Slot] = [list(i) for i in given] or [None]
    kwargs = {"src": _global(pg, root)}
    return [Call("scatter", [None, i], [o, i], pg, None, dict(kwargs)) for o, i in zip(outputs, there, strict=True)]


def _send(tensors: Any, group: Any, peer: int, tag: int = 0, *_: Any) -> list[Call]:
    pg = _group(group)
    kwargs: dict[str, Value] = {"dst": _global(pg, peer), "tag": {"type": "int", "value": tag}}
    return [Call("isend", [t], [None], pg, None, dict(kwargs)) for t in _tensors(tensors)]


def _receive(tensors: Any, group: Any, peer: int, tag: int = 0, *_: Any) -> list[Call]:
    pg = _group(group)
    kwargs: dict[str, Value] = {"src": _global(pg, peer), "tag": {"type": "int", "value": tag}}
    return [Call("irecv", [None], [t], pg, None, dict(kwargs)) for t in _tensors(tensors)]


_PROCESS_GROUP: Mapping[str, Callable[..., list[Call]]] = {
    "allreduce_": _in_place("all_reduce"),
    "allreduce_coalesced_": _in_place("all_reduce"),
    "broadcast_": _broadcast,
    "reduce_": _reduce,
    "allgather_": _all_gather,
    "_allgather_base_": _into("all_gather_into_tensor", reduces=False),
    "allgather_into_tensor_coalesced_": _into("all_gather_into_tensor", reduces=False),
    "reduce_scatter_": _reduce_scatter,
    "_reduce_scatter_base_": _into("reduce_scatter_tensor", reduces=True),
    "reduce_scatter_tensor_coalesced_": _into("reduce_scatter_tensor", reduces=True),
    "alltoall_": _all_to_all,
    "alltoall_base_": _into("all_to_all_single", reduces=False),
    "gather_": _gather,
    "scatter_": _scatter,
    "send": _send,
    "recv_": _receive,
}
"""Operators of ``c10d`` and what their arguments are."""

_FUNCTIONAL: Mapping[str, str] = {
    "all_reduce": "all_reduce",
    "all_reduce_": "all_reduce",
    "all_gather_into_tensor": "all_gather_into_tensor",
    "reduce_scatter_tensor": "reduce_scatter_tensor",
    "all_to_all_single": "all_to_all_single",
    "broadcast": "broadcast",
    "broadcast_": "broadcast",
}
"""Operators of ``_c10d_functional``: they return their result and wait for it in an operator of their own."""


def _functional(name: str, args: Sequence[Any], result: torch.Tensor) -> Call:
    from torch.distributed.distributed_c10d import _resolve_process_group

    api, group = _FUNCTIONAL[name], _resolve_process_group(args[-1])
    reduction = str(args[1]).upper() if "reduce" in api else None
    kwargs = {"src": _global(group, args[1])} if api == "broadcast" else {}
    in_place = api in ("all_reduce", "broadcast")
    before: list[Slot] = [args[0]] if in_place else [None, args[0]]
    return Call(api, before, [result, *before[1:]], group, reduction, kwargs)


class CommunicationSink(Protocol):
    """Where calls go: the recorder."""

    def begin_call(self, call: Call) -> str:
        """A call has begun: look at its inputs. Gives the name of its record."""

    def end_call(self, name: str, call: Call, *, is_over: bool) -> None:
        """Look at the results. ``is_over`` is False where the communication may still be under way."""


@dataclass(slots=True)
class _Pending:
    """A call whose end was not seen yet."""

    name: str
    call: Call
    versions: tuple[int, ...]


def _versions(slots: Sequence[Slot]) -> tuple[int, ...]:
    flat = [t for slot in slots if slot is not None for t in _tensors(slot)]
    return tuple(t._version for t in flat if not t.is_inference())


class CommunicationRecorder(TorchDispatchMode):
    """Hands every communication call to a sink while it is entered."""

    supports_higher_order_operators = True

    def __init__(self, sink: CommunicationSink) -> None:
        super().__init__()
        self._sink = sink
        self._works: list[tuple[Any, list[_Pending]]] = []
        self._functional: dict[int, _Pending] = {}
        self._wait: Callable[..., Any] | None = None

    def __enter__(self) -> CommunicationRecorder:
        work, recorder = dist.Work, self
        original = self._wait = work.wait

        def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
            done = original(self, *args, **kwargs)
            recorder._over(self)
            return done

        work.wait = wait
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        dist.Work.wait = self._wait
        for pending in (p for _, all_pending in self._works for p in all_pending):
            if pending.versions == _versions(pending.call.after):  # nobody wrote there but the communication
                self._sink.end_call(pending.name, pending.call, is_over=True)
        self._works, self._functional = [], {}
        super().__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        namespace = getattr(func, "namespace", "")
        with torch._C.DisableTorchFunction():  # what runs here is inside a call, or inside a backward pass: no record
            if namespace == "c10d":
                return self._process_group(func, args, kwargs)
            if namespace == "_c10d_functional":
                return self._functional_call(func, args, kwargs)
            return func(*args, **kwargs)

    def _process_group(self, func: Any, args: Any, kwargs: Any) -> Any:
        name = func._schema.name.partition("::")[2]
        known = _PROCESS_GROUP.get(name)
        if known is None:
            return func(*args, **kwargs)
        calls = known(*args)
        names = [self._sink.begin_call(call) for call in calls]
        result = func(*args, **kwargs)
        pending = [self._returned(name, call) for name, call in zip(names, calls, strict=True)]
        boxed = result[-1] if isinstance(result, tuple | list) else result
        if isinstance(boxed, torch.ScriptObject):
            self._works.append((dist.Work.unbox(boxed), pending))
        return result

    def _functional_call(self, func: Any, args: Any, kwargs: Any) -> Any:
        name = func._schema.name.partition("::")[2]
        if name in _FUNCTIONAL and not kwargs:
            record = self._sink.begin_call(_functional(name, args, args[0]))
            result = func(*args)
            self._functional[id(result)] = self._returned(record, _functional(name, args, result))
            return result
        result = func(*args, **kwargs)
        if name == "wait_tensor" and (pending := self._functional.pop(id(args[0]), None)) is not None:
            self._sink.end_call(pending.name, pending.call, is_over=True)
        return result

    def _returned(self, name: str, call: Call) -> _Pending:
        self._sink.end_call(name, call, is_over=False)
        return _Pending(name, call, _versions(call.after))

    def _over(self, work: Any) -> None:
        """``Work.wait()`` has returned."""
        for place, (known, pending) in enumerate(self._works):
            if known is work:
                del self._works[place]
                for one in pending:
                    self._sink.end_call(one.name, one.call, is_over=True)
                return
