"""The page in a browser. Every test also asks that nothing was loaded and the console stayed silent (see conftest)."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from chromium import Chrome
from msgspec.structs import replace
from page_samples import BOTH_LAYERS, DIFFERING, FULL, MARKERS, NEAR, TWO_CAUSES, hostile, large
from sample_reports import ALL, ANOMALY

from firstnan.answer.views import CallMap, MapRow
from firstnan.dump.language import Language
from firstnan.dump.values import ValueState

Center = Callable[[int, int], tuple[float, float]]
PARTS = {"map", "spread", "curve", "modules", "calls", "agreement", "aside", "input", "json"}


def mouse(chrome: Chrome, spot: tuple[float, float], *, click: bool = False) -> None:
    """Moves to a place of the heat map's canvas."""
    from selenium.webdriver import ActionChains

    canvas = chrome.find("canvas.heat")
    chrome.js("arguments[0].scrollIntoView({block: 'center'})", canvas)
    actions = ActionChains(chrome.driver, duration=0).move_to_element_with_offset(
        canvas, round(spot[0]), round(spot[1])
    )
    (actions.click() if click else actions).perform()
    chrome.settle()


def keys(chrome: Chrome, selector: str, *pressed: str) -> None:
    chrome.find(selector).send_keys(*pressed)
    chrome.settle()


# -- opening -----------------------------------------------------------------------------------------------


def test_it_opens_from_a_file_and_loads_nothing(chrome: Chrome) -> None:
    chrome.open(FULL, "full")
    assert chrome.driver.current_url.startswith("file://")
    assert {node.get_attribute("id") for node in chrome.all(".part")} == PARTS
    requests = chrome.requests()
    assert [url.rpartition("/")[2] for url in requests] == ["full.html"]
    chrome.shot("full-light", whole=True)


def test_the_policy_is_in_force(chrome: Chrome) -> None:
    chrome.open(FULL, "policy")
    assert (
        chrome.js("try { document.body.innerHTML = '<p>x</p>'; return 'done' } catch (e) { return e.name }")
        == "TypeError"
    )
    assert any("TrustedHTML" in message for message in chrome.messages())


@pytest.mark.parametrize("name", ALL)
def test_every_report_opens(chrome: Chrome, name: str) -> None:
    chrome.open(ALL[name], name)
    assert chrome.text("h1")
    assert chrome.find(".verdict").get_attribute("class") == f"verdict verdict-{ALL[name].verdict.value}"
    chrome.shot(f"report-{name}")


def test_the_first_screen_answers(chrome: Chrome) -> None:
    chrome.open(FULL, "first")
    visible = chrome.js(
        "return [...document.querySelectorAll('#answer .panel')]"
        ".filter(n => n.getBoundingClientRect().top < 700).map(n => n.innerText).join('\\n')"
    )
    for needed in (
        "rank 2",
        "Torch.exp.0.forward",
        "/workspace/train/model.py:88",
        "torch.exp(self.gate(x))",
        "certain",
    ):
        assert needed in visible
    assert "no dump of rank 4" in visible


# -- heat map ----------------------------------------------------------------------------------------------


def test_hovering_over_a_cell_tells_about_it(chrome: Chrome, center: Center) -> None:
    chrome.open(FULL, "hover")
    mouse(chrome, center(3, 1))
    tip = chrome.find(".tip")
    assert tip.is_displayed()
    assert "propagated rank 3, place 1" in tip.text
    assert "Distributed.all_reduce.1.forward" in tip.text
    assert "Distributed.all_reduce.1.forward" in tip.text
    chrome.shot("hover")
    mouse(chrome, center(0, 0))
    assert "normal rank 0, place 0" in tip.text


def test_a_click_on_a_cell_tells_all_about_its_call(chrome: Chrome, center: Center) -> None:
    chrome.open(FULL, "click")
    mouse(chrome, center(2, 1), click=True)
    told = chrome.find("#cell-detail").text
    assert "source rank 2, place 1 Distributed.all_reduce.1.forward" in told
    assert "Distributed.all_reduce.1.forward" in told
    assert "2,3" in told
    chrome.shot("click")


