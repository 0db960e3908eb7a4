"""Values that grew from step to step before they broke: what the report says of it."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct, field

from firstnan.dump.values import Statistic


class GrowthKind(Enum):
    """What kind of value grew."""

    ACTIVATION = "activation"
    """A result of the forward pass."""
    PARAMETER = "parameter"
    """A weight."""
    GRADIENT = "gradient"
    """The gradient of a weight."""


class StepValue(Struct, frozen=True):
    """One step of a value."""

    step: int
    largest: Statistic
    """The largest absolute value in it; infinite when it was not finite."""


class Growth(Struct, frozen=True):
    """One value on one rank that grew from step to step."""

    rank: int
    kind: GrowthKind
    name: str
    """Path and class of the module, the operator, or the parameter."""
    since: int
    """The first step at which it was more than :data:`firstnan.causes.growth.FACTOR` times what it was before."""
    values: tuple[StepValue, ...] = field(name="steps")

    @property
    def factor(self) -> float:
        """How many times larger it was in its last finite step than before it began to grow."""
        finite = [value for value in self.values if value.largest != float("inf")]
        before = next((value.largest for value in reversed(finite) if value.step < self.since), 0.0)
        return finite[-1].largest / before if before else 0.0
