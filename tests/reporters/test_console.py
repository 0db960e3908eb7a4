"""What an engineer reads: the answer first, at 80 columns, without colour, whatever the dump holds."""

from __future__ import annotations

import importlib
import math
import re
import sys
from typing import Any

import pytest
from msgspec.structs import replace
from sample_reports import ALL, ANOMALY, CLEAN, EXP, MISSING_RANK, UNKNOWN, tensor

from firstnan.answer.model import (
    Alternative,
    BenignRule,
    CollectiveReport,
    Confidence,
    Contained,
    Hop,
    MatchState,
    Mechanism,
    MechanismKind,
    Note,
    Report,
    RootCause,
    RunUp,
    Where,
)
from firstnan.dump.call_site import Frame
from firstnan.dump.language import Language
from firstnan.dump.printable import cells
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.dump.records import Direction
from firstnan.dump.values import ValueState
from firstnan.show import Format, Settings, View, console, render

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
    if where is not Where.FIRST_RUN:  # of which no record is kept
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
        "record 118\n",
        "input_args.0",
        "95.25",
        "exp overflow (certain): the exponent reaches 95.25, float32",
        "The value grew at record 110, Functional.linear.2.forward: 4.5 -> 95.25 (x21)",
        "Largest absolute values on the way there:",
        "Harmless by rule",
        "Contained",
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
    names = ("  all_reduce #", "  all_reduce.1.forward ")
    rows = [line.split() for line in shown(ANOMALY).splitlines() if line.startswith(names)]
    assert rows == [
        ["all_reduce.1.forward", "2,3", "2", "3", "-"],
        ["all_reduce", "#0", "by", "name", "2,3", "0", "1"],
    ]
    assert "Communication calls with NaN or Inf, step 0\n" in shown(ANOMALY)
    rows = [line.split() for line in shown(ANOMALY, view=View.RANKS).splitlines() if line.startswith(names)]
    assert rows == [
        ["all_reduce.1.forward", "2,3", "2", "3", "-", "-", "2"],
        ["all_reduce", "#0", "by", "name", "2,3", "0", "-", "1", "4"],
    ]


def rows_of(*calls: CollectiveReport, **settings: Any) -> list[str]:
    """The rows of the table of calls, blanks made one."""
    text = shown(replace(ANOMALY, collectives=calls), **settings)
    return [" ".join(line.split()) for line in text.splitlines() if re.match(r"  \w+ #\d", line)]


def test_like_calls_share_a_row() -> None:
    call = replace(ANOMALY.collectives[0], ops={2: "Distributed.all_reduce.1.forward", 3: "other"})
    run = [replace(call, call=number) for number in range(1, 18)]
    other = replace(call, group=(4, 5), call=3)
    assert rows_of(run[0], other, *run[1:]) == ["all_reduce #1-#17 2,3 2 3", "all_reduce #3 4,5 2 3"]
    assert rows_of(run[0], replace(run[1], propagated_ranks=(), normal_ranks=(3,)), run[2]) == [
        "all_reduce #1 2,3 2 3 -",
        "all_reduce #2 2,3 2 - 3",
        "all_reduce #3 2,3 2 3 -",
    ]
    assert len(rows_of(*run, verbose=True)) == 17


def named(number: int, record: int) -> CollectiveReport:
    """The n-th call of a group, with one record name on both its members."""
    name = f"Distributed.all_reduce.{record}.forward"
    return replace(ANOMALY.collectives[0], call=number, ops={2: name, 3: name})


def test_record_names_stand_where_one_fits_all_members() -> None:
    """Else the number within the group, with a legend: it is not the number in a record's name."""
    legend = "#n is the n-th call of that API in its group"
    text = shown(replace(ANOMALY, collectives=(named(0, 4), named(1, 5), named(2, 6))))
    assert "  all_reduce.4-6.forward " in text
    assert legend not in text
    text = shown(replace(ANOMALY, collectives=(named(0, 4), named(1, 9))))  # other calls lie between
    assert "  all_reduce #0-#1 " in text
    assert legend in " ".join(text.split())
    differ = replace(named(0, 4), ops={2: "Distributed.all_reduce.4.forward", 3: "Distributed.all_reduce.7.forward"})
    text = shown(replace(ANOMALY, collectives=(differ,)))
    assert "  all_reduce #0 " in text
    assert "all_reduce #0 is Distributed.all_reduce.7.forward on rank 3" in text


