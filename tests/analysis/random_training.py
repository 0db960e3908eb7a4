"""Random training steps of replicas, with one known fault: forward, backward, reduction and update as dumps show them.

Every rank runs the same small model (layers of a product and a function) on its own batch, forward and backward once
for each micro-batch, reduces the gradients over all ranks, takes their norm and updates the weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from hypothesis import strategies as st
from made_runs import NAN, Json, Rank, Run, batch, t

from firstnan.answer.model import Where

WEIGHT = (8, 8)


class Fault(Enum):
    """Where the first NaN comes from."""

    FORWARD = "forward"
    """An operator's forward, with clean inputs."""
    BACKWARD = "backward"
    """An operator's backward, with a clean gradient."""
    WEIGHT = "weight"
    """A weight that is bad when the step begins."""
    BATCH = "batch"
    BETWEEN = "between"
    """Something that is not dumped, between the product and the function."""
    REDUCTION = "reduction"
    """The reduction of one gradient, on every rank."""


class Reduction(Enum):
    """How the reduction of gradients is recorded."""

    PLAIN = "plain"
    STALE = "stale"
    """Asynchronous, with the values from before."""
    HIDDEN = "hidden"
    """Not at all, as with DDP."""


@dataclass(frozen=True)
class Training:
    ranks: int
    layers: int
    batches: int
    fault: Fault
    rank: int
    """The faulty one."""
    layer: int
    batch: int
    in_product: bool
    """Whether the product or the function after it is at fault."""
    reduction: Reduction
    modules: bool


@st.composite
def trainings(draw: st.DrawFn) -> Training:
    ranks, layers, batches = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    reduction = draw(st.sampled_from(Reduction))
    # an odd number of ranks may lack one: then the reduction's fault would be that rank's
    reduces = reduction is Reduction.PLAIN and ranks % 2 == 0
    faults = [f for f in Fault if f is not Fault.REDUCTION or reduces]
    fault = draw(st.sampled_from(faults))
    return Training(
        ranks, layers, batches, fault, draw(st.integers(0, ranks - 1)), draw(st.integers(0, layers - 1)),
        draw(st.integers(0, batches - 1)), draw(st.booleans()), reduction,
        draw(st.booleans()),
    )  # fmt: skip


_WHERE = {
    Fault.FORWARD: Where.OPERATOR, Fault.BACKWARD: Where.OPERATOR, Fault.WEIGHT: Where.PARAMETER,
    Fault.BATCH: Where.INPUT_DATA, Fault.BETWEEN: Where.UNDUMPED_OPERATOR, Fault.REDUCTION: Where.COMMUNICATION,
}  # fmt: skip


@dataclass
class Trained:
    """A training step as a dump, with what is true of it."""

    run: Run
    where: Where
    ranks: set[int]
    """Ranks of which any may be named."""
    op_name: str


def train(training: Training) -> Trained:
    """The dump of a training step."""
    run = Run()
    steps = [_Step(training, run.rank(rank)) for rank in range(training.ranks)]
    for step in steps:
        step.passes()
    name = next((step.cause for step in steps if step.cause), "")
    for layer in reversed(range(training.layers)):
        name = _reduce(training, layer, steps) or name
    for step in steps:
        step.update()
    ranks = set(range(training.ranks)) if training.fault is Fault.REDUCTION else {training.rank}
    return Trained(run, _WHERE[training.fault], ranks, name)


def _reduce(training: Training, layer: int, steps: Sequence[_Step]) -> str:
    """The sum of one layer's gradients over all ranks; the record's name when it is at fault."""
    if training.ranks == 1:
        return ""
    at_fault = training.fault is Fault.REDUCTION and training.layer == layer
    sent = [step.gradients[layer] for step in steps]
    result = t(sum(one["Max"] for one in sent), shape=WEIGHT)
    if at_fault or any(map(is_bad, sent)):
        result = t(NAN, shape=WEIGHT)
    name = ""
    for step in steps:
        before = step.gradients[layer]
        step.gradients[layer] = result
        if training.reduction is not Reduction.HIDDEN:
            stale = training.reduction is Reduction.STALE
            name = step.rank.all_reduce(before, before if stale else result, async_op=stale)
    return name if at_fault else ""


def is_bad(tensor: Json) -> bool:
    return bool(tensor["Max"] != tensor["Max"])


