"""What a reader of the dump finds before the cause is listed, with the reason why it is not the cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.made_runs import INF, NAN, Run, t, the_cause
from firstnan.cli import main as cli


def with_a_receive_buffer(*, faulty: bool = True) -> Run:
    """all_gather_into_tensor into a buffer full of NaN, a mask, and fresh memory; then, on rank 0, exp overflows."""
    run = Run()
    for number in range(2):
        rank = run.rank(number)
        rank.op("Torch.empty", [], [t(NAN)])
        rank.op("Tensor.masked_fill", [t(1.0)], [t(-INF)])
        rank.comm("all_gather_into_tensor", [t(NAN, shape=(8, 8)), t(1.0)], {}, {0: t(1.0, shape=(8, 8))})
        bad = faulty and number == 0
        rank.op("Torch.exp", [t(100.0 if bad else 1.0)], [t(INF if bad else 2.0)])
        rank.op("Torch.sum", [t(INF if bad else 2.0)], [t(INF if bad else 2.0, shape=())])
    return run


def test_earlier_records_are_told_with_their_reason(tmp_path: Path) -> None:
    cause = the_cause(with_a_receive_buffer().analyze(tmp_path))
    assert (cause.rank, cause.op_name) == (0, "Torch.exp.0.forward")
    told = {other.op_name: other.reason.key for other in cause.alternatives}
    assert told == {
        "Torch.empty.0.forward": "reason.fresh_memory",
        "Distributed.all_gather_into_tensor.0.forward": "reason.receive_buffer",
    }


def test_the_text_lists_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_a_receive_buffer().write(tmp_path / "dump")
    assert cli.main(["analyze", str(tmp_path / "dump"), "--lang", "en"]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "Distributed.all_gather_into_tensor.0.forward: what the receive buffer held before the message" in told


@pytest.mark.parametrize(("faulty", "centre"), [(True, "Torch.exp.0.forward"), (False, "Torch.empty.0.forward")])
def test_show_stops_at_the_cause(faulty: bool, centre: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a cause, at the first record that is not finite."""
    with_a_receive_buffer(faulty=faulty).write(tmp_path / "dump")
    assert cli.main(["show", str(tmp_path / "dump"), "--rank", "0", "--around", "0", "--lang", "en"]) == 0
    assert centre in capsys.readouterr().out


def test_show_goes_to_the_step_of_the_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run()
    for step, value in ((0, 1.0), (1, INF)):
        run.rank(0, step).op("Torch.exp", [t(100.0 if value == INF else 1.0)], [t(value)])
        run.rank(0, step).op("Torch.sum", [t(value)], [t(value, shape=())])
    run.write(tmp_path / "dump")
    assert cli.main(["show", str(tmp_path / "dump"), "--rank", "0", "--lang", "en"]) == 0
    assert "step 1" in capsys.readouterr().out.splitlines()[0]