def test_the_call_that_is_the_cause_is_marked() -> None:
    call = replace(ANOMALY.collectives[0], source_ranks=(), propagated_ranks=(2, 3))
    cause = replace(EXP, op_name="Distributed.all_reduce.1.forward", where=Where.COMMUNICATION)
    report = replace(ANOMALY, root_causes=(cause,), collectives=(call, replace(call, call=2, ops={2: "other"})))
    marked = [" ".join(line.split()) for line in shown(report).splitlines() if "<- began here" in line]
    assert marked == ["all_reduce.1.forward 2,3 2,3 <- began here"]


def test_a_message_shows_its_direction() -> None:
    call = replace(ANOMALY.collectives[0], op="recv", group=(2, 6), ops={2: "Distributed.recv.1.forward"})
    assert rows_of(call)[0].startswith("recv #1 6 -> 2 ")
    batch = replace(call, op="batch_isend_irecv", ops={2: "Distributed.batch_isend_irecv.1.forward"})
    assert rows_of(batch)[0].startswith("batch_isend_irecv #1 2 -> 6 ")
    assert rows_of(replace(batch, source_ranks=(2, 6)))[0].startswith("batch_isend_irecv #1 2,6 ")


def test_columns_in_which_nothing_stands_are_left_out() -> None:
    text = shown(replace(ANOMALY, collectives=(replace(ANOMALY.collectives[0], propagated_ranks=()),)))
    assert "  call           group  bad input on (source)\n" in text


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
    assert first_lines(text) == "2 independent causes:"
    assert text.count("1. +Inf began on rank 2, step 0, in Torch.exp.0.forward") == 1
    assert text.count("2. +Inf began on rank 0, step 0, in Torch.log.3.forward") == 1
    titles = [line for line in text.splitlines() if line.startswith("Cause ")]
    assert titles == [f"Cause {n}: {part}" for n in (1, 2) for part in ("Where", "Why", "What to do next")]


def test_clean_says_what_was_looked_at() -> None:
    matters = "Clean: no NaN or Inf that matters in 120000 records (step 0-2, ranks 0-511)."
    assert first_lines(shown(CLEAN)) == matters
    assert first_lines(shown(replace(CLEAN, benign=()))) == matters  # not everything harmless is counted
    assert "step 0-2; ranks 0-511; 120000 records, 1.0 GB" in shown(CLEAN)


def test_clean_says_how_much_was_passed_over_and_what_to_do_when_the_log_says_otherwise() -> None:
    text = " ".join(shown(CLEAN).split())
    assert "Harmless by rule: 48 results" in text
    assert "What to do next 1. If your log shows NaN or Inf: dump the step in which it appears, on all ranks" in text
    assert "1. This is not a clean result yet" in " ".join(shown(ALL["clean_incomplete"]).split())


def test_unknown_says_why_and_what_to_do() -> None:
    text = " ".join(shown(UNKNOWN).split())
    assert text.startswith("Undecided: firstnan cannot judge anything in this dump")
    assert "no Max/Min in the dump (2 times), ranks 0,1" in text
    assert "What to do next 1. Dump again with task 'statistics'" in text
    assert text.count("'statistics'") == 2


def test_a_missing_rank_is_named_with_what_to_do() -> None:
    text = " ".join(shown(MISSING_RANK).split())
    assert text.startswith("NaN/Inf came from rank 2, step 0, whose dump is absent or ends before the cause")
    assert "Collect the dump of that rank" in text
    assert "mechanism unknown" not in text


@pytest.mark.parametrize(
    ("gap", "said", "place"),
    [
        (Note("evidence.rank_absent", {"rank": 2}), "which has no dump", "on a rank that has no dump"),
        (
            Note("evidence.rank_cut", {"rank": 2, "records": 76, "last": "Torch.exp.0.forward"}),
            "whose dump.json is cut after 76 records, the last is Torch.exp.0.forward",
            "on a rank whose dump ends before the cause",
        ),
        (
            Note("evidence.rank_empty", {"rank": 2}),
            "whose dump holds no record",
            "on a rank whose dump holds no record",
        ),
    ],
)
def test_what_a_rank_lacks_is_told(gap: Note, said: str, place: str) -> None:
    name = "Distributed.all_reduce.0.forward"
    reached = Note("evidence.missing_rank", {"rank": 2, "op_name": name, "receivers": "0,1,3"})
    cause = replace(MISSING_RANK.root_causes[0], evidence=(gap, reached))
    absent = Note("caveat.missing_ranks", {"ranks": "2"})
    report = replace(MISSING_RANK, root_causes=(cause,), caveats=(absent,))
    text = " ".join(shown(report).split())
    assert text.startswith(f"NaN/Inf reached ranks 0,1,3 in step 0 from rank 2, {said}: the dump does not show")
    assert f"place {place}" in text
    assert f"reached ranks 0,1,3, by {name}" in text
    assert "What could change this answer" not in text


