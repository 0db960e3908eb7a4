"""What the page is drawn from: data that no language changes, and the prose in every language."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from firstnan.answer.model import CollectiveReport, MechanismKind, Report, RootCause
from firstnan.answer.views import Surroundings
from firstnan.dump.call_site import Frame
from firstnan.dump.language import Language
from firstnan.dump.printable import show
from firstnan.dump.ranges import format_ranges
from firstnan.dump.records import TensorStat
from firstnan.dump.values import Number, ValueState, limits, magnitude
from firstnan.show.html import agreement, call_map, spread, texts
from firstnan.show.html.blocks import Json
from firstnan.show.html.embedded_json import Embedded
from firstnan.show.json import number
from firstnan.show.outline.calls import record_name
from firstnan.show.outline.headline import CauseGroup, causes_on, group_causes
from firstnan.show.reporter import Settings, View
from firstnan.version import __version__

MAX_CAUSES = 40
"""Most causes that the page spells out."""
MAX_NAMES = 24
"""Most different record names of one call."""
MAX_STACK = 200
"""Most frames of a stack."""


def build(report: Report, settings: Settings, embedded: Embedded) -> dict[str, Json]:
    """The whole model as JSON values."""
    causes = () if settings.view is View.RANKS else _causes(report, settings)
    groups = group_causes(causes)
    looked = report.input
    drawn = call_map.shown_map(report)
    columns = () if drawn is None else drawn[0].listed
    equal = None if report.agreement_map is None else call_map.fitting(report.agreement_map)
    return {
        "language": settings.language.value,
        "version": __version__,
        "verdict": report.verdict.value,
        "complete": report.complete,
        "redacted": settings.redact,
        "path": show(looked.path, 200),
        "step": report.step,
        "steps": format_ranges(looked.steps),
        "ranks": format_ranges(looked.ranks),
        "rank_count": len(looked.ranks),
        "missing_ranks": format_ranges(looked.missing_ranks),
        "records": looked.records,
        "causes": [_cause(group, report, _column(group.cause, report, columns)) for group in groups[:MAX_CAUSES]],
        "causes_left_out": max(len(groups) - MAX_CAUSES, 0),
        "map": None if drawn is None else call_map.build(*drawn, affected_only=report.call_map is None),
        "agreement_map": None if equal is None else call_map.build(*equal, affected_only=False),
        "agreement": report.verdict_agreement.value,
        "differing": [agreement.build(found) for found in report.disagreements],
        "calls": [_call(call, columns[at] if at < len(columns) else at) for at, call in enumerate(report.collectives)],
        "spread": spread.build(report.propagation),
        "json": {"calls": embedded.calls, "all_calls": len(report.collectives), "shortened": embedded.shortened},
        "texts": {
            language.value: texts.build(report, groups[:MAX_CAUSES], settings, language) for language in Language
        },
    }


def _causes(report: Report, settings: Settings) -> tuple[RootCause, ...]:
    return causes_on(report, settings.rank if settings.view is View.TRACE else None)


def _column(cause: RootCause, report: Report, columns: Sequence[int]) -> int | None:
    """The place of the map at which the cause's value enters communication, or the call that is the cause."""
    for call, column in zip(report.collectives, columns, strict=False):
        own = call.step == cause.step and cause.rank in call.ops
        if own and (call.ops[cause.rank] == cause.op_name or cause.rank in call.source_ranks):
            return column
    return None


def _cause(group: CauseGroup, report: Report, column: int | None) -> dict[str, Json]:
    cause = group.cause
    near = next((s for s in report.surroundings if (s.step, s.rank) == (cause.step, cause.rank)), None)
    return {
        "step": cause.step,
        "rank": cause.rank,
        "ranks": format_ranges(group.ranks),
        "op": show(cause.op_name),
        "index": cause.exec_order,
        "column": column,
        "direction": cause.direction.value,
        "where": cause.where.value,
        "mechanism": cause.mechanism.kind.value,
        "confidence": None if cause.mechanism.kind.value == "unknown" else cause.mechanism.confidence.value,
        "module": None if cause.module is None else show(cause.module, 160),
        "chain": [show(name, 160) for name in cause.construct_chain],
        "stack": [show(" ".join(str(entry).split()), 400) for entry in cause.stack_info[:MAX_STACK]],
        "code": _code(cause.location),
        "called_at": _code(cause.called_at),
        "limit": _limit((*cause.outputs, *cause.inputs)),
        "chain_values": _chain_values(cause, near),
        "near": [] if near is None else _near(near),
        "step_values": _step_values(cause, report),
        "picture": _picture(cause),
    }


def _code(frame: Frame | None) -> dict[str, Json] | None:
    if frame is None:
        return None
    place = show(frame.file if frame.line is None else f"{frame.file}:{frame.line}", 240)
    return {"place": place, "function": show(frame.function, 80), "source": show(frame.source, 200)}


