"""Words for people: complete in both languages, safe with whatever comes in."""

from __future__ import annotations

import ast
import math
import re
import string
from enum import Enum
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import firstnan
from firstnan.answer.model import Confidence, MatchState, MechanismKind, Note, RankState, SymptomKind, Where
from firstnan.dump.language import Language
from firstnan.dump.problems import ProblemKind
from firstnan.dump.records import Direction
from firstnan.dump.values import ValueState
from firstnan.operators import table
from firstnan.words import Words, catalog, default_language, en, has, number, pieces, text, zh

SOURCE = Path(firstnan.__file__).parent

NEEDED: list[tuple[str, type[Enum], tuple[str, ...]]] = [
    ("where", Where, ("",)),
    ("verdict", Where, ("",)),
    ("mechanism", MechanismKind, (".name", ".why", ".advice")),
    ("confidence", Confidence, ("",)),
    ("direction", Direction, ("",)),
    ("state", ValueState, ("",)),
    ("rank_state", RankState, ("",)),
    ("problem", ProblemKind, ("", ".effect")),
    ("match", MatchState, ("",)),
    ("symptom", SymptomKind, ("",)),
]


def fields(template: str) -> set[str]:
    return {f"{name}:{area}" for _, name, area, _ in string.Formatter().parse(template) if name is not None}


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize(("area", "members", "endings"), NEEDED, ids=[area for area, _, _ in NEEDED])
def test_every_enum_member_has_words(
    language: Language, area: str, members: type[Enum], endings: tuple[str, ...]
) -> None:
    wanted = {f"{area}.{member.value}{ending}" for member in members for ending in endings}
    assert wanted - catalog(language).keys() == set()


def test_every_bad_state_has_a_value_word() -> None:
    bad = {f"value.{state.value}" for state in ValueState if state.is_bad}
    assert bad <= en.MESSAGES.keys()


def test_both_languages_have_the_same_keys() -> None:
    assert en.MESSAGES.keys() ^ zh.MESSAGES.keys() == set()


def test_both_languages_have_the_same_placeholders() -> None:
    differ = {key for key in en.MESSAGES if fields(en.MESSAGES[key]) != fields(zh.MESSAGES.get(key, ""))}
    assert differ == set()


@pytest.mark.parametrize("language", [en, zh])
def test_no_key_stands_in_two_areas(language: object) -> None:
    parts = language.PARTS  # type: ignore[attr-defined]
    assert sum(len(part) for part in parts) == len(language.MESSAGES)  # type: ignore[attr-defined]


@pytest.mark.parametrize("language", Language)
def test_templates_are_well_formed(language: Language) -> None:
    for key, template in catalog(language).items():
        assert template, key
        assert "\n" not in template, key
        for _, name, _, conversion in string.Formatter().parse(template):
            assert name is None or name.isidentifier(), key
            assert conversion is None, key


@pytest.mark.parametrize("kind", MechanismKind)
@pytest.mark.parametrize("language", Language)
def test_why_and_advice_need_no_parameters(kind: MechanismKind, language: Language) -> None:
    for ending in ("name", "why", "advice"):
        assert fields(catalog(language)[f"mechanism.{kind.value}.{ending}"]) == set()


AREAS = {key.partition(".")[0] for key in en.MESSAGES} | {"advice", "caveat", "evidence", "reason", "story", "why"}
KEY = re.compile(rf"({'|'.join(sorted(AREAS))})\.[a-z_]*[a-z](\.[a-z_]*[a-z])*")
FILE_NAMES = re.compile(r".*\.(json|toml|md|html|py)")


def keys_in_source() -> set[str]:
    """Every literal in the package that has the form of a key, such as ``evidence.output_bad``."""
    return {
        node.value
        for path in sorted(SOURCE.rglob("*.py"))
        if path.parent.name not in ("en", "zh")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if KEY.fullmatch(node.value) and not FILE_NAMES.fullmatch(node.value)
    }


def test_every_key_in_the_package_has_words() -> None:
    assert {key for key in keys_in_source() if not has(key)} == set()


SENTENCES = ("evidence", "caveat", "story", "reason", "why")


def test_every_sentence_of_a_report_stands_in_a_test() -> None:
    tests = Path(__file__).parent
    words = " ".join(path.read_text("utf-8") for path in sorted(tests.rglob("*.py")) if path != Path(__file__))
    told = set(re.findall(r"[a-z_]+\.[a-z0-9_.]*[a-z0-9_]", words))
    assert {key for key in en.MESSAGES if key.partition(".")[0] in SENTENCES} <= told


