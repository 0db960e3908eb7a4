"""# mechanism not known

The place is known, the recorded statistics do not tell why.

## What proves it
No test fits.

## Example
The Bessel function `i0` of 95: it grows like exp, and no rule knows it.

## How to fix it
Dump this record with its elements ([how](../collecting.md#when-the-reason-is-not-known)).
"""

from __future__ import annotations

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import Case, found
from firstnan.causes.mechanisms.registry import tried
from firstnan.rank.taint.events import EventKind

ADVICE = {"why.received": "received", "why.unmatched_call": "unmatched"}
"""Explanations that ask for something else than the elements of the record."""


@tried(EventKind.BIRTH, EventKind.ENTRY, after="fp32_overflow")
def unknown(_: Case) -> Mechanism | None:
    """No other test answered."""
    return found(MechanismKind.UNKNOWN, Confidence.POSSIBLE, "why.unknown")
