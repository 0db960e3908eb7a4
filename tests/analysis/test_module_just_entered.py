"""A run that dies in a module that it has only just entered, which construct.json does not list yet."""

from __future__ import annotations

from pathlib import Path

from analysis.made_runs import NAN, Rank, Run, named, t
from firstnan.answer.model import Verdict
from firstnan.dump.problems import ProblemKind


def died_in(rank: Rank, *modules: str) -> None:
    """As MSProbe 26.2 leaves it: a module that never returned stands where it was entered, without output."""
    entered = [name for name in rank.data if any(f".{module}.forward" in name for module in modules)]
    for name in entered:
        rank.data[name].pop("output")
    outermost = entered[-1]
    rank.data = {outermost: rank.data[outermost], **rank.data}


def test_the_callers_of_all_other_records_stay_known(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    with rank.module("net", "Net", [t(1.0)], []):
        with rank.module("net.a", "Layer", [t(1.0, -1.0)], [t(NAN)]):
            log = rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
        with rank.module("net.b", "Check", [t(NAN)], []):
            pass
    died_in(rank, "Check", "Net")
    del rank.construct["Module.net.b.Check.forward.0"]
    report = run.analyze(tmp_path)
    assert report.verdict is Verdict.ANOMALY
    assert named(report) == [(0, log)]
    assert report.root_causes[0].module == "net.a"
    told = {problem.kind: problem.detail for problem in report.input.problems}
    assert told[ProblemKind.ENDED_INSIDE] == "Module.net.b.Check.forward.0"
    assert ProblemKind.BAD_CONTENT not in told


def test_a_module_that_returned_has_to_be_listed(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    with rank.module("net", "Net", [t(1.0)], [t(NAN)]):
        rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    with rank.module("head", "Head", [t(NAN)], [t(NAN)]):
        pass
    del rank.construct["Module.head.Head.forward.0"]
    assert ProblemKind.BAD_CONTENT in {problem.kind for problem in run.analyze(tmp_path).input.problems}
