"""Wrapping, columns and indents, in terminal columns."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from firstnan.dump.printable import cells, printable
from firstnan.show.outline.model import Code, Field, Item, Outline, Paragraph, Section, Span, Table, Tone, plain
from firstnan.show.outline.text_lines import column_widths, lines, wrap


def made(outline: Outline, width: int = 40) -> list[str]:
    return [plain(line) for line in lines(outline, width)]


def test_words_across_spans_stay_together() -> None:
    line = (Span("the value of "), Span("output", is_data=True), Span(":"), Span(" bad"))
    assert [plain(part) for part in wrap(line, 16)] == ["the value of", "output: bad"]


def test_chinese_breaks_between_characters_but_not_before_punctuation() -> None:
    assert [plain(part) for part in wrap((Span("从第一条记录起，就已异常"),), 14)] == ["从第一条记录", "起，就已异常"]


def test_a_long_word_is_cut() -> None:
    assert [plain(part) for part in wrap((Span("op "), Span("x" * 25)), 10)] == ["op", "x" * 10, "x" * 10, "x" * 5]


def test_fields_are_aligned_and_hang() -> None:
    section = Section("Where", (Field("rank", (Span("2"),)), Field("operator", (Span("aaa bbb ccc"),))))
    assert made(Outline((Span("head"),), (section,)), 22) == [
        "head",
        "",
        "Where",
        "  rank      2",
        "  operator  aaa bbb",
        "            ccc",
    ]


def test_items_are_marked_numbered_and_nested() -> None:
    blocks = (Item((Span("one"),)), Item((Span("two"),), depth=1), Item((Span("three"),), number=3))
    assert made(Outline((), (Section("T", blocks),)))[2:] == ["T", "  - one", "    two", "  3. three"]


def test_code_stands_under_the_field() -> None:
    blocks = (Field("code", (Span("a.py:1"),)), Code("x = 1"))
    assert made(Outline((), (Section("T", blocks),)))[3:] == ["  code  a.py:1", "          x = 1"]


def test_numbers_stand_to_the_right() -> None:
    table = Table(("name", "n"), ((Span("a"), Span("5")), (Span("bb"), Span("123"))), right=frozenset({1}))
    assert made(Outline((), (Section("T", (table,)),)))[3:] == ["  name    n", "  a       5", "  bb    123"]


def test_a_wide_table_wraps_its_widest_column() -> None:
    table = Table(("name", "state"), ((Span("x" * 60), Span("finite")),))
    rows = made(Outline((), (Section("", (table,)),)), 40)[2:]
    assert max(len(row) for row in rows) <= 40
    assert "".join(row[:32].strip() for row in rows).count("x") == 60


def test_a_header_takes_more_lines_before_a_column_shrinks() -> None:
    row = tuple(Span(text) for text in ("all_reduce #1-#17", "2", "0,1,3"))
    header = ("call", "bad input on (source)", "became bad on (propagated)")
    table = Table(header, (row,))
    assert made(Outline((), (Section("", (table,)),)), 50)[2:] == [
        "call               bad input    became bad on",
        "                   on (source)  (propagated)",
        "all_reduce #1-#17  2            0,1,3",
    ]
    assert made(Outline((), (Section("", (table,)),)), 42)[2:] == [
        "call               bad       became bad",
        "                   input on  on",
        "                   (source)  (propagated)",
        "all_reduce #1-#17  2         0,1,3",
    ]


def test_columns_shrink_until_they_fit() -> None:
    assert sum(column_widths([[50, 50, 3]], 40)) == 36


def test_the_tone_of_a_word_survives_wrapping() -> None:
    line = (Span("rank "), Span("2", Tone.BAD))
    assert [span.tone for part in wrap(line, 20) for span in part] == [Tone.PLAIN, Tone.BAD]


@settings(deadline=None)
@given(st.lists(st.text(max_size=60), max_size=5), st.integers(8, 80))
def test_no_line_is_wider_than_asked_and_nothing_is_lost(texts: list[str], width: int) -> None:
    spans = tuple(Span(printable(text)) for text in texts)
    parts = [plain(part) for part in wrap(spans, width)]
    assert all(cells(part) <= width for part in parts)
    assert "".join("".join(parts).split()) == "".join("".join(span.text for span in spans).split())


@settings(deadline=None)
@given(st.text(max_size=200), st.integers(20, 80))
def test_blocks_keep_within_the_width(text: str, width: int) -> None:
    span = Span(printable(text))
    blocks = (
        Paragraph((span,)),
        Item((span,), depth=2),
        Field("label", (span,)),
        Table(("a", "b"), ((span, Span("5")),)),
    )
    for line in made(Outline((span,), (Section("T", blocks),)), width):
        assert cells(line) <= width
