"""The same operator on other ranks: finite there, not here.

``same_operator_same_inputs``
    A peer is a rank whose record of the same name has inputs of the same shapes and dtypes, and of the same size
    within a factor of two. When the arithmetic cannot give a non-finite result for these inputs, and peers are
    finite, the device or its memory is suspected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from firstnan.answer.model import Confidence, MechanismKind, Note, Report, RootCause, Where
from firstnan.causes.mechanisms.device_fault_suspected import device_fault_suspected
from firstnan.dump.ranges import format_ranges
from firstnan.dump.records import Record, RecordKind, TensorStat
from firstnan.dump.values import ValueState
from firstnan.operators.bounds import largest
from firstnan.operators.table import Rulebook

Lookup = Callable[[int, int, str], Record | None]
"""Step, rank and record name -> that record of that rank, None where it is not there."""
MAX_PEERS = 8
"""So many other ranks are looked at: each costs reading its dump once more."""
SAME_SIZE = 2.0
"""Inputs of replicas differ with their data, by less than this factor in their largest value."""


def add(report: Report, ranks: Sequence[int], lookup: Lookup, book: Rulebook) -> Report:
    """The report with peers compared for every cause whose mechanism the numbers of its own rank leave open."""
    causes = tuple(_compare(cause, report.root_causes, ranks, lookup, book) for cause in report.root_causes)
    return replace(report, root_causes=causes)


def _compare(
    cause: RootCause, causes: Sequence[RootCause], ranks: Sequence[int], lookup: Lookup, book: Rulebook
) -> RootCause:
    here = lookup(cause.step, cause.rank, cause.op_name) if _is_open(cause) else None
    if here is None or here.name.kind is not RecordKind.API:
        return cause
    taken = {c.rank for c in causes}
    nearest = sorted((r for r in ranks if r not in taken), key=lambda r: (abs(r - cause.rank), r))[:MAX_PEERS]
    found = {rank: lookup(cause.step, rank, cause.op_name) for rank in nearest}
    finite = [rank for rank, record in found.items() if record is not None and is_finite_peer(here, record)]
    if not finite:
        return cause
    evidence = (*cause.evidence, Note("evidence.peers_finite", {"ranks": format_ranges(finite)}))
    return replace(cause, evidence=evidence, mechanism=device_fault_suspected(here, finite, book) or cause.mechanism)


def _is_open(cause: RootCause) -> bool:
    mechanism = cause.mechanism
    is_unknown = mechanism.kind is MechanismKind.UNKNOWN and mechanism.confidence is Confidence.POSSIBLE
    return cause.where is Where.OPERATOR and is_unknown


def is_finite_peer(here: Record, there: Record) -> bool:
    """same_operator_same_inputs, with a finite result there."""
    given = [tensor for tensor in there.outputs if tensor.is_floating]
    if len(here.inputs) != len(there.inputs) or any(tensor.state is not ValueState.FINITE for tensor in given):
        return False
    if not given or there.distrusted:
        return False  # the call raised there, or the file is cut in it
    return all(_alike(a, b) for a, b in zip(here.inputs, there.inputs, strict=True))


def _alike(one: TensorStat, other: TensorStat) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype or one.state is not other.state:
        return False
    here, there = largest([one]), largest([other])
    if here is None or there is None:
        return here == there
    return max(here, there) <= SAME_SIZE * max(min(here, there), 1e-30)
