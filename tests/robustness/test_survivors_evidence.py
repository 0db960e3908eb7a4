"""Changes of the analysis that no other test noticed (see tools/mutation_check.py): evidence and mechanisms."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Json, Rank, Run, record, t, the_cause

from firstnan.analysis.events import Event, EventKind
from firstnan.analysis.evidence import evidence_of
from firstnan.analysis.focus import count_calls_from
from firstnan.analysis.watch import Lookout
from firstnan.analysis.whole import WholeDump
from firstnan.report import MechanismKind
from firstnan.rulebook import load


def rank0() -> Rank:
    return Run().rank(0)


def view(rank: Rank, root: Path) -> WholeDump:
    (dump,) = Run({(0, 0): rank}).dumps(root).values()
    return WholeDump(dump, Lookout(load(), 0, frozenset()))


# --- evidence -----------------------------------------------------------------------------------------------------


def test_outputs_that_are_clean_are_finite(tmp_path: Path) -> None:
    """A legal mask beside the bad output is not among them."""
    rank = rank0()
    made = record(rank, rank.op("Torch.aminmax", [t(2.0)], [t(NAN), t(1.0, -INF), t(3.0)]), tmp_path)
    notes = evidence_of(Event(EventKind.BIRTH, made, (), made.outputs[:1]))
    assert [note.params["slots"] for note in notes if note.key == "evidence.output_clean"] == ["output.2"]


@pytest.mark.parametrize(("legal", "keys"), [(0, ["evidence.inputs_finite"]), (1, ["evidence.legal_input"])])
def test_inputs_are_finite_unless_a_mask_is_among_them(tmp_path: Path, legal: int, keys: list[str]) -> None:
    rank = rank0()
    made = record(rank, rank.op("Functional.softmax", [t(2.0, -INF), t(3.0)], [t(NAN)]), tmp_path)
    notes = evidence_of(Event(EventKind.BIRTH, made, made.inputs[:legal], made.outputs))
    assert [note.key for note in notes if "input" in note.key] == keys


# --- mechanisms ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "is_overflow"), [(65504.0, False), (65505.0, True)])
def test_a_cast_overflows_beyond_the_largest_value(tmp_path: Path, value: float, is_overflow: bool) -> None:
    rank = rank0()
    rank.op("Tensor.half", [t(value)], [t(INF, dtype="float16")])
    rank.op("Torch.sum", [t(INF, dtype="float16")], [t(INF, shape=(), dtype="float16")])
    mechanism = the_cause(Run({(0, 0): rank}).analyze(tmp_path)).mechanism
    assert (mechanism.kind is MechanismKind.CAST_OVERFLOW) is is_overflow


@pytest.mark.parametrize(
    ("outputs", "is_overflow"),
    [
        ([t(8.4e4)], True),
        ([t(1.0), t(8.4e4, shape=(2, 3))], False),
        ([t(8.4e4), t(1.0, shape=(2, 3))], True),
    ],
)
def test_a_cast_without_a_record_is_of_a_tensor_of_the_same_size(
    tmp_path: Path, outputs: list[Json], is_overflow: bool
) -> None:
    rank = rank0()
    rank.op("Functional.linear", [t(1.0), t(1.0, shape=(8, 8))], outputs)
    rank.op("Torch.mul", [t(INF, dtype="float16"), t(1.0, dtype="float16")], [t(INF, dtype="float16")])
    rank.op("Torch.sum", [t(INF, dtype="float16")], [t(INF, shape=(), dtype="float16")])
    mechanism = the_cause(Run({(0, 0): rank}).analyze(tmp_path)).mechanism
    assert (mechanism.kind is MechanismKind.CAST_OVERFLOW) is is_overflow


# --- calls --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("group", "is_recorded"), [(None, False), ((0, 1), True)])
def test_one_recorded_group_tells_that_groups_are_recorded(
    tmp_path: Path, group: tuple[int, ...] | None, is_recorded: bool
) -> None:
    """Calls of the default group name none; a header without a framework is that of a version that records none."""
    rank = rank0()
    rank.header["framework"] = None
    rank.all_reduce(t(1.0), t(1.0))
    rank.all_reduce(t(1.0), t(1.0), group=group)
    assert view(rank, tmp_path).overview.groups_recorded is is_recorded


@pytest.mark.parametrize(("suspect", "first"), [(0, 0), (1, 2), (3, None)])
def test_the_first_bad_call_is_searched_from_the_suspect_on(tmp_path: Path, suspect: int, first: int | None) -> None:
    """What came before was looked at, and is harmless."""
    rank = rank0()
    for value in (NAN, 1.0, NAN):
        rank.all_reduce(t(value), t(value), group=(0, 1))
    log, first_bad = count_calls_from(view(rank, tmp_path), suspect)
    assert list(first_bad.values()) == ([] if first is None else [first])
    assert sum(log.made().values()) == 3
