"""What stands in a record: tensors, scalars, groups, P2P operations (dump format, sections 4, 5, 12, 14)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from made_dumps import INF, NAN, backward, bare, forward, group, kinds, rank_folder, scalar, tensor, text

from firstnan.dump.problems import ProblemKind
from firstnan.dump.records import GroupRef, PeerOp, Record, Scalar, TensorStat
from firstnan.dump.values import ValueState
from firstnan.dump.view import RankDump
from firstnan.read.records import full_reader


@pytest.fixture
def dump(tmp_path: Path) -> Any:
    def read(data: dict[str, Any], **header: Any) -> RankDump:
        return full_reader.read(rank_folder(tmp_path / "rank0", text(data, **header)))

    return read


@pytest.fixture
def record(dump: Any) -> Any:
    def read(raw: dict[str, Any], name: str = "Functional.linear.0.forward") -> Record:
        found: Record = dump({name: raw}).records[0]
        return found

    return read


@pytest.fixture
def stat(record: Any) -> Any:
    def read(raw: Any) -> TensorStat:
        found: TensorStat = record(forward(output=[raw])).outputs[0]
        return found

    return read


@pytest.mark.parametrize(
    ("high", "low", "state"),
    [
        (1.5, -2.0, ValueState.FINITE),
        (NAN, NAN, ValueState.NAN),
        (INF, 0.0, ValueState.POS_INF),
        (2.0, -INF, ValueState.NEG_INF),
        (INF, -INF, ValueState.BOTH_INF),
        (None, None, ValueState.UNKNOWN),
        (1.0, None, ValueState.UNKNOWN),
        (None, NAN, ValueState.NAN),
        ("nan", "nan", ValueState.NAN),
        ("1.0", "-Inf\t", ValueState.NEG_INF),
        ("+Infinity", "0", ValueState.POS_INF),
        ("1e3", "-2", ValueState.FINITE),
        ("big", "small", ValueState.UNKNOWN),
        (10**400, 0, ValueState.POS_INF),
        (0, -(10**400), ValueState.NEG_INF),
        ({"no": "number"}, [1], ValueState.UNKNOWN),
        (True, False, ValueState.FINITE),
        (3, 2, ValueState.FINITE),
    ],
)
def test_max_and_min_decide(stat: Any, high: Any, low: Any, state: ValueState) -> None:
    assert stat(tensor(high, low)).state is state


def test_an_integer_beyond_64_bits_is_a_float(stat: Any) -> None:
    """As in ``"Max": 100000000000000000000``: part files and other programs hold no such integer."""
    found = stat(tensor(10**20, -(10**20)))
    assert (found.max, found.min, type(found.max)) == (1e20, -1e20, float)


def test_mean_and_norm_do_not_decide(stat: Any) -> None:
    found = stat({**tensor(3e38, 1.0), "Mean": INF, "Norm": INF})
    assert (found.state, found.mean, found.norm) == (ValueState.FINITE, INF, INF)


def test_all_fields_of_a_tensor(stat: Any) -> None:
    assert stat(tensor(2.5, -1.0, "torch.bfloat16", (4, 8))) == TensorStat(
        "output.0", "bfloat16", (4, 8), 2.5, -1.0, 0.5, 2.0, ValueState.FINITE, True
    )


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(bare(), id="no_keys"),
        pytest.param(bare(tensor_stat_index=13), id="placeholder"),
        pytest.param(bare(md5="0x00b2390282791dda"), id="xor"),
        pytest.param(bare(md5="9501a8d0"), id="md5"),
        pytest.param(bare(is_nan_index=2), id="is_nan_placeholder"),
        pytest.param(tensor(None, None), id="null"),
        pytest.param(tensor(None, None, "torch.float8_e4m3fn"), id="float8"),
    ],
)
def test_no_statistics_is_unknown_and_told(dump: Any, raw: dict[str, Any]) -> None:
    found = dump({"Torch.a.0.forward": forward([tensor()], output=[raw])})
    assert found.records[0].outputs[0].state is ValueState.UNKNOWN
    assert kinds(found.problems) == [ProblemKind.PARTLY_NO_STATISTICS]
    assert not found.problems[0].judged


@pytest.mark.parametrize(
    ("after", "kind"),
    [
        ({"Torch.b.0.forward": forward([tensor()])}, ProblemKind.SETTLED_OPERANDS),
        ({}, ProblemKind.PARTLY_NO_STATISTICS),
    ],
    ids=["somebody may have waited for it", "nobody did"],
)
def test_a_view_of_what_is_on_its_way_is_told_apart(dump: Any, after: dict[str, Any], kind: ProblemKind) -> None:
    raw = {**tensor(None, None), "type": "torch.distributed._functional_collectives.AsyncCollectiveTensor"}
    found = dump({"Torch.a.0.forward": forward([tensor()], output=[raw]), **after})
    assert found.records[0].outputs[0].state is ValueState.UNKNOWN
    assert kinds(found.problems) == [kind]


def test_a_fake_tensor_is_unknown_and_hides_nothing(dump: Any) -> None:
    fake = {**tensor(None, None), "type": "torch._subclasses.fake_tensor.FakeTensor"}
    found = dump({"Torch.a.0.forward": forward([tensor()], output=[fake])})
    assert found.records[0].outputs[0].state is ValueState.UNKNOWN
    assert found.problems == ()


@pytest.mark.parametrize("raw", [tensor(None, None, shape=(0, 4)), tensor(0.0, 0.0, shape=(2, 0))])
def test_a_shape_with_zero_is_empty(dump: Any, raw: dict[str, Any]) -> None:
    found = dump({"Torch.a.0.forward": forward([tensor()], output=[raw])})
    assert found.records[0].outputs[0].state is ValueState.EMPTY
    assert found.problems == ()


@pytest.mark.parametrize("dtype", ["torch.int64", "torch.uint8", "torch.bool", "Int32", "torch.quint8"])
@pytest.mark.parametrize(("high", "low"), [(None, None), (5, 0), (5.0, 0.0), (True, False), (INF, 0.0)])
def test_integer_and_bool_tensors_are_finite(stat: Any, dtype: str, high: Any, low: Any) -> None:
    assert stat(tensor(high, low, dtype)).state is ValueState.FINITE


def test_a_zero_dimensional_tensor(stat: Any) -> None:
    found = stat(tensor(NAN, NAN, shape=()))
    assert (found.shape, found.state) == ((), ValueState.NAN)


@pytest.mark.parametrize("shape", [["a"], [1.5], [-1], [True], [None], "2x3", {"0": 2}])
def test_a_strange_shape_is_not_known(stat: Any, shape: Any) -> None:
    found = stat({**tensor(NAN, NAN), "shape": shape})
    assert (found.shape, found.state) == (None, ValueState.NAN)


@pytest.mark.parametrize(
    ("kind", "dtype", "normal"),
    [
        ("torch.distributed.tensor.DTensor", "torch.float16", "float16"),
        ("DTensor", "torch.float16", "float16"),
        ("mindspore.Tensor", "BFloat16", "bfloat16"),
        ("numpy.ndarray", "float64", "float64"),
        ("torch.nested._internal.nested_tensor.NestedTensor", "torch.float32", "float32"),
        ("torch.Tensor", None, ""),
        ("torch.Tensor", 7, ""),
    ],
)
def test_every_tensor_type_counts(stat: Any, kind: str, dtype: Any, normal: str) -> None:
    found = stat(
        {"type": kind, "dtype": dtype, "shape": [2], "Max": INF, "Min": 0.0, "placements": [{"Shard": {"dim": 0}}]}
    )
    assert (found.dtype, found.state) == (normal, ValueState.POS_INF)


def test_numpy_text_arrays_hide_nothing(dump: Any) -> None:
    words = {
        "type": "numpy.ndarray",
        "dtype": "<U3",
        "shape": [2],
        "Max": None,
        "Min": None,
        "Mean": None,
        "Norm": None,
    }
    assert dump({"Torch.a.0.forward": forward([words], output=[tensor()])}).problems == ()


def test_slots_of_nested_containers(record: Any) -> None:
    t = tensor()
    found = record(
        forward([t, [t, {"k": t}]], {"mask": t, "nest": [scalar(1), {"a.b": t}]}, [[t, t], t], parameters={"weight": t})
    )
    assert [s.slot for s in found.inputs] == [
        "input_args.0", "input_args.1.0", "input_args.1.1.k", "input_kwargs.mask", "input_kwargs.nest.1.a.b",
    ]  # fmt: skip
    assert [s.slot for s in found.outputs] == ["output.0.0", "output.0.1", "output.1"]
    assert [s.slot for s in found.parameters] == ["parameters.weight"]
    assert found.arity == (2, 2, 2)
    assert found.kwargs == ("mask", "nest")


def test_null_elements_count_in_arity_only(record: Any) -> None:
    found = record(
        forward([None, tensor()], {"group": None}, [[None], None, tensor()]), "Distributed.all_gather.0.forward"
    )
    assert found.arity == (2, 1, 3)
    assert found.kwargs == ("group",)
    assert [s.slot for s in found.outputs] == ["output.2"]


def test_output_as_an_object(record: Any) -> None:
    """A returned namedtuple makes ``output`` an object."""
    found = record(forward([tensor()], output={"first": tensor(), "second": tensor(NAN, NAN)}))
    assert [s.slot for s in found.outputs] == ["output.first", "output.second"]
    assert found.arity == (1, 0, 2)


def test_a_lone_tensor_in_place_of_a_list(record: Any) -> None:
    found = record(forward(tensor(), output=tensor(NAN, NAN)))
    assert [s.slot for s in found.outputs] == ["output.0"]
    assert found.arity == (1, 0, 1)


def test_a_user_dict_with_a_key_called_type(record: Any) -> None:
    found = record(forward(output=[{"type": tensor(), "dtype": tensor(NAN, NAN), "Max": tensor()}]))
    assert [s.slot for s in found.outputs] == ["output.0.type", "output.0.dtype", "output.0.Max"]


def test_backward_slots(record: Any) -> None:
    found = record(backward([tensor()], [None, tensor(NAN, NAN)]), "Functional.linear.0.backward")
    assert [s.slot for s in found.inputs] == ["input.0"]
    assert [s.slot for s in found.outputs] == ["output.1"]
    assert found.arity == (1, 0, 2)


def test_gradients_of_parameters(record: Any) -> None:
    t = tensor()
    found = record({"weight": [t], "bias": [None], "list": [t, t], "one": t}, "Module.fc.Linear.parameters_grad.0")
    assert [s.slot for s in found.outputs] == ["grad.weight", "grad.list.0", "grad.list.1", "grad.one"]
    assert found.inputs == ()
    assert found.has_output


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (scalar(3), Scalar("input_args.0", "int", 3)),
        (scalar(INF), Scalar("input_args.0", "float", INF)),
        (scalar("nan"), Scalar("input_args.0", "str", "nan")),
        (scalar(True), Scalar("input_args.0", "bool", True)),
        (scalar(-INF, "float32"), Scalar("input_args.0", "float32", -INF)),
        (scalar(10**400), Scalar("input_args.0", "int", INF)),
        (scalar([512], "torch.Size"), Scalar("input_args.0", "torch.Size", "[512]")),
        (scalar([1, None, 2], "slice"), Scalar("input_args.0", "slice", "[1, null, 2]")),
        (scalar("torch.bfloat16", "torch.dtype"), Scalar("input_args.0", "torch.dtype", "torch.bfloat16")),
        (scalar("RedOpType.SUM", "torch.distributed.ReduceOp"),
         Scalar("input_args.0", "torch.distributed.ReduceOp", "RedOpType.SUM")),
        ({"type": "torch.memory_format", "format": "channels_last"},
         Scalar("input_args.0", "torch.memory_format", "channels_last")),
        (0.5, Scalar("input_args.0", "float", 0.5)),
        ("text", Scalar("input_args.0", "str", "text")),
    ],
)  # fmt: skip
def test_scalars(record: Any, raw: Any, expected: Scalar) -> None:
    found = record(forward([raw]))
    assert found.scalars == (expected,)
    assert found.inputs == ()


def test_long_lists_in_scalars_are_shortened(record: Any) -> None:
    value = record(forward([scalar(list(range(10_000)), "torch.Size")])).scalars[0].value
    assert value.endswith("...")
    assert len(value) < 300


def test_process_groups(record: Any) -> None:
    found = record(
        forward([tensor(), group(2, 3)], {"group": {**group(0, 1), "type": "mindspore.ProcessGroup", "group_id": "x"}},
                [tensor(), group(2, 3)]),
        "Distributed.all_reduce.0.forward",
    )  # fmt: skip
    assert found.groups == (
        GroupRef("input_args.1", (2, 3), "77849d8c"),
        GroupRef("input_kwargs.group", (0, 1), "x"),
    )


@pytest.mark.parametrize("ranks", [None, [], ["0"], [0.5], [-1], [True], "0,1", {"0": 1}])
def test_strange_group_ranks_are_not_known(record: Any, ranks: Any) -> None:
    raw = {"type": "torch.ProcessGroup", "group_ranks": ranks, "group_id": "77849d8c"}
    found = record(forward([tensor()], {"group": raw}), "Distributed.all_reduce.0.forward")
    assert found.groups == (GroupRef("input_kwargs.group", None, "77849d8c"),)


def test_mindspore_groups_are_names(record: Any) -> None:
    by_name = record(forward([tensor()], {"group": scalar("tp-0-1")}, [tensor()]), "Distributed.all_reduce.0.forward")
    assert by_name.groups == (GroupRef("input_kwargs.group", None, "tp-0-1"),)
    by_place = record(
        forward([tensor(), scalar("sum"), scalar("hccl_world_group")], output=[tensor()]),
        "Distributed.all_reduce.0.forward",
    )
    assert by_place.groups == (GroupRef("input_args.2", None, "hccl_world_group"),)
    assert by_place.scalars == (Scalar("input_args.1", "str", "sum"),)
    elsewhere = record(forward([tensor(), scalar("hccl_world_group")]), "Functional.gelu.0.forward")
    assert elsewhere.groups == ()


def test_p2p_operations(record: Any) -> None:
    def op(kind: str, peer: Any, value: Any) -> dict[str, Any]:
        return {
            "class_type": "torch.distributed.P2POp",
            "tensor": value,
            "op": kind,
            "peer": peer,
            "tag": 5,
            "group_id": "g",
        }

    raw = [op("isend", 1, tensor()), op("irecv", 2, tensor(NAN, NAN))]
    found = record(forward([raw], output=[raw]), "Distributed.batch_isend_irecv.0.forward")
    assert found.peers == (PeerOp("input_args.0.0", "isend", 1, 5, "g"), PeerOp("input_args.0.1", "irecv", 2, 5, "g"))
    assert [s.slot for s in found.inputs] == ["input_args.0.0.tensor", "input_args.0.1.tensor"]
    assert [s.slot for s in found.outputs] == ["output.0.0.tensor", "output.0.1.tensor"]
    strange = record(forward([[op("isend", "1", None)]]), "Distributed.batch_isend_irecv.0.forward")
    assert strange.peers[0].peer is None


def test_the_hand_made_form(record: Any) -> None:
    found = record(
        {
            "input": [{"Max": "0.001", "Min": "-0.5", "shape": [4096, 4096], "dtype": "float16"}],
            "output": {"0": {"Max": "inf", "Min": "inf"}, "1": {"Max": "NaN", "Min": " nan\t"}},
        },
        "Distributed.all_reduce_0_0",
    )
    assert [(s.slot, s.dtype, s.shape, s.max) for s in found.inputs] == [("input.0", "float16", (4096, 4096), 0.001)]
    assert [(s.slot, s.state) for s in found.outputs] == [
        ("output.0", ValueState.POS_INF),
        ("output.1", ValueState.NAN),
    ]
    assert math.isinf(found.outputs[0].max)
    assert found.arity == (1, 0, 2)


def test_the_hand_made_form_without_an_index(record: Any) -> None:
    found = record({"output": {"Max": "inf", "Min": "1"}}, "Torch.exp_0_0")
    assert [(s.slot, s.state) for s in found.outputs] == [("output.0", ValueState.POS_INF)]


def test_is_nan_of_a_tensor(dump: Any) -> None:
    found = dump(
        {"Torch.a.0.forward": forward([bare(is_nan=0), bare(is_nan=1)], output=[bare(is_nan=1), bare(is_nan=None)])},
        task="nan_check",
    )
    record = found.records[0]
    assert [s.state for s in record.inputs] == [ValueState.FINITE, ValueState.NON_FINITE]
    assert [s.state for s in record.outputs] == [ValueState.NON_FINITE, ValueState.UNKNOWN]
    assert kinds(found.problems) == [ProblemKind.PARTLY_NO_STATISTICS]


@pytest.mark.parametrize(
    ("flag", "flagged", "state"),
    [
        (1, True, ValueState.NON_FINITE),
        (True, True, ValueState.NON_FINITE),
        (0, False, ValueState.FINITE),
        (None, None, ValueState.UNKNOWN),
        ("1", None, ValueState.UNKNOWN),
    ],
)
def test_is_nan_of_a_record_is_about_its_outputs(dump: Any, flag: Any, flagged: Any, state: ValueState) -> None:
    raw = forward([bare()], output=[bare(), bare("torch.int64")], is_nan=flag)
    found = dump({"Torch.a.0.forward": raw}, task="nan_check")
    record = found.records[0]
    assert record.flagged is flagged
    assert record.inputs[0].state is ValueState.UNKNOWN
    assert [s.state for s in record.outputs] == [state, ValueState.FINITE]
    assert kinds(found.problems) == ([] if flagged is not None else [ProblemKind.NO_STATISTICS])


def test_recompute_mark(record: Any) -> None:
    assert record(forward(is_recompute=True)).recompute
    assert not record(forward(is_recompute=False)).recompute


def test_values_nested_too_deeply_are_told(dump: Any) -> None:
    value: Any = tensor(NAN, NAN)
    for _ in range(420):
        value = [value]
    shallow: Any = tensor(NAN, NAN)
    for _ in range(390):
        shallow = {"k": shallow}
    found = dump({"Torch.a.0.forward": forward([value], output=[shallow])})
    assert found.records[0].inputs == ()
    assert found.records[0].outputs[0].state is ValueState.NAN
    assert kinds(found.problems) == [ProblemKind.LIMIT]
    assert not found.problems[0].judged


def test_equal_slots_share_one_text(dump: Any) -> None:
    raw = forward([tensor(), [tensor()]], {"mask": tensor()}, [tensor()])
    first, second = dump({"Torch.a.0.forward": raw, "Torch.a.1.forward": raw}).records
    for one, other in zip(first.inputs + first.outputs, second.inputs + second.outputs, strict=True):
        assert one.slot is other.slot
        assert one.dtype is other.dtype
