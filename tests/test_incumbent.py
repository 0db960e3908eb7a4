"""Five dumps on which the tool that is in use today gives a wrong answer or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.made_runs import INF, NAN, Run, named, t, the_cause
from firstnan.answer.model import MechanismKind, Verdict, Where
from firstnan.dump.problems import ProblemKind
from firstnan.run.pipeline import analyze


def data_parallel(source: int, ranks: int = 4) -> Run:
    """Every rank computes and reduces; on one of them the logarithm of a negative number is NaN."""
    run = Run()
    for rank in range(ranks):
        mine, value = run.rank(rank), NAN if rank == source else 0.5
        with mine.module("model", "Model", [t(1.0)], [t(value)]):
            mine.op("Functional.linear", [t(1.0), t(1.0, shape=(8, 8))], [t(2.0)])
            mine.op("Torch.log", [t(2.0, -2.0 if rank == source else 0.5)], [t(value)])
            mine.op("Torch.mul", [t(value), t(1.0)], [t(value)])
        mine.all_reduce(t(value), t(NAN))
        mine.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    return run


def test_two_disjoint_groups_both_bad(tmp_path: Path) -> None:
    """[0, 1] and [2, 3] never meet, each has a bad rank of its own: two causes, each with its spread."""
    run = Run()
    for rank in range(4):
        mine, is_source = run.rank(rank), rank in (1, 2)
        if rank == 1:
            mine.op("Torch.exp", [t(100.0)], [t(INF)])
        elif rank == 2:
            mine.op("Torch.log", [t(1.0, -1.0)], [t(INF)])
        mine.all_reduce(t(INF) if is_source else t(1.0), t(INF), (0, 1) if rank < 2 else (2, 3))
        mine.op("Torch.sum", [t(INF)], [t(INF, INF, shape=())])
    report = run.analyze(tmp_path)
    assert sorted(named(report)) == [(1, "Torch.exp.0.forward"), (2, "Torch.log.0.forward")]
    assert [(h.from_rank, h.to_ranks) for h in report.propagation] == [(1, (0,)), (2, (3,))]
    affected = {c.group: (c.source_ranks, c.propagated_ranks) for c in report.collectives}
    assert affected == {(0, 1): ((1,), (0,)), (2, 3): ((2,), (3,))}


def test_producer_not_dumped(tmp_path: Path) -> None:
    """The fused kernel that made the NaN has no record: its first reader, and between which two records it ran."""
    run = Run()
    rank = run.rank(0)
    with rank.module("model", "Model", [t(1.0)], [t(NAN)]):
        before = rank.op("Functional.linear", [t(1.0), t(1.0, shape=(8, 8))], [t(2.0)])
        after = rank.op("Torch.mul", [t(NAN), t(1.0)], [t(NAN)])
    rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where) == (after, Where.UNDUMPED_OPERATOR)
    between = [note.params for note in cause.evidence if note.key == "evidence.between"]
    assert between == [{"before": before, "after": after}]


@pytest.mark.parametrize("cut", [1, 2, 3], ids=["of the source", "of a receiver", "of another receiver"])
def test_one_file_cut_in_half(cut: int, tmp_path: Path) -> None:
    """Whichever rank's file ends early, the rest is analysed, and the report says what was not seen."""
    run = data_parallel(source=1)
    run.write(tmp_path)
    dump = tmp_path / "step0" / f"rank{cut}" / "dump.json"
    content = dump.read_bytes()
    whole = content.index(b"Distributed") if cut == 1 else len(content) // 2
    dump.write_bytes(content[:whole])
    report = analyze(tmp_path)
    assert named(report) == [(1, "Torch.log.0.forward")]
    assert [(p.kind, p.rank) for p in report.input.problems] == [(ProblemKind.TRUNCATED, cut)]
    assert not report.complete
    assert [note.params for note in report.caveats if note.key == "caveat.cut_ranks"] == [{"ranks": str(cut)}]


def test_one_file_cut_in_half_before_the_culprit(tmp_path: Path) -> None:
    """The source's record is beyond the cut: the rank is named, and that it cannot be seen what happened."""
    data_parallel(source=1).write(tmp_path)
    dump = tmp_path / "step0" / "rank1" / "dump.json"
    content = dump.read_bytes()
    dump.write_bytes(content[: content.index(b'"Torch.log')])
    cause = the_cause(analyze(tmp_path))
    assert (cause.rank, cause.where, cause.op_name) == (1, Where.MISSING_RANK, "")


def test_one_stack_json_missing(tmp_path: Path) -> None:
    """The operator and its module stay the answer; only the code line is not known, and the report says so."""
    data_parallel(source=1).write(tmp_path)
    (tmp_path / "step0" / "rank1" / "stack.json").unlink()
    report = analyze(tmp_path)
    cause = the_cause(report)
    assert (cause.rank, cause.op_name, cause.module) == (1, "Torch.log.0.forward", "model")
    assert (cause.location, cause.stack_info) == (None, ())
    assert [(p.kind, p.file) for p in report.input.problems] == [
        (ProblemKind.MISSING_FILE, "step0/rank1/stack.json"),
    ]  # fmt: skip
    assert report.exit_code == 1


def test_legal_mask_minus_inf_early_on_one_rank_with_the_real_fault_later_on_another(tmp_path: Path) -> None:
    run = data_parallel(source=2)
    masked = Run().rank(0)
    with masked.module("model", "Model", [t(1.0)], [t(0.5)]):
        masked.op("Tensor.masked_fill", [t(1.0)], [t(-INF)])
        masked.op("Torch.add", [t(1.0), t(-INF)], [t(1.0, -INF)])
        masked.op("Functional.softmax", [t(1.0, -INF)], [t(1.0, 0.0)])
        masked.op("Torch.log", [t(1.0, 0.5)], [t(0.5)])
    masked.all_reduce(t(0.5), t(NAN))
    masked.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    run.ranks[0, 0] = masked
    report = run.analyze(tmp_path)
    cause = the_cause(report)
    assert (cause.rank, cause.op_name) == (2, "Torch.log.0.forward")
    assert cause.mechanism.kind is MechanismKind.LOG_ZERO
    assert report.verdict is Verdict.ANOMALY
    assert {(r.rule, r.count) for r in report.benign} == {("legal_minus_inf", 1), ("inherited_minus_inf", 1)}
