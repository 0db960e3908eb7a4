"""The JSON Schema (draft 2020-12) of the report, built from the same enums as the report itself."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from firstnan.answer.model import SCHEMA_VERSION, Confidence, MatchState, MechanismKind, SymptomKind, Verdict, Where
from firstnan.answer.views import WORST_LAST, Cell
from firstnan.dump.language import Language
from firstnan.dump.problems import ProblemKind
from firstnan.dump.records import Direction
from firstnan.dump.values import ValueState

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_NUMBER: Schema = {"$ref": "#/$defs/number"}
_NOTE: Schema = {"$ref": "#/$defs/note"}
_LETTERS = ", ".join(f"{cell.value} {cell.name.lower()}" for cell in Cell)
_CELLS: Schema = {
    "type": "string",
    "pattern": f"^([{WORST_LAST}][0-9]*)*$",
    "description": f"One letter per column, each with its repetitions: {_LETTERS}.",
}


def json_schema() -> Schema:
    """The schema of ``firstnan.report/1``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:firstnan:report:1",
        "title": "firstnan report",
        "description": "Where NaN or Inf began in a distributed training run, from MSProbe dumps.",
        **_object(
            schema={"const": SCHEMA_VERSION},
            tool=_object(name={"const": "firstnan"}, version=_TEXT),
            language=_enum(Language, "Language of the words for people."),
            verdict=_enum(Verdict, "anomaly, clean (all that could be judged is clean), unknown (nothing could be)."),
            complete={**_FLAG, "description": "False: a rank, step or part could not be judged; see input.problems."},
            input=_ref("input"),
            step=_or_null(_COUNT, "First bad step."),
            root_causes=_list(_ref("root_cause"), "Independent causes, ordered by what reaches the symptom first."),
            collectives=_list(_ref("collective"), "Affected communication calls, the causally first one first."),
            propagation=_list(_ref("hop")),
            contained=_list(_ref("contained"), "Bad values that no later record took in."),
            benign=_object(rules=_list(_object(rule=_TEXT, count=_COUNT, example=_TEXT))),
            symptom={"anyOf": [_ref("symptom"), {"type": "null"}], "description": "The first of symptoms."},
            symptoms=_list(_ref("symptom")),
            story=_list(_TEXT),
            story_notes=_list(_NOTE),
            caveats=_list(_TEXT, "What could change the answer, and how."),
            caveats_notes=_list(_NOTE),
            call_map={
                "anyOf": [_ref("call_map"), {"type": "null"}],
                "description": "Communication calls that were looked at: ranks down, places in causal order across.",
            },
            surroundings=_list(_ref("surroundings"), "Records around the first bad value of each rank it reached."),
        ),
        "$defs": _definitions(),
    }


