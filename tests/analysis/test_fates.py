"""What became of every non-finite value: the rules of ``fates``, and the account that each ends in."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Rank, Run, batch, t

import firstnan
from firstnan.answer.accounts import Account, Fate
from firstnan.answer.model import Report, Verdict
from firstnan.show.outline.inputs import accounts_line
from firstnan.show.outline.model import plain
from firstnan.show.reporter import Settings


def fates(report: Report) -> dict[Fate, int]:
    """Values by their fate, rules put together."""
    found: dict[Fate, int] = {}
    for entry in report.accounts.entries:
        assert entry.account is entry.fate.account
        found[entry.fate] = found.get(entry.fate, 0) + entry.count
    return found


def trained(rank: Rank) -> None:
    loss = rank.op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])


def test_a_record_shares_its_fate(tmp_path: Path) -> None:
    """The NaN is written, read and dropped (2 values); what reaches the loss follows from its cause (3)."""
    run = Run()
    rank = run.rank(0)
    rank.op("Functional.softmax", [batch(-INF)], [t(NAN)])
    rank.op("Torch.nan_to_num", [t(NAN)], [t(1.0)])
    born = rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(INF)])
    loss = rank.op("Torch.sum", [t(INF)], [t(INF, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    report = run.analyze(tmp_path)
    assert fates(report) == {Fate.RULE: 1, Fate.SELECTED: 2, Fate.CAUSE: 3}
    assert report.root_causes[0].op_name == born


def test_a_repeated_value_shares_its_fate(tmp_path: Path) -> None:
    """A module's record says once more what went into it, and was dropped inside."""
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    with rank.module("clean", "Clean", [t(NAN)], [t(1.0)]):
        rank.op("Torch.nan_to_num", [t(NAN)], [t(1.0)])
    trained(rank)
    assert fates(run.analyze(tmp_path)) == {Fate.SELECTED: 3}


