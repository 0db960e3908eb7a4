"""Faults of other projects: each is shown by a cause of its pattern, and by no cause that lacks a part of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from firstnan.answer.model import (
    Confidence,
    InputSummary,
    Mechanism,
    MechanismKind,
    Note,
    Report,
    RootCause,
    Verdict,
    Where,
)
from firstnan.causes import advice
from firstnan.dump.language import Language
from firstnan.dump.records import Direction, TensorStat
from firstnan.dump.values import ValueState
from firstnan.operators.known_issues import MOST, KnownIssue, known_issues, notes
from firstnan.words import catalog, text

ISSUES = {issue.id: issue for issue in known_issues()}
SITE = "/opt/conda/lib/python3.11/site-packages"


def cause(
    op: str,
    kind: str = "unknown",
    *,
    dtype: str = "float32",
    frame: str = "/train/model.py",
    direction: Direction = Direction.FORWARD,
    why: str = "",
    evidence: tuple[str, ...] = (),
) -> RootCause:
    stat = TensorStat("input_args.0", dtype, (2, 2), 1.0, -1.0, 0.0, 1.0, ValueState.FINITE)
    mechanism = Mechanism(MechanismKind(kind), Confidence.LIKELY, Note(why or f"mechanism.{kind}.why"))
    return RootCause(
        *(0, 0, op, 3, direction, Where.OPERATOR, mechanism),
        inputs=(stat,),
        outputs=(stat,),
        stack_info=(
            f"File {frame}, line 7, in forward, \n y = f(x)",
            "File /train/main.py, line 1, in step, \n step()",
        ),
        evidence=tuple(Note(key) for key in evidence),
    )


BACK: dict[str, Any] = {"direction": Direction.BACKWARD}
SDPA = "Functional.scaled_dot_product_attention.0.forward"
CASES = {
    "sdpa_masked_row": cause(SDPA, "masked_softmax"),
    "sdpa_row_of_lowest": cause(SDPA),
    "mha_masked_row": cause(
        "Functional.softmax.0.forward",
        "masked_softmax",
        frame=f"{SITE}/torch/nn/functional.py, line 6000, in multi_head_attention_forward",
    ),
    "cdist_backward": cause("Torch.cdist.0.backward", "sqrt_backward", **BACK),
    "all_ignored": cause("Functional.cross_entropy.0.forward", "div_by_zero", why="why.all_ignored"),
    "where_trap": cause("Torch.sqrt.0.backward", "sqrt_backward", evidence=("evidence.twin_bad",), **BACK),
    "t5_feed_forward": cause(
        "Functional.linear.0.forward",
        "fp16_overflow",
        dtype="float16",
        frame=f"{SITE}/transformers/models/t5/modeling_t5.py",
    ),
    "longt5_feed_forward": cause(
        "Tensor.__add__.0.forward",
        "fp16_overflow",
        dtype="float16",
        frame=f"{SITE}/transformers/models/longt5/modeling_longt5.py",
    ),
    "half_mask_of_lowest": cause(
        "Functional.softmax.0.forward",
        "masked_softmax",
        dtype="float16",
        frame=f"{SITE}/transformers/models/opt/modeling_opt.py",
    ),
    "two_masks_added": cause(
        "Functional.softmax.0.forward",
        "masked_softmax",
        frame=f"{SITE}/transformers/models/llama/modeling_llama.py",
    ),
    "deepseek_v4_mask": cause(
        "Functional.softmax.0.forward",
        "masked_softmax",
        dtype="bfloat16",
        frame=f"{SITE}/nemo_automodel/components/models/deepseek_v4/layers.py",
    ),
    "adam_eps_half": cause(
        "Tensor.addcdiv_.0.forward", "div_by_zero", dtype="float16", frame=f"{SITE}/torch/optim/adam.py"
    ),
    "te_fp8_recompute": cause(
        "Module.layers.0.Linear.forward.0", frame=f"{SITE}/transformer_engine/pytorch/module/linear.py"
    ),
    "te_layernorm_linear_cast": cause(
        "Module.qkv.LayerNormLinear.forward.0", frame=f"{SITE}/transformer_engine/pytorch/module/layernorm_linear.py"
    ),
    "te_amax_roll": cause("Module.fc.Linear.forward.0", "fp8_scale", frame=f"{SITE}/transformer_engine/pytorch/fp8.py"),
    "flash_attention_preprocess_race": cause(
        "Functional.flash_attn_func.0.backward", frame=f"{SITE}/flash_attn/cute/interface.py", **BACK
    ),
    "torchtune_offload_race": cause(
        "Functional.linear.0.backward", frame=f"{SITE}/torchtune/training/_activation_offloading.py", **BACK
    ),
    "deepspeed_zero3_stream": cause(
        "Functional.linear.0.forward", "bad_parameter", dtype="bfloat16", frame=f"{SITE}/deepspeed/runtime/engine.py"
    ),
    "mfsdp_main_grad": cause("Functional.linear.0.backward", frame=f"{SITE}/megatron/core/distributed/fsdp/a.py"),
    "deepspeed_bf16_overflow": cause(
        "Functional.linear.0.forward", "bad_parameter", dtype="bfloat16", frame=f"{SITE}/deepspeed/runtime/engine.py"
    ),
    "deep_gemm_scale_packing": cause("Torch.fp8_einsum.0.forward", frame=f"{SITE}/deep_gemm/__init__.py"),
}
PLAIN = cause("Torch.exp.0.forward", "exp_overflow")


def test_there_are_enough_and_each_has_a_case() -> None:
    assert len(ISSUES) >= 15
    assert CASES.keys() == ISSUES.keys()


@pytest.mark.parametrize("name", ISSUES)
def test_a_cause_of_its_pattern_shows_it(name: str) -> None:
    told = notes(CASES[name])
    assert name in [note.params["issue"] for note in told]
    assert len(told) <= MOST


@pytest.mark.parametrize("name", ISSUES)
def test_every_part_of_the_pattern_is_needed(name: str) -> None:
    """A cause that is like the case, but for one part, does not show it."""
    issue, case = ISSUES[name], CASES[name]
    assert not issue.fits(PLAIN)
    if issue.operators:
        assert not issue.fits(replace(case, op_name="Torch.exp.0.forward"))
    if issue.direction:
        assert not issue.fits(replace(case, direction=next(d for d in Direction if d is not case.direction)))
    if issue.mechanisms:
        other = replace(case.mechanism, kind=MechanismKind.LOG_ZERO)
        assert not issue.fits(replace(case, mechanism=other))
    if issue.reasons:
        assert not issue.fits(replace(case, mechanism=replace(case.mechanism, explanation=Note("why.other"))))
    if issue.dtypes:
        assert not issue.fits(replace(case, inputs=(), outputs=()))
    if issue.stack:
        assert not issue.fits(replace(case, stack_info=("File /train/model.py, line 7, in forward, \n y = f(x)",)))
    if issue.evidence:
        assert not issue.fits(replace(case, evidence=()))


@pytest.mark.parametrize("issue", ISSUES.values(), ids=lambda issue: issue.id)
def test_an_entry_says_where_and_which_versions(issue: KnownIssue) -> None:
    assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", issue.tracker)
    assert issue.versions
    assert any((issue.operators, issue.mechanisms, issue.reasons, issue.stack, issue.evidence))
    for language in Language:
        assert f"known_issue.{issue.id}" in catalog(language)


def test_the_page_lists_them() -> None:
    shown = (Path(__file__).parents[1] / "docs" / "concepts" / "known-issues.md").read_text("utf-8")
    assert [issue.id for issue in ISSUES.values() if f"({issue.tracker})" not in shown] == []


def test_it_stands_at_the_end_of_what_to_do_next() -> None:
    report = Report(Verdict.ANOMALY, True, InputSummary("dump"), root_causes=(CASES["adam_eps_half"], PLAIN))
    known, plain = advice.add(report, {0}).root_causes
    assert known.advice[-1].key == "advice.known_issue"
    assert text(known.advice[-1], Language.EN).startswith("Possibly a known fault elsewhere: Adam's eps")
    assert text(known.advice[-1], Language.ZH).startswith("可能是已知的上游问题：Adam 的 eps")
    assert all(note.key != "advice.known_issue" for note in plain.advice)
