"""What a report says of values is held against a reader of forty lines, over all known cases."""

from __future__ import annotations

from pathlib import Path

import pytest
from brute_force import nonfinite
from known_cases import Case, all_cases

import firstnan
from firstnan.answer.model import Report, Verdict, Where

CASES = list(all_cases())


def counted(case: Case) -> dict[tuple[int, int], dict[str, int]]:
    """Step and rank -> record name -> tensors with a non-finite value."""
    found: dict[tuple[int, int], dict[str, int]] = {}
    for path in sorted(case.folder.glob("step*/*/dump.json")):
        bad = nonfinite(path.parent)
        if bad is None:
            pytest.skip("a file that is cut")
        rank = path.parent.name.removeprefix("rank")
        found[int(path.parts[-3].removeprefix("step")), int(rank) if rank.isdigit() else 0] = bad
    return found


def named(report: Report) -> list[tuple[int, int, str]]:
    """Every record that the report says holds a bad value."""
    causes = [(c.step, c.rank, c.op_name) for c in report.root_causes if c.where is not Where.MISSING_RANK]
    contained = [(one.step, one.rank, one.op_name) for one in report.contained]
    symptoms = [(one.step, one.rank, one.op_name) for one in report.symptoms]
    return [*causes, *contained, *symptoms]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_record_that_is_named_holds_a_bad_value(case: Case) -> None:
    """An impossible result of a communication is finite, and so are one that the hardware clamped, and gradients whose
    sum alone is over the limit."""
    bad = counted(case)
    report = firstnan.analyze(case.folder, firstnan.Options(jobs=1))
    finite = ("why.impossible_result", "why.members_differ", "why.saturation", "why.large_value_inside")
    spared = {(c.step, c.rank, c.op_name) for c in report.root_causes if c.mechanism.explanation.key in finite}
    for step, rank, name in set(named(report)) - spared:
        assert name in bad[step, rank], f"step {step} rank {rank}: {name}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_without_a_bad_value_there_is_nothing_to_tell(case: Case) -> None:
    bad = counted(case)
    report = firstnan.analyze(case.folder, firstnan.Options(jobs=1))
    if any(bad.values()):
        assert report.accounts.entries
    else:
        assert report.verdict is not Verdict.ANOMALY
        assert not report.contained
        assert not report.benign


def test_all_spellings_of_a_bad_value_are_counted(tmp_path: Path) -> None:
    spellings = ["NaN", "-Infinity", '"nan"', '" -inf "', '"Infinity"', "1e999"]
    tensors = ", ".join(f'{{"Max": {one}, "Min": 0.0}}' for one in spellings)
    (tmp_path / "dump.json").write_text(f'{{"data": {{"a": {{"output": [{tensors}, {{"Max": 1.0}}]}}, "b": {{}}}}}}')
    assert nonfinite(tmp_path) == {"a": len(spellings)}
