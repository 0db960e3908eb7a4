"""The way back from JSON (schema ``firstnan.report/1``): see :mod:`firstnan.show.json`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from firstnan.answer.model import (
    SCHEMA_VERSION,
    Alternative,
    BenignRule,
    CollectiveReport,
    Confidence,
    Contained,
    Hop,
    InputSummary,
    MatchState,
    Mechanism,
    MechanismKind,
    Note,
    NoteValue,
    Report,
    RootCause,
    RunUp,
    Symptom,
    SymptomKind,
    Verdict,
    Where,
)
from firstnan.answer.views import CallMap, MapRow, NearRecord, Surroundings
from firstnan.dump.call_site import Frame
from firstnan.dump.errors import InputError
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.dump.records import Direction, TensorStat
from firstnan.dump.values import Number, ValueState

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def from_dict(document: Mapping[str, Any]) -> Report:
    """The report that :func:`to_dict` wrote.

    A text parameter of a note that reads ``"NaN"``, ``"Infinity"`` or ``"-Infinity"`` comes back as the number.

    Raises:
        InputError: not a report of schema ``firstnan.report/1``.
    """
    schema = document.get("schema") if isinstance(document, Mapping) else None
    if schema != SCHEMA_VERSION:
        raise InputError(f"not a report of schema {SCHEMA_VERSION}")
    try:
        return _report(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"a damaged report of schema {SCHEMA_VERSION}: {error!r}") from error


def _report(doc: Mapping[str, Any]) -> Report:
    return Report(
        verdict=Verdict(doc["verdict"]),
        complete=doc["complete"],
        input=_read_input(doc["input"]),
        step=doc["step"],
        root_causes=tuple(_read_cause(cause) for cause in doc["root_causes"]),
        collectives=tuple(_read_collective(call) for call in doc["collectives"]),
        propagation=tuple(
            Hop(
                step=hop["from"]["step"],
                from_rank=hop["from"]["rank"],
                from_op=hop["from"]["op_name"],
                to_ranks=tuple(hop["to"]["ranks"]),
                to_ops={int(rank): name for rank, name in hop["to"]["ops"].items()},
                via=hop["via"],
            )
            for hop in doc["propagation"]
        ),
        contained=tuple(
            Contained(
                value["step"], value["rank"], value["op_name"], value["exec_order"], _read_note(value["reason_note"])
            )
            for value in doc["contained"]
        ),
        benign=tuple(BenignRule(rule["rule"], rule["count"], rule["example"]) for rule in doc["benign"]["rules"]),
        symptoms=tuple(
            Symptom(SymptomKind(hit["kind"]), hit["step"], hit["rank"], hit["op_name"], hit["exec_order"])
            for hit in doc["symptoms"]
        ),
        story=_read_notes(doc["story_notes"]),
        caveats=_read_notes(doc["caveats_notes"]),
        call_map=None if doc["call_map"] is None else _read_call_map(doc["call_map"]),
        surroundings=tuple(_read_surroundings(excerpt) for excerpt in doc["surroundings"]),
    )


def _read_input(doc: Mapping[str, Any]) -> InputSummary:
    return InputSummary(
        path=doc["path"],
        steps=tuple(doc["steps"]),
        ranks=tuple(doc["ranks"]),
        missing_ranks=tuple(doc["missing_ranks"]),
        records=doc["records"],
        bytes=doc["bytes"],
        problems=tuple(
            Problem(
                kind=ProblemKind(problem["kind"]),
                step=problem["step"],
                rank=problem["rank"],
                file=problem["file"],
                detail=problem["detail"],
                judged=problem["judged"],
            )
            for problem in doc["problems"]
        ),
    )


def _read_cause(doc: Mapping[str, Any]) -> RootCause:
    mechanism, location = doc["mechanism"], doc["location"]
    return RootCause(
        step=doc["step"],
        rank=doc["rank"],
        op_name=doc["op_name"],
        exec_order=doc["exec_order"],
        direction=Direction(doc["direction"]),
        where=Where(doc["where"]),
        mechanism=Mechanism(
            MechanismKind(mechanism["kind"]),
            Confidence(mechanism["confidence"]),
            _read_note(mechanism["explanation_note"]),
        ),
        inputs=tuple(_read_tensor(stat) for stat in doc["inputs"]),
        outputs=tuple(_read_tensor(stat) for stat in doc["outputs"]),
        construct_chain=tuple(doc["construct_chain"]),
        module=doc["module"],
        stack_info=tuple(doc["stack_info"]),
        location=None
        if location is None
        else Frame(location["file"], location["line"], location["function"], location["source"]),
        ranks_also=tuple(doc["ranks_also"]),
        evidence=_read_notes(doc["evidence_notes"]),
        advice=_read_notes(doc["advice_notes"]),
        alternatives=tuple(
            Alternative(
                step=other["step"],
                rank=other["rank"],
                op_name=other["op_name"],
                exec_order=other["exec_order"],
                direction=Direction(other["direction"]),
                reason=_read_note(other["reason_note"]),
            )
            for other in doc["alternatives"]
        ),
        run_up=tuple(
            RunUp(
                step["op_name"],
                step["exec_order"],
                _read_number(step["magnitude_in"]),
                _read_number(step["magnitude_out"]),
            )
            for step in doc["run_up"]
        ),
    )


def _read_collective(doc: Mapping[str, Any]) -> CollectiveReport:
    return CollectiveReport(
        op=doc["op"],
        step=doc["step"],
        group=None if doc["group"] is None else tuple(doc["group"]),
        call=doc["call"],
        ops={int(rank): name for rank, name in doc["ops"].items()},
        source_ranks=tuple(doc["source_ranks"]),
        propagated_ranks=tuple(doc["propagated_ranks"]),
        normal_ranks=tuple(doc["normal_ranks"]),
        undecided_ranks=tuple(doc["undecided_ranks"]),
        match=MatchState(doc["match"]),
        notes=_read_notes(doc["remarks_notes"]),
    )


def _read_call_map(doc: Mapping[str, Any]) -> CallMap:
    return CallMap(
        step=doc["step"],
        columns=tuple(doc["columns"]),
        rows=tuple(MapRow(tuple(row["ranks"]), row["cells"]) for row in doc["rows"]),
        listed=tuple(doc["listed"]),
        calls=doc["calls"],
        places_per_column=doc["places_per_column"],
        complete=doc["complete"],
    )


def _read_surroundings(doc: Mapping[str, Any]) -> Surroundings:
    return Surroundings(
        step=doc["step"],
        rank=doc["rank"],
        records=tuple(
            NearRecord(
                exec_order=record["exec_order"],
                op_name=record["op_name"],
                module=record["module"],
                dtype=record["dtype"],
                magnitude_in=_read_number(record["magnitude_in"]),
                max_out=_read_number(record["Max"]),
                min_out=_read_number(record["Min"]),
                state_in=ValueState(record["state_in"]),
                state_out=ValueState(record["state_out"]),
            )
            for record in doc["records"]
        ),
    )


def _read_tensor(doc: Mapping[str, Any]) -> TensorStat:
    return TensorStat(
        slot=doc["slot"],
        dtype=doc["dtype"],
        shape=None if doc["shape"] is None else tuple(doc["shape"]),
        max=_read_number(doc["Max"]),
        min=_read_number(doc["Min"]),
        mean=_read_number(doc["Mean"]),
        norm=_read_number(doc["Norm"]),
        state=ValueState(doc["state"]),
        requires_grad=doc["requires_grad"],
    )


def _read_note(doc: Mapping[str, Any]) -> Note:
    params: dict[str, NoteValue] = {
        name: _NON_FINITE.get(value, value) if isinstance(value, str) else value
        for name, value in doc["params"].items()
    }
    return Note(doc["key"], params)


def _read_notes(docs: Iterable[Mapping[str, Any]]) -> tuple[Note, ...]:
    return tuple(_read_note(doc) for doc in docs)


def _read_number(value: Number | str | None) -> Number | None:
    if isinstance(value, str):
        return _NON_FINITE[value]
    return value
