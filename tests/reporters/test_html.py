"""The HTML page as a file: what it holds, what it never holds. How it behaves is tested in tests/browser."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from page_samples import FULL, LONG, MARKERS, NEAR, TWO_CAUSES, hostile, large
from sample_reports import ALL, ANOMALY, CLEAN, EXP, tensor

import firstnan.show.html
from firstnan.answer.model import Hop, Report
from firstnan.dump.language import Language
from firstnan.dump.values import ValueState
from firstnan.show import Format, Settings, View, render
from firstnan.show.html import call_map, embedded_json
from firstnan.show.html.spread import MAX_NODES, forest, merged
from firstnan.show.html.static import fragment
from firstnan.show.json import to_dict
from firstnan.words import catalog

ASSETS = Path(firstnan.show.html.__file__).parent / "assets"
SCRIPTS = sorted((ASSETS / "page").glob("*.js"))
VOID = {"meta", "link", "br", "img", "input", "hr"}


@dataclass
class Page(HTMLParser):
    """What a parser of HTML sees: elements with their attributes and text."""

    elements: list[tuple[str, dict[str, str | None], str]] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        tag, attrs, text = self.elements[-1] if self.elements else ("", {}, "")
        if self.open and self.open[-1] == tag:
            self.elements[-1] = (tag, attrs, text + data)

    def all(self, tag: str) -> Iterator[tuple[dict[str, str | None], str]]:
        return ((attrs, text) for name, attrs, text in self.elements if name == tag)

    def block(self, name: str) -> Any:
        return json.loads(next(text for attrs, text in self.all("script") if attrs.get("id") == name))


def made(report: Report, **settings: object) -> str:
    return render(report, Format.HTML, Settings(**settings))  # type: ignore[arg-type]


def parsed(report: Report, **settings: object) -> Page:
    page = Page()
    page.feed(made(report, **settings))
    page.close()
    assert page.open == []
    return page


def strings(value: object) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


# -- one file that loads nothing ---------------------------------------------------------------------------


def test_nothing_in_the_page_points_elsewhere() -> None:
    page = parsed(FULL)
    assert {tag for tag, _, _ in page.elements} == {
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "noscript",
        "div",
        "script",
    }
    assert not any({"src", "href", "action", "data", "srcset"} & attrs.keys() for _, attrs, _ in page.elements)
    addresses = set(re.findall(r"https?://[^\s\"')]+", made(FULL)))
    assert addresses == {"http://www.w3.org/2000/svg", "https://github.com/leeoniya/uPlot"}  # a namespace, a comment
    assert not re.search(
        r"@import|\burl\((?!#)|fetch\(|XMLHttpRequest|WebSocket|importScripts",
        "".join(s.read_text("utf-8") for s in SCRIPTS),
    )


def policy(page: Page) -> dict[str, list[str]]:
    content = next(
        attrs["content"] for attrs, _ in page.all("meta") if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    assert content is not None
    return {name: values for name, *values in (part.split() for part in content.split(";"))}


def test_the_policy_allows_the_pages_own_scripts_and_styles_and_nothing_else() -> None:
    page = parsed(FULL)
    rules = policy(page)
    assert rules["default-src"] == ["'none'"]
    assert rules["base-uri"] == rules["form-action"] == ["'none'"]
    assert rules["require-trusted-types-for"] == ["'script'"]
    scripts = [text for attrs, text in page.all("script") if attrs.get("type") != "application/json"]

    def hashes(texts: list[str]) -> list[str]:
        return [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in texts]

    assert rules["script-src"] == hashes(scripts)
    assert rules["style-src"] == hashes([text for _, text in page.all("style")])
    assert "unsafe" not in str(rules)


def test_the_policy_comes_before_anything_that_it_governs() -> None:
    tags = [(tag, attrs.get("http-equiv")) for tag, attrs, _ in parsed(FULL).elements]
    assert tags.index(("meta", "Content-Security-Policy")) < tags.index(("style", None))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_make_no_markup_from_text(script: Path) -> None:
    banned = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|new Function|\bstyle: "
    assert not re.search(banned, script.read_text("utf-8"))


def test_the_library_comes_with_its_licence() -> None:
    library = next(text for _, text in parsed(FULL).all("script") if "uPlot=" in text)
    assert "The MIT License" in library
    assert "Permission is hereby granted" in library


# -- text from a dump --------------------------------------------------------------------------------------


def test_all_text_of_a_dump_stands_in_json_blocks() -> None:
    page = parsed(hostile())
    outside = [
        text for tag, attrs, text in page.elements if not (tag == "script" and attrs.get("type") == "application/json")
    ]
    assert len([1 for tag, _, _ in page.elements if tag == "script"]) == 4
    assert "img" not in {tag for tag, _, _ in page.elements}
    assert not any("alert(" in text or "gnp.exe" in text for text in outside)


@pytest.mark.parametrize("name", ["page-data", "report-data"])
def test_json_blocks_hold_no_character_of_markup(name: str) -> None:
    source = made(replace(hostile(), surroundings=()))
    block = re.search(rf'id="{name}">(.*?)</script>', source, re.DOTALL)
    assert block is not None
    assert not re.search("[<>&\u2028\u2029]", block.group(1))


def test_what_is_shown_is_printable_and_of_bounded_length() -> None:
    for text in strings(parsed(hostile()).block("page-data")):
        assert text.isprintable()
        assert len(text) < 1000
    assert len(made(hostile())) < 1_000_000


def test_hostile_text_is_still_told() -> None:
    shown = " ".join(strings(parsed(hostile()).block("page-data")))
    assert MARKERS[0] in shown
    assert "\\x1b[31mred" in shown
    assert "\\u202egnp.exe" in shown


def test_the_embedded_report_is_the_report() -> None:
    document = parsed(FULL).block("report-data")
    assert document == json.loads(json.dumps(to_dict(FULL)))
    assert Report.from_dict(document) == FULL


def test_an_embedded_report_that_is_too_large_is_shortened_and_says_so() -> None:
    page = parsed(large(256, 300, 200))
    document = page.block("report-data")
    told = page.block("page-data")["json"]
    assert told["shortened"]
    assert len(document["collectives"]) == told["calls"] < told["all_calls"] == 200
    assert Report.from_dict(document).root_causes


def test_an_embedded_report_with_endless_names_is_left_out() -> None:
    evil = replace(hostile(), collectives=(), propagation=(), surroundings=())
    found = embedded_json.embedded(evil, Language.EN)
    assert json.loads(found.text) is None
    assert found.shortened
    assert LONG not in made(evil)


def test_redaction_reaches_the_whole_page() -> None:
    text = made(FULL, redact=True)
    for secret in ("/workspace", "/data", "/opt", "torch.exp(self"):
        assert secret not in text
    assert parsed(FULL, redact=True).block("page-data")["redacted"] is True


# -- size --------------------------------------------------------------------------------------------------


def test_usual_reports_are_small() -> None:
    assert len(made(FULL).encode()) < 300_000


def test_a_thousand_ranks_and_two_thousand_calls_fit_into_a_megabyte() -> None:
    assert len(made(large()).encode()) < 1_000_000


def test_a_map_beyond_its_budget_is_merged_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_map, "BUDGET", 40)
    drawn = parsed(FULL).block("page-data")
    assert drawn["map"]["merged"] > 1
    assert len(drawn["map"]["columns"]) < 3
    assert all(call["column"] < len(drawn["map"]["columns"]) for call in drawn["calls"])


def test_without_a_map_of_all_calls_the_affected_ones_are_drawn() -> None:
    drawn = parsed(ANOMALY).block("page-data")["map"]
    assert drawn["affected_only"] is True
    assert drawn["columns"] == ["all_reduce", "all_reduce"]
    assert dict(drawn["rows"]) == {"0": ".p", "1": ".u", "2": "s2", "3": "ps", "4": ".2"}


# -- the model ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("view", View)
@pytest.mark.parametrize("name", [*ALL, "full", "two"])
def test_every_report_has_a_page(name: str, view: View, language: Language) -> None:
    report = {**ALL, "full": FULL, "two": TWO_CAUSES}[name]
    page = parsed(report, view=view, rank=2, language=language)
    model = page.block("page-data")
    assert model["language"] == language.value
    assert set(model["texts"]) == {"en", "zh"}
    assert all(model["texts"][one]["headline"] for one in ("en", "zh"))
    assert next(page.all("html"))[0]["lang"] == {"en": "en", "zh": "zh-Hans"}[language.value]


def test_both_languages_say_the_same_things() -> None:
    texts = parsed(TWO_CAUSES).block("page-data")["texts"]

    def shape(value: object) -> object:
        if isinstance(value, dict):
            return {key: shape(item) for key, item in value.items() if key != "remarks"}
        return len(value) if isinstance(value, list) else None

    english, chinese = ({key: value for key, value in texts[one].items() if key != "words"} for one in ("en", "zh"))
    assert {key: shape(english[key]) for key in ("causes", "problems", "doubts", "symptoms")} == {
        key: shape(chinese[key]) for key in ("causes", "problems", "doubts", "symptoms")
    }


def test_every_word_of_the_scripts_has_a_message() -> None:
    known = catalog(Language.EN)
    sent = parsed(FULL).block("page-data")["texts"]["en"]["words"]
    for script in SCRIPTS:
        for key in re.findall(
            r'"((?:html|label|column|section|rank_state|state)\.[a-z_.]+)"', script.read_text("utf-8")
        ):
            assert key in known, (script.name, key)
            assert key in sent, (script.name, key)


def test_every_message_of_the_page_is_used() -> None:
    sources = "".join(path.read_text("utf-8") for path in (*SCRIPTS, *ASSETS.parents[1].rglob("*.py")))
    literal = set(re.findall(r"""["'`]((?:html|chrome)\.[a-z_.]+)""", sources))
    families = tuple(key for key in literal if key.endswith("."))  # `html.theme.${name}`
    for key in catalog(Language.EN):
        if key.startswith(("html.", "chrome.")):
            assert key in literal or key.removesuffix(".what") in literal or key.startswith(families), key


