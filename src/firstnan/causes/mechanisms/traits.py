"""What a mechanism has in common with others. A room declares it: ``TRAITS = frozenset({Trait.TOO_LARGE})``."""

from __future__ import annotations

from enum import Enum, auto


class Trait(Enum):
    """A property that code outside the rooms asks for, in place of a list of kinds."""

    TOO_LARGE = auto()
    """The value became non-finite because it was too large, and for no other reason. A wrong value explains that."""
    ENDS_GROWTH = auto()
    """Values that grow from step to step end in it."""
    SCALED = auto()
    """A smaller loss scale prevents it in float16 gradients: a step that the loss scaler skips shows it."""
    ZERO = auto()
    """A zero causes it: what made the value 0 is worth a sentence."""
    OWN_ADVICE_IN_BACKWARD = auto()
    """The cure is another one for gradients (words: ``mechanism.<kind>.advice.backward``)."""
    MORE_ADVICE_IN_FLOAT16 = auto()
    """There is more to say about float16 tensors (words: ``mechanism.<kind>.advice.float16``)."""
