"""Changes of the analysis that no other test noticed (see tools/mutation_check.py): evidence and mechanisms."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Json, Rank, Run, blank, record, t, the_cause

from firstnan.answer.model import MechanismKind
from firstnan.causes.evidence import evidence_of
from firstnan.causes.loss_scaler import is_after_forward
from firstnan.operators.table import load
from firstnan.rank.in_memory import WholeDump
from firstnan.rank.summarize import _ends_blind
from firstnan.rank.suspects import Lookout
from firstnan.rank.taint.events import Event, EventKind
from firstnan.rank.window import CallLog


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


@pytest.mark.parametrize(
    ("dtype", "kind"), [("float16", MechanismKind.FP16_OVERFLOW), ("float32", MechanismKind.UNKNOWN)]
)
def test_an_infinity_of_an_unknown_operator_is_an_overflow_where_the_dtype_is_narrow(
    tmp_path: Path, dtype: str, kind: MechanismKind
) -> None:
    rank = rank0()
    rank.op("Torch.rotary_thing", [t(2.0, dtype=dtype)], [t(INF, dtype=dtype)])
    rank.op("Torch.sum", [t(INF, dtype=dtype)], [t(INF, shape=(), dtype=dtype)])
    assert the_cause(Run({(0, 0): rank}).analyze(tmp_path)).mechanism.kind is kind


@pytest.mark.parametrize("place", ["before", "call before", "behind", "call behind"])
def test_what_came_after_forward(tmp_path: Path, place: str) -> None:
    """Of what is no backward record only reductions of gradients did; the optimizer's own operators belong to it."""
    rank = rank0()

    def fault() -> None:
        if "call" in place:
            rank.all_reduce(t(1.0), t(NAN), group=(0,))
        else:
            rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
        rank.op("Torch.mul", [t(NAN), t(1.0)], [t(NAN)])

    if "before" in place:
        fault()
    loss = rank.op(
        "Torch.sum", [t(NAN if "before" in place else 1.0)], [t(NAN if "before" in place else 1.0, shape=())]
    )
    rank.backward(loss, [t(1.0, shape=())], [t(1.0)])
    if "behind" in place:
        fault()
    answer = Run({(0, 0): rank}).judge(tmp_path)
    (cause,) = answer.causes
    assert is_after_forward(cause, answer) is ("behind" in place)


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
    log = CallLog(view(rank, tmp_path))
    assert list(log.first_bad(suspect).values()) == ([] if first is None else [first])
    assert sum(log.made().values()) == 3


@pytest.mark.parametrize(("blank_records", "is_blind"), [(3, False), (4, True)])
def test_a_dump_that_ends_without_statistics(tmp_path: Path, blank_records: int, is_blind: bool) -> None:
    rank = rank0()
    rank.op("Torch.mul", [t(1.0), t(1.0)], [t(1.0)])
    for _ in range(blank_records):
        rank.op("Torch.mul", [blank(), blank()], [blank()])
    assert _ends_blind(view(rank, tmp_path)) is is_blind


def test_a_flag_on_a_call_is_that_of_its_input_where_the_record_before_was_flagged(tmp_path: Path) -> None:
    """Task nan_check: no statistics, one flag for each record."""
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        made = rank.op("Torch.log", [blank()], [blank()])
        rank.data[made]["is_nan"] = int(number == 0)
        call = rank.all_reduce(blank(), blank(), group=(0, 1))
        rank.data[call]["is_nan"] = 1
        end = rank.op("Torch.sum", [blank()], [blank(())])
        rank.data[end]["is_nan"] = 1
    (found,) = run.analyze(tmp_path).collectives
    assert found.source_ranks == (0,)
