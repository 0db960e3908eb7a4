"""Random training steps of a pipeline, with one known fault: a stage on every rank, activations sent forward and
gradients sent back, in one of the usual orders of micro-batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import Enum

from hypothesis import strategies as st
from made_runs import NAN, Json, Rank, Run, batch, p2p_op, t
from random_training import is_bad

from firstnan.answer.model import Where

WEIGHT = (8, 8)


class Fault(Enum):
    """Where the first NaN comes from."""

    FORWARD = Where.OPERATOR, "forward"
    BACKWARD = Where.OPERATOR, "backward"
    WEIGHT = Where.PARAMETER, "weight"
    BATCH = Where.INPUT_DATA, "batch"
    """The first stage's data of one micro-batch."""
    BETWEEN = Where.UNDUMPED_OPERATOR, "between"
    """Something between two operators that is not dumped."""
    MESSAGE = Where.COMMUNICATION, "message"
    """An activation that arrives otherwise than it was sent."""

    @property
    def where(self) -> Where:
        return self.value[0]


class Messages(Enum):
    """How messages are recorded."""

    PLAIN = "send and recv"
    STALE = "isend and irecv"
    """The receiver's record shows what was in the buffer before."""
    BATCH = "batch_isend_irecv"


@dataclass(frozen=True)
class Pipeline:
    stages: int
    batches: int
    fault: Fault
    stage: int
    batch: int
    in_product: bool
    messages: Messages
    interleaved: bool
    """One forward, one backward (1F1B); otherwise all forward passes first."""
    modules: bool
    norm: bool
    """Whether the norm of the gradients is summed over all ranks in the end."""


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    stages, messages = draw(st.integers(2, 4)), draw(st.sampled_from(Messages))
    told = messages is Messages.PLAIN  # an old record of a message may always explain an input of that size
    faults = [f for f in Fault if told or f not in (Fault.MESSAGE, Fault.BATCH)]
    fault = draw(st.sampled_from(faults))
    first = 1 if fault is Fault.MESSAGE else 0
    stage = 0 if fault is Fault.BATCH else draw(st.integers(first, stages - 1))
    batches = draw(st.integers(1, 3))
    return Pipeline(
        stages, batches, fault, stage, draw(st.integers(0, batches - 1)), draw(st.booleans()), messages,
        draw(st.booleans()), draw(st.booleans()), draw(st.booleans()),
    )  # fmt: skip


@dataclass
class Piped:
    """A step of a pipeline as a dump, with what is true of it."""

    run: Run
    op_name: str
    infected: set[int]
    """Ranks other than the faulty one that got a bad value."""


def pipe(pipeline: Pipeline) -> Piped:
    """The dump of one step."""
    run = Run()
    stages = [_Stage(pipeline, run.rank(rank)) for rank in range(pipeline.stages)]
    box: dict[tuple[str, int, int], Json] = {}
    left = [stage.schedule() for stage in stages]
    while any(left):
        for stage, plan in zip(stages, left, strict=True):
            while plan and stage.can_run(plan[0], box):
                stage.run(plan.pop(0), box)
    if pipeline.norm:
        total = t(NAN if any(is_bad(stage.gradient) for stage in stages) else float(len(stages)), shape=())
        for stage in stages:
            stage.clip(total)
    infected = {stage.number for stage in stages if stage.infected} - {pipeline.stage}
    return Piped(run, next(stage.cause for stage in stages if stage.cause), infected)


Task = tuple[str, int]
"""``forward`` or ``backward``, and the micro-batch."""


