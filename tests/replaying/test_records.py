"""One record, one experiment: what is told of it, and what keeps it from being run."""

from __future__ import annotations

import math
import os
import pickle
import random
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: make torch")

from made_tensors import TensorDump, gradients_at_node  # noqa: E402
from torch.nn import functional  # noqa: E402

from firstnan.answer.replay import NotRun, Replay, ReplayVerdict  # noqa: E402
from firstnan.replaying import names  # noqa: E402
from firstnan.replaying.operators.find import find  # noqa: E402
from firstnan.replaying.record import Limits, replay_record  # noqa: E402

pytestmark = pytest.mark.torch
V = ReplayVerdict


@pytest.fixture
def dump(tmp_path: Path) -> TensorDump:
    torch.manual_seed(0)
    return TensorDump(tmp_path / "dump")


def replayed(dump: TensorDump, name: str, memory: int = 1 << 30) -> Replay:
    return replay_record(name, dump.rank(), Limits(memory))


def reason(dump: TensorDump, name: str) -> NotRun | None:
    return replayed(dump, name).reason


# --- verdicts ---------------------------------------------------------------------------------------


def test_a_tile_of_nan_that_the_cpu_does_not_get(dump: TensorDump) -> None:
    a, b = torch.randn(2, 4, 8, 8), torch.randn(2, 4, 8, 4)
    out = torch.matmul(a, b)
    out[:, 1, 4:6] = math.nan
    dump.forward("Torch.matmul.0.forward", [a, b], out)
    told = replayed(dump, "Torch.matmul.0.forward")
    assert told.verdict is V.NOT_REPRODUCED
    assert (told.device_elements, told.cpu_elements, told.float64_elements) == (16, 0, 0)
    assert told.elements is not None
    assert (told.elements.nan, told.elements.of, told.elements.first) == (16, 256, (0, 1, 4, 0))
    assert [axis.which for axis in told.elements.axes] == [(0, 1), (1,), (4, 5), (0, 1, 2, 3)]
    assert told.elements.block
    assert told.example is not None
    assert told.example.cpu == pytest.approx(float(torch.matmul(a, b)[0, 1, 4, 0]))


def test_one_wrong_finite_element(dump: TensorDump) -> None:
    x, w = torch.randn(8, 16), torch.randn(4, 16)
    out = functional.linear(x, w)
    out[3, 2] *= 2
    dump.forward("Functional.linear.0.forward", [x, w], out)
    told = replayed(dump, "Functional.linear.0.forward")
    assert told.verdict is V.VALUES_DIFFER
    assert told.elements is not None
    assert (told.elements.differing, told.elements.first) == (1, (3, 2))
    assert told.example is not None
    assert told.example.dumped == pytest.approx(2 * told.example.cpu, rel=1e-5)


def test_an_exponent_beyond_float64_is_the_arithmetic(dump: TensorDump) -> None:
    x = torch.tensor([1.0, 418.98, 1000.0])
    dump.forward("Torch.exp.0.forward", [x], torch.exp(x))
    told = replayed(dump, "Torch.exp.0.forward")
    assert (told.verdict, told.device_elements, told.float64_elements) == (V.REPRODUCED, 2, 1)
    assert told.minimal is not None
    assert told.minimal.expression == "exp(418.98)"
    assert told.minimal.indices == ((1,),)


def test_an_exponent_within_float64_is_the_range(dump: TensorDump) -> None:
    x = torch.tensor([1.0, 418.98])
    dump.forward("Torch.exp.0.forward", [x], torch.exp(x))
    assert replayed(dump, "Torch.exp.0.forward").verdict is V.REPRODUCED_RANGE


def test_a_half_precision_product_is_cured_by_a_wider_dtype(dump: TensorDump) -> None:
    q = torch.tensor([[1.0, 300.0], [2.0, 300.0]]).half()
    dump.forward("Torch.matmul.0.forward", [q, q.T.contiguous()], torch.matmul(q, q.T))
    told = replayed(dump, "Torch.matmul.0.forward")
    assert told.verdict is V.REPRODUCED_RANGE
    assert told.minimal is not None
    assert told.minimal.expression == "300 × 300 (float16)"