def test_no_words_stand_in_the_scripts() -> None:
    """A word for people would be a text of two words; what is left are class lists, fonts and signs."""
    for script in SCRIPTS:
        source = re.sub(r"//.*|/\*.*?\*/", "", script.read_text("utf-8"))
        quoted = re.findall(r'(?<![:=(] )"([A-Z][a-z]+ [a-z ]+)"', source)
        assert quoted == [], script.name


def test_a_cause_has_its_chain_values_with_the_root_last() -> None:
    cause = parsed(replace(FULL, root_causes=(replace(FULL.root_causes[0], run_up=FULL.root_causes[0].run_up[:1]),)))
    values = cause.block("page-data")["causes"][0]["chain_values"]
    assert [(one["index"], one["max"]) for one in values] == [(110, 95.25), (118, "Infinity")]


def test_a_record_whose_input_is_not_finite_says_so() -> None:
    """``magnitude_in`` is that of the finite inputs: alone it would read as clean in, bad out."""
    records = list(NEAR.records)
    records[0] = replace(records[0], state_in=ValueState.NEG_INF)
    records[2] = replace(records[2], magnitude_in=7.1, state_in=ValueState.NAN)
    records[3] = replace(records[3], state_in=ValueState.POS_INF)
    inputs = (tensor("input_args.0", 7.1, 0.0), tensor("input_args.1", math.nan, math.nan))
    cause = replace(EXP, inputs=inputs, run_up=EXP.run_up[:1])
    report = replace(FULL, root_causes=(cause,), surroundings=(replace(NEAR, records=tuple(records)),))
    shown = parsed(report).block("page-data")["causes"][0]
    assert [(one["in"], one["bad_in"]) for one in shown["near"][:4]] == [
        (4.5, "-inf"),
        (95.25, None),
        (7.1, "nan"),
        (None, "+inf"),
    ]
    assert [(one["index"], one["bad_in"]) for one in shown["chain_values"]] == [(110, "-inf"), (118, "nan")]


