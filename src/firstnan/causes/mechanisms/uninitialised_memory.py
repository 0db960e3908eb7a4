"""# uninitialised memory

Memory was read before anything was written to it.

## What proves it
The bad input was written by an initialiser alone (`empty`, `new_empty` ...): *likely*. MSProbe 26 does not record
`torch.empty` any more; then the place is "between two records", and nothing tells this mechanism.

## Example
A buffer of packed tokens whose last row is never written (dumped with MSProbe 8.3.3).

## How to fix it
Write the whole buffer. Such faults come and go: a good repeat is no cure.
"""

from __future__ import annotations

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, found
from firstnan.causes.mechanisms.registry import tried
from firstnan.rank.taint.events import EventKind, Origin


@tried(EventKind.ENTRY, after="bad_input")
def uninitialised_memory(case: Case) -> Mechanism | None:
    """The bad input was written by an initialiser alone."""
    if case.event.origin is not Origin.UNINITIALISED or case.event.writer is None:
        return None
    memory = case.event.writer.name.full
    return found(MechanismKind.UNINITIALISED_MEMORY, Confidence.LIKELY, "why.uninitialised", memory=memory)