def test_a_row_that_is_masked_completely(dump: TensorDump) -> None:
    x = torch.randn(3, 4)
    x[1] = -math.inf
    dump.forward("Functional.softmax.0.forward", [x, -1], torch.softmax(x, -1))
    told = replayed(dump, "Functional.softmax.0.forward")
    assert told.verdict is V.REPRODUCED
    assert told.minimal is not None
    assert told.minimal.expression == "softmax(-inf)"


def test_the_smallest_input_still_does_the_same(dump: TensorDump) -> None:
    x, y = torch.tensor([-math.inf, 1.0, math.inf]), torch.tensor([2.0, 1.0, math.inf])
    dump.forward("Tensor.__sub__.0.forward", [x, y], x - y)
    dump.forward("Torch.pow.0.forward", [torch.tensor([2.0, 1e10]), 4], torch.tensor([2.0, 1e10]) ** 4)
    expressions = {name: replayed(dump, name).minimal for name in dump.records}
    assert [one.expression for one in expressions.values() if one] == ["inf - inf", "1e+10 ** 4"]


def test_a_sum_in_another_order_and_products_of_short_inputs_agree(dump: TensorDump) -> None:
    a, b = torch.randn(16, 256), torch.randn(256, 16)
    halves = torch.matmul(a[:, 128:], b[128:]) + torch.matmul(a[:, :128], b[:128])
    dump.forward("Torch.matmul.0.forward", [a, b], halves)
    short = [(t.view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32) for t in (a, b)]
    dump.forward("Torch.matmul.1.forward", [a, b], torch.matmul(*short))
    assert replayed(dump, "Torch.matmul.0.forward").verdict is V.AGREES
    assert replayed(dump, "Torch.matmul.1.forward").verdict is V.AGREES


def test_gradients_stand_in_the_order_of_the_node(dump: TensorDump) -> None:
    x, w, b = (torch.randn(*size, requires_grad=True) for size in ((5, 3), (4, 3), (4,)))
    out = functional.linear(x, w, b)
    gradient = torch.randn_like(out)
    dump.forward("Functional.linear.0.forward", [x, w, b], out)
    dump.backward("Functional.linear.0.backward", [gradient], gradients_at_node(out, gradient))
    assert replayed(dump, "Functional.linear.0.backward").verdict is V.AGREES


def test_a_gradient_at_the_edge_is_reproduced(dump: TensorDump) -> None:
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    out = torch.sqrt(x)
    gradient = torch.zeros(2)
    dump.forward("Torch.sqrt.0.forward", [x], out)
    dump.backward("Torch.sqrt.0.backward", [gradient], gradients_at_node(out, gradient))
    told = replayed(dump, "Torch.sqrt.0.backward")
    assert told.verdict is V.REPRODUCED
    assert told.elements is not None
    assert told.elements.first == (0,)


def test_what_was_computed_under_autocast_is_run_in_its_dtype(dump: TensorDump) -> None:
    x, w = torch.randn(4, 8), torch.randn(3, 8)
    dump.forward("Functional.linear.0.forward", [x, w], functional.linear(x.bfloat16(), w.bfloat16()))
    assert replayed(dump, "Functional.linear.0.forward").verdict is V.AGREES


def test_a_cast_whose_target_is_not_recorded(dump: TensorDump) -> None:
    x = torch.tensor([1.0, 70000.0])
    dump.forward("Tensor.to.0.forward", [x, {}], x.half())
    told = replayed(dump, "Tensor.to.0.forward")
    assert (told.verdict, told.float64_elements) == (V.REPRODUCED_RANGE, 0)


def test_work_in_place_leaves_the_recorded_input_alone(dump: TensorDump) -> None:
    x = torch.randn(4)
    dump.forward("Tensor.mul_.0.forward", [x, 2.0], x * 2)
    assert replayed(dump, "Tensor.mul_.0.forward").verdict is V.AGREES
    assert replayed(dump, "Tensor.mul_.0.forward").verdict is V.AGREES


def test_of_equal_elements_any_place_may_be_meant(dump: TensorDump) -> None:
    x = torch.tensor([1.0, 1.0])
    dump.forward("Torch.argmax.0.forward", [x], torch.tensor(1))
    dump.forward("Torch.ge.0.forward", [x, 1.0], torch.tensor([True, False]))
    assert replayed(dump, "Torch.argmax.0.forward").verdict is V.AGREES
    assert replayed(dump, "Torch.ge.0.forward").verdict is V.VALUES_DIFFER