def test_numbers_are_written_for_engineers() -> None:
    written = {value: number(value) for value in (65504.0, 65519.7, 0, 0.0, 88.72284, 1e-7, 3.4028235e38, -2.5, 10**15)}
    assert written == {
        65504.0: "65504",
        65519.7: "65519.7",
        0: "0",
        88.72284: "88.7228",
        1e-7: "1.000e-07",
        3.4028235e38: "3.403e+38",
        -2.5: "-2.5",
        10**15: "1000000000000000",
    }
    assert [number(value) for value in (math.nan, math.inf, -math.inf)] == ["NaN", "Inf", "-Inf"]


def test_huge_integers_are_written_in_bounded_length() -> None:
    assert number(-(10**5000)) == "-~1e+5000"


def test_a_missing_parameter_is_shown_not_raised() -> None:
    assert text("label.record_of", Language.EN, index=3) == "  record 3 of rank ?"


def test_an_unknown_key_is_shown_with_its_parameters() -> None:
    assert text(Note("evidence.not_there", {"a": 1.5}), Language.ZH) == "evidence.not_there (a=1.5)"


def test_an_area_in_a_placeholder_is_looked_up() -> None:
    made = text("label.mechanism_confidence", Language.ZH, mechanism=Words("exp"), confidence="certain")
    assert made == "exp（确定）"


@pytest.mark.parametrize(
    ("ranks", "said"), [("3", "rank 3"), (3, "rank 3"), ("0,3", "ranks 0,3"), ("0-7", "ranks 0-7"), (None, "-")]
)
def test_the_area_ranks_sets_the_word_before_the_list(ranks: str | int | None, said: str) -> None:
    assert text("caveat.cut_ranks", Language.EN, ranks=ranks).startswith(f"the dump of {said} is cut")


def test_a_list_of_ranks_that_is_absent_is_shown_as_such() -> None:
    assert text("caveat.cut_ranks", Language.EN).startswith("the dump of ? is cut")


def test_a_value_outside_of_the_area_is_shown_as_it_is() -> None:
    assert text("label.mechanism_confidence", Language.EN, mechanism="exp", confidence="odd") == "exp (odd)"


def test_pieces_tell_data_from_words() -> None:
    made = pieces("label.mechanism_confidence", Language.EN, mechanism="exp", confidence="certain")
    assert [(piece.text, piece.is_data) for piece in made] == [
        ("exp", True),
        (" (", False),
        ("certain", False),
        (")", False),
    ]


def test_a_parameter_is_never_a_template() -> None:
    assert text("label.rank", Language.EN, ranks="{op}{0.__class__}") == "rank {op}{0.__class__}"


def test_hostile_parameters_come_out_harmless() -> None:
    made = text("label.rank", Language.EN, ranks="\x1b[31m" + "x" * 100_000 + "\u202e")
    assert made.isprintable()
    assert len(made) < 120


@settings(deadline=None)
@given(st.text(), st.sampled_from(Language))
def test_any_text_comes_out_printable(value: str, language: Language) -> None:
    assert text("label.through", language, op=value).isprintable()


@settings(deadline=None)
@given(st.floats() | st.integers())
def test_any_number_has_words(value: float) -> None:
    assert number(value).isprintable()


@pytest.mark.parametrize(
    ("environ", "language"),
    [
        ({}, Language.EN),
        ({"LANG": "C.UTF-8"}, Language.EN),
        ({"LANG": "zh_CN.UTF-8"}, Language.ZH),
        ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "en_US.UTF-8"}, Language.EN),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "zh_CN.UTF-8"}, Language.ZH),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": ""}, Language.ZH),
    ],
)
def test_the_locale_chooses_the_language(environ: dict[str, str], language: Language) -> None:
    assert default_language(environ) is language


def test_every_rule_that_the_filters_count_has_words() -> None:
    package = Path(firstnan.__file__).resolve().parent
    sources = "".join((package / "rank" / f"{name}.py").read_text("utf-8") for name in ("taint/legality", "suspects"))
    counted = set(re.findall(r'_count\("(\w+)"', sources))
    assert len(counted) > 3
    named = {rule.name for rule in table.load().rules}
    assert {name for name in counted | named if not has(f"benign.{name}")} - {"non_compute"} == set()
