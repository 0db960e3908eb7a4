"""Files that end early, anywhere: the answer stays, or the rank whose records are gone is named."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from made_runs import INF, NAN, Rank, Run, events, named, t, the_cause
from random_programs import Played, Program, Source, play, programs
from test_random_programs import MODEST

from firstnan.answer.model import Report, Verdict, Where
from firstnan.rank.taint.events import Ending
from firstnan.run.pipeline import analyze

SHARE = st.floats(0.02, 1.0)


def cut(rank: int, root: Path, share: float) -> None:
    """The rank's file ends after this share of it, but not inside a record of communication."""
    dump = root / "step0" / f"rank{rank}" / "dump.json"
    content = dump.read_bytes()
    end = int(len(content) * share)
    records = [match.start() for match in re.finditer(rb'\n  "', content)]
    while records and (records[-1] >= end or content[records[-1] :].startswith(b'\n  "Distributed')):
        end = min(end, records.pop())
    dump.write_bytes(content[:end])


def analyzed(played: Played, rank: int, share: float) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        root = played.run.write(Path(folder))
        cut(rank, root, share)
        return analyze(root)


@MODEST
@given(programs(named=True), st.integers(0, 5), SHARE)
def test_a_cut_of_another_rank_does_not_matter(program: Program, choice: int, share: float) -> None:
    assume(program.source is Source.BIRTH)
    played = play(program)
    others = [rank for rank in range(program.world) if rank != played.cause[0]]
    report = analyzed(played, others[choice % len(others)], share)
    assert named(report) == [played.cause]


@MODEST
@given(programs(named=True), SHARE)
def test_a_cut_of_the_source_leaves_its_record_or_its_rank(program: Program, share: float) -> None:
    played = play(program)
    assume(played.provable)
    cause = the_cause(analyzed(played, played.cause[0], share))
    assert cause.rank == played.cause[0]
    assert cause.op_name == played.cause[1] or cause.where is Where.MISSING_RANK


def log(rank: Rank) -> str:
    return rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])


def cut_after(path: Path, rank: int, *marks: str) -> None:
    """The rank's file ends behind these texts, one after the other."""
    dump = path / "step0" / f"rank{rank}" / "dump.json"
    content, at = dump.read_text(encoding="utf-8"), 0
    for mark in marks:
        at = content.index(mark, at) + len(mark)
    dump.write_text(content[:at], encoding="utf-8")


def test_a_cut_inside_a_bad_result(tmp_path: Path) -> None:
    """Rank 1's file ends inside the result of the call through which it received the NaN of rank 0."""
    run = Run()
    born = log(run.rank(0))
    for rank in (0, 1):
        run.rank(rank).all_reduce(t(1.0) if rank else t(NAN), t(NAN), (0, 1))
        run.rank(rank).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    run.write(tmp_path)
    cut_after(tmp_path, 1, '"Distributed', '"output"', '"Max": NaN,')
    assert named(analyze(tmp_path)) == [(0, born)]


def test_a_cut_before_the_group_of_a_call(tmp_path: Path) -> None:
    """Rank 0's file ends inside a call of the group 0,1; its later call with all ranks brought the NaN."""
    run = Run()
    for rank in (0, 1):
        run.rank(rank).all_reduce(t(1.0), t(2.0), (0, 1))
    log(run.rank(0))
    for rank in range(3):
        run.rank(rank).all_reduce(t(1.0) if rank else t(NAN), t(NAN), (0, 1, 2))
        run.rank(rank).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    run.write(tmp_path)
    cut_after(tmp_path, 0, '"Distributed', '"Norm"')
    cause = the_cause(analyze(tmp_path))
    assert (cause.rank, cause.where) == (0, Where.MISSING_RANK)


@pytest.mark.parametrize("dies", [True, False])
def test_a_pass_that_died_is_no_update(dies: bool, tmp_path: Path) -> None:
    """The second micro-batch takes a logarithm of 0 that ``where`` drops, and the run ends behind it, or does not."""
    run = Run()
    rank = run.rank(0)
    for number in (0, 1):
        with rank.module("mlp", "Mlp", [t(1.0)], [t(1.0)]):
            log = t(-INF, -INF) if number else t(0.0)
            rank.op("Torch.log", [t(0.0) if number else t(1.0)], [log])
            rank.op("Torch.exp", [log], [t(0.0 if number else 1.0)])
        loss = rank.op("Torch.mean", [t(1.0)], [t(1.0, shape=())])
        if number == 0 or not dies:
            rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    assert run.analyze(tmp_path).verdict is Verdict.CLEAN
    event = next(e for e in events(rank, tmp_path / "again") if e.record.name.full == "Torch.log.1.forward")
    assert Ending.UPDATE not in event.endings
