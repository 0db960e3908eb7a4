"""What each argument of a communication record means: one test per row of the table, as dumps write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from analysis.made_runs import INF, NAN, Json, Run, group, p2p_op, record, scalar, t
from firstnan.dump.records import Record
from firstnan.dump.values import ValueState
from firstnan.operators.communication import (
    ROLES,
    CallKind,
    CommCall,
    Freshness,
    GroupKnowledge,
    Root,
    calls,
    group_id,
    is_communication,
    kinds,
    without_stale,
)

BUFFER, IN, OUT, OTHER = t(111.0), t(1.0), t(2.0), t(3.0)
"""Old content of a buffer, the real input, the real result, a second one."""


def made(
    path: Path, api: str, args: Sequence[Json], kwargs: Mapping[str, Json], after: Mapping[Json, Json], rank: int = 0
) -> tuple[Record, tuple[CommCall, ...]]:
    """The record of such a call as it is read from a dump, and its calls."""
    builder = Run().rank(rank)
    found = record(builder, builder.comm(api, args, kwargs, after), path)
    return found, calls(found, rank)


def one(path: Path, api: str, args: Sequence[Json], kwargs: Mapping[str, Json], after: Mapping[Json, Json]) -> CommCall:
    (call,) = made(path, api, args, kwargs, after)[1]
    return call


def tops(tensors: Sequence[Json]) -> list[Json]:
    return [tensor.max for tensor in tensors]


@dataclass(frozen=True)
class Row:
    """A call with positional arguments; ``after`` is what the arguments show when it is over."""

    api: str
    args: Sequence[Json]
    after: Mapping[Json, Json]
    sent: Sequence[float]
    received: Sequence[float]
    family: str = ""
    kind: CallKind = CallKind.COLLECTIVE
    names: Sequence[str] = field(default_factory=tuple)
    """The arguments' names, where they can be given by keyword."""


COLLECTIVE, SEND, RECEIVE = CallKind.COLLECTIVE, CallKind.SEND, CallKind.RECEIVE
LIST, LATER = [BUFFER, BUFFER], [OUT, OTHER]
INTO_TENSOR, SCATTERED = ("output_tensor", "input_tensor"), ("output", "input")
LISTS = ("output_tensor_list", "input_tensor_list")
ROWS = [
    Row("all_reduce", [IN], {0: OUT}, [1], [2], names=["tensor"]),
    Row("broadcast", [IN, 0], {0: OUT}, [1], [2], names=["tensor", "src"]),
    Row("reduce", [IN, 0], {0: OUT}, [1], [2], names=["tensor", "dst"]),
    Row("all_gather", [LIST, IN], {0: LATER}, [1], [2, 3], names=["tensor_list", "tensor"]),
    Row("all_gather_into_tensor", [BUFFER, IN], {0: OUT}, [1], [2], names=INTO_TENSOR),
    Row("_all_gather_base", [BUFFER, IN], {0: OUT}, [1], [2], "all_gather_into_tensor", names=INTO_TENSOR),
    Row("gather", [IN, LIST, 0], {1: LATER}, [1], [2, 3], names=["tensor", "gather_list", "dst"]),
    Row("scatter", [BUFFER, [IN, OTHER], 0], {0: OUT}, [1, 3], [2], names=["tensor", "scatter_list", "src"]),
    Row("reduce_scatter", [BUFFER, [IN, OTHER]], {0: OUT}, [1, 3], [2], names=["output", "input_list"]),
    Row("reduce_scatter_tensor", [BUFFER, IN], {0: OUT}, [1], [2], names=SCATTERED),
    Row("_reduce_scatter_base", [BUFFER, IN], {0: OUT}, [1], [2], "reduce_scatter_tensor", names=SCATTERED),
    Row("all_to_all", [LIST, [IN, OTHER]], {0: LATER}, [1, 3], [2, 3], names=LISTS),
    Row("all_to_all_single", [BUFFER, IN, [1, 1], [1, 1]], {0: OUT}, [1], [2], names=["output", "input"]),
    Row("send", [IN, 1], {}, [1], [], "p2p", SEND, names=["tensor", "dst"]),
    Row("isend", [IN, 1], {0: None}, [1], [], "p2p", SEND, names=["tensor", "dst"]),
    Row("recv", [None, 1], {0: OUT}, [], [2], "p2p", RECEIVE, names=["tensor", "src"]),
    Row("irecv", [None, 1], {0: OUT}, [], [2], "p2p", RECEIVE, names=["tensor", "src"]),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.api)
