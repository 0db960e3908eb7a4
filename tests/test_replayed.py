"""What replays do to a report, in every form; nothing here needs torch."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace

import firstnan
from firstnan.agree.communication import CALL_NAME
from firstnan.answer.model import (
    Confidence,
    Disagreement,
    DisagreementKind,
    DisagreementMechanism,
    MechanismKind,
    Note,
    Report,
    RootCause,
    RunUp,
    Verdict,
    Where,
)
from firstnan.answer.replay import (
    AxisHits,
    BadElements,
    Collect,
    Example,
    Minimal,
    NotRun,
    Picture,
    Replay,
    ReplayedRecord,
    ReplaySummary,
    ReplayVerdict,
    Share,
    SmallInput,
)
from firstnan.answer.schema import json_schema
from firstnan.causes.replayed import with_replays
from firstnan.cli.main import main
from firstnan.dump.language import Language
from firstnan.dump.records import Record
from firstnan.read.layout import dump_layout
from firstnan.read.records import full_reader
from firstnan.report.redaction import redact
from firstnan.run import replay
from firstnan.show import Format, Settings, render

SMALL = Path(__file__).resolve().parents[1] / "examples" / "small"
V = ReplayVerdict
TILE = BadElements(
    "output.0", "float32", (2, 8), 4, 0, 0, 0, 16, (0, 4),
    (AxisHits(0, 2, 2, (0, 1)), AxisHits(1, 8, 2, (4, 5))), True, Picture((0, 1), ("....##..", "....##..")),
)  # fmt: skip
NOT_REPRODUCED = Replay(V.NOT_REPRODUCED, None, "", 4, 0, 0, TILE, None, Example((0, 4), float("nan"), 0.5, 0.5))
DIFFERS = Replay(V.VALUES_DIFFER, None, "", 0, 0, 0, replace(TILE, nan=0, differing=4))
RANGE = Replay(
    V.REPRODUCED_RANGE, None, "", 1, 1, 0, replace(TILE, dtype="float16", nan=0, posinf=1),
    Minimal("300 × 300 (float16)", (SmallInput("input_args.0", "float16", (1,), (300.0,)),), ((None, 3),)),
    shares=(Share(0, 300.0),),
)  # fmt: skip
REPRODUCED = Replay(V.REPRODUCED, None, "", 1, 1, 1, replace(TILE, nan=1))
AGREES = Replay(V.AGREES, None, "", 0, 0)


def analysed(name: str) -> Report:
    return firstnan.analyze(SMALL / name, firstnan.Options(jobs=1))


def records(name: str) -> Mapping[str, Record]:
    return {r.name.full: r for f in dump_layout.find(SMALL / name).folders for r in full_reader.read(f).records}


def told(name: str, replays: Mapping[str, Replay]) -> Report:
    """The report of an example with replays of some of its records."""
    report, there = analysed(name), records(name)
    rank = report.root_causes[0].rank if report.root_causes else 0
    made = [ReplayedRecord(0, rank, op, there[op].index, one) for op, one in replays.items()]
    return with_replays(report, made, lambda _step, _rank, op: there.get(op))


def cause_of(name: str) -> RootCause:
    (cause,) = analysed(name).root_causes
    return cause


def test_a_cause_that_the_cpu_does_not_get_is_a_device_fault_and_at_most_likely() -> None:
    cause = cause_of("exp_overflow")
    assert cause.mechanism.confidence is Confidence.CERTAIN
    (now,) = told("exp_overflow", {cause.op_name: NOT_REPRODUCED}).root_causes
    assert (now.mechanism.kind, now.mechanism.confidence) == (MechanismKind.DEVICE_FAULT, Confidence.LIKELY)
    assert now.replay == NOT_REPRODUCED


def test_a_suspected_device_fault_that_the_cpu_gets_is_none() -> None:
    cause = cause_of("device_fault_suspected")
    assert cause.mechanism.kind is MechanismKind.DEVICE_FAULT_SUSPECTED
    (now,) = told("device_fault_suspected", {cause.op_name: REPRODUCED}).root_causes
    assert now.mechanism.kind is MechanismKind.UNKNOWN
    (now,) = told("device_fault_suspected", {cause.op_name: RANGE}).root_causes
    assert (now.mechanism.kind, now.mechanism.confidence) == (MechanismKind.FP16_OVERFLOW, Confidence.CERTAIN)


def test_other_arithmetic_keeps_its_mechanism() -> None:
    cause = cause_of("log_zero")
    (now,) = told("log_zero", {cause.op_name: REPRODUCED}).root_causes
    assert now.mechanism == cause.mechanism
    assert now.where is cause.where


def test_a_collective_that_is_not_what_its_members_give_stays_communication() -> None:
    cause = cause_of("reduction_overflow")
    (now,) = told("reduction_overflow", {cause.op_name: NOT_REPRODUCED}).root_causes
    assert (now.where, now.mechanism.kind) == (Where.COMMUNICATION, MechanismKind.COMM_CORRUPTION)


@pytest.mark.parametrize("found", [DIFFERS, AGREES], ids=["it differs", "it agrees"])
def test_a_record_on_the_way_that_differs_comes_before_the_cause(found: Replay) -> None:
    report, there = analysed("exp_overflow"), records("exp_overflow")
    (cause,) = report.root_causes
    earlier = "Functional.linear.0.forward"
    cause = replace(cause, run_up=(RunUp(earlier, 0, 1.0, 2.0),))
    made = with_replays(
        replace(report, root_causes=(cause,)),
        [ReplayedRecord(0, cause.rank, earlier, 0, found)],
        lambda _step, _rank, op: there.get(op),
    )
    (now,) = made.root_causes
    follows = [other.op_name for other in now.alternatives if other.reason.key == "reason.follows_from_device_fault"]
    if found is DIFFERS:
        assert (now.op_name, now.mechanism.kind) == (earlier, MechanismKind.DEVICE_FAULT)
        assert [other.op_name for other in now.alternatives] == follows == [cause.op_name]
    else:
        assert (now.op_name, now.mechanism, follows) == (cause.op_name, cause.mechanism, [])


def test_a_silent_fault_makes_a_clean_report_an_anomaly() -> None:
    assert analysed("masks").verdict is Verdict.CLEAN
    name = next(iter(records("masks")))
    report = told("masks", {name: DIFFERS})
    assert (report.verdict, report.step, report.exit_code) == (Verdict.ANOMALY, 0, 1)
    assert report.root_causes[0].op_name == name
    assert told("masks", {name: AGREES}).verdict is Verdict.CLEAN


def summary(**counts: int) -> ReplaySummary:
    return ReplaySummary(sum(counts.values()), {V(name): count for name, count in counts.items()})


def test_a_replay_that_answers_nothing_is_undecided() -> None:
    anomaly, clean = analysed("exp_overflow"), analysed("masks")
    assert replace(anomaly, replayed=summary(not_run=2)).exit_code == 4
    assert replace(anomaly, replayed=summary(not_run=2, agrees=1)).exit_code == 1
    assert replace(clean, replayed=summary(agrees=3)).exit_code == 0
    assert replace(clean, replayed=replace(summary(agrees=3), left_out=1)).exit_code == 4


EVERYTHING = (NOT_REPRODUCED, DIFFERS, RANGE, REPRODUCED, AGREES, Replay(V.NOT_RUN, NotRun.RAISED, "TypeError: /a/b x"))


def whole(one: Replay) -> Report:
    report = told("exp_overflow", {"Torch.exp.0.forward": one})
    seen = ReplayedRecord(0, 0, "Torch.exp.0.forward", 2, one)
    asked = ReplayedRecord(0, 0, "Torch.log.0.forward", 3, one)
    wanted = (Collect.of(0, (0, 2), ("Torch.exp.0.forward",)),)
    return replace(
        report,
        replayed=ReplaySummary(2, {one.verdict: 2}, {NotRun.RAISED: 1}, 5, (seen, asked), wanted),
    )


@pytest.mark.parametrize("one", EVERYTHING, ids=lambda one: one.verdict.value)
def test_json_holds_all_of_it_and_comes_back(one: Replay) -> None:
    report = whole(one)
    document = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    jsonschema.validate(document, json_schema())
    back = Report.from_dict(document)
    assert back.to_dict() == report.to_dict()
    assert back.root_causes[0].replay is not None
    assert back.replayed is not None
    assert document["replayed"]["collect"][0]["configuration"]["tensor"]["list"] == ["Torch.exp.0.forward"]


def test_json_has_the_documented_fields() -> None:
    found: Any = whole(NOT_REPRODUCED).to_dict()["root_causes"]
    shown = found[0]["replay"]
    assert {"verdict", "device_elements", "cpu_elements", "float64_elements", "elements", "minimal", "example"} <= set(
        shown
    )
    assert {"nan", "posinf", "neginf", "of", "first", "axes"} <= set(shown["elements"])
    assert shown["elements"]["axes"][1] == {"axis": 1, "size": 8, "hit": 2, "which": [4, 5]}
    assert shown["example"]["dumped"] == "NaN"


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("form", [Format.TEXT, Format.MARKDOWN, Format.HTML])
@pytest.mark.parametrize("one", EVERYTHING, ids=lambda one: one.verdict.value)
def test_every_form_shows_it(one: Replay, form: Format, language: Language) -> None:
    content = render(whole(one), form, Settings(language=language))
    assert "replay." not in content.replace("replay.not_run", "") or form is Format.HTML
    if form is not Format.HTML:
        assert "[4, 5]" in content or one.elements is None
        assert '"list": ["Torch.exp.0.forward"]' in content.replace("\\", "")


def test_without_torch_it_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert main(["replay", str(SMALL / "exp_overflow")]) == 2
    assert 'pip install "firstnan[replay]"' in capsys.readouterr().err


def test_what_to_dump_lists_the_forward_record_of_a_gradient_and_all_members() -> None:
    report = analysed("reduction_overflow")
    (cause,) = report.root_causes
    lacking = Replay(V.NOT_RUN, NotRun.NO_TENSORS)
    (wanted,) = replay._collect(report, [ReplayedRecord(0, cause.rank, cause.op_name, 0, lacking)])
    assert wanted.ranks == tuple(sorted({cause.rank, *cause.ranks_also}))
    (wanted,) = replay._collect(report, [ReplayedRecord(0, 1, "Torch.sqrt.0.backward", 0, lacking)])
    assert wanted.names == ("Torch.sqrt.0.forward", "Torch.sqrt.0.backward")


@pytest.mark.parametrize("text", ["0s", "ten", "5d", "1.5h", ""])
def test_a_budget_is_a_time(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "x", "--all", "--budget", text]) == 2
    assert "no time" in capsys.readouterr().err


def test_a_rank_alone_is_no_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(SMALL / "exp_overflow"), "--rank", "0"]) == 2
    assert "--op or --all" in capsys.readouterr().err


def test_a_redacted_report_holds_no_path_of_an_error() -> None:
    lacking = Replay(V.NOT_RUN, NotRun.RAISED, "RuntimeError: at /home/ann/model.py")
    report = redact(whole(lacking))
    assert report.root_causes[0].replay == replace(lacking, detail="RuntimeError: at model.py")
    assert "/home/ann" not in render(report, Format.JSON, Settings())


def test_the_record_of_a_disagreement_is_run_on_the_odd_rank_and_on_others(tmp_path: Path) -> None:
    """By the name and the index that it has on each of them; ranks without it are left out."""
    source = json.loads((SMALL / "log_zero" / "step0" / "rank0" / "dump.json").read_text("utf-8"))
    name = next(name for name in source["data"] if name.endswith(".forward"))
    other = name.replace(".0.forward", ".7.forward")
    for rank in range(4):
        held = {other if rank == 1 else name: source["data"][name]}
        before = {f"Tensor.view.{at}.forward": source["data"][name] for at in range(rank)}
        folder = tmp_path / "step0" / f"rank{rank}"
        folder.mkdir(parents=True)
        data = before if rank == 3 else before | held
        (folder / "dump.json").write_text(json.dumps(source | {"data": data}, indent=1), "utf-8")
    found = Disagreement(
        DisagreementKind.COMMUNICATION, 0, 0, (0, 1, 2, 3), (2,), name, None, 0, {}, 1, 9,
        DisagreementMechanism.COMM_CORRUPTION, Confidence.LIKELY, Note("x"),
        evidence=(Note(CALL_NAME, {"rank": 1, "op_name": other}),),
    )  # fmt: skip
    report = replace(analysed("exp_overflow"), disagreements=(found,))
    folders = dump_layout.find(tmp_path).folders
    made = [(one.rank, one.op_name, one.exec_order) for one in replay._disagreeing(report, folders, None)]
    assert made == [(2, name, 2), (0, name, 0), (1, other, 1)]
    assert [one.rank for one in replay._disagreeing(report, folders, 1)] == [1]


def test_a_gradient_of_what_the_cpu_does_not_get_follows_from_it() -> None:
    """Its operator may have kept what the forward call computed wrongly."""
    forward, backward = "Torch.matmul.1.forward", "Torch.matmul.1.backward"
    report = told("device_fault", {forward: NOT_REPRODUCED, backward: DIFFERS})
    assert [cause.op_name for cause in report.root_causes] == [forward]
    report = told("device_fault", {forward: AGREES, backward: DIFFERS})
    assert backward in [cause.op_name for cause in report.root_causes]


@pytest.mark.parametrize(
    ("name", "found", "why"),
    [
        ("exp_overflow", NOT_REPRODUCED, "why.not_reproduced"),
        ("exp_overflow", DIFFERS, "why.values_differ"),
        ("exp_overflow", REPRODUCED, "why.exp_overflow"),
        ("device_fault_suspected", REPRODUCED, "why.replay_arithmetic"),
        ("device_fault_suspected", RANGE, "why.replay_range"),
        ("device_fault_suspected", NOT_REPRODUCED, "why.not_reproduced"),
    ],
)
def test_why_says_what_the_replay_showed(name: str, found: Replay, why: str) -> None:
    (now,) = told(name, {cause_of(name).op_name: found}).root_causes
    assert now.mechanism.explanation.key == why
