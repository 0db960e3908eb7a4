"""JSON as dying jobs leave it."""

from __future__ import annotations

import gc
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstnan.read.json import lenient
from firstnan.read.json.lenient import MAX_DEPTH, loads

FAST = lenient.from_json


def refuse(data: bytes, **_: object) -> object:
    raise ValueError(data)


def both(data: bytes) -> lenient.Parsed:
    """The answer, after checking that the careful way alone gives the same."""
    answer = loads(data)
    try:
        lenient.from_json = refuse
        assert repr(loads(data)) == repr(answer)
    finally:
        lenient.from_json = FAST
    return answer


def test_bare_non_finite_numbers() -> None:
    parsed = loads(b'{"a": NaN, "b": Infinity, "c": -Infinity, "d": 1e999, "e": -1e999}')
    assert isinstance(parsed.value, dict)
    assert math.isnan(parsed.value.pop("a"))
    assert parsed.value == {"b": math.inf, "c": -math.inf, "d": math.inf, "e": -math.inf}
    assert parsed.cut is None
    assert parsed.notes == ()


def test_strings_are_no_numbers() -> None:
    assert loads(b'["nan", "Infinity"]').value == ["nan", "Infinity"]


@pytest.mark.parametrize(
    ("data", "value"),
    [
        pytest.param(b'{"a": 1, "b": 12', {"a": 1}, id="number"),
        pytest.param(b'{"a": 1, "b": -', {"a": 1}, id="sign"),
        pytest.param(b'{"a": 1, "b": 1.', {"a": 1}, id="decimal_point"),
        pytest.param(b'{"a": 1, "b": 2e', {"a": 1}, id="exponent"),
        pytest.param(b'{"a": 1, "b": Na', {"a": 1}, id="nan"),
        pytest.param(b'{"a": 1, "b": -Infin', {"a": 1}, id="infinity"),
        pytest.param(b'{"a": 1, "b": tru', {"a": 1}, id="true"),
        pytest.param(b'{"a": 1, "b": "te', {"a": 1}, id="string"),
        pytest.param(b'{"a": 1, "b": "te\\', {"a": 1}, id="escape"),
        pytest.param(b'{"a": 1, "b": "te\\u00', {"a": 1}, id="unicode_escape"),
        pytest.param(b'{"a": 1, "b": "\xc3', {"a": 1}, id="inside_a_character"),
        pytest.param(b'{"a": 1, "b": "text"', {"a": 1, "b": "text"}, id="after_a_string"),
        pytest.param(b'{"a": 1, "b": "x, {[', {"a": 1}, id="string_with_brackets"),
        pytest.param(b'{"a": 1, "b":', {"a": 1}, id="colon"),
        pytest.param(b'{"a": 1, "b"', {"a": 1}, id="key"),
        pytest.param(b'{"a": 1, "b', {"a": 1}, id="inside_a_key"),
        pytest.param(b'{"a": 1, ', {"a": 1}, id="comma"),
        pytest.param(b'{"a": 1}, ', {"a": 1}, id="behind_the_end_is_no_cut"),
        pytest.param(b'{"a": {"b": [1, {"c": 2', {"a": {"b": [1, {}]}}, id="nested"),
        pytest.param(b'{"a": [[], {}, ', {"a": [[], {}]}, id="empty_containers"),
        pytest.param(b'{"a": ["x"', {"a": ["x"]}, id="string_in_a_list"),
        pytest.param(b'{"a": {"b": "c"', {"a": {"b": "c"}}, id="string_in_an_object"),
        pytest.param(b"{", {}, id="brace"),
    ],
)
def test_a_text_that_ends_early_gives_what_stands_before(data: bytes, value: object) -> None:
    parsed = both(data)
    assert parsed.value == value
    assert parsed.fault is None
    if parsed.cut is not None:
        assert parsed.cut.why == "ends early"
        assert parsed.cut.offset == len(data)


def test_a_cut_tells_how_many_containers_were_open() -> None:
    text = b'{"task": "x", "data": {"first": {"output": []}, "second": {"output": [{"Max": 1.0, "Min": 0'
    depths = {text[:end].count(b"{") + text[:end].count(b"[") - text[:end].count(b"}") - text[:end].count(b"]"): end
              for end in range(1, len(text))}  # fmt: skip
    for depth, end in depths.items():
        cut = both(text[:end]).cut
        assert cut is not None
        assert cut.depth == depth
    assert max(depths) == 5


def test_damage_in_the_middle_gives_what_stands_before() -> None:
    parsed = both(b'{"a": {"b": 1}, "c": {"d": 2, \0\0\0\0\0\0\0\0}, "e": 3}')
    assert parsed.value == {"a": {"b": 1}, "c": {"d": 2}}
    assert parsed.cut is not None
    assert parsed.cut.offset == 30
    assert parsed.cut.depth == 2
    assert parsed.cut.why != "ends early"


def test_a_number_that_touches_damage_is_not_trusted() -> None:
    assert both(b'{"a": 1, "b": 12\0\0}').value == {"a": 1}


