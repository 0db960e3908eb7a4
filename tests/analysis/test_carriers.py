"""Copies, casts and views are no causes."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.made_runs import INF, NAN, Run, named, t, the_cause
from firstnan.answer.model import MechanismKind, Where


@pytest.mark.parametrize("value", [NAN, INF])
@pytest.mark.parametrize("api", ["detach", "clone", "to", "contiguous", "view", "copy_", "float", "transpose"])
def test_copies_make_nothing(api: str, value: float, tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    before = rank.op("Functional.linear", [t(1.0), t(1.0)], [t(1.0, dtype="float16")])
    copy = rank.op(f"Tensor.{api}", [t(1.0, dtype="float16")], [t(value, dtype="float16")])
    rank.op("Torch.sum", [t(value, dtype="float16")], [t(value, shape=(), dtype="float16")])
    report = run.analyze(tmp_path)
    cause = the_cause(report)
    assert named(report) == [(0, copy)]
    assert cause.where is Where.UNDUMPED_OPERATOR
    keys = {note.key: note.params for note in cause.evidence}
    assert keys["evidence.only_copies"] == {"op_name": copy}
    assert keys["evidence.between"] == {"before": before, "after": copy}
    assert "evidence.input_bad" not in keys


def test_a_cast_of_a_number_beyond_its_dtype_is_a_cause(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    cast = rank.op("Tensor.to", [t(7e4)], [t(INF, dtype="float16")])
    rank.op("Torch.sum", [t(INF, dtype="float16")], [t(INF, shape=(), dtype="float16")])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where, cause.mechanism.kind) == (cast, Where.OPERATOR, MechanismKind.CAST_OVERFLOW)


@pytest.mark.parametrize("api", ["relu", "sigmoid", "cat", "embedding", "max"])
def test_what_gives_no_more_than_it_takes_does_not_overflow(api: str, tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    odd = rank.op(f"Torch.{api}", [t(1.0, dtype="float16")], [t(INF, dtype="float16")])
    rank.op("Torch.sum", [t(INF, dtype="float16")], [t(INF, shape=(), dtype="float16")])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.mechanism.kind) == (odd, MechanismKind.UNKNOWN)