@pytest.mark.parametrize("training", [True, False])
def test_an_unread_value_needs_a_backward_pass(training: bool, tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    with rank.module("model", "Model", [t(1.0)], [t(3, 0, dtype="int64", grad=False)]):
        rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
        rank.op("Torch.mul", [t(1.0), t(2.0)], [t(2.0)])
    if training:
        trained(rank)
    report = run.analyze(tmp_path)
    assert fates(report) == {Fate.UNREAD if training else Fate.NO_READER: 1}
    assert report.exit_code == (0 if training else 4)


def test_a_rule_of_the_user_has_an_account(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    born = rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    rank.op("Torch.relu", [t(1.0)], [t(1.0)])
    run.write(tmp_path / "dump")
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "ours"\nkind = "ignored"\nops = ["Torch.log"]\nreason = "known"\n')
    report = firstnan.analyze(tmp_path / "dump", firstnan.Options(jobs=1, rules=rules))
    (entry,) = report.accounts.entries
    assert (report.verdict, entry.fate, entry.rule, entry.count) == (Verdict.CLEAN, Fate.RULE, "ours", 1)
    assert entry.example.endswith(born)


def test_a_rejected_record_has_an_account(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    born = rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    trained(rank)
    run.write(tmp_path)
    report = firstnan.analyze(tmp_path, firstnan.Options(jobs=1, exclude_ops=(born,)))
    assert fates(report) == {Fate.REJECTED: 1}


def test_what_every_member_dropped_has_an_account(tmp_path: Path) -> None:
    """Garbage in slots of an exchange: sent, received, and dropped on both ranks."""
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
        rank.all_reduce(t(NAN), t(NAN))
        rank.op("Torch.nan_to_num", [t(NAN)], [t(1.0)])
        trained(rank)
    report = run.analyze(tmp_path)
    assert report.verdict is Verdict.CLEAN
    assert set(fates(report)) <= {Fate.CALL, Fate.SELECTED}
    assert Fate.CALL in fates(report)


def test_the_line_tells_the_accounts_that_are_not_empty(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    rank.op("Torch.nan_to_num", [t(NAN)], [t(1.0)])
    trained(rank)
    report = run.analyze(tmp_path)
    assert plain(accounts_line(report.accounts, Settings().language)) == "2 dropped"


def test_every_fate_has_an_account() -> None:
    assert {fate.account for fate in Fate} == set(Account)


@pytest.mark.parametrize("most", [1, 32])
def test_calls_that_are_not_told_apart_decide_together(
    most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Garbage enters three calls one after the other, and the fault the last one."""
    monkeypatch.setattr("firstnan.rank.taint.fates.MAX_TALLIES", most)
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        for size in (5, 6, 7):
            value = t(NAN, shape=(size,))
            rank.op("Torch.log", [t(1.0, -1.0, shape=(size,))], [value])
            rank.all_reduce(value, value)
            rank.op("Torch.nan_to_num", [value], [t(1.0, shape=(size,))])
        trained(rank)
    found = fates(run.analyze(tmp_path))
    assert set(found) == {Fate.CALL, Fate.SELECTED}
    assert sum(found.values()) == 2 * 3 * 4


def test_open_values_are_named(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    names = []
    with rank.module("model", "Model", [t(1.0)], [t(3, 0, dtype="int64", grad=False)]):
        for size in range(5, 10):
            names.append(rank.op("Torch.log", [t(1.0, -1.0, shape=(size,))], [t(NAN, shape=(size,))]))
    (told,) = [p for p in run.analyze(tmp_path).input.problems if p.kind.value == "open_values"]
    assert told.detail == f"5 values (first: {', '.join(names[:3])})"


def test_an_open_value_is_not_told_as_contained(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    with rank.module("model", "Model", [t(1.0)], [t(3, 0, dtype="int64", grad=False)]):
        rank.op("Torch.log", [t(1.0, -1.0, shape=(5,))], [t(NAN, shape=(5,))])
        dropped = rank.op("Torch.sqrt", [t(1.0, -1.0, shape=(6,))], [t(NAN, shape=(6,))])
        rank.op("Torch.nan_to_num", [t(NAN, shape=(6,))], [t(1.0, shape=(6,))])
    report = run.analyze(tmp_path)
    assert [one.op_name for one in report.contained] == [dropped]
    assert fates(report) == {Fate.NO_READER: 1, Fate.SELECTED: 2}


def late(rank: Rank, case: str) -> None:
    """A step with finite gradients, and an infinite scalar behind backward."""
    number = batch(100.0, 100.0, shape=())
    loss = rank.op("Torch.mean", [t(1.0)], [t(100.0, 100.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    if case == "of a tensor":
        rank.op("Torch.norm", [batch(1e30)], [batch(INF, INF, shape=())])
        return
    rank.op("Torch.exp", [number], [batch(INF, INF, shape=())])
    if case == "read":
        rank.op("Tensor.mul", [batch(1.0), batch(INF, INF, shape=())], [batch(INF)])


@pytest.mark.parametrize(
    ("case", "verdict"), [("unread", Verdict.CLEAN), ("read", Verdict.ANOMALY), ("of a tensor", Verdict.ANOMALY)]
)
def test_a_scalar_of_scalars_behind_backward_is_a_metric(case: str, verdict: Verdict, tmp_path: Path) -> None:
    run = Run()
    late(run.rank(0), case)
    report = run.analyze(tmp_path)
    assert report.verdict is verdict
    assert not report.complete or verdict is Verdict.ANOMALY


def test_what_begins_behind_a_cause_follows_from_nothing(tmp_path: Path) -> None:
    """The same division in two micro-batches is told once, and the second result does not come from the first."""
    run = Run()
    rank = run.rank(0)
    rank.op("Tensor.__truediv__", [t(1.0), t(0.0)], [t(INF, 1.0)])
    rank.op("Tensor.mul", [t(INF, 1.0), 2.0], [t(INF, 2.0)])
    rank.op("Tensor.__truediv__", [t(3.0), t(0.0)], [t(INF, 3.0)])
    loss = rank.op("Torch.sum", [t(INF, 2.0), t(INF, 3.0)], [t(INF, INF, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    report = run.analyze(tmp_path)
    assert len(report.root_causes) == 1
    assert fates(report) == {Fate.CAUSE: 6, Fate.BEHIND: 1}