@pytest.mark.parametrize("name", ["clean", "clean_incomplete", "unknown"])
def test_without_a_cause_the_page_says_what_to_do_next(name: str) -> None:
    told = parsed(ALL[name]).block("page-data")["texts"]
    text = render(ALL[name], Format.TEXT, Settings(width=500))
    shown = [flat(entry["item"]) for entry in told["en"]["advice"]]
    assert shown
    assert all(f"{at}. {advice}" in text for at, advice in enumerate(shown, 1))
    assert len(told["zh"]["advice"]) == len(shown)


def test_with_a_cause_the_advice_is_that_of_the_cause() -> None:
    told = parsed(FULL).block("page-data")["texts"]["en"]
    assert told["advice"] == []
    assert told["causes"][0]["advice"]
    assert parsed(CLEAN, view=View.RANKS).block("page-data")["texts"]["en"]["advice"] == []


def flat(spans: list[Any]) -> str:
    """The text of a line."""
    return "".join(span if isinstance(span, str) else span[0] for span in spans)


def test_ranks_tells_of_an_anomaly_that_no_call_took_in() -> None:
    told = parsed(replace(ANOMALY, collectives=()), view=View.RANKS).block("page-data")["texts"]["en"]
    assert any("on rank 2: firstnan analyze /data/run/dump" in flat(sentence) for sentence in told["story"])