def test_roles_of_positional_arguments(row: Row, tmp_path: Path) -> None:
    found, (call,) = made(tmp_path, row.api, row.args, {}, row.after)
    assert (call.api, call.kind) == (row.family or row.api, row.kind)
    assert kinds(found) == {row.kind}
    assert (tops(call.sent), tops(call.received)) == (row.sent, row.received)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.api)
def test_roles_of_keyword_arguments(row: Row, tmp_path: Path) -> None:
    """Buffers are recorded with their old content then; the places in ``output`` follow the keywords."""
    named = dict(zip(row.names, row.args, strict=False))
    reordered = dict(reversed(named.items()))
    later = {name: row.after[at] for at, name in enumerate(row.names) if at in row.after}
    call = one(tmp_path, row.api, [], reordered, later)
    assert (tops(call.sent), tops(call.received)) == (row.sent, row.received)


@pytest.mark.parametrize("row", [r for r in ROWS if r.kind is COLLECTIVE], ids=lambda row: row.api)
def test_old_content_of_a_buffer_is_neither_input_nor_result(row: Row, tmp_path: Path) -> None:
    """Versions before 26 record the buffers of positional arguments too."""
    _, (call,) = made(tmp_path, row.api, row.args, {"group": group(0, 1)}, row.after)
    assert 111 not in tops(call.sent) + tops(call.received)


def test_every_api_of_the_table_has_a_row_here() -> None:
    mindspore = {"gather_into_tensor", "scatter_tensor"}
    mindspore |= {"all_to_all_single_with_output_shape", "all_to_all_with_output_shape"}
    assert {row.api for row in ROWS} | mindspore == set(ROLES)


@pytest.mark.parametrize(
    ("api", "args", "sent"),
    [
        ("all_reduce", [IN], [1]),
        ("all_gather_into_tensor", [None, IN], [1]),
        ("reduce", [IN, 0], [1]),
        ("reduce_scatter_tensor", [None, IN], [1]),
        ("all_to_all_single_with_output_shape", [[4, 8], IN], [1]),
        ("all_to_all_with_output_shape", [[[4, 8]], [IN, OTHER]], [1, 3]),
        ("gather_into_tensor", [IN, 0], [1]),
        ("scatter_tensor", [IN, 0], [1]),
    ],
)
def test_a_returned_tensor_is_the_result(api: str, args: list[Json], sent: list[float], tmp_path: Path) -> None:
    """MindSpore's comm_func returns the result: ``output`` does not repeat the arguments."""
    builder = Run().rank(0)
    name = builder.comm(api, args, {"group": "hccl_world_group"}, {})
    builder.data[name]["output"] = [OUT]
    (call,) = calls(record(builder, name, tmp_path), 0)
    assert (tops(call.sent), tops(call.received), call.freshness) == (sent, [2], Freshness.FRESH)


@pytest.mark.parametrize("api", ["irecv", "recv", "isend"])
def test_an_overwritten_message_says_nothing(api: str, tmp_path: Path) -> None:
    """Inner calls overwrite the output of the last direct one with their own arguments: the counts differ."""
    builder = Run().rank(0)
    name = builder.comm(api, [IN, 1], {"tag": 3}, {0: OUT})
    builder.data[name]["output"] = [t(NAN), scalar(0)]
    (call,) = calls(record(builder, name, tmp_path), 0)
    assert (call.received, call.freshness) == ((), Freshness.WORTHLESS)


@pytest.mark.parametrize(
    ("api", "rank", "sent", "received"),
    [
        ("broadcast", 1, [1], [2]),
        ("broadcast", 0, [], [2]),
        ("scatter", 1, [1, 3], [2]),
        ("scatter", 0, [], [2]),
        ("reduce", 1, [1], [2]),
        ("reduce", 0, [1], []),
        ("gather", 1, [1], [2, 3]),
        ("gather", 0, [1], []),
    ],
)
@pytest.mark.parametrize("keyword", [True, False])
def test_only_the_root_counts(
    api: str, rank: int, sent: list[float], received: list[float], keyword: bool, tmp_path: Path
) -> None:
    """Rank 1 is the root; on the other rank the tensor that does not count holds garbage."""
    row = next(r for r in ROWS if r.api == api)
    place = "src" if ROLES[api].root is Root.SENDS else "dst"
    at = row.names.index(place)
    args: list[Json] = [*row.args[:at]] if keyword else [*row.args[:at], 1, *row.args[at + 1 :]]
    _, (call,) = made(tmp_path, api, args, {place: 1} if keyword else {}, row.after, rank)
    assert (call.root, call.rooted) == (1, ROLES[api].root)
    assert (tops(call.sent), tops(call.received)) == (sent, received)