@dataclass
class _Stage:
    pipeline: Pipeline
    rank: Rank
    made: int = 0
    cause: str = ""
    infected: bool = False
    gradient: Json = field(default_factory=lambda: t(0.0, shape=WEIGHT))
    calls: dict[int, tuple[str, str, str]] = field(default_factory=dict)
    losses: dict[int, Json] = field(default_factory=dict)

    @property
    def number(self) -> int:
        return self.rank.number

    @property
    def is_last(self) -> bool:
        return self.number == self.pipeline.stages - 1

    def schedule(self) -> list[Task]:
        count = self.pipeline.batches
        forward = [("forward", at) for at in range(count)]
        backward = [("backward", at) for at in range(count)]
        if not self.pipeline.interleaved:
            return forward + backward
        ahead = min(count, self.pipeline.stages - 1 - self.number)
        plan = forward[:ahead]
        for one, other in zip(forward[ahead:], backward, strict=False):
            plan += [one, other]
        return plan + backward[count - ahead :]

    def can_run(self, task: Task, box: dict[tuple[str, int, int], Json]) -> bool:
        kind, at = task
        is_end = self.number == 0 if kind == "forward" else self.is_last
        return is_end or (kind, at, self.number) in box

    def run(self, task: Task, box: dict[tuple[str, int, int], Json]) -> None:
        kind, at = task
        if kind == "forward":
            sent = self.forward(at, box.get((kind, at, self.number)))
            if not self.is_last:
                self.send(sent, self.number + 1)
                box[kind, at, self.number + 1] = sent
        else:
            sent = self.backward(at, box.get((kind, at, self.number)))
            if self.number:
                self.send(sent, self.number - 1)
                box[kind, at, self.number - 1] = sent

    # -- values ----------------------------------------------------------------------------------------

    def has(self, fault: Fault, at: int) -> bool:
        pipeline = self.pipeline
        here = pipeline.fault is fault and pipeline.stage == self.number
        return here and (fault is Fault.WEIGHT or pipeline.batch == at)

    def value(self, *inputs: Json, shape: tuple[int, ...] = (4, 8), bad: bool = False) -> Json:
        self.made += 1
        bad = bad or any(map(is_bad, inputs))
        self.infected = self.infected or bad
        return t(NAN if bad else 1.0 + self.made / 128.0, shape=shape)

    def blame(self, name: str, at_fault: bool) -> None:
        if at_fault and not self.cause:
            self.cause = name

    # -- passes ----------------------------------------------------------------------------------------

    def forward(self, at: int, received: Json | None) -> Json:
        rank, pipeline = self.rank, self.pipeline
        if received is None:
            taken = batch(NAN) if self.has(Fault.BATCH, at) else batch(0.5)
        else:
            taken = t(NAN) if self.has(Fault.MESSAGE, at) else received
            self.blame(self.receive(taken, self.number - 1), self.has(Fault.MESSAGE, at))
        weight = t(NAN if self.has(Fault.WEIGHT, at) else 0.5, shape=WEIGHT)
        faulty, result = self.has(Fault.FORWARD, at), [t(0.0)]
        with self.module("stage", [taken], result, weight):
            product = self.value(taken, weight, bad=faulty and pipeline.in_product)
            one = rank.op("Functional.linear", [taken, weight], [product])
            entered = self.has(Fault.WEIGHT, at) or self.has(Fault.BATCH, at)
            self.blame(one, entered or (faulty and pipeline.in_product))
            read = t(NAN) if self.has(Fault.BETWEEN, at) else product
            value = self.value(read, bad=faulty)
            other = rank.op("Torch.sin", [read], [value])
            self.blame(other, self.has(Fault.BETWEEN, at) or (faulty and not pipeline.in_product))
            result[:] = [value]
        loss = ""
        if self.is_last:
            self.losses[at] = self.value(value, shape=())
            loss = rank.op("Functional.mse_loss", [value, batch(0.25)], [self.losses[at]])
        self.calls[at] = one, other, loss
        return value

    @contextmanager
    def module(self, path: str, inputs: list[Json], result: list[Json], weight: Json) -> Iterator[None]:
        block = self.rank.module(path, "Stage", inputs, result, {"weight": weight})
        with block if self.pipeline.modules else nullcontext():
            yield

    def backward(self, at: int, received: Json | None) -> Json:
        rank, (one, other, loss) = self.rank, self.calls[at]
        if received is None:
            received = self.value(self.losses[at])
            rank.backward(loss, [t(1.0, 1.0, ())], [received])
        else:
            self.receive(received, self.number + 1)
        faulty, in_product = self.has(Fault.BACKWARD, at), self.pipeline.in_product
        inner = self.value(received, bad=faulty and not in_product)
        self.blame(rank.backward(other, [received], [inner]), faulty and not in_product)
        to_weight = self.value(inner, shape=WEIGHT, bad=faulty)
        sent = self.value(inner, bad=faulty)
        self.blame(rank.backward(one, [inner], [sent, to_weight]), faulty and in_product)
        self.gradient = self.value(self.gradient, to_weight, shape=WEIGHT)
        return sent

    def clip(self, total: Json) -> None:
        own = self.value(self.gradient, shape=())
        self.rank.op("Torch._foreach_norm", [[self.gradient]], [own])
        self.rank.all_reduce(own, total)
        self.infected = self.infected or is_bad(total)
        self.rank.op("Torch.sqrt", [total], [total])

    # -- messages --------------------------------------------------------------------------------------

    def send(self, tensor: Json, to: int) -> None:
        messages, pair = self.pipeline.messages, tuple(sorted((self.number, to)))
        if messages is Messages.BATCH:
            self.rank.batch_isend_irecv(p2p_op("isend", tensor, to, ranks=pair))
        elif messages is Messages.STALE:
            self.rank.comm("isend", [tensor, to], {}, {0: None})
        else:
            self.rank.send(tensor, to)

    def receive(self, tensor: Json, source: int) -> str:
        messages, pair = self.pipeline.messages, tuple(sorted((self.number, source)))
        if messages is Messages.BATCH:
            return self.rank.batch_isend_irecv(p2p_op("irecv", t(0.0), source, ranks=pair))
        if messages is Messages.STALE:
            return self.rank.comm("irecv", [None, source], {}, {0: t(0.0)})
        return self.rank.recv(tensor, source)
