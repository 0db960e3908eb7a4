"""What an engineer reads: the answer first, at 80 columns, without colour, whatever the dump holds."""

from __future__ import annotations

import importlib
import math
import re
import sys
from dataclasses import replace
from typing import Any

import pytest
from sample_reports import ALL, ANOMALY, CLEAN, EXP, MISSING_RANK, UNKNOWN, tensor

from firstnan.dump import Frame, Problem, ProblemKind
from firstnan.messages import Language
from firstnan.printable import cells
from firstnan.report import (
    Alternative,
    BenignRule,
    CollectiveReport,
    Hop,
    MatchState,
    Note,
    Report,
    RootCause,
    RunUp,
    Where,
)
from firstnan.reporters import Format, Settings, View, console, render

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def shown(report: Report, **settings: Any) -> str:
    return render(report, Format.TEXT, Settings(**settings))


def first_lines(text: str) -> str:
    """The first paragraph on one line."""
    return " ".join(text.partition("\n\n")[0].split())


def test_the_first_line_tells_rank_operator_direction_mechanism_and_confidence() -> None:
    assert first_lines(shown(ANOMALY)) == (
        "+Inf began on rank 2, step 0, in Torch.exp.0.forward (forward): exp overflow (certain)"
    )


@pytest.mark.parametrize("where", Where)
@pytest.mark.parametrize("language", Language)
def test_every_kind_of_place_has_its_own_first_line(where: Where, language: Language) -> None:
    line = first_lines(shown(replace(ANOMALY, root_causes=(replace(EXP, where=where),)), language=language))
    assert "rank 2" in line
    assert "Torch.exp.0.forward" in line.replace(" ", "")
    others = {
        first_lines(shown(replace(ANOMALY, root_causes=(replace(EXP, where=other),)), language=language))
        for other in Where
        if other is not where
    }
    assert line not in others


def test_the_place_the_numbers_and_the_reason_are_there() -> None:
    text = shown(ANOMALY)
    for part in (
        "layers.0.branches.gate",
        "/workspace/train/model.py:88  in forward",
        "g = torch.exp(self.gate(x))",
        "record 118 of rank 2",
        "input_args.0",
        "95.25",
        "the largest finite float32 is 3.403e+38",
        "Largest absolute values on the way there:",
        "Left out as harmless, by rule",
        "Contained",
        "Other candidates",
        "What could change this answer",
        "cut at byte 8187",
        "What to do next",
    ):
        assert part in text, part


def test_the_spread_is_a_short_tree() -> None:
    assert (
        "How it spread\n"
        "  - rank 2, Distributed.all_reduce.1.forward\n"
        "    -> all_reduce -> rank 3\n"
        "      -> all_reduce -> ranks 0,1\n"
        "        -> parameters, next step -> ranks 0-3\n"
    ) in shown(ANOMALY)


def test_the_calls_of_step_1_are_a_table() -> None:
    rows = [line.split() for line in shown(ANOMALY).splitlines() if line.startswith("  all_reduce #")]
    assert rows == [
        ["all_reduce", "#1", "2,3", "2", "3", "-", "-", "2"],
        ["all_reduce", "#0", "by", "name", "2,3", "0", "-", "1", "4"],
    ]


def test_the_same_cause_on_several_ranks_is_told_once() -> None:
    causes = tuple(replace(EXP, rank=rank) for rank in (3, 0, 1, 2))
    text = shown(replace(ANOMALY, root_causes=causes))
    assert first_lines(text).startswith("+Inf began on ranks 0-3, step 0")
    assert text.count("\nWhy\n") == 1


def test_ranks_that_share_the_cause_are_named() -> None:
    text = shown(replace(ANOMALY, root_causes=(replace(EXP, ranks_also=tuple(range(512))),)))
    assert "ranks 0-511" in first_lines(text)


def test_independent_causes_are_counted_and_numbered() -> None:
    other = replace(EXP, rank=0, op_name="Torch.log.3.forward")
    text = shown(replace(ANOMALY, root_causes=(EXP, other)))
    assert "And 1 more independent of it." in first_lines(text)
    assert "Cause 1 of 2 Where" in text
    assert "Cause 2 of 2 Why" in text


def test_clean_says_what_was_looked_at() -> None:
    assert first_lines(shown(CLEAN)) == "Clean: no NaN or Inf that matters in 120000 records of 512 ranks, 3 steps."
    assert "step 0-2; rank 0-511; 120000 records, 1.0 GB" in shown(CLEAN)


def test_unknown_says_why_and_what_to_do() -> None:
    text = " ".join(shown(UNKNOWN).split())
    assert text.startswith("Undecided: nothing in this dump could be judged")
    assert "no Max/Min in the dump (2 times), ranks 0,1" in text
    assert "Dump again with task 'statistics'" in text


def test_a_missing_rank_is_named_with_what_to_do() -> None:
    text = " ".join(shown(MISSING_RANK).split())
    assert text.startswith("NaN/Inf came from rank 2, step 0, whose dump is absent or ends before the cause")
    assert "Collect the dump of that rank" in text
    assert "mechanism not known" not in text


def test_clean_but_incomplete_is_not_called_clean_alone() -> None:
    assert "a part could not be judged" in first_lines(shown(ALL["clean_incomplete"]))


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("view", View)
@pytest.mark.parametrize("name", ALL)
def test_every_report_fits_80_columns_without_colour(name: str, view: View, verbose: bool, language: Language) -> None:
    text = shown(ALL[name], view=view, rank=2, verbose=verbose, language=language)
    assert text.endswith("\n")
    assert max(cells(line) for line in text.splitlines()) <= 80
    assert all(line == line.rstrip() for line in text.splitlines())
    assert "?" not in text.partition("\n\n")[0]
    assert text.replace("\n", "").isprintable()