def test_a_click_on_nothing_tells_nothing(chrome: Chrome, center: Center) -> None:
    chrome.open(FULL, "nothing")
    mouse(chrome, (center(0, 0)[0] + 900, center(0, 0)[1]), click=True)
    assert chrome.text("#cell-detail") == ""


def test_the_heat_map_is_used_with_the_keyboard(chrome: Chrome) -> None:
    from selenium.webdriver.common.keys import Keys

    chrome.open(FULL, "keyboard")
    keys(chrome, "canvas.heat", Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    assert (
        chrome.text("#map-cell")
        == "rank 2, place 1: source, Distributed.all_reduce.1.forward, Distributed.all_reduce.1.forward"
    )
    keys(chrome, "canvas.heat", Keys.ENTER)
    assert "source rank 2" in chrome.text("#cell-detail")
    keys(chrome, "canvas.heat", Keys.HOME)
    assert "Distributed.all_reduce.1.forward" in chrome.text("#cell-detail")


def plot(chrome: Chrome) -> dict[str, float]:
    found: dict[str, float] = chrome.js("return JSON.parse(document.querySelector('canvas.heat').dataset.plot)")
    return found


def test_zooming_makes_cells_larger_and_all_makes_them_fit(chrome: Chrome) -> None:
    chrome.open(large(64, 200, 20), "zoom")
    chrome.settle()
    before = plot(chrome)
    keys(chrome, "canvas.heat", "+", "+")
    after = plot(chrome)
    assert after["wide"] > before["wide"] * 2
    assert after["high"] > before["high"] * 1.5
    keys(chrome, "canvas.heat", "-")
    assert plot(chrome)["wide"] < after["wide"]
    chrome.find("#map-fit").click()
    chrome.settle()
    assert plot(chrome) == before


def test_only_what_is_not_normal_leaves_rows_and_columns_out(chrome: Chrome) -> None:
    chrome.open(large(64, 1000, 20), "affected")
    chrome.settle()
    before = plot(chrome)
    chrome.find("#map-affected").click()
    chrome.settle()
    assert plot(chrome)["x1"] == 400 < before["x1"] == 1000


def test_states_are_told_apart_without_colour(chrome: Chrome) -> None:
    chrome.open(FULL, "legend")
    assert legend(chrome) == {
        "source": True,
        "propagated": True,
        "missing": True,
        "undecided": True,
        "contained": True,
        "normal": False,
        "no call": False,
    }


# -- ranks that should be equal ----------------------------------------------------------------------------


def legend(chrome: Chrome) -> dict[str, bool]:
    """State -> whether it has a shape."""
    return {
        item.find_element("css selector", "b").text: bool(item.find_elements("css selector", "svg path, svg text"))
        for item in chrome.all(".heat-map .legend li")
        if item.find_elements("css selector", "b")
    }


def test_a_report_without_nan_whose_ranks_differ_is_not_shown_as_clean(chrome: Chrome) -> None:
    chrome.open(DIFFERING, "differing")
    assert chrome.find(".verdict").get_attribute("class") == "verdict verdict-differ"
    assert chrome.text(".verdict b") == "No NaN or Inf, but ranks differ"
    assert "Reload the parameter" in chrome.text(".panels")
    assert legend(chrome) == {"differs": True, "undecided": True, "equal": False}
    chrome.shot("differing-light", whole=True)


def test_parameters_and_ranks_make_a_table_of_letters(chrome: Chrome) -> None:
    chrome.open(DIFFERING, "letters")
    rows = [
        [cell.text for cell in row.find_elements("css selector", "th, td")]
        for row in chrome.all("#agreement .letters tr")
    ]
    assert [row[1:] for row in rows] == [["0", "1", "2", "3"], ["A", "A", "B", "A"], ["A", "B", "C", "D"]]
    kinds = [cell.get_attribute("class") for cell in chrome.all("#agreement .letters td")]
    assert kinds[:4] == ["letter letter-most"] * 2 + ["letter letter-odd", "letter letter-most"]
    assert set(kinds[4:]) == {"letter letter-split"}, "no majority"
    assert "28 more parameters differ." in chrome.text("#agreement")


def test_the_map_has_a_layer_of_equal_results(chrome: Chrome) -> None:
    chrome.open(BOTH_LAYERS, "layers")
    names = [node.text for node in chrome.all("#map .layers button")]
    assert names == ["NaN and Inf", "Equal results"]
    assert "source" in legend(chrome)
    chrome.find("#map .layers button:nth-child(2)").click()
    chrome.settle()
    assert set(legend(chrome)) == {"differs", "equal", "undecided"}
    assert "Shown is whether all members of a call have the same result" in chrome.text("#map")
    chrome.find("#calls tbody button.link").click()  # a call of the other layer
    chrome.settle()
    assert "source" in legend(chrome)


def test_one_layer_has_nothing_to_choose(chrome: Chrome) -> None:
    for report in (FULL, DIFFERING):
        chrome.open(report, "one-layer")
        assert not chrome.find("#map .layers").is_displayed()


@pytest.mark.parametrize(("width", "dark"), [(380, False), (380, True), (1280, True)])
def test_the_table_of_letters_fits_every_screen(chrome: Chrome, width: int, dark: bool) -> None:
    chrome.open(DIFFERING, f"letters-{width}", size=(width, 900), dark=dark)
    assert chrome.js("return document.documentElement.scrollWidth") <= width
    assert chrome.find("#agreement .letters").is_displayed(), "open on a phone as well"
    chrome.shot(f"differing-{width}-{'dark' if dark else 'light'}", whole=True)


# -- the other parts ---------------------------------------------------------------------------------------


def test_a_box_of_the_spread_leads_to_its_call(chrome: Chrome) -> None:
    from selenium.webdriver.common.keys import Keys

    chrome.open(FULL, "spread")
    boxes = chrome.all(".spread .node")
    assert boxes[0].get_attribute("aria-label") == "rank 2, Distributed.all_reduce.1.forward"
    boxes[1].send_keys(Keys.ENTER)
    assert "rank 3" in chrome.text("#cell-detail")


def test_the_curve_shows_the_root_and_follows_the_keyboard(chrome: Chrome) -> None:
    from selenium.webdriver.common.keys import Keys

    chrome.open(FULL, "curve")
    chrome.settle()
    assert chrome.text(".readout").startswith("118 Torch.exp.0.forward in 95.25 Max Inf")
    assert len(chrome.all(".plot canvas")) == 1
    keys(chrome, ".plot", Keys.ARROW_RIGHT)
    assert chrome.text(".readout").startswith("119 Torch.sum.0.forward")
    chrome.find("#curve .choices button:nth-child(2)").click()
    chrome.settle()
    assert chrome.text("#curve .chosen td:nth-child(2)") == "Torch.exp.0.forward"
    assert len(chrome.all(".plot canvas")) == 1


def test_an_input_that_is_not_finite_is_shown_as_such(chrome: Chrome) -> None:
    from selenium.webdriver.common.keys import Keys

    records = list(NEAR.records)
    records[3] = replace(records[3], magnitude_in=None, state_in=ValueState.POS_INF)
    records[4] = replace(records[4], magnitude_in=7.1, state_in=ValueState.NAN)
    chrome.open(replace(FULL, surroundings=(replace(NEAR, records=tuple(records)),)), "bad-input")
    cells = [row.find_elements("css selector", "td")[2].text for row in chrome.all("#curve tbody tr")]
    assert cells[2:5] == ["95.25", "+Inf", "NaN"]
    keys(chrome, ".plot", Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert chrome.text(".readout").startswith("120 Tensor.__truediv__.0.forward in NaN Max NaN")
    chrome.shot("bad-input")


@pytest.mark.parametrize("name", ["clean", "clean_incomplete", "unknown"])
def test_without_a_cause_it_says_what_to_do_next(chrome: Chrome, name: str) -> None:
    chrome.open(ALL[name], f"next-{name}")
    titles = [panel.text.upper() for panel in chrome.all("#answer .panel h2")]
    assert titles[1:] == ["WHAT TO DO NEXT"]
    chrome.shot(f"next-{name}", whole=True)


@pytest.mark.parametrize(
    ("language", "looked_at", "size", "label"),
    [
        (
            Language.EN,
            "ranks 0,1,3, step 0, 1 record",
            "1 rank and 1 column: 1 communication call of step 0.",
            "Heat map of 1 rank and 1 place of communication calls",
        ),
        (
            Language.ZH,
            "rank 0,1,3，step 0，1 条记录",
            "1 个 rank，1 列：step 0 的 1 次通信调用。",
            "1 个 rank、1 个次序的热力图",
        ),
    ],
)
def test_one_and_several_are_told_apart(
    chrome: Chrome, language: Language, looked_at: str, size: str, label: str
) -> None:
    one = CallMap(step=0, columns=("all_reduce",), rows=(MapRow((2,), "s"),), listed=(0,), calls=1)
    report = replace(FULL, input=replace(FULL.input, ranks=(0, 1, 3), records=1), call_map=one)
    chrome.open(report, f"one-{language.value}", language=language)
    assert looked_at in chrome.text(".verdict .state")
    assert chrome.text("#map .lead").startswith(size)
    assert chrome.find("canvas.heat").get_attribute("aria-label") == label


def test_the_module_tree_is_open_down_to_the_root(chrome: Chrome) -> None:
    chrome.open(FULL, "modules")
    assert chrome.find("#modules .tree .here").is_displayed()
    path = chrome.js(
        "const names = []; for (let n = document.querySelector('#modules .here'); n; n = n.parentElement)"
        " if (n.tagName === 'DETAILS') names.unshift(n.querySelector('summary bdi').textContent); return names"
    )
    assert ".".join(path) == "layers.0.branches.gate"


def test_choosing_another_cause_changes_what_belongs_to_it(chrome: Chrome) -> None:
    from selenium.webdriver.common.keys import Keys

    chrome.open(TWO_CAUSES, "two")
    assert "Torch.exp.0.forward" in chrome.text("#cause")
    chrome.all("[role=tab]")[1].click()
    assert "Torch.log.0.forward" in chrome.text("#cause")
    assert "head" in chrome.text("#modules .on-path")
    chrome.find("#cause-tab-1").send_keys(Keys.ARROW_RIGHT)
    assert chrome.find("#cause-tab-0").get_attribute("aria-selected") == "true"
    chrome.shot("two-causes")


def test_the_embedded_json_is_shown_when_asked_for(chrome: Chrome) -> None:
    chrome.open(FULL, "json")
    assert chrome.all("#json pre") == []
    chrome.find("#json summary").click()
    chrome.settle()
    assert chrome.js("return JSON.parse(document.querySelector('#json pre').textContent).verdict") == "anomaly"


# -- search, keyboard --------------------------------------------------------------------------------------


def hits(chrome: Chrome, query: str) -> list[str]:
    box = chrome.find("#search")
    box.clear()
    box.send_keys(query)
    return [item.text for item in chrome.all("#hits [role=option]")]


def test_search_finds_operators_calls_modules_files_and_ranks(chrome: Chrome) -> None:
    chrome.open(FULL, "search")
    assert hits(chrome, "exp gate")[0].startswith("module") or "Torch.exp" in hits(chrome, "torch.exp")[0]
    assert any(hit.startswith("call Distributed.all_reduce.1.forward") for hit in hits(chrome, "all_reduce.1"))
    assert any("branches.gate" in hit for hit in hits(chrome, "branches"))
    assert any(hit.startswith("code /workspace/train/model.py:88") for hit in hits(chrome, "model.py"))
    assert hits(chrome, "3")[0] == "rank rank 3"
    chrome.shot("search")
    assert hits(chrome, "no such thing") == []
    assert chrome.text("#hits") == "nothing found"


def test_enter_goes_to_the_first_hit(chrome: Chrome) -> None:
    from selenium.webdriver.common.keys import Keys

    chrome.open(FULL, "enter")
    hits(chrome, "all_reduce #0")
    keys(chrome, "#search", Keys.ENTER)
    assert "all_reduce #0" in chrome.text("#cell-detail")
    assert not chrome.find("#hits").is_displayed()


def test_slash_searches_and_j_and_k_go_from_part_to_part(chrome: Chrome) -> None:
    from selenium.webdriver.common.keys import Keys

    chrome.open(FULL, "keys")
    body = chrome.find("body")
    body.send_keys("/")
    assert chrome.js("return document.activeElement.id") == "search"
    chrome.find("#search").send_keys(Keys.ESCAPE)
    body.send_keys("j", "j")
    assert chrome.js("return document.activeElement.id") == "spread"
    body.send_keys("k")
    assert chrome.js("return document.activeElement.id") == "map"


def test_everything_that_can_be_clicked_can_be_reached_with_tab(chrome: Chrome) -> None:
    chrome.open(TWO_CAUSES, "tab")
    unreachable = chrome.js(
        "return [...document.querySelectorAll('button, a[href], input, select, summary, canvas.heat, .node')]"
        ".filter(n => n.tabIndex < 0 && n.getAttribute('role') !== 'tab').map(n => n.outerHTML.slice(0, 80))"
    )
    assert unreachable == []
    unnamed = chrome.js(
        "return [...document.querySelectorAll('button, input, select')]"
        ".filter(n => !(n.textContent.trim() || n.ariaLabel || n.labels?.length)).map(n => n.id)"
    )
    assert unnamed == []


# -- languages, colours, sizes -----------------------------------------------------------------------------


@pytest.mark.parametrize("language", Language)
def test_the_language_of_the_report_is_the_first_and_can_be_changed(chrome: Chrome, language: Language) -> None:
    chrome.open(FULL, f"language-{language.value}", language=language)
    english = chrome.text("#map h2") == "Heat map"
    assert english is (language is Language.EN)
    chrome.shot(f"language-{language.value}", whole=True)
    chrome.find(f".choices button[lang={'zh' if english else 'en'}]").click()
    chrome.settle()
    assert chrome.text("#map h2") == ("热力图" if english else "Heat map")
    assert chrome.js("return document.documentElement.lang") == ("zh-Hans" if english else "en")


def test_a_chosen_cell_stays_chosen_in_the_other_language(chrome: Chrome, center: Center) -> None:
    chrome.open(FULL, "stays")
    mouse(chrome, center(2, 1), click=True)
    chrome.find(".choices button[lang=zh]").click()
    chrome.settle()
    assert "源卡 rank 2" in chrome.text("#cell-detail")


def ground(chrome: Chrome) -> str:
    found: str = chrome.js("return getComputedStyle(document.documentElement).backgroundColor")
    return found


PAINTS = """
const [selector, colour] = arguments;
const [r, g, b] = colour.match(/../g).map((part) => parseInt(part, 16));
const canvas = document.querySelector(selector);
const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {willReadFrequently: true});
copy.drawImage(canvas, 0, 0);
const {data} = copy.getImageData(0, 0, canvas.width, canvas.height);
for (let at = 0; at < data.length; at += 4) {
  if (data[at] === r && data[at + 1] === g && data[at + 2] === b) return true;
}
return false;
"""


def paints(chrome: Chrome, selector: str, colour: str) -> bool:
    """Whether a canvas holds a pixel of this colour."""
    found: bool = chrome.js(PAINTS, selector, colour)
    return found


LIGHT, DARK = "rgb(246, 247, 248)", "rgb(18, 22, 26)"


def test_colours_follow_the_system(chrome: Chrome) -> None:
    chrome.open(FULL, "dark", dark=True)
    assert ground(chrome) == DARK
    chrome.shot("full-dark", whole=True)
    chrome.open(FULL, "light")
    assert ground(chrome) == LIGHT


def test_the_switch_overrules_the_system_and_is_remembered(chrome: Chrome) -> None:
    chrome.open(FULL, "switch")
    for theme, expected in (("dark", DARK), ("light", LIGHT), ("dark", DARK)):
        chrome.find(f"#theme option[value={theme}]").click()
        assert ground(chrome) == expected
    chrome.driver.refresh()
    assert ground(chrome) == DARK
    chrome.find("#theme option[value=auto]").click()
    assert ground(chrome) == LIGHT


def test_canvases_take_the_colours_of_the_theme(chrome: Chrome) -> None:
    chrome.open(FULL, "canvas")
    chrome.settle()
    light, dark = "c4421a", "e8623a"
    assert (paints(chrome, ".heat", light), paints(chrome, ".heat", dark)) == (True, False)
    assert paints(chrome, ".plot canvas", "6a4aa3")
    chrome.find("#theme option[value=dark]").click()
    chrome.settle()
    assert (paints(chrome, ".heat", light), paints(chrome, ".heat", dark)) == (False, True)
    assert paints(chrome, ".plot canvas", "b79cf0")
    chrome.find("#theme option[value=auto]").click()


@pytest.mark.parametrize("width", [380, 700, 1024, 1600])
def test_the_page_never_scrolls_sideways(chrome: Chrome, width: int) -> None:
    chrome.open(hostile(), f"width-{width}", size=(width, 900))
    assert chrome.js("return document.documentElement.scrollWidth") <= width
    chrome.shot(f"width-{width}", whole=True)


def test_print_is_light_and_without_controls(chrome: Chrome) -> None:
    chrome.open(FULL, "print", dark=True)
    chrome.driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    )
    chrome.js("window.dispatchEvent(new Event('beforeprint'))")
    assert not chrome.find(".top").is_displayed()
    assert not chrome.find(".controls").is_displayed()
    assert chrome.find("#map canvas").is_displayed()
    assert ground(chrome) == "rgb(255, 255, 255)"
    assert paints(chrome, ".heat", "c4421a")
    chrome.shot("print", whole=True)
    chrome.js("window.dispatchEvent(new Event('afterprint'))")
    chrome.driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"media": "", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    assert ground(chrome) == DARK


# -- hostile and large reports -----------------------------------------------------------------------------


@pytest.mark.parametrize("language", Language)
def test_hostile_text_is_text(chrome: Chrome, language: Language) -> None:
    chrome.open(hostile(), f"hostile-{language.value}", language=language)
    assert chrome.js("return document.images.length") == 0
    assert MARKERS[0] in chrome.text("h1")
    for summary in chrome.all("summary"):
        if summary.is_displayed():
            summary.click()
    hits(chrome, "script")
    assert chrome.js("return document.querySelectorAll('script').length") == 4
    shown = chrome.js("return document.getElementById('page').textContent")
    assert not {"\x1b", "\u202e"} & set(shown)
    chrome.shot(f"hostile-{language.value}", whole=True)


def test_a_thousand_ranks_and_two_thousand_calls(chrome: Chrome, center: Center) -> None:
    chrome.open(large(), "large")
    chrome.settle()
    assert plot(chrome)["y1"] == 1024
    assert plot(chrome)["x1"] == 2000
    assert "256000 communication calls" in chrome.text("#map .lead")
    chrome.shot("large", whole=True)
    mouse(chrome, center(500, 1500))
    assert re.match(r"propagated rank (49\d|50\d), place 1(49\d|50\d)", chrome.find(".tip").text)
    chrome.find("#map-first").click()
    assert "source rank 5, place 600" in chrome.text("#cell-detail")
    for _ in range(8):
        keys(chrome, "canvas.heat", "+")
    assert plot(chrome)["high"] > 10
    chrome.shot("large-zoomed")
    assert hits(chrome, "1023")[0] == "rank rank 1023"
    assert "Shortened" in chrome.text("#json .lead")


def test_the_affected_calls_alone_are_drawn_when_the_report_holds_no_map(chrome: Chrome, center: Center) -> None:
    chrome.open(ANOMALY, "affected-only")
    chrome.settle()
    assert "Only the affected calls are shown" in chrome.text("#map .lead")
    mouse(chrome, center(2, 0), click=True)
    assert "Distributed.all_reduce.1.forward" in chrome.text("#cell-detail")
