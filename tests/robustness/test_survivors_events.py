"""Changes of the analysis that no other test noticed (see tools/mutation_check.py): what an event is told with."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from made_runs import INF, NAN, Rank, Run, blank, events, named, t

from firstnan.rank.taint.events import Ending, EventKind, Origin
from firstnan.rank.taint.structure import MAX_DEPTH, Structure


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


def recompute(rank: Rank, bad: str, read: float = 5.0) -> str:
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
        born = rank.op("Functional.gelu", [t(read)], [t(NAN)])
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


def test_a_recomputed_value_that_came_bad_is_not_what_backward_read(tmp_path: Path) -> None:
    """It shows there, and was made somewhere else."""
    rank = rank0()
    entry = recompute(rank, "layers.0", NAN)
    (event,) = [e for e in events(rank, tmp_path) if e.record.name.full == entry]
    assert event.kind is EventKind.ENTRY
    assert Ending.GRADIENT not in event.endings


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


def test_of_two_infinities_the_one_with_both_extremes_was_read(tmp_path: Path) -> None:
    """The other one was dropped: nothing read it, and the step goes on to backward without it."""
    rank = rank0()
    rank.op("Torch.mul", [t(1.0), t(3.0)], [t(INF, -7.0)])
    read = rank.op("Torch.mul", [t(1.0), t(2.0)], [t(INF, -5.0)])
    rank.op("Torch.add", [t(INF, -5.0), t(1.0)], [t(INF, -4.0)])
    loss = rank.op("Torch.sum", [t(INF, -4.0)], [t(INF, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    assert named(Run({(0, 0): rank}).analyze(tmp_path)) == [(0, read)]


def test_an_input_without_statistics_is_not_what_another_record_made(tmp_path: Path) -> None:
    """Only flags of whole records (nan_check) lead from one to the next; here the first value has statistics."""
    rank = rank0()
    rank.op("Torch.log", [t(1.0, -1.0, shape=(2,))], [t(NAN, shape=(2,))])
    rank.op("Torch.mul", [blank(), blank()], [t(NAN)])
    assert [event.kind for event in events(rank, tmp_path)] == [EventKind.BIRTH, EventKind.BIRTH]


def test_what_the_dump_left_out_is_told_of_the_own_module(tmp_path: Path) -> None:
    rank = rank0()
    for path in ("a", "b"):
        with rank.module(path, "Mlp", [t(1.0)], [t(NAN if path == "b" else 1.0)]) as module:
            rank.op("Torch.relu", [t(NAN if path == "b" else 1.0)], [t(NAN if path == "b" else 1.0)])
        rank.construct[f"Tensor.to_{path}.0.forward"] = module
    (event,) = [e for e in events(rank, tmp_path) if e.kind is EventKind.ENTRY]
    assert (event.hidden, event.module) == (("Tensor.to_b.0.forward",), "b")


@pytest.mark.parametrize("inside", [True, False])
def test_the_result_of_the_outermost_module_is_that_of_the_pass(tmp_path: Path, inside: bool) -> None:
    """Even when the loss is made of something else; what no module gives, and is replaced, is dropped."""
    rank = rank0()
    if inside:
        with rank.module("net", "Net", [t(1.0)], [t(NAN)]):
            rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    else:
        rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    rank.op("Torch.nan_to_num", [t(NAN)], [t(1.0)])
    loss = rank.op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    (event,) = events(rank, tmp_path)
    assert (Ending.OUTPUT in event.endings) is inside


@pytest.mark.parametrize("micro_batches", [0, 1, 2])
def test_a_later_micro_batch_opens_a_pass_too(tmp_path: Path, micro_batches: int) -> None:
    """What stands in the input of its first module may come from elsewhere, as in the first record of all."""
    rank = rank0()
    for number in range(micro_batches + 1):
        value = t(NAN) if number == micro_batches else t(1.0)
        with rank.module("net", "Net", [value], [value]):
            pass
    (event,) = events(rank, tmp_path)
    assert (event.kind, event.opens_pass) == (EventKind.ENTRY, True)


@pytest.mark.parametrize(("before", "kind"), [(0, "Torch.log"), (1, "Torch.log"), (1, "a module")])
def test_an_operator_opens_the_pass_only_as_its_first_record(tmp_path: Path, before: int, kind: str) -> None:
    rank = rank0()
    for _ in range(before):
        if kind == "a module":
            with rank.module("net", "Net", [t(1.0)], [t(1.0)]):
                pass
        else:
            rank.op(kind, [t(1.0)], [t(1.0)])
    rank.op("Torch.log", [t(NAN)], [t(NAN)])
    (event,) = events(rank, tmp_path)
    assert event.opens_pass is (before == 0)


def test_callers_are_followed_to_a_depth() -> None:
    names = [f"Module.m{i}.M.forward.0" for i in range(MAX_DEPTH + 5)]
    parents = dict(itertools.pairwise(names))
    made = Structure(parents, {}, frozenset(), None, None, frozenset(), frozenset(), has_apis=True)
    assert made.ancestors(names[0]) == tuple(names[1 : MAX_DEPTH + 1])


def test_one_mask_among_what_a_call_brought_may_be_what_is_read(tmp_path: Path) -> None:
    """The mask is legal as far as this rank knows; a member may have sent one that is not."""
    rank = rank0()
    rank.op("Tensor.masked_fill", [t(2.0)], [t(2.0, -INF)])
    rank.all_gather(t(2.0, -INF), [t(1.0), t(2.0, -INF)], group=(0, 1))
    rank.op("Functional.softmax", [t(2.0, -INF)], [t(NAN)])
    rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    (event,) = [e for e in events(rank, tmp_path) if e.kind is EventKind.BIRTH]
    assert event.pending == (1,)
