"""The report as JSON: strict, complete, valid against its schema, and back."""

from __future__ import annotations

import json
import math
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from firstnan.answer import load
from firstnan.answer.model import MechanismKind, Note, Report
from firstnan.answer.schema import json_schema
from firstnan.dump.errors import InputError
from firstnan.dump.language import Language
from firstnan.show.json import dumps, number, to_dict
from reporters.sample_reports import ALL, ANOMALY, EXP

VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def parsed(report: Report, language: Language = Language.EN) -> dict[str, Any]:
    """Through text, as strict as a foreign parser."""

    def refuse(token: str) -> None:
        raise AssertionError(f"bare {token}")

    made: dict[str, Any] = json.loads(dumps(to_dict(report, language)), parse_constant=refuse)
    return made


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("name", ALL)
def test_every_report_is_valid(name: str, language: Language) -> None:
    VALIDATOR.validate(parsed(ALL[name], language))


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("name", ALL)
def test_a_report_comes_back_equal_in_every_language(name: str, language: Language) -> None:
    assert Report.from_dict(parsed(ALL[name], language)) == ALL[name]


def test_report_has_both_ways_as_methods() -> None:
    assert Report.from_dict(ANOMALY.to_dict()) == ANOMALY


def test_the_keys_of_the_design_are_there() -> None:
    made = parsed(ANOMALY)
    assert made["schema"] == "firstnan.report/1"
    assert made["tool"]["name"] == "firstnan"
    assert made["verdict"] == "anomaly"
    assert made["complete"] is False
    assert made["input"]["missing_ranks"] == [4]
    assert made["input"]["problems"][0]["effect"].startswith("firstnan uses what stands before the cut")
    cause = made["root_causes"][0]
    assert cause["mechanism"]["kind"] == "exp_overflow"
    assert cause["mechanism"]["explanation"] == "the exponent reaches 95.25, float32 overflows above 88.7228"
    assert cause["inputs"][0] == {
        "slot": "input_args.0",
        "dtype": "float32",
        "shape": [2, 16, 32],
        "Max": 95.25,
        "Min": -3.5,
        "Mean": None,
        "Norm": None,
        "state": "finite",
        "requires_grad": None,
        "checksum": None,
    }
    assert cause["location"]["line"] == 88
    assert made["collectives"][0]["ops"]["3"] == "Distributed.all_reduce.1.forward"
    assert made["propagation"][0]["from"]["rank"] == 2
    assert made["propagation"][0]["to"]["ranks"] == [3]
    assert made["benign"]["rules"][0]["count"] == 48
    assert made["symptom"]["kind"] == "loss"


def test_words_follow_the_language_and_notes_do_not() -> None:
    english, chinese = parsed(ANOMALY), parsed(ANOMALY, Language.ZH)
    assert english["root_causes"][0]["evidence"] != chinese["root_causes"][0]["evidence"]
    assert english["root_causes"][0]["evidence_notes"] == chinese["root_causes"][0]["evidence_notes"]


def test_non_finite_numbers_are_strings() -> None:
    made = parsed(ANOMALY)
    assert made["root_causes"][0]["outputs"][0]["Max"] == "Infinity"
    assert made["root_causes"][0]["evidence_notes"][1]["params"]["max"] == "Infinity"
    assert number(math.nan) == "NaN"


def test_integers_beyond_the_double_range_are_infinite() -> None:
    assert number(-(10**5000)) == "-Infinity"
    assert number(10**300) == 10**300


def test_invisible_characters_are_escaped_in_the_text() -> None:
    name = "op\u202e\x9b\udc80\x1b损"
    report = replace(ANOMALY, root_causes=(replace(EXP, op_name=name),))
    made = dumps(to_dict(report))
    assert "损" in made
    assert not set(name) & set(made) - set("op损")
    assert made.encode("utf-8")
    assert json.loads(made)["root_causes"][0]["op_name"] == name


@pytest.mark.parametrize(
    "document", [{}, {"schema": "firstnan.report/2"}, {"schema": "firstnan.report/1"}, [], {"schema": None}]
)
def test_what_is_no_report_is_refused(document: Any) -> None:
    with pytest.raises(InputError, match="report"):
        Report.from_dict(document)


def test_a_damaged_report_is_refused() -> None:
    document = parsed(ANOMALY)
    document["root_causes"][0]["where"] = "nowhere"
    with pytest.raises(InputError, match="damaged"):
        Report.from_dict(document)


def test_a_field_that_an_earlier_report_lacks_has_its_default() -> None:
    document = parsed(ANOMALY)
    del document["surroundings"], document["root_causes"][0]["run_up"]
    assert Report.from_dict(document).surroundings == ()
    assert Report.from_dict(document).root_causes[0].run_up == ()


def test_what_a_later_version_adds_is_passed_over() -> None:
    document = parsed(ANOMALY)
    document["news"] = {"deep": [1]}
    document["root_causes"][0]["inputs"][0]["news"] = 3
    assert Report.from_dict(document) == ANOMALY


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("complete",), 1), (("step",), "0"), (("verdict",), "sick"), (("collectives",), {}), (("symptoms",), [3]),
        (("root_causes", 0, "inputs", 0, "Max"), "large"), (("root_causes", 0, "inputs", 0, "Max"), [1]),
        (("root_causes", 0, "evidence_notes", 0, "params"), {"max": []}), (("collectives", 0, "ops"), {"one": "x"}),
        (("propagation", 0), {}), (("propagation", 0, "to"), 3), (("benign",), []), (("input", "ranks"), [None]),
        (("call_map",), "map"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(place: tuple[str | int, ...], value: object) -> None:
    document = parsed(ANOMALY)
    inside: Any = document
    for name in place[:-1]:
        inside = inside[name]
    inside[place[-1]] = value
    with pytest.raises(InputError, match="damaged"):
        Report.from_dict(document)


def test_a_name_in_json_is_that_of_a_statistic_everywhere_or_nowhere() -> None:
    """Words that stand for numbers are found by the names of fields."""
    texts: set[str] = set()
    for part in json_schema()["$defs"].values():
        for name, kind in part.get("properties", {}).items():
            if {"type": "string"} in (kind, *kind.get("anyOf", ())) or kind.get("type") == "string":
                texts.add(name)
    assert {"Max", "Min", "Mean", "Norm", "magnitude_in", "params"} <= load._numeric()
    assert texts & load._numeric() == set()


def test_a_deeply_nested_value_is_refused() -> None:
    document = parsed(ANOMALY)
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    document["root_causes"] = deep
    with pytest.raises(InputError, match="damaged"):
        Report.from_dict(document)


def test_the_schema_has_the_fields_of_the_model_and_their_descriptions() -> None:
    schema = json_schema()
    cause = schema["$defs"]["RootCause"]
    assert {"evidence", "evidence_notes", "run_up", "stack_info"} <= cause["properties"].keys()
    assert cause["required"] == list(cause["properties"])
    assert cause["properties"]["module"]["description"] == "Path of the innermost module around the operator."
    assert schema["properties"]["story_notes"]["description"].startswith("Loss, gradients or parameters")
    assert {kind.value for kind in MechanismKind} == set(schema["$defs"]["MechanismKind"]["enum"])


@settings(deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=8),
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        max_size=5,
    )
)
def test_any_note_comes_back_equal(params: dict[str, Any]) -> None:
    if {"NaN", "Infinity", "-Infinity"} & {value for value in params.values() if isinstance(value, str)}:
        return
    report = replace(ANOMALY, story=(Note("some.key", params),))
    assert Report.from_dict(parsed(report)) == report