def test_ranks_that_could_not_be_judged_are_told_one_by_one() -> None:
    cause = MISSING_RANK.root_causes[0]
    text = shown(replace(MISSING_RANK, root_causes=(cause, replace(cause, rank=5))))
    assert first_lines(text) == "2 independent causes:"


BETWEEN = replace(
    EXP,
    op_name="Functional.linear.5.backward",
    where=Where.UNDUMPED_OPERATOR,
    direction=Direction.BACKWARD,
    inputs=(tensor("input.0", math.inf, -math.inf, "float16"),),
    outputs=(tensor("output.0", math.inf, -math.inf, "float16"),),
    mechanism=Mechanism(
        MechanismKind.CAST_OVERFLOW,
        Confidence.CERTAIN,
        Note("why.cast_between", {"before": "a", "value": 1e6, "dtype": "float16", "limit": 65504.0}),
    ),
    evidence=(
        Note("evidence.between", {"before": "Functional.ce.0.backward", "after": "Functional.linear.5.backward"}),
        Note("evidence.hidden_operators", {"module": "head", "ops": "Torch.cat.0.forward"}),
    ),
    run_up=(),
)


def test_an_operator_that_is_not_recorded_lies_between_two_records() -> None:
    text = shown(replace(ANOMALY, root_causes=(BETWEEN,)))
    assert first_lines(text) == (
        "Inf appeared on rank 2, step 0, between ce.0.backward and linear.5.backward: "
        "cast to float16 overflowed (certain)"
    )
    for line in (
        "  operator     not recorded",
        "  last good    Functional.ce.0.backward",
        "  first bad    Functional.linear.5.backward  record 118, input.0",
        "  suspects     Torch.cat.0.forward  (same module, not recorded)",
        "  read at      /workspace/train/model.py:88  in forward",
    ):
        assert f"{line}\n" in text
    assert "no record wrote this value" not in text
    assert "no record wrote this value" in shown(replace(ANOMALY, root_causes=(BETWEEN,)), verbose=True)


def test_a_dtype_that_is_none_does_not_come_into_the_name_of_the_mechanism() -> None:
    odd = replace(BETWEEN.mechanism, explanation=Note("why.cast_between", {"dtype": "<b>float16"}))
    assert "overflow in a cast (certain)" in first_lines(
        shown(replace(ANOMALY, root_causes=(replace(BETWEEN, mechanism=odd),)))
    )


def test_communication_has_no_direction_in_the_first_line() -> None:
    cause = replace(EXP, where=Where.COMMUNICATION, op_name="Distributed.all_reduce.1.forward")
    assert "Distributed.all_reduce.1.forward: exp" in first_lines(shown(replace(ANOMALY, root_causes=(cause,))))


def test_a_value_that_a_lone_rank_received_did_not_begin_there() -> None:
    received = Mechanism(MechanismKind.UNKNOWN, Confidence.POSSIBLE, Note("why.received"))
    cause = replace(EXP, where=Where.COMMUNICATION, op_name="Distributed.recv.1.forward", mechanism=received)
    line = first_lines(shown(replace(ANOMALY, root_causes=(cause,)), view=View.TRACE, rank=2))
    assert line == "+Inf reached rank 2 in step 0 through Distributed.recv.1.forward: it began on another rank"


def test_what_happened_inside_a_module_has_no_record() -> None:
    cause = replace(EXP, op_name="Module.layers.0.Block.forward.0")
    assert "place        inside the module: clean inputs, bad result" in shown(replace(ANOMALY, root_causes=(cause,)))


def test_memory_that_was_read_is_no_operator_that_is_not_in_the_dump() -> None:
    memory = replace(EXP.mechanism, kind=MechanismKind.UNINITIALISED_MEMORY)
    cause = replace(EXP, where=Where.UNDUMPED_OPERATOR, mechanism=memory)
    line = first_lines(shown(replace(ANOMALY, root_causes=(cause,))))
    assert line.startswith("Torch.exp.0.forward on rank 2, step 0, reads +Inf from memory that nothing has written")