def _definitions() -> Schema:
    return {
        "number": {
            "description": "A number; non-finite ones as strings; null when not known.",
            "anyOf": [{"type": ["number", "null"]}, {"enum": ["NaN", "Infinity", "-Infinity"]}],
        },
        "note": _object(
            "The key and numbers from which a sentence was made.",
            key=_TEXT,
            params={"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}},
        ),
        "ranks": {"type": "array", "items": _COUNT, "uniqueItems": True},
        "ops": {
            "description": "Rank to record name.",
            "type": "object",
            "propertyNames": {"pattern": "^[0-9]+$"},
            "additionalProperties": _TEXT,
        },
        "input": _object(
            path=_TEXT,
            steps=_list(_COUNT),
            ranks=_ref("ranks"),
            missing_ranks=_ref("ranks"),
            records=_COUNT,
            bytes=_COUNT,
            problems=_list(_ref("problem")),
        ),
        "problem": _object(
            kind=_enum(ProblemKind),
            step=_or_null(_COUNT),
            rank=_or_null(_COUNT),
            file=_or_null(_TEXT),
            detail=_TEXT,
            judged={**_FLAG, "description": "False: something could not be judged because of it."},
            effect=_TEXT,
        ),
        "root_cause": _object(
            **_place(),
            ranks_also=_ref("ranks"),
            direction=_enum(Direction),
            where=_enum(Where),
            mechanism=_object(
                kind=_enum(MechanismKind), confidence=_enum(Confidence), explanation=_TEXT, explanation_note=_NOTE
            ),
            inputs=_list(_ref("tensor")),
            outputs=_list(_ref("tensor")),
            construct_chain=_list(_TEXT, "The record, then its parents, innermost first."),
            module=_or_null(_TEXT),
            stack_info=_list({"type": ["string", "number", "null"]}, "As written in stack.json."),
            location={"anyOf": [_ref("location"), {"type": "null"}]},
            evidence=_list(_TEXT),
            evidence_notes=_list(_NOTE),
            advice=_list(_TEXT),
            advice_notes=_list(_NOTE),
            alternatives=_list(_object(**_place(), direction=_enum(Direction), reason=_TEXT, reason_note=_NOTE)),
            run_up=_list(
                _object(op_name=_TEXT, exec_order=_COUNT, magnitude_in=_NUMBER, magnitude_out=_NUMBER),
                "Records on the causal chain before the root with their largest absolute values.",
            ),
        ),
        "tensor": _object(
            slot=_TEXT,
            dtype=_TEXT,
            shape=_or_null(_list({"type": "integer"})),
            Max=_NUMBER,
            Min=_NUMBER,
            Mean=_NUMBER,
            Norm=_NUMBER,
            state=_enum(ValueState),
            requires_grad=_or_null(_FLAG),
        ),
        "location": _object(file=_TEXT, line=_or_null({"type": "integer"}), function=_TEXT, source=_TEXT),
        "collective": _object(
            op=_TEXT,
            step=_COUNT,
            group=_or_null(_ref("ranks"), "Global ranks; null when not known."),
            call={**_COUNT, "description": "The n-th call of this API in this group, from 0."},
            ops=_ref("ops"),
            source_ranks=_ref("ranks"),
            propagated_ranks=_ref("ranks"),
            normal_ranks=_ref("ranks"),
            undecided_ranks=_ref("ranks"),
            total_ranks=_COUNT,
            match=_enum(MatchState),
            remarks=_list(_TEXT),
            remarks_notes=_list(_NOTE),
        ),
        "hop": _object(
            **{
                "from": _object(step=_COUNT, rank=_COUNT, op_name=_TEXT),
                "to": _object(ranks=_ref("ranks"), ops=_ref("ops")),
                "via": _TEXT,
            }
        ),
        "call_map": _object(
            step=_COUNT,
            columns=_list(_TEXT, "The APIs called at a place."),
            rows=_list(_object("Ranks with equal cells.", ranks=_ref("ranks"), cells=_CELLS)),
            listed=_list(_COUNT, "Column of each entry of collectives."),
            calls=_COUNT,
            places_per_column={"type": "integer", "minimum": 1},
            complete={**_FLAG, "description": "False: calls far from anything suspected are not on it."},
        ),
        "surroundings": _object(
            step=_COUNT,
            rank=_COUNT,
            records=_list(
                _object(
                    exec_order=_COUNT,
                    op_name=_TEXT,
                    module=_or_null(_TEXT),
                    dtype=_TEXT,
                    magnitude_in=_NUMBER,
                    Max=_NUMBER,
                    Min=_NUMBER,
                    state_in=_enum(ValueState),
                    state_out=_enum(ValueState),
                )
            ),
        ),
        "contained": _object(**{**_place(), "exec_order": _COUNT}, reason=_TEXT, reason_note=_NOTE),
        "symptom": _object(**{**_place(), "exec_order": _COUNT}, kind=_enum(SymptomKind)),
    }


def _place() -> Schema:
    return {
        "step": _COUNT,
        "rank": _COUNT,
        "op_name": _TEXT,
        "exec_order": _or_null(_COUNT, "0-based index of the record in dump.json."),
    }


def _object(description: str = "", /, **properties: Schema) -> Schema:
    """An object that has exactly these properties, all of them."""
    made: Schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"description": description, **made} if description else made


def _list(items: Schema, description: str = "") -> Schema:
    made: Schema = {"type": "array", "items": items}
    return {"description": description, **made} if description else made


def _enum(members: Iterable[Enum], description: str = "") -> Schema:
    made: Schema = {"enum": [member.value for member in members]}
    return {"description": description, **made} if description else made


def _or_null(schema: Schema, description: str = "") -> Schema:
    made: Schema = {"anyOf": [schema, {"type": "null"}]}
    return {"description": description, **made} if description else made


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}
