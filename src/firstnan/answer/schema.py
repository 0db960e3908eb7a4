"""The JSON Schema (draft 2020-12) of the report: that of the model, with what :mod:`firstnan.show.json` adds to it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

import msgspec
from msgspec import Struct

from firstnan.answer.load import HOMES, SCHEMA_VERSION
from firstnan.answer.model import Report
from firstnan.answer.views import WORST_LAST
from firstnan.dump.language import Language

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}


def json_schema() -> Schema:
    """The schema of ``firstnan.report/1``."""
    _, parts = msgspec.json.schema_components([Report], ref_template="#/$defs/{name}")
    for name, part in parts.items():
        if "properties" in part:
            parts[name] = _worded(part, _described(name))
    parts["Number"] = {
        "description": "A number; non-finite ones as strings.",
        "anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}],
    }
    parts["Problem"]["properties"]["effect"] = _TEXT
    parts["CollectiveReport"]["properties"]["total_ranks"] = _COUNT
    parts["MapRow"]["properties"]["cells"]["pattern"] = f"^([{WORST_LAST}][0-9]*)*$"
    parts["Hop"] = _hop(parts["Hop"])
    report = parts.pop("Report")
    own = report["properties"]
    own["benign"] = _object(rules=own["benign"])
    own["symptom"] = {"anyOf": [_ref("Symptom"), {"type": "null"}], "description": "The first of symptoms."}
    whole = _object(
        schema={"const": SCHEMA_VERSION},
        tool=_object(name={"const": "firstnan"}, version=_TEXT),
        language={
            "enum": [language.value for language in Language],
            "description": "Language of the words for people.",
        },
        headline={**_TEXT, "description": "The answer in one sentence."},
        **own,
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:firstnan:report:1",
        "title": "firstnan report",
        "description": "Where NaN or Inf began in a distributed training run, from MSProbe dumps.",
        **whole,
        "$defs": {name: _strict(part) for name, part in parts.items()},
    }


def _number(field: Schema) -> Schema:
    """A statistic by its name."""
    if field.get("statistic"):
        return _ref("Number")
    return {**field, "anyOf": [_number(choice) for choice in field["anyOf"]]} if "anyOf" in field else field


def _worded(part: Schema, described: dict[str, str]) -> Schema:
    """The part with the text beside every note, and with descriptions."""
    properties: Schema = {}
    for name, field in part["properties"].items():
        field.pop("default", None)  # everything is always written
        if name.endswith("_note"):
            properties[name.removesuffix("_note")] = dict(_TEXT)
        elif name.endswith("_notes"):
            properties[name.removesuffix("_notes")] = {"type": "array", "items": _TEXT}
        properties[name] = _number(field)
    for name, text in described.items():
        if name in properties and "$ref" not in properties[name]:
            properties[name]["description"] = text
    return {**part, "properties": properties}


def _strict(part: Schema) -> Schema:
    """Exactly these properties, all of them."""
    if "properties" not in part:
        return part
    return {**part, "required": list(part["properties"]), "additionalProperties": False}


def _object(**properties: Schema) -> Schema:
    return _strict({"type": "object", "properties": properties})


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _hop(flat: Schema) -> Schema:
    """Where a value came from and where it went, as two objects."""
    own = flat["properties"]
    return {
        "title": "Hop",
        "description": flat.get("description", ""),
        **_object(
            **{
                "from": _object(step=own["step"], rank=own["from_rank"], op_name=own["from_op"]),
                "to": _object(ranks=own["to_ranks"], ops=own["to_ops"]),
                "via": own["via"],
            }
        ),
    }


def _described(name: str) -> dict[str, str]:
    """What the docstrings of a value's fields say, by the fields' names in JSON."""
    kinds = {kind.__name__: kind for kind in Struct.__subclasses__() if kind.__module__.startswith(HOMES)}
    kind = kinds[name]
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            found[names[field.target.id]] = " ".join(str(ast.literal_eval(text.value)).split())
    return found