def test_a_position_in_the_group_becomes_a_global_rank(tmp_path: Path) -> None:
    """group_src and group_dst count within the group (2, 5), src and dst are global."""
    ranks = {"group": group(2, 5)}
    _, (call,) = made(tmp_path, "broadcast", [IN], {**ranks, "group_src": 1}, {0: OUT}, rank=5)
    assert (call.root, tops(call.sent)) == (5, [1])
    _, (call,) = made(tmp_path / "2", "reduce", [IN], {**ranks, "group_dst": 0}, {0: OUT}, rank=5)
    assert (call.root, call.received) == (2, ())
    assert one(tmp_path / "3", "send", [IN], {**ranks, "group_dst": 1}, {}).peer == 5
    assert one(tmp_path / "4", "recv", [None], {**ranks, "group_src": 0}, {0: OUT}).peer == 2
    assert one(tmp_path / "5", "send", [IN], {**ranks, "dst": 5}, {}).peer == 5
    assert one(tmp_path / "6", "recv", [None], {"group_src": 3}, {0: OUT}).peer == 3
    three = {"group": group(0, 2, 5)}
    assert one(tmp_path / "7", "recv", [None], {**three, "group_src": 9}, {0: OUT}).peer is None
    assert one(tmp_path / "8", "recv", [None], three, {0: OUT}).peer is None


def test_in_a_group_of_two_the_peer_is_the_other(tmp_path: Path) -> None:
    assert one(tmp_path, "recv", [None], {"group": group(0, 5)}, {0: OUT}).peer == 5


def test_messages_have_a_peer_and_a_tag(tmp_path: Path) -> None:
    call = one(tmp_path, "send", [IN, 3, None, 7], {}, {})
    assert (call.peer, call.tag, call.root) == (3, 7, None)
    call = one(tmp_path / "2", "irecv", [], {"tensor": BUFFER, "src": 2, "tag": 5}, {"tensor": OUT})
    assert (call.peer, call.tag, tops(call.received)) == (2, 5, [2])
    assert one(tmp_path / "3", "recv", [None], {}, {0: OUT}).peer is None


@pytest.mark.parametrize(
    ("args", "kwargs", "freshness"),
    [
        ([IN], {"async_op": True}, Freshness.MAYBE_STALE),
        ([IN, None, group(0, 1), True], {}, Freshness.MAYBE_STALE),
        ([IN], {"async_op": False}, Freshness.FRESH),
        ([IN, None, group(0, 1), False], {}, Freshness.FRESH),
        ([IN], {}, Freshness.FRESH),
    ],
    ids=["keyword", "positional", "keyword false", "positional false", "absent"],
)
def test_an_asynchronous_result_may_be_stale(
    args: list[Json], kwargs: dict[str, Json], freshness: Freshness, tmp_path: Path
) -> None:
    call = one(tmp_path, "all_reduce", args, kwargs, {0: OUT})
    assert (call.freshness, tops(call.received)) == (freshness, [2])


def test_irecv_is_asynchronous_and_recv_is_not(tmp_path: Path) -> None:
    assert one(tmp_path, "irecv", [None, 1], {}, {0: OUT}).freshness is Freshness.MAYBE_STALE
    assert one(tmp_path / "2", "recv", [None, 1], {}, {0: OUT}).freshness is Freshness.FRESH


def test_a_stale_result_can_be_taken_out(tmp_path: Path) -> None:
    call = without_stale(one(tmp_path, "all_reduce", [IN], {"async_op": True}, {0: OUT}))
    assert {tensor.state for tensor in call.received} == {ValueState.UNKNOWN}
    assert (call.freshness, tops(call.sent)) == (Freshness.WORTHLESS, [1])


def test_a_call_without_output_is_unfinished(tmp_path: Path) -> None:
    builder = Run().rank(0)
    name = builder.all_reduce(IN, OUT)
    del builder.data[name]["output"]
    (call,) = calls(record(builder, name, tmp_path), 0)
    assert (call.finished, call.received) == (False, ())


