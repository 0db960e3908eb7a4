"""Every communication call is listed, also where nothing is wrong; both readers give the same list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.made_runs import INF, NAN, Run, p2p_op, t
from firstnan.answer.model import CollectiveReport
from firstnan.cli import main as cli
from firstnan.run import lookups, pipeline
from firstnan.step.every_call import EveryCall


def every(run: Run, folder: Path) -> list[CollectiveReport]:
    run.write(folder)
    return list(EveryCall(pipeline.analyze(folder), lookups.rosters(folder)))


def states(call: CollectiveReport) -> tuple[tuple[int, ...], ...]:
    return call.source_ranks, call.propagated_ranks, call.normal_ranks, call.undecided_ranks


def healthy(calls: int = 3) -> Run:
    run = Run()
    for rank in range(2):
        for _ in range(calls):
            run.rank(rank).all_reduce(t(1.0), t(2.0))
    return run


def test_all_calls_of_a_clean_run_are_normal(tmp_path: Path) -> None:
    calls = every(healthy(), tmp_path)
    assert [(call.op, call.call, states(call)) for call in calls] == [
        ("all_reduce", nth, ((), (), (0, 1), ())) for nth in range(3)
    ]


def test_affected_calls_come_first(tmp_path: Path) -> None:
    run = healthy()
    run.rank(1).op("Torch.exp", [t(100.0)], [t(INF)])
    for rank in range(2):
        run.rank(rank).all_reduce(t(INF) if rank else t(1.0), t(INF))
        run.rank(rank).op("Torch.sum", [t(INF)], [t(INF, INF, shape=())])
    calls = every(run, tmp_path)
    assert [(call.call, states(call)) for call in calls] == [
        (3, ((1,), (0,), (), ())),
        *((nth, ((), (), (0, 1), ())) for nth in range(3)),
    ]


@pytest.mark.parametrize("faulty", [False, True])
def test_a_mask_is_normal_in_a_clean_run(faulty: bool, tmp_path: Path) -> None:
    run = Run()
    for rank in range(2):
        run.rank(rank).op("Tensor.masked_fill", [t(1.0)], [t(-INF)])
        run.rank(rank).all_reduce(t(-INF), t(-INF), op="MAX")
        run.rank(rank).op("Functional.softmax", [t(-INF)], [t(1.0, 0.0)])
        if faulty:
            run.rank(rank).op("Torch.log", [t(0.0)], [t(NAN)])
            run.rank(rank).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    (call,) = every(run, tmp_path)
    assert states(call) == ((), (), (), (0, 1)) if faulty else ((), (), (0, 1), ())


def test_a_receiver_gets_what_was_sent(tmp_path: Path) -> None:
    """The record of a receive in a batch shows the buffer from before."""
    run = Run()
    run.rank(0).comm("batch_isend_irecv", [[p2p_op("isend", t(1.0), 1)]], {}, {})
    run.rank(1).comm("batch_isend_irecv", [[p2p_op("irecv", t(9.0), 0)]], {}, {})
    (call,) = every(run, tmp_path)
    assert states(call) == ((), (), (0, 1), ())


def test_mismatched_calls_end(tmp_path: Path) -> None:
    """Two groups called in opposite order on their members: every call is listed, once."""
    run = Run()
    for rank, order in ((0, ("all_reduce", "broadcast")), (1, ("broadcast", "all_reduce"))):
        for api in order:
            if api == "all_reduce":
                run.rank(rank).all_reduce(t(1.0), t(2.0))
            else:
                run.rank(rank).broadcast(t(1.0), t(1.0), src=0)
    run.rank(0).all_reduce(t(1.0), t(2.0))
    calls = every(run, tmp_path)
    assert sorted((call.op, call.call, call.undecided_ranks) for call in calls) == [
        ("all_reduce", 0, ()),
        ("all_reduce", 1, (1,)),
        ("broadcast", 0, ()),
    ]


def test_a_value_that_is_dropped_is_marked(tmp_path: Path) -> None:
    run = Run()
    for rank in range(2):
        mine = run.rank(rank)
        mine.op("Torch.empty", [], [t(NAN)])
        mine.all_reduce(t(NAN), t(NAN))
        mine.op("Torch.where", [t(1.0), t(1.0), t(NAN)], [t(1.0)])
    (call,) = every(run, tmp_path / "dump")
    assert call.source_ranks == (0, 1)
    file = tmp_path / "cross_rank_analysis.json"
    assert cli.main(["ranks", str(tmp_path / "dump"), "-o", str(file)]) == 0
    assert json.loads(file.read_text("utf-8"))["Distributed.all_reduce.0.forward"]["contained"] is True


def test_long_ranks_list_every_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """More calls than are looked at around a suspect, in files that are scanned: one line for each."""
    run = healthy(700)
    run.rank(1).op("Torch.exp", [t(100.0)], [t(INF)])
    for rank in range(2):
        run.rank(rank).all_reduce(t(INF) if rank else t(1.0), t(INF))
    run.write(tmp_path / "dump")
    file = tmp_path / "cross_rank_analysis.json"
    assert cli.main(["ranks", str(tmp_path / "dump"), "-o", str(file)]) == 1
    lines = file.read_text("utf-8").splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("{", "}", 703)
    document = json.loads("\n".join(lines))
    assert document["Distributed.all_reduce.700.forward"]["source_ranks"] == [1]
    assert sum(entry["normal_ranks"] == [0, 1] for entry in document.values()) == 700
    capsys.readouterr()
    assert cli.main(["ranks", str(tmp_path / "dump"), "--lang", "en"]) == 1
    assert "701 calls: 1 with a source" in capsys.readouterr().out
    assert cli.main(["ranks", str(tmp_path / "dump"), "--lang", "en", "-v"]) == 1
    assert "all_reduce.0-699.forward" in capsys.readouterr().out


def test_table_and_count_agree_on_what_does_not_matter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mask of nothing but -Inf goes through a call, and a fault elsewhere: the mask's call has no source anywhere."""
    run = Run()
    for rank in range(2):
        mine = run.rank(rank)
        mine.op("Torch.full", [], [t(-INF, -INF)])
        mine.all_reduce(t(-INF, -INF), t(-INF, -INF), op="MAX")
        mine.op("Functional.softmax", [t(1.0)], [t(1.0, 0.0)])
        mine.op("Torch.where", [t(1.0), t(1.0), t(-INF, -INF)], [t(1.0)])
        bad = INF if rank == 1 else 1.0
        mine.op("Torch.exp", [t(100.0 if rank == 1 else 1.0)], [t(bad)])
        mine.all_reduce(t(bad), t(INF))
        mine.op("Torch.sum", [t(INF)], [t(INF, shape=())])
    run.write(tmp_path / "dump")
    file = tmp_path / "cross_rank_analysis.json"
    assert cli.main(["ranks", str(tmp_path / "dump"), "--lang", "en", "--mission-file", str(file)]) == 1
    told = " ".join(capsys.readouterr().out.split())
    listed = json.loads(file.read_text("utf-8"))
    assert [name for name, one in listed.items() if one["source_ranks"] and "contained" not in one] == [
        "Distributed.all_reduce.1.forward"
    ]
    assert "2 calls: 1 with a source rank, 0 that only received" in told
    assert "1 with NaN or Inf that is legal or not used" in told


def test_sender_and_receiver_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run()
    run.rank(0).op("Torch.exp", [t(100.0)], [t(INF)])
    run.rank(0).send(t(INF), 1)
    run.rank(1).recv(t(INF), 0)
    run.rank(1).op("Torch.sum", [t(INF)], [t(INF, shape=())])
    run.write(tmp_path / "dump")
    assert cli.main(["analyze", str(tmp_path / "dump"), "--lang", "en"]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "send #0: rank 0 sends (Distributed.send.0.forward), rank 1 receives (Distributed.recv.0.forward)" in told
