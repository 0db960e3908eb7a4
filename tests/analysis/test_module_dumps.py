"""Modules without records inside."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.made_runs import INF, NAN, Run, batch, named, t
from firstnan.answer.model import Confidence
from firstnan.dump.records import Direction


@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize("handed_in", [False, True])
def test_between_children_is_inside_the_parent(handed_in: bool, level: str, tmp_path: Path) -> None:
    """``sqrt(lin(x))`` in a module that hands the gradient on to its child; or in the module around that one."""
    run = Run()
    rank = run.rank(0)
    rank.header["level"] = level
    with (
        rank.module("net", "Net", [batch(1.0)], [t(1.0)]) as net,
        rank.module("net.angle", "Angle", [t(1.0)], [t(1.0)]) as angle,
        rank.module("net.angle.lin", "Linear", [t(1.0)], [t(1.0, 0.0)]) as lin,
    ):
        pass
    given = t(NAN) if handed_in else t(1.0)
    rank.backward(lin, [t(NAN)], [t(NAN)])
    rank.backward(angle, [given], [t(NAN)])
    rank.backward(net, [t(1.0)], [t(NAN)])
    report = run.analyze(tmp_path)
    assert named(report) == [(0, (net if handed_in else angle).replace(".forward", ".backward"))]
    assert report.root_causes[0].direction is Direction.BACKWARD


@pytest.mark.parametrize("becomes", [NAN, INF])
def test_between_modules_an_infinity_becomes_nan(becomes: float, tmp_path: Path) -> None:
    """Attention of level L0: ``norm`` gives Inf, scores and softmax leave no record, ``out`` reads another value.

    A cause that hangs on that guess is possible at most, and the reader is its first alternative.
    """
    run = Run()
    rank = run.rank(0)
    rank.header["level"] = "L0"
    wrong = t(becomes) if becomes is NAN else t(becomes, -2.0)
    with (
        rank.module("net", "Net", [batch(1.0)], [wrong]),
        rank.module("net.attention", "Attention", [t(1.0)], [wrong]),
    ):
        with rank.module("net.attention.norm", "Norm", [t(1.0)], [t(INF, -3.0)]) as norm:
            pass
        with rank.module("net.attention.out", "Linear", [wrong], [wrong]) as out:
            pass
    (cause,) = run.analyze(tmp_path).root_causes
    assert cause.op_name == norm
    assert cause.place_confidence is Confidence.POSSIBLE
    assert [other.op_name for other in cause.alternatives][:1] == [out]


def test_an_infinity_of_another_module_becomes_no_nan(tmp_path: Path) -> None:
    """``norm`` stands outside of the attention whose ``out`` takes in NaN."""
    run = Run()
    rank = run.rank(0)
    rank.header["level"] = "L0"
    with rank.module("net", "Net", [batch(1.0)], [t(NAN)]):
        with rank.module("net.norm", "Norm", [t(1.0)], [t(INF, -3.0)]):
            pass
        with (
            rank.module("net.attention", "Attention", [t(1.0)], [t(NAN)]) as attention,
            rank.module("net.attention.out", "Linear", [t(NAN)], [t(NAN)]),
        ):
            pass
    assert named(run.analyze(tmp_path)) == [(0, attention)]