def test_a_call_in_the_table_is_not_told_again_as_contained() -> None:
    call = ANOMALY.collectives[0]
    rank, op = next(iter(call.ops.items()))
    known = Contained(call.step, rank, op, 3, Note("reason.unread"))
    other = Contained(call.step, rank, "Torch.log.7.forward", 4, Note("reason.unread"))
    text = shown(replace(ANOMALY, contained=(known, other)))
    told = text[text.index("Contained") :].split("\n\n")[0]
    assert op not in told
    assert "Torch.log.7.forward" in told


def test_a_spread_that_begins_without_a_record_has_no_comma() -> None:
    hop = Hop(0, 2, "", (0,), {}, "all_reduce")
    assert "  - rank 2\n" in shown(replace(ANOMALY, propagation=(hop,)))


def test_advice_stands_under_its_cause() -> None:
    titles = [line for line in shown(ANOMALY).splitlines() if line and not line.startswith(" ")]
    assert titles[titles.index("Why") + 1] == "What to do next"


def test_a_loss_scaler_is_asked_about_first() -> None:
    report = replace(ANOMALY, caveats=(Note("caveat.skip_unknown"),))
    text = " ".join(shown(report).split())
    assert "What to do next 1. First check whether this is damage at all. With a loss scaler" in text
    assert "if a loss scaler is in use" not in text


def test_what_the_table_shows_is_not_said_again() -> None:
    assert "output.0 is not finite" not in shown(ANOMALY)
    assert "output.0 is not finite" in shown(ANOMALY, verbose=True)


def test_the_jump_is_said_aloud() -> None:
    flat = (RunUp("a", 1, 1.0, 2.0), RunUp("b", 2, 2.0, 3.0))
    text = shown(replace(ANOMALY, root_causes=(replace(EXP, run_up=flat),)))
    assert "The value grew" not in text
    assert "Largest absolute values" not in text
    assert "Largest absolute values" in shown(replace(ANOMALY, root_causes=(replace(EXP, run_up=flat),)), verbose=True)
    fallen = replace(EXP, run_up=(RunUp("a", 1, 5.0, 0.0), RunUp("b", 2, 2.0, 2.0)))
    divided = replace(fallen, mechanism=replace(EXP.mechanism, kind=MechanismKind.DIV_BY_ZERO))
    assert "The value became 0 at record 1, a: 5 -> 0" in shown(replace(ANOMALY, root_causes=(divided,)))
    assert "became 0" not in shown(replace(ANOMALY, root_causes=(fallen,)))


def test_other_candidates_are_rivals_not_consequences() -> None:
    rival = Alternative(0, 3, "Torch.log.0.forward", 12, EXP.direction, Note("reason.earlier_dropped"))
    report = replace(ANOMALY, root_causes=(replace(EXP, alternatives=(*EXP.alternatives, rival)),))
    text = shown(report)
    assert "Other candidates\n  - rank 3, step 0, Torch.log.0.forward: its value did not reach" in text
    assert "Functional.linear.4.forward" not in text
    verbose = shown(report, verbose=True)
    assert "Bad records that follow from the cause\n  - rank 3, step 0, Functional.linear.4.forward" in verbose


@pytest.mark.parametrize(
    ("closer", "said"),
    [
        ("Torch.where.0.forward", "dropped: Torch.where.0.forward uses its value, and the result is finite"),
        ("Torch.log.0.forward", "dropped here: this record uses the value, and the result is finite"),
    ],
)
def test_where_a_contained_value_was_dropped(closer: str, said: str) -> None:
    value = replace(ANOMALY.contained[0], reason=Note("reason.contained", {"closer": closer}))
    assert said in " ".join(shown(replace(ANOMALY, contained=(value,))).split())


def test_a_rule_is_told_in_words_with_its_name() -> None:
    example = "step0/rank0: Tensor.masked_fill.0.forward"
    rules = (BenignRule("legal_minus_inf", 7, example), BenignRule("mine", 2, "x"))
    text = " ".join(shown(replace(ANOMALY, benign=rules)).split())
    assert f"- masks filled with -Inf, which is legal: 7, such as {example} (legal_minus_inf)" in text
    assert "- mine: 2, such as x" in text