def test_batches_are_one_call_for_each_element(tmp_path: Path) -> None:
    elements = [p2p_op("isend", IN, 2, tag=4, ranks=(1, 2)), p2p_op("irecv", t(NAN), 0, ranks=(0, 1))]
    whole, found = made(tmp_path, "batch_isend_irecv", [elements], {}, {}, rank=1)
    first, second = found
    assert kinds(whole) == {SEND, RECEIVE}
    assert (first.kind, first.peer, first.tag, tops(first.sent), first.received) == (SEND, 2, 4, [1], ())
    assert first.group_label == group_id((1, 2))
    assert (second.kind, second.peer, second.sent, second.freshness) == (RECEIVE, 0, (), Freshness.WORTHLESS)


@pytest.mark.parametrize(
    ("kwargs", "args", "ranks", "knowledge", "label"),
    [
        ({"group": group(4, 2)}, [IN], (4, 2), GroupKnowledge.RECORDED, group_id((4, 2))),
        ({}, [IN, None, group(0, 3)], (0, 3), GroupKnowledge.RECORDED, group_id((0, 3))),
        ({}, [IN], None, GroupKnowledge.DEFAULT, None),
        ({"group": None}, [IN], None, GroupKnowledge.DEFAULT, None),
        ({"group": "tp-0-1-2-3"}, [IN], None, GroupKnowledge.NAMED, "tp-0-1-2-3"),
        ({"group": "hccl_world_group"}, [IN], None, GroupKnowledge.DEFAULT, "hccl_world_group"),
        ({}, [IN, "sum", "dp-1"], None, GroupKnowledge.NAMED, "dp-1"),
    ],
    ids=["keyword", "positional", "left out", "null", "name", "name of the world", "positional name"],
)
def test_how_the_group_is_known(
    kwargs: dict[str, Json],
    args: list[Json],
    ranks: tuple[int, ...] | None,
    knowledge: GroupKnowledge,
    label: str | None,
    tmp_path: Path,
) -> None:
    call = one(tmp_path, "all_reduce", args, kwargs, {0: OUT})
    assert (call.group, call.knowledge, call.group_label) == (ranks, knowledge, label)


def test_a_group_that_the_format_does_not_record_is_unknown(tmp_path: Path) -> None:
    found, _ = made(tmp_path, "all_reduce", [IN, None, None], {}, {0: OUT})
    (call,) = calls(found, 0, groups_recorded=False)
    assert call.knowledge is GroupKnowledge.UNKNOWN


@pytest.mark.parametrize("op", ["SUM", "MAX", "AVG", "PRODUCT"])
def test_the_reduction_is_read(op: str, tmp_path: Path) -> None:
    value = scalar(f"RedOpType.{op}", "torch.distributed.ReduceOp")
    call = one(tmp_path, "all_reduce", [IN], {"op": value}, {0: OUT})
    assert (call.reduce_op, call.reduces, call.in_place) == (op, True, True)


def test_the_reduction_is_a_sum_unless_told(tmp_path: Path) -> None:
    assert one(tmp_path, "all_reduce", [IN], {}, {0: OUT}).reduce_op is None


def test_a_result_that_repeats_the_bad_input_is_not_bad(tmp_path: Path) -> None:
    """reduce_scatter_tensor on the rank that fed NaN: ``output`` holds the NaN too, the result is clean."""
    call = one(tmp_path, "reduce_scatter_tensor", [None, t(NAN)], {}, {0: OUT})
    assert [x.state.is_bad for x in call.received] == [False]
    assert [x.state.is_bad for x in call.sent] == [True]


def test_lists_of_one_bad_tensor(tmp_path: Path) -> None:
    call = one(tmp_path, "all_to_all", [None, [IN, t(INF)]], {}, {0: [t(NAN), OUT]})
    assert [x.state.is_bad for x in call.sent] == [False, True]
    assert [x.state.is_bad for x in call.received] == [True, False]
    assert [x.slot for x in call.received] == ["output.0.0", "output.0.1"]


@pytest.mark.parametrize("prefix", ["Distributed", "MintDistributed"])
def test_which_records_are_communication(prefix: str, tmp_path: Path) -> None:
    builder = Run().rank(0)
    name = builder.op(f"{prefix}.all_reduce", [IN], [OUT])
    assert is_communication(record(builder, name, tmp_path))


@pytest.mark.parametrize("operator", ["Distributed.barrier", "Torch.all_reduce", "Functional.linear", "NPU.all_gather"])
def test_which_records_are_not(operator: str, tmp_path: Path) -> None:
    builder = Run().rank(0)
    found = record(builder, builder.op(operator, [IN], [OUT]), tmp_path)
    assert not is_communication(found)
    assert calls(found, 0) == ()


def test_the_id_of_a_group() -> None:
    assert (group_id((0, 1)), group_id([2, 3])) == ("77849d8c", "3f72ac6e")