def test_an_inf_at_the_limit_is_a_matter_of_rounding(dump: TensorDump) -> None:
    x = torch.tensor([65500.0]).half()
    dump.forward("Torch.add.0.forward", [x, 15.0], torch.tensor([math.inf]).half())
    assert replayed(dump, "Torch.add.0.forward").verdict is not V.NOT_REPRODUCED


# --- fused operators --------------------------------------------------------------------------------


def test_fused_operators_have_formulas(dump: TensorDump) -> None:
    x, gamma = torch.randn(2, 3, 8), torch.rand(8)
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    dump.forward("NPU.npu_rms_norm.0.forward", [x, gamma], [x * scale * gamma, scale])
    q, k, v = torch.randn(2, 5, 8), torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    heads = [t.view(2, 5, 2, 4).transpose(1, 2) for t in (q, k, v)]
    mask = torch.ones(5, 5, dtype=torch.bool).triu(1)
    out = functional.scaled_dot_product_attention(*heads, attn_mask=~mask, scale=0.5).transpose(1, 2).reshape(2, 5, 8)
    dump.forward("NPU.npu_fusion_attention.0.forward", [q, k, v, 2, "BSH"], [out],
                 {"atten_mask": mask, "scale": 0.5})  # fmt: skip
    dump.forward("NPU.npu_swiglu.0.forward", [x], functional.silu(x[..., :4]) * x[..., 4:])
    for name in dump.records:
        assert replayed(dump, name).verdict is V.AGREES, name
    dump.forward("NPU.npu_moe_gating.0.forward", [x], x)
    assert reason(dump, "NPU.npu_moe_gating.0.forward") is NotRun.NO_OPERATOR


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
@pytest.mark.parametrize("sparse", [0, 2, 3])
def test_fused_attention_in_every_layout_and_mask(dump: TensorDump, layout: str, sparse: int) -> None:
    """Against the attention of torch; four heads of queries share two of keys; 3 queries look at 5 places."""
    q, k, v = torch.randn(2, 4, 3, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8)
    rows, columns = torch.arange(3)[:, None], torch.arange(5)[None]
    seen = {0: torch.ones(3, 5, dtype=torch.bool), 2: columns <= rows, 3: columns <= rows + 2}[sparse]
    right = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=0.3, enable_gqa=True)
    turn: dict[str, Any] = {
        "BNSD": lambda t: t,
        "BSND": lambda t: t.transpose(1, 2),
        "BSH": lambda t: t.transpose(1, 2).flatten(2),
        "SBH": lambda t: t.transpose(1, 2).flatten(2).transpose(0, 1),
    }
    given = [turn[layout](t).contiguous() for t in (q, k, v)]
    options = {"scale": 0.3, "sparse_mode": sparse}
    dump.forward("NPU.npu_fusion_attention.0.forward", [*given, 4, layout], [turn[layout](right)], options)
    dump.forward("NPU.npu_fusion_attention.1.forward", [*given, 4, layout], [turn[layout](right) * 1.1], options)
    assert [replayed(dump, one).verdict for one in dump.records] == [V.AGREES, V.VALUES_DIFFER]


def turned_half(x: Any, angle: Any) -> Any:
    """Rotary position embedding by its definition: element i and i + n/2 are a point that turns by an angle."""
    out, n = torch.empty_like(x), x.shape[-1] // 2
    for i in range(n):
        cos, sin = torch.cos(angle[..., i]), torch.sin(angle[..., i])
        out[..., i] = x[..., i] * cos - x[..., i + n] * sin
        out[..., i + n] = x[..., i + n] * cos + x[..., i] * sin
    return out


