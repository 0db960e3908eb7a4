"""What to check or change next, for a cause in its final form."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from firstnan.answer.model import MechanismKind, Note, Report, RootCause, Where
from firstnan.causes.mechanisms import registry
from firstnan.causes.mechanisms.traits import Trait
from firstnan.causes.turning_point import turning_point
from firstnan.dump.records import Direction
from firstnan.operators import known_issues

_PLACES = frozenset({Where.MISSING_RANK, Where.UNDUMPED_OPERATOR, Where.BEFORE_DUMP})
"""Places about which something is to be done whatever the mechanism."""

_OF_GAP = {f"evidence.rank_{gap}": gap for gap in ("absent", "left_out", "cut", "empty", "unreadable")}
"""What the dump of a rank lacks decides how to get a better one."""


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
    if any(note.key in ("evidence.excluded_writer", "evidence.excluded_sender") for note in cause.evidence):
        return (Note("advice.excluded_writer", {"op": cause.op_name}),)
    place = (Note(_of_place(cause, operators=operators)),) if cause.where in _PLACES and is_hidden else ()
    if place and cause.mechanism.kind is MechanismKind.UNKNOWN:
        return place
    turn = turning_point(cause)
    first = () if turn is None else (Note("advice.turn", {"index": turn.step.exec_order, "op": turn.step.op_name}),)
    trap = tuple(Note("advice.where_trap") for note in cause.evidence if note.key == "evidence.twin_bad")
    is_half = any(t.dtype == "float16" for t in (*cause.inputs, *cause.outputs))
    has_more = is_half and registry.has(cause.mechanism.kind, Trait.MORE_ADVICE_IN_FLOAT16)
    half = (Note(f"mechanism.{cause.mechanism.kind.value}.advice.float16"),) if has_more else ()
    mechanism = Note(_of_mechanism(cause, operators=operators))
    return (*first, *trap, mechanism, *half, *place)


def _of_mechanism(cause: RootCause, *, operators: bool) -> str:
    kind, reason = cause.mechanism.kind, cause.mechanism.explanation.key
    key = f"mechanism.{kind.value}.advice"
    if (variant := registry.advice_of(kind, reason)) is not None:
        return f"{key}.{variant}"
    if kind is MechanismKind.UNKNOWN and cause.is_inside_module:
        return f"{key}.module" if not operators else f"{key}.module_beside_operators"
    is_gradient = cause.direction is Direction.BACKWARD and registry.has(kind, Trait.OWN_ADVICE_IN_BACKWARD)
    return f"{key}.backward" if is_gradient else key


def _of_place(cause: RootCause, *, operators: bool) -> str:
    key = f"where.{cause.where.value}.advice"
    gap = next((_OF_GAP[note.key] for note in cause.evidence if note.key in _OF_GAP), None)
    if cause.where is Where.UNDUMPED_OPERATOR and operators:
        return f"{key}.beside_operators"
    return key if gap is None else f"{key}.{gap}"
