"""Modules without records inside."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.made_runs import NAN, Run, batch, named, t
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