@pytest.mark.parametrize("language", Language)
def test_every_counted_thing_has_words_for_one_and_for_several(language: Language) -> None:
    words = catalog(language)
    used = {area for key in words if key.startswith("html.") for area in re.findall(r"\{\w+:(\w+)\}", words[key])}
    counted = {key.split(".")[2] for key in words if key.startswith("html.count.")}
    assert used == counted | {"ranks"}
    assert all(f"html.count.{area}{ending}" in words for area in counted for ending in ("", ".one"))


def test_neighbours_come_from_the_surroundings_of_the_root() -> None:
    cause = parsed(FULL).block("page-data")["causes"][0]
    assert [record["index"] for record in cause["near"]] == [110, 111, 118, 119, 120, 121]
    assert cause["near"][2]["bad"] is True
    assert cause["near"][2]["limit"] == cause["limit"]["largest"] == 3.4028234663852886e38


# -- the spread --------------------------------------------------------------------------------------------


def test_ranks_that_got_it_from_each_other_still_have_a_place() -> None:
    nodes = forest([Hop(0, 1, "a", (2,), {}, "x"), Hop(0, 2, "b", (1,), {}, "x")])
    assert sorted(rank for node in nodes for rank in node.ranks) == [1, 1, 2]
    assert nodes[0].parent is None


def test_parents_come_before_their_children() -> None:
    nodes = forest([Hop(0, 3, "b", (4,), {}, "x"), Hop(0, 2, "a", (3,), {}, "x")])
    assert all(node.parent is None or node.parent < at for at, node in enumerate(nodes))


def test_many_ranks_reached_alike_are_one_node() -> None:
    hops = [Hop(0, 0, "a", (rank,), {rank: "b"}, "all_reduce") for rank in range(1, MAX_NODES + 10)]
    nodes = forest(hops)
    assert len(nodes) == 2
    assert nodes[1].ranks == set(range(1, MAX_NODES + 10))
    assert nodes[1].hops == len(hops)
    assert merged(nodes)[1].hops == len(hops)


# -- notebooks ---------------------------------------------------------------------------------------------


def test_a_notebook_shows_the_answer_without_script() -> None:
    text = FULL._repr_html_()
    assert "<script" not in text
    assert "Torch.exp.0.forward" in text


def test_a_notebook_shows_hostile_text_as_text() -> None:
    page = Page()
    page.feed(fragment(hostile(), Language.ZH))
    page.close()
    assert page.open == []
    allowed = {"div", "p", "span", "bdi", "pre", "table", "thead", "tbody", "tr", "th", "td"}
    assert {tag for tag, _, _ in page.elements} <= allowed
    assert all(set(attrs) <= {"style"} for _, attrs, _ in page.elements)
