"""What running records again on the CPU does to the causes of a report.

- A record whose result the CPU does not get is a cause of its own: ``device_fault``, at most likely. Arguments that are
  not recorded and tensors that were saved late can do the same; only the run on another device decides.
- A record on the way to a cause that differs comes first, and the cause follows from it. So does the gradient of an
  operator whose own result differs: it may be made of what that computed.
- A cause that the CPU gets as well has its arithmetic certain and its place as sure as before: it is no device fault,
  and where float64 cures it, the dtype's range is what was exceeded.
- An alternative whose record is what the CPU gets, without NaN and Inf, is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from firstnan.answer.model import (
    Alternative,
    Confidence,
    Mechanism,
    MechanismKind,
    Note,
    Report,
    RootCause,
    Verdict,
    Where,
)
from firstnan.answer.replay import Replay, ReplayedRecord, ReplayVerdict
from firstnan.causes.mechanisms.device_fault import device_fault
from firstnan.dump.records import Record
from firstnan.dump.values import limits

Lookup = Callable[[int, int, str], Record | None]
"""Step, rank and record name -> that record, None where it is not there."""
MOST_CAUSES = 16
"""Records that differ, of which causes are made; all of them are counted and listed."""

_Key = tuple[int, int, str]
_OVERFLOW = {
    "float16": MechanismKind.FP16_OVERFLOW,
    "bfloat16": MechanismKind.BF16_OVERFLOW,
    "float32": MechanismKind.FP32_OVERFLOW,
}
_OPEN = (MechanismKind.UNKNOWN, MechanismKind.DEVICE_FAULT_SUSPECTED)
"""Mechanisms that say nothing about arithmetic."""


def with_replays(report: Report, replayed: Sequence[ReplayedRecord], record: Lookup) -> Report:
    """The report with the replays in its causes, and causes for records that differ."""
    of = {(one.step, one.rank, one.op_name): one for one in replayed}
    causes: list[RootCause] = []
    taken: set[_Key] = set()
    for cause in report.root_causes:
        earlier = _differs_before(cause, of)
        if earlier is not None and (made := _fault(earlier, record)) is not None:
            key = (earlier.step, earlier.rank, earlier.op_name)
            if key not in taken:
                causes.append(replace(made, alternatives=(_follows(cause), *made.alternatives)))
            taken |= {key, _key(cause)}
            continue
        causes.append(_judged(cause, of))
        taken.add(_key(cause))
    blamed = {key: one for key, one in of.items() if one.replay.verdict.blames_device}
    beside = [one for key, one in blamed.items() if key not in taken and _forward_of(key) not in blamed]
    new = [made for one in beside[:MOST_CAUSES] if (made := _fault(one, record)) is not None]
    causes = [*new, *causes]
    verdict = Verdict.ANOMALY if causes else report.verdict
    step = report.step if report.step is not None or not causes else min(cause.step for cause in causes)
    return replace(report, verdict=verdict, step=step, root_causes=tuple(causes))


def _key(cause: RootCause) -> _Key:
    return (cause.step, cause.rank, cause.op_name)


def _forward_of(key: _Key) -> _Key | None:
    """The forward record of a backward one, whose faulty result the gradient may be made of."""
    step, rank, name = key
    return (step, rank, f"{name.removesuffix('backward')}forward") if name.endswith(".backward") else None


def _differs_before(cause: RootCause, of: Mapping[_Key, ReplayedRecord]) -> ReplayedRecord | None:
    """The first record on the way to a cause that is not what the CPU gets."""
    for passed in cause.run_up:
        found = of.get((cause.step, cause.rank, passed.op_name))
        if found is not None and found.op_name != cause.op_name and found.replay.verdict.blames_device:
            return found
    return None


def _follows(cause: RootCause) -> Alternative:
    reason = Note("reason.follows_from_device_fault")
    return Alternative(cause.step, cause.rank, cause.op_name, cause.exec_order, cause.direction, reason)


def _judged(cause: RootCause, of: Mapping[_Key, ReplayedRecord]) -> RootCause:
    found = of.get(_key(cause))
    if found is None:
        return cause
    return replace(
        cause,
        replay=found.replay,
        mechanism=_mechanism(cause, found.replay),
        alternatives=tuple(other for other in cause.alternatives if not _is_refuted(other, of)),
    )


def _is_refuted(other: Alternative, of: Mapping[_Key, ReplayedRecord]) -> bool:
    found = of.get((other.step, other.rank, other.op_name))
    return found is not None and found.replay.verdict is ReplayVerdict.AGREES


def _mechanism(cause: RootCause, replay: Replay) -> Mechanism:
    fault = device_fault(replay)
    if fault is not None:
        if cause.where is Where.COMMUNICATION:
            return replace(fault, kind=MechanismKind.COMM_CORRUPTION)
        return fault if cause.where is Where.OPERATOR else cause.mechanism
    if replay.verdict is ReplayVerdict.REPRODUCED_RANGE and cause.where is Where.OPERATOR:
        dtype = replay.elements.dtype if replay.elements is not None else ""
        kind, limit = _OVERFLOW.get(dtype), limits(dtype)
        if cause.mechanism.kind in _OPEN and kind is not None and limit is not None:
            return Mechanism(
                kind, Confidence.CERTAIN, Note("why.replay_range", {"dtype": dtype, "limit": limit.largest})
            )
        if cause.mechanism.kind in _OVERFLOW.values():
            return replace(cause.mechanism, confidence=Confidence.CERTAIN)
        return cause.mechanism
    if replay.verdict is ReplayVerdict.REPRODUCED and cause.mechanism.kind is MechanismKind.DEVICE_FAULT_SUSPECTED:
        return Mechanism(MechanismKind.UNKNOWN, Confidence.POSSIBLE, Note("why.replay_arithmetic"))
    return cause.mechanism


def _fault(found: ReplayedRecord, record: Lookup) -> RootCause | None:
    """A cause for a record that differs."""
    there, mechanism = record(found.step, found.rank, found.op_name), device_fault(found.replay)
    if there is None or mechanism is None:
        return None
    is_call = there.name.prefix.endswith("Distributed")
    return RootCause(
        step=found.step,
        rank=found.rank,
        op_name=found.op_name,
        exec_order=found.exec_order,
        direction=there.name.direction,
        where=Where.COMMUNICATION if is_call else Where.OPERATOR,
        mechanism=replace(mechanism, kind=MechanismKind.COMM_CORRUPTION) if is_call else mechanism,
        inputs=there.inputs,
        outputs=there.outputs,
        replay=found.replay,
    )