def turned_pairs(x: Any, angle: Any) -> Any:
    """The same of neighbours: complex numbers times exp(i · angle)."""
    points = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(points * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


@pytest.mark.parametrize(
    ("name", "modes"),
    [("NPU.npu_rotary_mul", ("half", "interleave", "quarter")), ("NPU.npu_rotary_position_embedding", (0, 1, 2))],
)
def test_rotary_embedding_turns_points(dump: TensorDump, name: str, modes: tuple[object, ...]) -> None:
    x, angle = torch.randn(2, 3, 4, 8), torch.randn(1, 3, 1, 4)
    half = [torch.cat((one, one), -1) for one in (torch.cos(angle), torch.sin(angle))]
    pairs = [one.repeat_interleave(2, -1) for one in (torch.cos(angle), torch.sin(angle))]
    one, other = turned_half(x, angle), turned_pairs(x, angle)
    dump.forward(f"{name}.0.forward", [x, *half], one)
    dump.forward(f"{name}.1.forward", [x, *half, modes[0]], one)
    dump.forward(f"{name}.2.forward", [x, *pairs, modes[1]], other)
    dump.forward(f"{name}.3.forward", [x, *half], turned_half(x, -angle))
    dump.forward(f"{name}.4.forward", [x, *half, modes[2]], one)
    found = [replayed(dump, each) for each in dump.records]
    assert [each.verdict for each in found[:4]] == [V.AGREES, V.AGREES, V.AGREES, V.VALUES_DIFFER]
    assert found[4].reason is NotRun.NO_OPERATOR, "no formula for this form"


def test_the_gradient_of_a_rotary_embedding_turns_back(dump: TensorDump) -> None:
    x, angle, gradient = torch.randn(2, 3, 4, 8, requires_grad=True), torch.randn(1, 3, 1, 4), torch.randn(2, 3, 4, 8)
    cos, sin = (torch.cat((one, one), -1) for one in (torch.cos(angle), torch.sin(angle)))
    dump.forward("NPU.npu_rotary_mul.0.forward", [x, cos, sin], turned_half(x.detach(), angle))
    dump.backward("NPU.npu_rotary_mul.0.backward", [gradient], [turned_half(gradient, -angle)])
    assert replayed(dump, "NPU.npu_rotary_mul.0.backward").verdict is V.AGREES


@pytest.mark.parametrize("api", ["npu_bmmV2", "npu_bmm_v2"])
def test_a_batched_product_is_a_product_of_each_sample(dump: TensorDump, api: str) -> None:
    a, b = torch.randn(3, 4, 5), torch.randn(3, 5, 6)
    out = torch.stack([(x[:, :, None] * y[None]).sum(1) for x, y in zip(a, b, strict=True)])
    dump.forward(f"NPU.{api}.0.forward", [a, b, []], out)
    dump.forward(f"NPU.{api}.1.forward", [a, b, []], out.roll(1, 0))
    assert [replayed(dump, one).verdict for one in dump.records] == [V.AGREES, V.VALUES_DIFFER]


# --- what is not run --------------------------------------------------------------------------------


def test_random_operators_run_only_where_nothing_is_drawn(dump: TensorDump) -> None:
    x = torch.randn(4)
    dump.forward("Functional.dropout.0.forward", [x], x, {"p": 0.0, "training": True})
    dump.forward("Functional.dropout.1.forward", [x], x, {"p": 0.1, "training": True})
    dump.forward("Functional.dropout.2.forward", [x], x, {"p": 0.1, "training": False})
    dump.forward("Torch.bernoulli.0.forward", [x.sigmoid()], x)
    dump.forward("Torch.empty.0.forward", [[4]], x)
    assert replayed(dump, "Functional.dropout.0.forward").verdict is V.AGREES
    assert reason(dump, "Functional.dropout.1.forward") is NotRun.RANDOM
    assert replayed(dump, "Functional.dropout.2.forward").verdict is V.AGREES
    assert reason(dump, "Torch.bernoulli.0.forward") is NotRun.RANDOM
    assert reason(dump, "Torch.empty.0.forward") is NotRun.MEMORY


def test_records_that_tell_too_little(dump: TensorDump) -> None:
    x = torch.randn(4)
    dump.forward("Torch.exp.0.forward", [x], torch.exp(x))
    del dump.records["Torch.exp.0.forward"]["output"]
    dump.forward("Torch.exp.1.forward", [{}], torch.exp(x))
    dump.forward("Torch.exp.2.forward", [x], torch.exp(x))
    del dump.records["Torch.exp.2.forward"]["input_args"][0]["data_name"]
    dump.backward("Torch.exp.3.backward", [x], [x])
    dump.forward("Torch.add.0.forward", [x], x)
    dump.forward("Torch.sum.0.forward", [x], x)
    found = {name: reason(dump, name) for name in dump.records}
    assert found == {
        "Torch.exp.0.forward": NotRun.UNFINISHED,
        "Torch.exp.1.forward": NotRun.ARGUMENT,
        "Torch.exp.2.forward": NotRun.NO_TENSORS,
        "Torch.exp.3.backward": NotRun.NO_FORWARD,
        "Torch.add.0.forward": NotRun.RAISED,
        "Torch.sum.0.forward": NotRun.OTHER_RESULT,
    }


def test_elements_are_told_of_records_that_cannot_be_run(dump: TensorDump) -> None:
    out = torch.zeros(4, 8)
    out[2] = math.inf
    dump.forward("NPU.npu_mystery.0.forward", [torch.randn(4, 8)], out)
    told = replayed(dump, "NPU.npu_mystery.0.forward")
    assert (told.verdict, told.device_elements) == (V.NOT_RUN, 8)
    assert told.elements is not None
    assert (told.elements.posinf, told.elements.axes[0].which) == (8, (2,))


def test_a_device_is_not_blamed_for_an_input_that_was_saved_late(dump: TensorDump) -> None:
    x = torch.randn(8)
    dump.forward("Torch.mul.0.forward", [x, 3.0], x * 3)
    torch.save(x * 0, dump.tensors / "Torch.mul.0.forward.input.0.pt")
    assert reason(dump, "Torch.mul.0.forward") is NotRun.STALE_INPUT


# --- hostile dumps ----------------------------------------------------------------------------------


class _Evil:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.mark),))


