"""# suspected device fault

Small finite inputs, a result beyond what arithmetic allows, and equal ranks are finite.

## What proves it
The bound of the operator excludes the result, and the same record on other ranks, with inputs of the same shape and
of the same size within a factor of two, is finite: *likely* with two such ranks or more, *possible* with one.

## Example
A matrix product that gives Inf on one of four replicas (imitated).

## How to fix it
The same step again on the same device, then the rank on another device. What stays with the device is the device's.
"""

from __future__ import annotations

from collections.abc import Sequence

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.causes.mechanisms.case import found
from firstnan.dump.ranges import format_ranges
from firstnan.dump.records import Record
from firstnan.dump.values import limits
from firstnan.operators.bounds import largest, result_bound
from firstnan.operators.table import Computes, Rulebook, short_api


def device_fault_suspected(here: Record, finite: Sequence[int], book: Rulebook) -> Mechanism | None:
    """Arithmetic cannot give a non-finite result for these inputs, and the same record is finite on other ranks."""
    bad = next((t for t in here.outputs if t.state.is_bad), None)
    bound, limit = result_bound(here, book), limits(bad.dtype) if bad else None
    fused = book.computes(short_api(here.name), Computes.FUSED)
    if not finite or fused or bound is None or limit is None or bound > limit.largest:
        return None
    return found(
        MechanismKind.DEVICE_FAULT_SUSPECTED,
        Confidence.LIKELY if len(finite) > 1 else Confidence.POSSIBLE,
        "why.device_fault",
        value=largest(here.inputs),
        dtype=limit.name,
        ranks=format_ranges(finite),
    )
