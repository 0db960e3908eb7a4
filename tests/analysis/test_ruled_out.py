"""What is told after records were ruled out (``--exclude-op``) is true: the loop ends, and no old sentence stays."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from analysis.made_runs import INF, NAN, Run, t
from firstnan.answer.model import MechanismKind, Report, Where
from firstnan.cli import main as cli

MODULE = "Module.part.Part.forward.0"


def rejecting(run: Run, folder: Path, *names: str) -> Report:
    return run.analyze(folder, exclude_ops=names)


def in_a_module() -> Run:
    """exp overflows in a module whose record repeats it; mul and the sum follow."""
    run = Run()
    rank = run.rank(0)
    with rank.module("part", "Part", [t(100.0)], [t(INF)]):
        rank.op("Torch.exp", [t(100.0)], [t(INF)])
    rank.op("Torch.mul", [t(INF)], [t(INF)])
    rank.op("Torch.sum", [t(INF)], [t(INF, shape=())])
    return run


def test_what_is_ruled_out_is_ruled_out_around_it(tmp_path: Path) -> None:
    run = in_a_module()
    assert rejecting(run, tmp_path / "a").root_causes[0].op_name == "Torch.exp.0.forward"
    (cause,) = rejecting(run, tmp_path / "b", "Torch.exp.0.forward").root_causes
    assert cause.op_name == "Torch.mul.0.forward"
    assert {note.key for note in cause.evidence} >= {"evidence.excluded_writer"}


def test_other_values_of_the_module_are_still_its_own(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    with rank.module("part", "Part", [t(100.0)], [t(NAN)]):
        rank.op("Torch.exp", [t(100.0)], [t(INF)])
    rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    assert rejecting(run, tmp_path, "Torch.exp.0.forward").root_causes[0].op_name == MODULE


def inside_the_parent() -> Run:
    """Backward of ``angle = sqrt(lin(x))`` in a dump of modules: only the modules' records show it."""
    run = Run()
    rank = run.rank(0)
    rank.header["level"] = "L0"
    with (
        rank.module("angle", "Angle", [t(1.0)], [t(1.0)]) as angle,
        rank.module("angle.lin", "Linear", [t(1.0)], [t(1.0, 0.0)]) as lin,
    ):
        pass
    rank.parameters_grad(lin, weight=t(NAN))
    rank.backward(lin, [t(NAN)], [t(NAN)])
    rank.backward(angle, [t(1.0)], [t(NAN)])
    return run


def test_a_module_around_the_beginning_can_be_ruled_out(tmp_path: Path) -> None:
    named = "Module.angle.Angle.backward.0"
    run = inside_the_parent()
    (cause,) = rejecting(run, tmp_path / "a").root_causes
    assert cause.op_name == named
    assert [other.reason.key for other in cause.alternatives] == ["reason.parameter_gradient"]
    left = rejecting(run, tmp_path / "b", named).root_causes
    assert named not in [one.op_name for one in left]
    assert "parameters_grad" not in " ".join(str(note.params) for one in left for note in one.evidence)


def over_two_ranks() -> Run:
    """exp overflows on rank 0, and the all_reduce brings it to rank 1."""
    run = Run()
    for number in range(2):
        rank = run.rank(number)
        rank.all_reduce(t(INF) if number == 0 else t(1.0), t(INF))
        rank.op("Torch.sum", [t(INF)], [t(INF, shape=())])
    return run


def test_a_call_that_was_ruled_out_on_its_sender_is_no_corruption(tmp_path: Path) -> None:
    run = over_two_ranks()
    report = rejecting(run, tmp_path, "0:Distributed.all_reduce.0.forward")
    received = next(cause for cause in report.root_causes if cause.rank == 1)
    assert received.where is Where.COMMUNICATION
    assert received.mechanism.kind is MechanismKind.UNKNOWN
    assert received.mechanism.explanation.key == "why.ruled_out_sender"
    (call,) = report.collectives
    assert (call.normal_ranks, call.undecided_ranks, call.propagated_ranks) == ((), (0,), (1,))
    assert report.story == ()


def test_the_record_that_was_ruled_out_is_no_other_candidate(tmp_path: Path) -> None:
    report = rejecting(in_a_module(), tmp_path, "Torch.exp.0.forward")
    told = {other.op_name: other.reason.key for cause in report.root_causes for other in cause.alternatives}
    assert told["Torch.exp.0.forward"] == "reason.excluded"


@pytest.mark.parametrize("make", [in_a_module, inside_the_parent, over_two_ranks])
def test_following_the_printed_command_ends(make: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each step rules out one record more, and the last answer says that nothing else is left."""
    assert callable(make)
    make().write(tmp_path / "dump")
    command, seen = ["analyze", str(tmp_path / "dump")], set[str]()
    for _ in range(12):
        cli.main([*command, "--lang", "en"])
        out = capsys.readouterr().out
        found = re.search(r"next candidate:\n +firstnan (.*)\n", out)
        if found is None:
            break
        assert found[1] not in seen
        seen.add(found[1])
        command = shlex.split(found[1])
    assert found is None
    assert out.startswith("Nothing else: apart from the records that you ruled out")
    assert "If your log shows" not in out


def test_a_cause_of_several_ranks_is_ruled_out_on_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run()
    for number in range(2):
        run.rank(number).op("Torch.exp", [t(100.0)], [t(INF)])
        run.rank(number).op("Torch.sum", [t(INF)], [t(INF, shape=())])
    run.write(tmp_path / "dump")
    cli.main(["analyze", str(tmp_path / "dump"), "--lang", "en"])
    assert "--exclude-op Torch.exp.0.forward\n" in capsys.readouterr().out