def test_no_code_of_a_file_is_run(dump: TensorDump, tmp_path: Path) -> None:
    dump.forward("Torch.exp.0.forward", [torch.ones(2)], torch.ones(2))
    file, mark = dump.tensors / "Torch.exp.0.forward.input.0.pt", tmp_path / "mark"
    torch.save(_Evil(mark), file)
    assert reason(dump, "Torch.exp.0.forward") is NotRun.BAD_FILE
    file.write_bytes(pickle.dumps(_Evil(mark)))
    assert reason(dump, "Torch.exp.0.forward") is NotRun.BAD_FILE
    assert not mark.exists()


def test_files_lie_in_the_ranks_own_folder(dump: TensorDump, tmp_path: Path) -> None:
    outside = tmp_path / "outside.pt"
    torch.save(torch.ones(2), outside)
    dump.forward("Torch.exp.0.forward", [torch.ones(2)], torch.exp(torch.ones(2)))
    entry = dump.records["Torch.exp.0.forward"]["input_args"][0]
    link = dump.tensors / "link.pt"
    link.symlink_to(outside)
    entry["data_name"] = "link.pt"
    assert reason(dump, "Torch.exp.0.forward") is NotRun.BAD_FILE
    entry["data_name"] = str(outside)  # by base name: there is no such file in the folder
    assert reason(dump, "Torch.exp.0.forward") is NotRun.NO_TENSORS
    entry["data_name"] = ".."
    assert reason(dump, "Torch.exp.0.forward") is NotRun.BAD_FILE
    moved = tmp_path / "elsewhere"
    dump.tensors.rename(moved)
    dump.tensors.symlink_to(moved, target_is_directory=True)
    entry["data_name"] = "Torch.exp.0.forward.input.0.pt"
    assert reason(dump, "Torch.exp.0.forward") is NotRun.BAD_FILE


@pytest.mark.parametrize(
    "damage", [b"", b"PK\x03\x04", b"\x80\x02K\x01.", b".", b"G", b"h\xfd", b"UT\xe2", b"(", bytes(64)]
)
def test_a_damaged_file_is_a_reason(dump: TensorDump, damage: bytes) -> None:
    dump.forward("Torch.exp.0.forward", [torch.ones(2)], torch.ones(2))
    (dump.tensors / "Torch.exp.0.forward.input.0.pt").write_bytes(damage)
    assert reason(dump, "Torch.exp.0.forward") is NotRun.BAD_FILE


