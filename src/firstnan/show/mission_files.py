"""The two result files, ``cross_rank_analysis.json`` and ``single_rank_trace.json``.

Their form is that of the mission text: the skill text that skills/nan-overflow-detection implements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from firstnan.answer.model import CONTAINED_CALL, CollectiveReport, Report, RootCause
from firstnan.dump.errors import UsageError
from firstnan.dump.ranges import format_ranges
from firstnan.dump.records import TensorStat
from firstnan.dump.values import Number
from firstnan.show.json import dumps, number, on_one_line
from firstnan.show.reporter import CROSS_RANK_FILE, SINGLE_RANK_FILE, Settings, View

__all__ = ["CROSS_RANK_FILE", "SINGLE_RANK_FILE", "render"]


def render(report: Report, settings: Settings) -> str:
    """The file that belongs to the view.

    Raises:
        UsageError: the view is neither ranks nor trace.
    """
    return "".join(parts(report, settings))


def parts(report: Report, settings: Settings) -> Iterator[str]:
    """The same as :func:`render`, piece by piece: a run may make a hundred thousand calls.

    Raises:
        UsageError: the view is neither ranks nor trace.
    """
    if settings.view is View.RANKS:
        return _cross_rank_lines(report.collectives if settings.every_call is None else settings.every_call)
    if settings.view is View.TRACE and settings.rank is not None:
        return iter((dumps(single_rank(report, settings.rank)),))
    raise UsageError(
        "format 'mission' belongs to the commands ranks and trace",
        hint=f"'firstnan ranks' makes {CROSS_RANK_FILE}, 'firstnan trace' {SINGLE_RANK_FILE}",
    )


def cross_rank(calls: Iterable[CollectiveReport]) -> Iterator[tuple[str, dict[str, object]]]:
    """Each call under its record name: source, propagated and normal ranks, and how many take part.

    ``total_ranks`` counts undecided ranks too; ``contained`` marks a call whose non-finite value no later record takes
    in. Record names differ between ranks: the key is the name on the first
    source rank, else on the lowest rank. Where two calls have one name (other group, other step), the causally first
    one keeps it and the next ones are told apart: ``Distributed.all_reduce.1.forward (step 0, ranks 2,3)``.
    """
    taken: set[str] = set()
    for call in calls:
        key = _key(call, taken)
        taken.add(key)
        found: dict[str, object] = {
            "source_ranks": list(call.source_ranks),
            "propagated_ranks": list(call.propagated_ranks),
            "normal_ranks": list(call.normal_ranks),
            "total_ranks": call.total_ranks,
        }
        if any(note.key == CONTAINED_CALL for note in call.notes):
            found["contained"] = True
        yield key, found


def _cross_rank_lines(calls: Iterable[CollectiveReport]) -> Iterator[str]:
    """One line per call."""
    separator = "{\n  "
    for key, found in cross_rank(calls):
        yield f"{separator}{on_one_line(key)}: {on_one_line(found)}"
        separator = ",\n  "
    yield "{}\n" if separator == "{\n  " else "\n}\n"


def _key(call: CollectiveReport, taken: Collection[str]) -> str:
    named = [rank for rank in call.source_ranks if rank in call.ops] or sorted(call.ops)
    name = call.ops[named[0]] if named else call.op
    if name not in taken:
        return name
    base = name = f"{name} (step {call.step}, ranks {format_ranges(call.ops)})"
    number_of = 1
    while name in taken:
        number_of += 1
        name = f"{base} #{number_of}"
    return name


def single_rank(report: Report, rank: int) -> dict[str, object]:
    """The first anomalous operator of one rank; ``first_anomaly`` is null when there is none.

    The fields of the mission text's example, and Min of inputs as of outputs; numbers are strings, null when not known.
    """
    cause = _first_on(report, rank)
    return {"rank": rank, "first_anomaly": None if cause is None else _anomaly(cause)}


def _first_on(report: Report, rank: int) -> RootCause | None:
    readable = [cause for cause in report.root_causes if cause.op_name]
    own = [cause for cause in readable if cause.rank == rank]
    shared = [cause for cause in readable if rank in cause.ranks_also]
    return next(iter(own or shared), None)


def _anomaly(cause: RootCause) -> dict[str, object]:
    return {
        "op_name": cause.op_name,
        "exec_order": cause.exec_order,
        "output": {_output_key(stat.slot): _extremes(stat) for stat in cause.outputs},
        "input_info": [
            {"shape": None if stat.shape is None else list(stat.shape), **_extremes(stat), "dtype": stat.dtype}
            for stat in cause.inputs
        ],
        "construct_chain": list(cause.construct_chain),
        "stack_info": [entry if isinstance(entry, str) else number(entry) for entry in cause.stack_info],
    }


def _output_key(slot: str) -> str:
    """``output.0`` is ``0``, ``grad.weight`` is ``weight``."""
    return slot.partition(".")[2] or slot


def _extremes(stat: TensorStat) -> dict[str, object]:
    return {"Max": _word(stat.max), "Min": _word(stat.min)}


def _word(value: Number | None) -> str | None:
    """A number as the mission text writes it: ``"nan"``, ``"inf"``, ``"-inf"``, ``"0.001"``."""
    made = number(value)
    if made is None:
        return None
    return {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}.get(str(made), str(made))
