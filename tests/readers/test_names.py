"""Names are taken apart from the right (dump format, section 6)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstnan.dump.names import parse_name
from firstnan.dump.records import Direction, RecordKind

F, B = Direction.FORWARD, Direction.BACKWARD
API, MODULE, GRAD = RecordKind.API, RecordKind.MODULE, RecordKind.PARAMETERS_GRAD


@pytest.mark.parametrize(
    ("full", "kind", "prefix", "api", "path", "call", "direction"),
    [
        pytest.param("Functional.linear.0.forward", API, "Functional", "linear", "", 0, F, id="api"),
        pytest.param("Tensor.__add__.12.backward", API, "Tensor", "__add__", "", 12, B, id="api_backward"),
        pytest.param("Torch.linalg.vector_norm.0.forward", API, "Torch", "linalg.vector_norm", "", 0, F, id="dotted"),
        pytest.param("Distributed.all_reduce.3.forward", API, "Distributed", "all_reduce", "", 3, F, id="comm"),
        pytest.param("_C_ascend.op.0.forward", API, "_C_ascend", "op", "", 0, F, id="custom_prefix"),
        pytest.param("torch_npu.contrib.f.1.forward", API, "torch_npu", "contrib.f", "", 1, F, id="dotted_prefix"),
        pytest.param("Primitive.matmul.MatMul.0.forward", API, "Primitive", "matmul.MatMul", "", 0, F, id="five_parts"),
        pytest.param("Module.a.0.b.Linear.forward.2", MODULE, "Module", "Linear", "a.0.b", 2, F, id="module"),
        pytest.param("Module.Net.forward.0", MODULE, "Module", "Net", "", 0, F, id="module_without_path"),
        pytest.param("Module.0.fc.Linear.backward.1", MODULE, "Module", "Linear", "0.fc", 1, B, id="model_list_index"),
        pytest.param("Cell.blk.fc.Dense.forward.0", MODULE, "Cell", "Dense", "blk.fc", 0, F, id="cell"),
        pytest.param(
            "Module.model.layers.0.fc2.Linear.0.forward", MODULE, "Module", "Linear", "model.layers.0.fc2", 0, F,
            id="old_module_number_before_direction",
        ),
        pytest.param("Module.a.Linear.parameters_grad", GRAD, "Module", "Linear", "a", None, B, id="gradients"),
        pytest.param("Module.a.Linear.parameters_grad.3", GRAD, "Module", "Linear", "a", 3, B, id="gradients_numbered"),
        pytest.param("Distributed.all_reduce_0_0", API, "Distributed", "all_reduce", "", 0, F, id="illustrative"),
        pytest.param(
            "Torch.nn.functional.linear_3_0", API, "Torch", "nn.functional.linear", "", 3, F, id="illustrative_dotted"
        ),
        pytest.param("Tensor.__mul___4_0", API, "Tensor", "__mul__", "", 4, F, id="illustrative_dunder"),
        pytest.param("Functional.linear.forward", API, "Functional", "linear", "", None, F, id="no_number"),
        pytest.param("Functional.linear", API, "Functional", "linear", "", None, F, id="no_direction"),
        pytest.param("loss", API, "", "loss", "", None, F, id="one_word"),
        pytest.param("", API, "", "", "", None, F, id="empty"),
        pytest.param("Torch.conv_2.0.forward", API, "Torch", "conv_2", "", 0, F, id="underscore_number_is_the_api"),
        pytest.param(f"Torch.f.{'9' * 40}.forward", API, "Torch", f"f.{'9' * 40}", "", None, F, id="number_too_long"),
    ],
)  # fmt: skip
def test_name_forms(
    full: str, kind: RecordKind, prefix: str, api: str, path: str, call: int | None, direction: Direction
) -> None:
    name = parse_name(full)
    assert (name.kind, name.prefix, name.api, name.path, name.call, name.direction) == (
        kind, prefix, api, path, call, direction,
    )  # fmt: skip
    assert name.full == full


WORD = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    lambda word: word not in {"forward", "backward", "parameters_grad"}
)
PART = st.one_of(WORD, st.integers(0, 99).map(str))
CALL = st.integers(0, 10**12)
DIRECTION = st.sampled_from(list(Direction))


@settings(deadline=None)
@given(WORD.filter(lambda w: w not in {"Module", "Cell"}), st.lists(WORD, min_size=1, max_size=3), CALL, DIRECTION)
def test_round_trip_of_api_names(prefix: str, api: list[str], call: int, direction: Direction) -> None:
    name = parse_name(f"{prefix}.{'.'.join(api)}.{call}.{direction.value}")
    assert (name.kind, name.prefix, name.api, name.call, name.direction) == (
        API, prefix, ".".join(api), call, direction,
    )  # fmt: skip


@settings(deadline=None)
@given(
    st.sampled_from(["Module", "Cell"]), st.lists(PART, min_size=0, max_size=5), WORD, CALL, DIRECTION, st.booleans()
)
def test_round_trip_of_module_names(
    prefix: str, path: list[str], cls: str, call: int, direction: Direction, old: bool
) -> None:
    tail = f"{call}.{direction.value}" if old else f"{direction.value}.{call}"
    name = parse_name(".".join([prefix, *path, cls, tail]))
    assert (name.kind, name.prefix, name.path, name.api, name.call, name.direction) == (
        MODULE, prefix, ".".join(path), cls, call, direction,
    )  # fmt: skip


@settings(deadline=None)
@given(st.lists(PART, min_size=0, max_size=5), WORD, st.none() | CALL)
def test_round_trip_of_gradient_names(path: list[str], cls: str, k: int | None) -> None:
    name = parse_name(".".join(["Module", *path, cls, "parameters_grad"]) + ("" if k is None else f".{k}"))
    assert (name.kind, name.path, name.api, name.call, name.direction) == (GRAD, ".".join(path), cls, k, B)


@settings(deadline=None)
@given(st.text() | st.text(alphabet="._0123456789forwadbckMule²٣", max_size=60))
def test_any_text_is_a_name(full: str) -> None:
    name = parse_name(full)
    assert name.full == full
    assert name.call is None or name.call >= 0


@pytest.mark.parametrize("part", ["_1", ".0", "1", ".forward", "_1_", "Module."])
def test_long_names_are_read_in_one_go(part: str) -> None:
    assert parse_name(part * 200_000).full == part * 200_000
