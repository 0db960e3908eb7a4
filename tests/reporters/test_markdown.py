"""Markdown for tickets: same content, nothing from the dump is markup."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from sample_reports import ALL, ANOMALY, EXP
from test_console import EVIL, hostile

from firstnan.dump.call_site import Frame
from firstnan.dump.language import Language
from firstnan.show import Format, Settings, View, render
from firstnan.show.markdown import code_span


def test_the_answer_is_the_title() -> None:
    assert render(ANOMALY, Format.MARKDOWN, Settings()).startswith(
        "# +Inf began on rank 2, step 0, in `Torch.exp.0.forward` (forward): exp overflow (certain)\n"
    )


def test_tables_and_code_are_markdown() -> None:
    text = render(ANOMALY, Format.MARKDOWN, Settings())
    assert "| out | `output.0` | `float32` | `[2, 16, 32]` | `Inf` | 0.0301974 | +Inf |" in text
    assert "  ```python\n  g = torch.exp(self.gate(x))\n  ```" in text
    assert "- **module**: `layers.0.branches.gate`" in text
    assert "    - -> `all_reduce` -> ranks 0,1" in text


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("view", View)
@pytest.mark.parametrize("name", ALL)
def test_every_report_has_a_markdown_form(name: str, view: View, language: Language) -> None:
    text = render(ALL[name], Format.MARKDOWN, Settings(view=view, rank=2, language=language))
    assert text.startswith("# ")
    assert text.endswith("\n")
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.endswith("|") for line in tables)


def outside_of_code(line: str) -> str:
    """The line without its code spans, read as CommonMark does: a run of backticks ends at a run of equal length."""
    kept, at = "", 0
    while at < len(line):
        if line[at] != "`":
            kept += line[at]
            at += 1
            continue
        length = len(line[at:]) - len(line[at:].lstrip("`"))
        run = "`" * length
        end = line.find(run, at + length)
        while end >= 0 and (line[end + length : end + length + 1] == "`" or line[end - 1] == "`"):
            end = line.find(run, end + 1)
        assert end > 0, line
        at = end + length
    return kept


@pytest.mark.parametrize("evil", [EVIL, "``` x ```", "a|b`c``d", "@someone #12 <img src=x>", "`"])
def test_text_from_the_dump_stands_in_code_only(evil: str) -> None:
    text = render(hostile(evil), Format.MARKDOWN, Settings(verbose=True))
    in_fence = ""
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("```") and (not in_fence or stripped == in_fence):
            in_fence = "" if in_fence else stripped.removesuffix("python")
            continue
        if in_fence:
            continue
        rest = outside_of_code(line)
        assert "script" not in rest
        assert "@" not in rest
        assert "img" not in rest
        assert "AAAA" not in rest
    assert not in_fence
    assert text.replace("\n", "").isprintable()


def test_a_bar_does_not_end_a_cell() -> None:
    report = replace(ANOMALY, root_causes=(replace(EXP, inputs=(replace(EXP.inputs[0], slot="a|b"),)),))
    assert "| in | `a\\|b` | `float32` |" in render(report, Format.MARKDOWN, Settings())


def test_a_fence_in_a_source_line_does_not_end_the_block() -> None:
    report = replace(ANOMALY, root_causes=(replace(EXP, location=Frame("a.py", 1, "f", "```` x")),))
    assert "  `````python\n  ```` x\n  `````" in render(report, Format.MARKDOWN, Settings())


def test_code_spans_hold_backticks() -> None:
    assert [code_span("a``b"), code_span("`"), code_span(" ")] == ["``` a``b ```", "`` ` ``", ""]
