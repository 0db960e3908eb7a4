"""What to check or change next, for a cause in its final form."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from firstnan.answer.model import MechanismKind, Note, Report, RootCause, Where
from firstnan.answer.turning_point import turning_point
from firstnan.dump.records import Direction
from firstnan.operators import known_issues

_PLACES = frozenset({Where.MISSING_RANK, Where.UNDUMPED_OPERATOR, Where.BEFORE_DUMP})
"""Places about which something is to be done whatever the mechanism."""

_OTHERWISE_IN_BACKWARD = frozenset({MechanismKind.FP16_OVERFLOW, MechanismKind.CAST_OVERFLOW})
"""Mechanisms that are cured at the loss scale when a gradient is hit."""

_OF_REASON = {
    (MechanismKind.DIV_BY_ZERO, "why.no_variance"): "no_variance",
    (MechanismKind.DIV_BY_ZERO, "why.one_element_rows"): "one_element",
    (MechanismKind.DIV_BY_ZERO, "why.empty_mean"): "empty_mean",
    (MechanismKind.DIV_BY_ZERO, "why.all_ignored"): "all_ignored",
    (MechanismKind.DIV_BY_ZERO, "why.single_elements"): "single_elements",
    (MechanismKind.UNKNOWN, "why.received"): "received",
    (MechanismKind.UNKNOWN, "why.unmatched_call"): "unmatched",
}
"""Explanations that ask for something else than their mechanism in general."""

_OF_GAP = {f"evidence.rank_{gap}": gap for gap in ("absent", "left_out", "cut", "empty", "unreadable")}
"""What the dump of a rank lacks decides how to get a better one."""


_HALF = {
    MechanismKind.DIV_BY_ZERO: "mechanism.div_by_zero.advice.float16",
    MechanismKind.LOG_ZERO: "mechanism.log_zero.advice.float16",
}
"""What is different where the tensors are float16."""


def add(report: Report, operators: Collection[int]) -> Report:
    """The report with advice on every cause: about its mechanism, about its place, and what is known elsewhere.

    ``operators``: ranks whose dump holds records of operators.
    """
    told = (
        replace(cause, advice=(*advice(cause, operators=cause.rank in operators), *known_issues.notes(cause)))
        for cause in report.root_causes
    )
    return replace(report, root_causes=tuple(told))


def advice(cause: RootCause, *, operators: bool = False) -> tuple[Note, ...]:
    """The most special advice that there is for the mechanism and for the place.

    ``operators``: the rank's dump holds records of operators: another level adds nothing.

    Where the place alone asks for something, an unknown mechanism adds nothing.
    """
    is_hidden = cause.mechanism.kind is not MechanismKind.UNINITIALISED_MEMORY  # of which the allocation is recorded
    if any(note.key == "evidence.excluded_writer" for note in cause.evidence):
        return (Note("advice.excluded_writer", {"op": cause.op_name}),)
    place = (Note(_of_place(cause, operators=operators)),) if cause.where in _PLACES and is_hidden else ()
    if place and cause.mechanism.kind is MechanismKind.UNKNOWN:
        return place
    turn = turning_point(cause)
    first = () if turn is None else (Note("advice.turn", {"index": turn.step.exec_order, "op": turn.step.op_name}),)
    trap = tuple(Note("advice.where_trap") for note in cause.evidence if note.key == "evidence.twin_bad")
    half = _HALF.get(cause.mechanism.kind)
    is_half = any(t.dtype == "float16" for t in (*cause.inputs, *cause.outputs))
    mechanism = Note(_of_mechanism(cause, operators=operators))
    return (*first, *trap, mechanism, *((Note(half),) if half and is_half else ()), *place)


def _of_mechanism(cause: RootCause, *, operators: bool) -> str:
    kind, reason = cause.mechanism.kind, cause.mechanism.explanation.key
    key = f"mechanism.{kind.value}.advice"
    if (kind, reason) in _OF_REASON:
        return f"{key}.{_OF_REASON[kind, reason]}"
    if kind is MechanismKind.UNKNOWN and cause.is_inside_module:
        return f"{key}.module" if not operators else f"{key}.module_beside_operators"
    is_gradient = cause.direction is Direction.BACKWARD and kind in _OTHERWISE_IN_BACKWARD
    return f"{key}.backward" if is_gradient else key


def _of_place(cause: RootCause, *, operators: bool) -> str:
    key = f"where.{cause.where.value}.advice"
    gap = next((_OF_GAP[note.key] for note in cause.evidence if note.key in _OF_GAP), None)
    if cause.where is Where.UNDUMPED_OPERATOR and operators:
        return f"{key}.beside_operators"
    return key if gap is None else f"{key}.{gap}"