def test_an_unknown_escape_is_damage() -> None:
    parsed = both(b'{"a": 1, "b": "x, {\\q", "c": 2}')
    assert parsed.value == {"a": 1}
    assert parsed.cut is not None


def test_text_behind_the_end_is_noted() -> None:
    parsed = both(b'{"a": 1}\n\0\0 {"b": 2}')
    assert parsed.value == {"a": 1}
    assert parsed.cut is None
    assert [note.lossy for note in parsed.notes] == [True]


@pytest.mark.parametrize("data", [b"", b" \n", b"\0" * 4096, b"hello", b"\x89PNG\r\n", b"}", b"\xff\xff\xff"])
def test_no_json_at_all_is_a_fault(data: bytes) -> None:
    parsed = both(data)
    assert parsed.fault
    assert parsed.value is None


def test_byte_order_mark_is_skipped() -> None:
    assert both(b'\xef\xbb\xbf{"a": NaN}').fault is None
    assert both(b"\xef\xbb\xbf[1]").value == [1]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
def test_other_encodings_are_read_and_noted(encoding: str) -> None:
    parsed = both('{"a": "ä", "b": 1}'.encode(encoding))
    assert parsed.value == {"a": "ä", "b": 1}
    assert "utf" in parsed.notes[0].detail
    assert not parsed.notes[0].lossy


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    parsed = both('{"名": 1, "b": "x'.encode("gbk") + b'"}')
    assert isinstance(parsed.value, dict)
    assert parsed.value["b"] == "x"
    assert "UTF-8" in parsed.notes[0].detail


def test_lone_surrogates_are_replaced_and_pairs_kept() -> None:
    parsed = both(rb'["\ud83d\ude00", "a\ud83db", "\ude00", "\\ud83d"]')
    assert parsed.value == ["\U0001f600", "a\ufffdb", "\ufffd", "\\ud83d"]


def test_control_characters_in_strings() -> None:
    assert both(b'{"a\tb": "c\nd\0"}').value == {"a\tb": "c\nd\0"}


def test_of_equal_keys_the_last_counts_in_the_last_place() -> None:
    parsed = both(b'{"a": 1, "b": 2, "a": {"c": 3, "c": 4}}')
    assert isinstance(parsed.value, dict)
    assert list(parsed.value.items()) == [("b", 2), ("a", {"c": 4})]
    assert parsed.notes[0].lossy
    assert "2 repeated keys" in parsed.notes[0].detail


def test_long_integers() -> None:
    parsed = both(b'{"a": 1' + b"0" * 400 + b', "b": 1' + b"0" * 5000 + b', "c": -1' + b"0" * 5000 + b"}")
    assert parsed.value == {"a": 10**400, "b": math.inf, "c": -math.inf}


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting(opening: bytes, closing: bytes) -> None:
    sound = both(opening * 300 + b"1" + closing * 300)
    assert sound.cut is None
    assert sound.fault is None
    deep = loads(b'{"a": 1, "b": ' + opening * 100_000 + b"1" + closing * 100_000 + b', "c": 2}')
    assert isinstance(deep.value, dict)
    assert deep.value["a"] == 1
    if deep.cut is not None:  # an interpreter that can nest so deeply may read all of it
        assert deep.cut.depth == MAX_DEPTH


def test_the_collector_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gc.isenabled()
    loads(b"[")
    assert gc.isenabled()

    def fail(*_: object, **__: object) -> object:
        assert not gc.isenabled()
        raise MemoryError

    monkeypatch.setattr(lenient, "from_json", fail)
    assert loads(b"[1]").fault == "does not fit into memory"
    assert gc.isenabled()
    gc.disable()
    try:
        loads(b"[1]")
        assert not gc.isenabled()
    finally:
        gc.enable()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(JSON, st.sampled_from([None, 1]), st.booleans())
def test_sound_text_gives_what_the_standard_library_gives(value: object, indent: int | None, ascii_only: bool) -> None:
    data = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    parsed = both(data)
    if "\\ud" not in data.decode("utf-8", "replace") and b"\xed" not in data:
        assert repr(parsed.value) == repr(json.loads(data))
        assert parsed.cut is None
        assert parsed.notes == ()


@settings(deadline=None)
@given(
    st.binary(max_size=60) | st.text(alphabet='{}[]",:0123456789.eE-+NaInfitysrue\\u \n', max_size=60).map(str.encode)
)
def test_any_bytes_give_an_answer(data: bytes) -> None:
    parsed = both(data)
    assert (parsed.value is None) or parsed.fault is None


@settings(deadline=None)
@given(JSON.filter(lambda value: isinstance(value, (dict, list)) and bool(value)), st.data())
def test_every_cut_of_a_sound_text_is_read(value: object, draw: st.DataObject) -> None:
    data = json.dumps(value, indent=1).encode()
    parsed = both(data[: draw.draw(st.integers(1, len(data) - 1))])
    assert parsed.fault is None
    assert isinstance(parsed.value, type(value))