def _picture(cause: RootCause) -> dict[str, Json] | None:
    """Where the bad elements of a record that was run again are."""
    bad = None if cause.replay is None else cause.replay.elements
    if bad is None or bad.picture is None or bad.of < 2:
        return None
    (down, across), (per_down, per_across) = bad.picture.axes, bad.picture.per_cell
    return {
        "rows": list(bad.picture.rows),
        "down": down,
        "across": across,
        "per_down": per_down,
        "per_across": per_across,
    }


def _step_values(cause: RootCause, report: Report) -> list[Json]:
    """What grew first on the way to this cause, step by step, in the form of records."""
    grown = report.run_up_steps
    if not grown or (cause.rank, cause.mechanism.kind) != (grown[0].rank, MechanismKind.DIVERGENCE):
        return []
    name = show(grown[0].name)
    return [
        {"index": value.step, "op": name, "in": None, "bad_in": None, "max": number(value.largest)}
        for value in grown[0].values
    ]


def _chain_values(cause: RootCause, near: Surroundings | None) -> list[Json]:
    """The causal chain: what went in and out of each record, the root cause last.

    The chain itself holds sizes alone: whether an input was non-finite is known of records in the surroundings.
    """
    states = {} if near is None else {record.exec_order: record.state_in for record in near.records}
    made: list[Json] = [
        {
            "index": step.exec_order,
            "op": show(step.op_name),
            "in": number(step.magnitude_in),
            "bad_in": _bad_state((states.get(step.exec_order, ValueState.FINITE),)),
            "max": number(step.magnitude_out),
        }
        for step in cause.run_up
    ]
    known = {step.exec_order for step in cause.run_up}
    if made and cause.exec_order is not None and cause.exec_order not in known:
        out = next((tensor for tensor in cause.outputs if tensor.state.is_bad), None)
        made.append(
            {
                "index": cause.exec_order,
                "op": show(cause.op_name),
                "in": number(_largest_finite(cause.inputs)),
                "bad_in": _bad_state(tensor.state for tensor in cause.inputs),
                "max": None if out is None else number(_bad_end(out)),
            }
        )
    return made


def _bad_state(states: Iterable[ValueState]) -> str | None:
    """The first state that is non-finite, a NaN before all other; None when all of them are finite or not known."""
    bad = sorted((state for state in states if state.is_bad), key=lambda state: state is not ValueState.NAN)
    return bad[0].value if bad else None


def _bad_end(tensor: TensorStat) -> Number | None:
    """Max, or Min where that is the one that is not finite."""
    is_min = tensor.min is not None and not math.isfinite(tensor.min) and math.isfinite(tensor.max or 0)
    return tensor.min if is_min else tensor.max


def _near(around: Surroundings) -> list[Json]:
    return [
        {
            "index": record.exec_order,
            "op": show(record.op_name),
            "module": None if record.module is None else show(record.module, 160),
            "dtype": show(record.dtype, 24),
            "limit": _dtype_limit(record.dtype),
            "in": number(record.magnitude_in),
            "max": number(record.max_out),
            "min": number(record.min_out),
            "bad_in": _bad_state((record.state_in,)),
            "state_out": record.state_out.value,
            "bad": record.state_out.is_bad,
        }
        for record in around.records
    ]


def _limit(tensors: Iterable[TensorStat]) -> dict[str, Json] | None:
    """The dtype whose range decides: that of the first bad tensor, else of the first floating one."""
    floating = sorted((t for t in tensors if t.dtype and t.is_floating), key=lambda tensor: not tensor.state.is_bad)
    for tensor in floating:
        largest = _dtype_limit(tensor.dtype)
        if largest is not None:
            return {"dtype": show(tensor.dtype, 24), "largest": largest}
    return None


def _dtype_limit(dtype: str) -> float | None:
    found = limits(dtype) if dtype else None
    return None if found is None else found.largest


def _largest_finite(tensors: Iterable[TensorStat]) -> float | None:
    sizes = [magnitude(tensor.max, tensor.min) for tensor in tensors if tensor.state is ValueState.FINITE]
    return max((size for size in sizes if size is not None and math.isfinite(size)), default=None)


def _call(call: CollectiveReport, column: int) -> dict[str, Json]:
    ranks_of: dict[str, list[int]] = {}
    for rank, name in call.ops.items():
        ranks_of.setdefault(name, []).append(rank)
    return {
        "op": show(call.op, 48),
        "call": call.call,
        "record": show(record_name(call), 80),
        "column": column,
        "group": None if call.group is None else format_ranges(call.group),
        "by_name": call.match.value == "by_name",
        "match": call.match.value,
        "s": format_ranges(call.source_ranks),
        "p": format_ranges(call.propagated_ranks),
        "n": format_ranges(call.normal_ranks),
        "u": format_ranges(call.undecided_ranks),
        "total": call.total_ranks,
        "names": [[show(name), format_ranges(ranks)] for name, ranks in list(ranks_of.items())[:MAX_NAMES]],
        "names_left_out": max(len(ranks_of) - MAX_NAMES, 0),
    }