def test_colour_changes_nothing_but_colour() -> None:
    pytest.importorskip("rich")
    coloured = shown(ANOMALY, colour=True)
    assert "\x1b[" in coloured
    assert ANSI.sub("", coloured) == shown(ANOMALY)


def test_without_rich_the_same_text_comes_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    with_rich = shown(ANOMALY)
    for name in ("rich", "rich.console", "rich.text"):
        monkeypatch.setitem(sys.modules, name, None)
    try:
        importlib.reload(console)
        assert not console.HAS_RICH
        assert shown(ANOMALY, colour=True) == with_rich
    finally:
        monkeypatch.undo()
        importlib.reload(console)


def test_verbose_shows_what_was_left_out() -> None:
    many = replace(EXP, inputs=tuple(tensor(f"input_args.{at}", 1.0, 0.0) for at in range(20)))
    report = replace(ANOMALY, root_causes=(many,))
    assert "input_args.15" not in shown(report)
    assert "and 12 more (-v shows all)" in shown(report)
    assert "input_args.15" in shown(report, verbose=True)
    assert "_call_impl" in shown(report, verbose=True)


def test_a_bad_tensor_is_never_left_out() -> None:
    inputs = (*(tensor(f"input_args.{at}", 1.0, 0.0) for at in range(20)), tensor("input_kwargs.mask", math.nan, 0.0))
    assert "input_kwargs.mask" in shown(replace(ANOMALY, root_causes=(replace(EXP, inputs=inputs),)))


def test_long_lists_stay_short() -> None:
    calls = tuple(replace(ANOMALY.collectives[0], call=call) for call in range(5000))
    hops = tuple(replace(ANOMALY.propagation[0], step=step) for step in range(5000))
    rules = tuple(BenignRule(f"rule{at}", 1, "x") for at in range(100))
    contained = tuple(replace(ANOMALY.contained[0], op_name=f"Torch.log.{at}.forward") for at in range(1000))
    report = replace(ANOMALY, collectives=calls, propagation=hops, benign=rules, contained=contained)
    assert len(shown(report).splitlines()) < 130


def test_the_view_of_step_1_explains_its_words() -> None:
    text = " ".join(shown(ANOMALY, view=View.RANKS).split())
    assert text.startswith(
        "The first affected communication is all_reduce in step 0. Source: rank 2. Propagated: rank 3."
    )
    assert "source: its own input is not finite" in text
    assert "Process groups are not recorded" in text
    assert "Why" not in text


def test_the_view_of_step_1_without_affected_calls() -> None:
    assert first_lines(shown(CLEAN, view=View.RANKS)).startswith("No communication call took in")


def test_the_view_of_step_2_shows_one_rank() -> None:
    text = shown(ANOMALY, view=View.TRACE, rank=2)
    assert "Torch.exp.0.forward" in first_lines(text)
    assert "How it spread" not in text
    assert first_lines(shown(ANOMALY, view=View.TRACE, rank=0)) == "No NaN or Inf that matters on rank 0."


EVIL = "\x1b[31m[bold red]evil[/]\u202e\x9b2J\r\n\t\u200b<script>`|*_" + "A" * 100_000


def hostile(text: str) -> Report:
    """A report in which every text from the dump is hostile."""
    cause = RootCause(
        **{
            **{name: getattr(EXP, name) for name in EXP.__dataclass_fields__},
            "op_name": text,
            "construct_chain": (text, text),
            "module": text,
            "stack_info": (text,),
            "location": Frame(text, 3, text, text),
            "inputs": (replace(EXP.inputs[0], slot=text, dtype=text),),
            "alternatives": (Alternative(0, 1, text, 3, EXP.direction, Note("reason.later")),),
            "run_up": (RunUp(text, 3, 1.0, 2.0),),
            "evidence": (Note("evidence.output_bad", {"slot": text, "max": 1.0, "min": 1.0, "dtype": text}),),
        }
    )
    call = CollectiveReport(text, 0, (0, 1), 0, {0: text}, (0,), (1,), (), (), MatchState.MATCHED)
    return replace(
        ANOMALY,
        input=replace(
            ANOMALY.input, path=text, problems=(Problem(ProblemKind.BAD_CONTENT, 0, 0, text, text, judged=False),)
        ),
        root_causes=(cause,),
        collectives=(call,),
        propagation=(Hop(0, 0, text, (1,), {1: text}, text),),
        contained=(replace(ANOMALY.contained[0], op_name=text),),
        benign=(BenignRule(text, 1, text),),
        symptoms=(replace(ANOMALY.symptoms[0], op_name=text),),
    )


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("view", View)
def test_hostile_text_is_shown_harmless(view: View, verbose: bool) -> None:
    text = shown(hostile(EVIL), view=view, rank=2, verbose=verbose)
    assert text.replace("\n", "").isprintable()
    assert max(cells(line) for line in text.splitlines()) <= 80
    assert len(text) < 12_000


def test_hostile_text_is_no_markup_in_colour() -> None:
    pytest.importorskip("rich")
    coloured = shown(hostile("[bold]x[/] \x1b]8;;http://a\x07 :smile:"), colour=True)
    assert "[bold]x[/]" in ANSI.sub("", coloured)
    assert ":smile:" in coloured
    assert "\x1b" not in ANSI.sub("", coloured)
    assert "\x07" not in coloured