def test_ignored_files_take_one_line() -> None:
    problem = Problem(ProblemKind.IGNORED_FOLDER, 0, None, ".", "not part of the dump: truth.json")
    report = replace(ANOMALY, input=replace(ANOMALY.input, problems=(problem,)))
    assert "  ignored       truth.json\n" in shown(report)
    assert "does not change the answer" in shown(report, verbose=True)
    inside = replace(problem, file="step0", detail="a process without a rank beside rank folders")
    report = replace(ANOMALY, input=replace(ANOMALY.input, problems=(problem, inside)))
    assert "  ignored       truth.json, step0\n" in shown(report)


def test_groups_that_are_not_recorded_are_told_as_a_doubt_only() -> None:
    problem = Problem(ProblemKind.GROUP_UNKNOWN)
    report = replace(
        ANOMALY, caveats=(Note("caveat.groups_unknown"),), input=replace(ANOMALY.input, problems=(problem,))
    )
    said = "firstnan matches calls by name and number"
    assert said not in " ".join(shown(report).split())
    assert said in " ".join(shown(report, verbose=True).split())
    assert said in " ".join(shown(replace(report, caveats=())).split())


def test_what_a_caveat_says_is_not_said_again() -> None:
    absent = Problem(ProblemKind.MISSING_RANK, 0, 4, judged=False)
    cut = Problem(ProblemKind.TRUNCATED, 0, 1, "dump.json", "cut at byte 9 after 3 complete records", judged=False)
    caveats = (Note("caveat.missing_ranks", {"ranks": "4"}), Note("caveat.cut_ranks", {"ranks": "1"}))
    report = replace(ANOMALY, caveats=caveats, input=replace(ANOMALY.input, problems=(absent, cut)))
    text = shown(report)
    assert "no folder for a rank" not in text
    assert "cut at byte 9" in text
    assert "firstnan uses what stands before the cut" not in text
    assert "firstnan uses what stands before the cut" in shown(report, verbose=True)


def test_clean_but_incomplete_is_not_called_clean_alone() -> None:
    assert "parts could not be judged" in first_lines(shown(ALL["clean_incomplete"]))


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
        "The first affected communication is Distributed.all_reduce.1.forward in step 0. "
        "Source: rank 2. Propagated: rank 3."
    )
    assert "source: its own input is not finite" in text
    assert "The dump does not record process groups" in text
    assert "Why" not in text


def test_the_view_of_step_1_without_affected_calls() -> None:
    assert first_lines(shown(CLEAN, view=View.RANKS)).startswith("No communication call sent or returned")
    assert "anomaly" not in shown(CLEAN, view=View.RANKS)


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (ANOMALY, "There is still an anomaly, on rank 2: firstnan analyze /data/run/dump shows where"),
        (replace(ANOMALY, root_causes=(replace(EXP, ranks_also=(0, 1)),)), "still an anomaly, on ranks 0-2: firstnan"),
        (replace(ANOMALY, root_causes=()), "still an anomaly: firstnan analyze /data/run/dump shows what is known"),
        (replace(ANOMALY, input=replace(ANOMALY.input, path="/a b")), "firstnan analyze '/a b' shows where"),
        (replace(ANOMALY, input=replace(ANOMALY.input, path="/a" * 99)), "firstnan analyze PATH shows where"),
    ],
)
def test_ranks_tells_of_an_anomaly_that_no_call_took_in(report: Report, told: str) -> None:
    paragraphs = shown(replace(report, collectives=()), view=View.RANKS).split("\n\n")
    assert " ".join(paragraphs[0].split()) == "No communication call sent or returned a NaN or Inf that matters."
    assert told in " ".join(paragraphs[1].split())
    assert "still an anomaly" not in shown(ANOMALY, view=View.RANKS)


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
            **{name: getattr(EXP, name) for name in EXP.__struct_fields__},
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


def test_inputs_without_statistics_are_not_said_to_be_clean() -> None:
    cause = next(c for c in ANOMALY.root_causes if c.where is Where.OPERATOR)
    blind = replace(cause, inputs=tuple(replace(t, state=ValueState.UNKNOWN) for t in cause.inputs))
    text = shown(replace(ANOMALY, root_causes=(blind,)))
    assert "clean inputs" in shown(replace(ANOMALY, root_causes=(cause,)))
    assert "clean inputs" not in text
    assert "inputs without statistics" in " ".join(text.split())
