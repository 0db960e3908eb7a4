"""Outcomes that nothing settles: the rules of ``step/undecided.py``."""

from __future__ import annotations

from pathlib import Path

from made_runs import NAN, Rank, Run, named, t, the_cause

from firstnan.answer.model import Verdict, Where
from firstnan.run.pipeline import analyze


def log(rank: Rank) -> str:
    return rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])


def cut_behind(path: Path, rank: int, name: str) -> None:
    """The rank's dump.json ends a little behind this record."""
    dump = path / "step0" / f"rank{rank}" / "dump.json"
    content = dump.read_bytes()
    at = content.index(f'"{name}"'.encode())
    dump.write_bytes(content[: content.index(b'"Torch.where', at) + 40])


def cut(with_a_cause: bool) -> tuple[Run, str]:
    """Rank 1 makes a NaN, and its file ends before ``where`` can be seen to drop it."""
    run = Run()
    if with_a_cause:
        log(run.rank(0))
        run.rank(0).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    else:
        run.rank(0).op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
    with run.rank(1).module("model", "Model", [t(1.0)], [t(1.0)]):
        run.rank(1).op("Torch.sin", [t(1.0)], [t(1.0)])
        open_end = run.rank(1).op("Torch.sqrt", [t(1.0, -1.0)], [t(NAN)])
        run.rank(1).op("Torch.where", [t(True, False, dtype="bool"), t(NAN), t(1.0)], [t(1.0)])
    return run, open_end


def test_cut_before_it_was_read(tmp_path: Path) -> None:
    run, name = cut(with_a_cause=True)
    run.write(tmp_path)
    cut_behind(tmp_path, 1, name)
    assert named(analyze(tmp_path)) == [(0, "Torch.log.0.forward")]


def test_cut_before_it_was_read_and_nothing_else_is_bad(tmp_path: Path) -> None:
    run, name = cut(with_a_cause=False)
    run.write(tmp_path)
    cut_behind(tmp_path, 1, name)
    report = analyze(tmp_path)
    assert named(report) == [(1, name)]
    assert not report.complete


def test_somebody_made_it(tmp_path: Path) -> None:
    """Each rank received its NaN from the other before it sent one: no such run exists, but clean it is not."""
    run = Run()
    for rank in (0, 1):
        run.rank(rank).recv(t(NAN), 1 - rank)
        run.rank(rank).op("Torch.mul", [t(NAN), t(1.0)], [t(NAN)])
        run.rank(rank).send(t(NAN), 1 - rank)
    report = run.analyze(tmp_path)
    cause = the_cause(report)
    assert (report.verdict, cause.where) == (Verdict.ANOMALY, Where.COMMUNICATION)
    assert (cause.rank, cause.op_name) == (0, "Distributed.recv.0.forward")
