"""Text from dumps made harmless."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from firstnan.dump.printable import cells, printable, shorten, show


def test_control_characters_are_escaped_visibly() -> None:
    assert printable("a\x1b]0;t\x07\x9bb\x00") == "a\\x1b]0;t\\x07\\x9bb\\x00"


def test_direction_marks_and_zero_width_characters_are_escaped() -> None:
    assert printable("\u202eabc\u2066\u200b\ufeff") == "\\u202eabc\\u2066\\u200b\\ufeff"


def test_lone_surrogates_are_escaped() -> None:
    assert printable("x\udc80") == "x\\udc80"


def test_letters_of_other_scripts_stay() -> None:
    assert printable("损失 λ é") == "损失 λ é"


def test_long_names_keep_both_ends() -> None:
    name = "Module." + "layer." * 1000 + "forward.0"
    short = shorten(name, 40)
    assert len(short) == 40
    assert short.startswith("Module.")
    assert short.endswith("forward.0")


def test_wide_characters_take_two_columns() -> None:
    assert cells("源卡 2") == 6


@settings(deadline=None)
@given(st.text(max_size=300), st.integers(8, 60))
def test_shown_text_is_printable_and_short(raw: str, limit: int) -> None:
    made = show(raw, limit)
    assert made.isprintable()
    assert len(made) <= limit
