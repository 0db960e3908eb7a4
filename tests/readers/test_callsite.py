"""Call chain and code location (dump format, section 10)."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_dumps import DATA, kinds, rank_folder, write

from firstnan.dump.call_site import CallSite, Frame
from firstnan.dump.folders import RankFolder
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.read.callers import call_site
from firstnan.read.callers.frames import FRAMEWORK_PATHS, caller_of, frames_of, location_of
from firstnan.read.json import lenient

USER = "File /workspace/train/model.py, line 88, in forward, \n h = self.act(x)"
PACKAGES = "/opt/venv/lib/python3.11/site-packages"
TORCH = f"File {PACKAGES}/torch/nn/modules/module.py, line 1884, in _call_impl, \n return inner()"
TOOL = f"File {PACKAGES}/msprobe/pytorch/hook_module/api_register.py, line 7, in f, \n return g()"
STDLIB = "File /usr/lib/python3.11/contextlib.py, line 81, in inner, \n return func(*args, **kwds)"


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    def make(construct: Any = None, stack: Any = None) -> RankFolder:
        found = rank_folder(tmp_path / "rank3", "{}", step=2, rank=3)
        for name, content in (("construct", construct), ("stack", stack)):
            if isinstance(content, bytes):
                write(found.path / f"{name}.json", content)
            elif content is not None:
                write(found.path / f"{name}.json", json.dumps(content, indent=1))
        return found

    return make


def site(found: RankFolder, name: str) -> CallSite:
    return call_site.read(found, [name])[0][name]


# --- construct.json ---------------------------------------------------------------------------------


def test_what_many_ranks_have_in_common_is_parsed_once(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    whole = lenient.loads
    monkeypatch.setattr(lenient, "loads", lambda data: parsed.append(data) or whole(data))
    same = {"F.same.0.forward": "Module.same.forward.0", "Module.same.forward.0": None}
    found = [call_site.parents(folder(same)) for _ in range(3)]
    assert found == [(same, ())] * 3
    assert len(parsed) == 1
    other = {**same, "F.same.0.forward": None}
    assert call_site.parents(folder(other)) == (other, ())


def test_what_is_wrong_with_a_file_is_told_of_every_rank_that_has_it(folder: Any) -> None:
    for content in ({"F.wrong.0.forward": 3}, b'{"F.wrong.0.forward": null, "F.'):
        for _ in range(2):
            _, problems = call_site.parents(folder(content))
            assert [(p.step, p.rank) for p in problems] == [(2, 3)]


def test_of_the_files_no_more_is_kept_than_a_limit(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_site, "MOST_KEPT", 100)
    for number in range(9):
        assert call_site.parents(folder({f"F.kept.{number}.forward": None}))[0] == {f"F.kept.{number}.forward": None}
    long = {f"F.kept.{number}.forward": None for number in range(9)}
    assert call_site.parents(folder(long))[0] == long
    assert sum(map(len, call_site._KNOWN._found)) <= 100


@pytest.mark.parametrize(
    ("value", "parent"),
    [
        ("Module.a.Linear.forward.0", "Module.a.Linear.forward.0"),
        (None, None),
        ("", None),
        (["Module.a.Linear.forward.0", 3], "Module.a.Linear.forward.0"),
        ([None, 3], None),
        (["", 0], None),
    ],
)
def test_every_form_of_a_parent(folder: Any, value: Any, parent: str | None) -> None:
    found, problems = call_site.parents(folder({"Torch.a.0.forward": value}))
    assert found == {"Torch.a.0.forward": parent}
    assert problems == ()


def test_the_micro_step_counter_is_no_record(folder: Any) -> None:
    found, problems = call_site.parents(folder({"megatron_micro_step_number": 8, "a": "b"}))
    assert found == {"a": "b"}
    assert problems == ()


@pytest.mark.parametrize("value", [7, 1.5, True, {}, {"a": 1}, [], [7, "a"], [["a"]]])
def test_parents_of_a_wrong_type_are_skipped(folder: Any, value: Any) -> None:
    found, problems = call_site.parents(folder({"a": value, "b": "c"}))
    assert found == {"b": "c"}
    assert kinds(problems) == [ProblemKind.BAD_CONTENT]


def test_level_l1_has_no_parents(folder: Any) -> None:
    assert call_site.parents(folder({})) == ({}, ())
    assert site(folder({}), "Torch.a.0.forward").chain == ("Torch.a.0.forward",)


def test_chain(folder: Any) -> None:
    construct = {"op": "inner", "inner": ["outer", 1], "outer": "", "optimizer": None}
    assert site(folder(construct), "op").chain == ("op", "inner", "outer")


def test_a_chain_that_leads_back_ends(folder: Any) -> None:
    """A recomputed forward may have a backward record as its parent."""
    found = site(folder({"a": "b", "b": "c", "c": "b"}), "a")
    assert found.chain == ("a", "b", "c")
    assert [p.judged for p in found.problems] == [True]
    assert site(folder({"a": "a"}), "a").chain == ("a",)


def test_a_very_long_chain_ends(folder: Any) -> None:
    names = [f"m{i}" for i in range(call_site.MAX_CHAIN * 3)]
    found = site(folder(dict(itertools.pairwise(names))), "m0")
    assert len(found.chain) == call_site.MAX_CHAIN + 1
    assert kinds(found.problems) == [ProblemKind.BAD_CONTENT]


def test_a_backward_record_without_a_caller_has_those_of_its_forward(folder: Any) -> None:
    construct = {"F.a.0.forward": "Module.fc.Linear.forward.0", "F.a.0.backward": None, "F.b.0.backward": "Module.x"}
    assert site(folder(construct), "F.a.0.backward").chain == ("F.a.0.backward", "Module.fc.Linear.forward.0")
    assert site(folder(construct), "F.b.0.backward").chain == ("F.b.0.backward", "Module.x")


def test_gradients_of_parameters_have_their_module_as_caller(folder: Any) -> None:
    construct = {"Module.fc.Linear.forward.0": "Module.n.Net.forward.0", "Module.n.Net.forward.0": None}
    for name in (
        "Module.fc.Linear.parameters_grad",
        "Module.fc.Linear.parameters_grad.0",
        "Module.fc.Linear.parameters_grad.4",
    ):
        assert site(folder(construct), name).chain == (name, "Module.fc.Linear.forward.0", "Module.n.Net.forward.0")


# --- stack.json -------------------------------------------------------------------------------------


def test_grouped_stacks(folder: Any) -> None:
    stack = {"0": [["F.a.0.forward", "F.a.1.forward"], [TORCH, USER]], "1": [["F.b.0.forward"], [TORCH]]}
    sites, problems = call_site.read(folder({}, stack), ["F.a.1.forward", "F.b.0.forward", "F.c.0.forward"])
    assert problems == ()
    assert sites["F.a.1.forward"].raw_stack == (TORCH, USER)
    assert sites["F.a.1.forward"].location == Frame("/workspace/train/model.py", 88, "forward", "h = self.act(x)")
    assert len(sites["F.a.1.forward"].frames) == 2
    assert sites["F.c.0.forward"] == CallSite("F.c.0.forward", ("F.c.0.forward",))


def test_stacks_by_record(folder: Any) -> None:
    found = site(folder({}, {"F.a.0.forward": [TOOL, USER]}), "F.a.0.forward")
    assert found.location == Frame("/workspace/train/model.py", 88, "forward", "h = self.act(x)")
    assert found.raw_stack == (TOOL, USER)


def test_the_hand_made_stack(folder: Any) -> None:
    found = site(folder({}, {"Tensor.matmul_42_0": ["linear", "forward.py", 123]}), "Tensor.matmul_42_0")
    assert found.location == Frame("forward.py", 123, "linear", "")
    assert found.raw_stack == ("linear", "forward.py", 123)


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("F.a.3.backward", "F.a.3.forward"),
        ("Module.fc.Linear.backward.2", "Module.fc.Linear.forward.2"),
        ("Module.fc.Linear.2.backward", "Module.fc.Linear.2.forward"),
        ("Module.fc.Linear.parameters_grad.1", "Module.fc.Linear.forward.1"),
        ("Module.fc.Linear.parameters_grad.1", "Module.fc.Linear.forward.0"),
        ("Module.fc.Linear.parameters_grad", "Module.fc.Linear.forward.0"),
        ("Module.fc.Linear.parameters_grad", "Module.fc.Linear.0.forward"),
    ],
)
def test_backward_records_take_the_stack_of_their_forward(folder: Any, name: str, entry: str) -> None:
    assert site(folder({}, {"0": [[entry], [USER]]}), name).raw_stack == (USER,)
    assert site(folder({}, {entry: [USER]}), name).raw_stack == (USER,)


def test_a_failed_capture_has_no_frames(folder: Any) -> None:
    found = site(folder({}, {"F.a.0.forward": ["The call stack retrieval failed."]}), "F.a.0.forward")
    assert found.raw_stack == ("The call stack retrieval failed.",)
    assert (found.frames, found.location) == ((), None)


@pytest.mark.parametrize("entry", [7, "text", None, {}, [[["a"]], []], {"0": [["a"]]}])
def test_stacks_of_a_wrong_type_are_skipped(folder: Any, entry: Any) -> None:
    sites, _ = call_site.read(folder({}, {"0": entry, "1": [["a", 7, None], [USER]]}), ["a"])
    assert sites["a"].location is not None


def test_stacks_that_hold_no_text_are_told(folder: Any) -> None:
    sites, problems = call_site.read(folder({}, {"a": [["x"], "y", {}]}), ["a"])
    assert sites["a"].raw_stack == ()
    assert kinds(problems) == [ProblemKind.BAD_CONTENT]


# --- frames -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        (USER, Frame("/workspace/train/model.py", 88, "forward", "h = self.act(x)")),
        ("File /a b/x, y.py, line 3, in <module>, \n f(', in ', line 4)",
         Frame("/a b/x, y.py", 3, "<module>", "f(', in ', line 4)")),
        ('File "x.py", line 3, in f', Frame("x.py", 3, "f", "")),
        ("File x.py, line many, in f, \n y", Frame("x.py", None, "f", "y")),
        ("File x.py", Frame("x.py", None, "", "")),
        ("File C:\\train\\x.py, line 3, in f, \n y", Frame("C:\\train\\x.py", 3, "f", "y")),
    ],
)  # fmt: skip
def test_frame_texts(text: str, frame: Frame) -> None:
    assert frames_of((text,)) == (frame,)


def test_the_location_is_the_first_frame_outside_the_framework() -> None:
    other = USER.replace("model.py", "train.py")
    location = location_of(frames_of((TOOL, TORCH, STDLIB, TORCH, USER, TORCH, other)))
    assert location is not None
    assert location.file == "/workspace/train/model.py"


@pytest.mark.parametrize(
    ("source", "hands_on"),
    [
        ("return f(*args, **kw)", True),
        ("return orig(mod, *args, **kw)", True),
        ("output = self.func(self, *args, **kwargs)", True),
        ("return torch.cat(*parts)", True),
        ("dist.all_reduce(grad, **kw)", False),
        ("return self.head(self.trunk(ids), *a, **k)", False),
        ("return x * f(*args)", False),
        ("return f(*shape) + 1", False),
    ],
)
def test_a_line_that_hands_on_all_is_passed_over(source: str, hands_on: bool) -> None:
    wrapper, user = Frame("/train/wrap.py", 1, "f", source), Frame("/train/model.py", 2, "forward", "h = act(x * 2)")
    assert location_of((wrapper, user)) == (user if hands_on else wrapper)
    assert location_of((wrapper,)) == wrapper


def test_a_line_that_calls_the_operator_by_name_is_the_location() -> None:
    line, user = (
        Frame("/train/a.py", 1, "f", "return torch.einsum(*operands)"),
        Frame("/train/b.py", 2, "g", "y = f(2)"),
    )
    assert location_of((line, user), "einsum") == line
    assert location_of((line, user), "exp") == user
    line = Frame("/train/a.py", 1, "f", "e = torch.exp(s)")
    assert caller_of(line, (line, user), "exp") is None
    assert caller_of(line, (line, user), "linear") == user


@pytest.mark.parametrize(
    ("source", "is_thin"),
    [
        ("return self.inner(x)", True),
        ("h = self.inner(x, mask)", True),
        ("return fn()", True),
        ("return self.inner(x).view(2)", False),
        ("return self.inner(x * 2)", False),
        ("return torch.exp(x) * 2", False),
        ("", False),
    ],
)
def test_the_line_around_a_thin_wrapper_is_told(source: str, is_thin: bool) -> None:
    thin = Frame("/train/wrap.py", 1, "forward", source)
    between = Frame("/train/hooks.py", 7, "g", "return f(*args)")
    torch, user = frames_of((TORCH,))[0], Frame("/train/model.py", 2, "forward", "h = self.wrap(x * 2)")
    assert caller_of(thin, (torch, thin, torch, between, torch, user)) == (user if is_thin else None)
    assert caller_of(thin, (torch, thin)) is None


def test_when_all_is_framework_the_innermost_outside_the_tool_counts() -> None:
    location = location_of(frames_of((TOOL, TORCH, STDLIB)))
    assert location is not None
    assert location.function == "_call_impl"
    location = location_of(frames_of((TOOL,)))
    assert location is not None
    assert location.function == "f"


@pytest.mark.parametrize(
    ("path", "framework"),
    [
        ("/opt/venv/lib/python3.11/site-packages/torch/nn/functional.py", True),
        ("/usr/lib/python3/dist-packages/torch/_tensor.py", True),
        ("/home/x/pytorch/torch/nn/modules/linear.py", True),
        ("/opt/venv/lib/python3.11/site-packages/torch_npu/npu/x.py", True),
        ("C:\\Python\\Lib\\site-packages\\torch\\nn\\functional.py", True),
        ("/opt/venv/lib/python3.11/site-packages/mindspore/nn/cell.py", True),
        ("/src/Megatron-LM/megatron/core/transformer/module.py", True),
        ("/src/Megatron-LM/megatron/core/tensor_parallel/layers.py", False),
        ("/src/Megatron-LM/megatron/core/transformer/attention.py", False),
        ("/opt/venv/lib/python3.11/site-packages/transformers/models/llama/modeling_llama.py", False),
        ("/home/x/torch/train.py", False),
        ("/home/x/mindspore/train.py", False),
        ("/home/x/msprobe/train.py", False),
        ("model.py", False),
    ],
)
def test_what_counts_as_framework(path: str, framework: bool) -> None:
    frame, user = Frame(path, 1, "f", ""), Frame("/workspace/user.py", 1, "g", "")
    assert location_of((frame, user)) is (user if framework else frame)


def test_every_framework_path_has_a_reason() -> None:
    assert all(pattern and reason for pattern, reason in FRAMEWORK_PATHS)


# --- files that are not whole -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (None, ProblemKind.MISSING_FILE),
        (b"", ProblemKind.UNREADABLE),
        (b"\0" * 99, ProblemKind.UNREADABLE),
        (b"garbage", ProblemKind.UNREADABLE),
        (b"[]", ProblemKind.UNREADABLE),
        (b'{"F.a.0.forward": ', ProblemKind.TRUNCATED),
    ],
)
def test_damaged_files_do_not_touch_the_verdict(folder: Any, content: bytes | None, kind: ProblemKind) -> None:
    sites, problems = call_site.read(folder(content, content), ["F.a.0.forward"])
    assert sites["F.a.0.forward"].chain == ("F.a.0.forward",)
    assert kinds(problems) == [kind, kind]
    assert [p.file for p in problems] == ["rank3/construct.json", "rank3/stack.json"]
    assert all(p.judged and (p.step, p.rank) == (2, 3) for p in problems)


def test_the_part_before_a_cut_is_used(folder: Any) -> None:
    construct = json.dumps({"a": "b", "b": "c", "c": "d"}).encode()
    stack = json.dumps({"0": [["a"], [TORCH, USER]], "1": [["b"], [TORCH, USER]]}, indent=1).encode()
    sites, problems = call_site.read(folder(construct[:-6], stack[:-60]), ["a", "b"])
    assert sites["a"].chain == ("a", "b", "c")
    assert sites["a"].raw_stack == (TORCH, USER)
    assert sites["b"].raw_stack == ()
    assert kinds(problems) == [ProblemKind.TRUNCATED] * 2


WORD = st.sampled_from(["a", "b", USER, "File ", ""]) | st.text(max_size=5)
KEY = st.sampled_from(["a", "b", "0", "1"])
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3),
    max_leaves=12,
)


@settings(deadline=None)
@given(ODD, ODD, st.integers(0, 200))
def test_no_content_raises(tmp_path_factory: pytest.TempPathFactory, construct: Any, stack: Any, cut: int) -> None:
    found = rank_folder(tmp_path_factory.getbasetemp() / "odd_sites", None)
    write(found.path / "construct.json", json.dumps(construct)[: -cut or None])
    write(found.path / "stack.json", json.dumps(stack)[: -cut or None])
    sites, problems = call_site.read(found, ["a", "b"])
    assert set(sites) == {"a", "b"}
    assert all(isinstance(p, Problem) and p.judged for p in problems)


@pytest.mark.parametrize(
    ("family", "name", "chain", "line"),
    [
        ("pytorch", "Torch.mul.0.forward", ("Module.layers.0.Block.forward.0",), 88),
        ("pytorch", "Functional.linear.0.backward",
         ("Module.layers.0.fc1.Linear.forward.0", "Module.layers.0.Block.forward.0"), 88),
        ("old", "Tensor.__truediv__.0.forward", ("Module.fc.Linear.0.forward",), 88),
        ("mindspore", "Primitive.matmul.MatMul.0.forward",
         ("Cell.blk.fc.Dense.forward.0", "Cell.blk.Blk.forward.0"), 20),
        ("handmade", "Tensor.matmul_42_0", ("Torch.nn.functional.linear_0_0",), 123),
    ],
)  # fmt: skip
def test_fixtures_of_every_family(family: str, name: str, chain: tuple[str, ...], line: int) -> None:
    found = site(RankFolder(0, 0, DATA / family / "step0" / "rank0", family), name)
    assert found.chain == (name, *chain)
    assert found.location is not None
    assert found.location.line == line
