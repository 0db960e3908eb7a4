"""Changes of the analysis that no other test noticed (see tools/mutation_check.py): what an event is told with."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import NAN, Rank, Run, events, named, t

from firstnan.analysis.events import Ending, EventKind, Origin


def rank0() -> Rank:
    return Run().rank(0)


def test_between_the_last_record_of_the_same_size_and_the_reader(tmp_path: Path) -> None:
    """A view in between changed the shape; the exact shape, where there is one, tells more."""
    rank = rank0()
    rank.op("Torch.mul", [t(1.0)], [t(1.0, shape=(2, 16))])
    near = rank.op("Torch.add", [t(1.0)], [t(1.0, shape=(8, 4))])
    rank.op("Torch.relu", [t(1.0, shape=(3,))], [t(1.0, shape=(3,))])
    rank.op("Torch.log", [t(NAN)], [t(NAN)])
    (event,) = [e for e in events(rank, tmp_path) if e.kind is EventKind.ENTRY]
    assert event.origin is Origin.BETWEEN_RECORDS
    assert event.writer is not None
    assert event.writer.name.full == near


def recompute(rank: Rank, bad: str) -> str:
    """Two layers, of which the first is computed again in backward and gives NaN; the backward of one layer is bad.

    Gives the name of the recomputed record.
    """
    calls = {}
    for path in ("layers.0", "layers.1"):
        with rank.module(path, "Layer", [t(1.0)], [t(1.0)]):
            calls[path] = rank.op("Functional.linear", [t(1.0), t(1.0, shape=(8, 8))], [t(1.0)])
            rank.op("Functional.gelu", [t(1.0)], [t(1.0)])
    loss = rank.op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    with rank.module("layers.0", "Layer", [t(1.0)], [t(NAN)]) as again:
        born = rank.op("Functional.gelu", [t(5.0)], [t(NAN)])
    rank.construct[again] = "Module.layers.0.Layer.backward.0"
    for path in ("layers.1", "layers.0"):
        made = t(NAN) if path == bad else t(1.0)
        rank.backward(calls[path], [t(1.0)], [made])
        rank.data[f"Module.{path}.Layer.backward.0"] = {"input": [t(1.0)], "output": [made]}
        rank.construct[f"Module.{path}.Layer.backward.0"] = None
    return born


@pytest.mark.parametrize(("bad", "is_hit"), [("layers.0", True), ("layers.1", False)])
def test_a_recomputed_value_is_read_by_the_backward_of_its_own_layer(tmp_path: Path, bad: str, is_hit: bool) -> None:
    """The backward record carries the number of the first, clean call: only the layer tells."""
    rank = rank0()
    born = recompute(rank, bad)
    (event,) = [e for e in events(rank, tmp_path) if e.record.name.full == born]
    assert (Ending.GRADIENT in event.endings) is is_hit


def test_one_cause_in_forward_is_enough_for_the_story(tmp_path: Path) -> None:
    """The loss is finite, the gradients are not: because of a forward value, whatever else is wrong in backward."""
    run = Run()
    born = recompute(run.rank(0), "layers.0")
    call = run.rank(1).op("Torch.mul", [t(1.0), t(1.0)], [t(1.0)])
    loss = run.rank(1).op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
    run.rank(1).backward(loss, [t(1.0, shape=())], [t(1.0)])
    bad = run.rank(1).backward(call, [t(1.0)], [t(NAN), t(1.0)])
    report = run.analyze(tmp_path)
    assert sorted(named(report)) == [(0, born), (1, bad)]
    assert [note.key for note in report.story] == ["story.forward"]