@dataclass
class _Step:
    """One rank's part."""

    training: Training
    rank: Rank
    made: int = 0
    cause: str = ""
    weights: list[Json] = field(default_factory=list)
    gradients: list[Json] = field(default_factory=list)

    def passes(self) -> None:
        training = self.training
        self.weights = [self.value(WEIGHT) for _ in range(training.layers)]
        if self.has(Fault.WEIGHT, 0, training.layer):
            self.weights[training.layer] = t(NAN, shape=WEIGHT)
        self.gradients = [t(0.0, shape=WEIGHT)] * training.layers
        for at in range(training.batches):
            self.backward(at, *self.forward(at))

    def has(self, fault: Fault, at: int, layer: int) -> bool:
        training = self.training
        here = training.fault is fault and training.rank == self.rank.number
        in_batch = fault is Fault.WEIGHT or training.batch == at
        return here and in_batch and (fault is Fault.BATCH or training.layer == layer)

    def value(self, shape: Sequence[int] = (4, 8), *inputs: Json, bad: bool = False) -> Json:
        self.made += 1
        return t(NAN if bad or any(map(is_bad, inputs)) else 1.0 + self.made / 128.0, shape=shape)

    def blame(self, name: str, at_fault: bool) -> None:
        if at_fault and not self.cause:
            self.cause = name

    @contextmanager
    def module(self, path: str, kind: str, inputs: Sequence[Json], result: list[Json], **own: Json) -> Iterator[None]:
        if not self.training.modules:
            yield
            return
        with self.rank.module(path, kind, inputs, result, own):
            yield

    def forward(self, at: int) -> tuple[str, list[tuple[str, str]], list[Json]]:
        """Name of the loss, names of product and function of each layer, loss."""
        data = batch(NAN) if self.has(Fault.BATCH, at, 0) else batch(0.5)
        calls: list[tuple[str, str]] = []
        value, result = data, [t(0.0)]
        with self.module("model", "Model", [data], result):
            for layer in range(self.training.layers):
                value = self.layer(at, layer, value, calls)
            result[:] = [value]
        loss = self.value((), value)
        return self.rank.op("Functional.mse_loss", [value, batch(0.25)], [loss]), calls, [loss]

    def layer(self, at: int, layer: int, taken: Json, calls: list[tuple[str, str]]) -> Json:
        training, weight, inner = self.training, self.weights[layer], [t(0.0)]
        faulty = self.has(Fault.FORWARD, at, layer)
        outer: list[Json] = [t(0.0)]
        with self.module(f"model.{layer}", "Layer", [taken], outer):
            with self.module(f"model.{layer}.fc", "Linear", [taken], inner, weight=weight):
                product = self.value((4, 8), taken, weight, bad=faulty and training.in_product)
                inner[:] = [product]
                name = self.rank.op("Functional.linear", [taken, weight], [product])
            entered = self.has(Fault.WEIGHT, at, layer) or (self.has(Fault.BATCH, at, 0) and layer == 0)
            self.blame(name, entered or (faulty and training.in_product))
            between = self.has(Fault.BETWEEN, at, layer)
            read = t(NAN) if between else product
            value = self.value((4, 8), read, bad=faulty)
            outer[:] = [value]
            function = self.rank.op("Torch.sin", [read], [value])
            self.blame(function, between or (faulty and not training.in_product))
        calls.append((name, function))
        return value

    def backward(self, at: int, loss: str, calls: list[tuple[str, str]], values: list[Json]) -> None:
        gradient = self.value((4, 8), *values)
        self.rank.backward(loss, [t(1.0, 1.0, ())], [gradient])
        for layer in reversed(range(self.training.layers)):
            product, function = calls[layer]
            faulty, in_product = self.has(Fault.BACKWARD, at, layer), self.training.in_product
            inner = self.value((4, 8), gradient, bad=faulty and not in_product)
            self.blame(self.rank.backward(function, [gradient], [inner]), faulty and not in_product)
            to_weight = self.value(WEIGHT, inner, bad=faulty)
            gradient = self.value((4, 8), inner, bad=faulty)
            self.blame(self.rank.backward(product, [inner], [gradient, to_weight]), faulty and in_product)
            self.gradients[layer] = self.value(WEIGHT, self.gradients[layer], to_weight)
            if self.training.modules:
                name = f"Module.model.{layer}.fc.Linear.forward.{at}"
                self.rank.parameters_grad(name, weight=self.gradients[layer])

    def update(self) -> None:
        norm = self.value((), *self.gradients)
        self.rank.op("Torch._foreach_norm", [self.gradients], [norm])
        for weight, gradient in zip(self.weights, self.gradients, strict=True):
            self.rank.op("Tensor.add_", [weight, gradient], [self.value(WEIGHT, weight, gradient)])