@pytest.mark.parametrize("seed", range(4))
def test_a_file_with_bytes_changed_at_random_is_a_reason_or_another_tensor(dump: TensorDump, seed: int) -> None:
    dump.forward("Torch.exp.0.forward", [torch.ones(2)], torch.exp(torch.ones(2)))
    file, chance = dump.tensors / "Torch.exp.0.forward.input.0.pt", random.Random(seed)
    for new in (False, True):
        torch.save(torch.ones(2), file, _use_new_zipfile_serialization=new)
        whole = file.read_bytes()
        for _ in range(100):
            changed = bytearray(whole)
            for _ in range(3):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            file.write_bytes(changed)
            assert replayed(dump, "Torch.exp.0.forward").verdict in V


def test_a_tensor_that_claims_to_be_huge_is_refused(dump: TensorDump) -> None:
    dump.forward("Torch.exp.0.forward", [torch.ones(2)], torch.ones(2))
    torch.save(torch.ones(1).expand(1 << 20, 1 << 20), dump.tensors / "Torch.exp.0.forward.input.0.pt")
    assert reason(dump, "Torch.exp.0.forward") is NotRun.BAD_FILE


@pytest.mark.parametrize(
    ("prefix", "api"),
    [("Torch", "save"), ("Torch", "load"), ("Torch", "from_file"), ("Torch", "hub.load"), ("Torch", "compile"),
     ("Torch", "ops.load_library"), ("Torch", "manual_seed"), ("Torch", "nn"), ("Torch", "Tensor"),
     ("Tensor", "share_memory_"), ("Tensor", "apply_"), ("Tensor", "__class__"), ("Tensor", "__init_subclass__"),
     ("Functional", "torch"), ("Functional", "__builtins__"), ("Aten", "from_file"), ("os", "system"), ("", "exp")],
)  # fmt: skip
def test_a_name_only_selects_operators(prefix: str, api: str) -> None:
    assert find(prefix, api) is None


def test_common_operators_are_found() -> None:
    wanted = {
        "Functional": "linear softmax layer_norm gelu silu embedding cross_entropy scaled_dot_product_attention conv2d",
        "Tensor": "__add__ __iadd__ __matmul__ add_ mul_ masked_fill masked_fill_ mean sum to float pow __pow__ split",
        "Torch": "exp matmul bmm cat where einsum vector_norm linalg.vector_norm rsqrt arange full _foreach_norm",
        "VF": "lstm",
        "Aten": "add.Tensor",
        "Mint": "matmul nn.functional.softmax",
        "NPU": "npu_rms_norm",
    }
    absent = [(prefix, api) for prefix, apis in wanted.items() for api in apis.split() if find(prefix, api) is None]
    assert absent == []
    assert find("Functional", "softmax", "mindspore") is None, "its second argument is another one"
    assert find("Primitive", "matmul.Exp", "mindspore") is torch.exp


def test_what_an_operator_is_known_for() -> None:
    from firstnan.dump.names import parse_name

    def of(name: str) -> names.Operator:
        return names.resolve(parse_name(name), "pytorch")

    assert of("Torch.matmul.0.forward").is_product
    assert of("Tensor.half.0.forward").is_copy
    assert of("Tensor.__iadd__.0.forward").works_in_place
    assert not of("Tensor.__invert__.0.forward").works_in_place
    assert not of("Tensor.__add__.0.forward").works_in_place


# --- large records ----------------------------------------------------------------------------------


def test_of_a_record_beyond_the_limit_bad_rows_and_some_others_are_run(dump: TensorDump) -> None:
    x, w = torch.randn(1024, 64), torch.randn(64, 64)
    out = functional.linear(x, w)
    out[700, 3] = math.nan
    dump.forward("Functional.linear.0.forward", [x, w], out)
    told = replayed(dump, "Functional.linear.0.forward", memory=512 << 10)
    assert told.verdict is V.NOT_REPRODUCED
    assert told.rows is not None
    assert (told.rows.of, told.rows.looked <= 128) == (1024, True)


def test_a_large_record_that_mixes_rows_is_not_run(dump: TensorDump) -> None:
    x = torch.randn(4096, 32)
    dump.forward("Torch.cumsum.0.forward", [x, 0], torch.cumsum(x, 0))
    told = replayed(dump, "Torch.cumsum.0.forward", memory=256 << 10)
    assert told.reason is NotRun.TOO_LARGE
