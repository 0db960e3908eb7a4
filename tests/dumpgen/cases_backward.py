"""Faults that only the backward pass shows, and faults of code that leaves no record."""

from __future__ import annotations

from edits import BERT_IN, SQRT, VIT_OUT, part
from spec import Case, Root

BACKWARD: tuple[Case, ...] = (
    Case(
        "bert-where-trap",
        "bert",
        "dp",
        2,
        **part(BERT_IN, "WhereLog"),
        ranks=(1,),
        roots=(
            Root(
                "Torch.log",
                "operator",
                "div_by_zero",
                "WhereLog",
                rank=1,
                direction="backward",
                mechanism_also=("zero_times_inf", "log_zero"),
            ),
        ),
        benign=("-inf of the unselected branch",),
        harmless_at=(Root("Torch.log", "", "", "WhereLog", rank=1, kind="birth-inf"),),
    ),
    Case(
        "vit-ddp-sqrt-backward",
        "vit",
        "ddp",
        2,
        **part(VIT_OUT, "RowNorm"),
        ranks=(1,),
        roots=(
            Root(
                "Torch.sqrt", "operator", "sqrt_backward", "RowNorm", rank=1, direction="backward", mechanism_also=SQRT
            ),
        ),
    ),
    Case(
        "vit-acos-backward",
        "vit",
        **part(VIT_OUT, "AcosAngle"),
        group=False,
        roots=(
            Root("Torch.acos", "operator", "sqrt_backward", "AcosAngle", direction="backward", mechanism_also=SQRT),
        ),
    ),
    Case(
        "bert-dp4-pow-backward",
        "bert",
        "dp",
        4,
        **part(BERT_IN, "PowRoot"),
        ranks=(2,),
        over={"num_hidden_layers": 1},
        roots=(
            Root(
                "Tensor.__pow__",
                "operator",
                "sqrt_backward",
                "PowRoot",
                rank=2,
                direction="backward",
                mechanism_also=SQRT,
            ),
        ),
    ),
    Case(
        "gpt2-focal-backward",
        "gpt2",
        "zero",
        2,
        **part("", "FocalLoss"),
        ranks=(0,),
        roots=(Root("Torch.pow", "operator", "sqrt_backward", "FocalLoss", direction="backward", mechanism_also=SQRT),),
    ),
    Case(
        "mixtral-expert-gate-exp",
        "mixtral",
        "dp",
        2,
        **part("model.layers.1.self_attn.o_proj", "ExpGate"),
        ranks=(0, 1),
        level="L0",
        roots=(
            Root(
                "Module",
                "operator",
                "exp_overflow",
                "o_proj.part.ExpGate",
                kind="birth",
                direction="backward",
                mechanism_also=("fp32_overflow", "unknown", "zero_times_inf", "inf_minus_inf", "div_by_zero"),
                ranks_also=(0, 1),
            ),
        ),
        notes="modules only, exp overflows inside and the module's forward output is finite again",
    ),
    Case(
        "gpt2-accum-stale-buffer",
        "gpt2",
        "dp",
        2,
        **part("transformer.h.1.mlp.c_proj", "StaleBuffer"),
        ranks=(1,),
        micro=3,
        roots=(
            Root(
                "Tensor.__add__",
                "undumped_operator",
                "uninitialised_memory",
                "StaleBuffer",
                rank=1,
                kind="entry",
                where_also=("before_dump", "input_data"),
                mechanism_also=("unknown",),
            ),
        ),
        current_only=True,
        notes="third micro-batch only",
    ),
    Case(
        "bert-custom-kernel",
        "bert",
        "dp",
        2,
        **part(BERT_IN, "FusedKernel"),
        ranks=(0,),
        roots=(
            Root(
                "Tensor.__mul__",
                "undumped_operator",
                "unknown",
                "FusedKernel",
                kind="entry",
                where_also=("before_dump",),
                mechanism_also=("div_by_zero",),
            ),
        ),
    ),
    Case(
        "vit-custom-backward",
        "vit",
        "dp",
        2,
        **part("vit.layers.1.mlp.fc1", "FusedBackward"),
        ranks=(1,),
        roots=(
            Root(
                "Torch.tanh",
                "undumped_operator",
                "unknown",
                "FusedBackward",
                rank=1,
                kind="entry",
                direction="backward",
                where_also=("before_dump",),
                mechanism_also=("div_by_zero",),
            ),
        ),
    ),
    Case(
        "llama-ckpt-nonreentrant-root-backward",
        "llama",
        "dp",
        2,
        **part("model.layers.1.mlp.down_proj", "PowRoot"),
        ranks=(0,),
        ckpt="nonreentrant",
        over={"num_hidden_layers": 2},
        roots=(
            Root("Tensor.__pow__", "operator", "sqrt_backward", "PowRoot", direction="backward", mechanism_also=SQRT),
        ),
        notes="the backward record belongs to a forward that was recomputed",
    ),
    Case(
        "mamba-sqrt-backward",
        "mamba",
        "dp",
        2,
        **part("backbone.layers.1.mixer", "RowNorm"),
        ranks=(1,),
        roots=(
            Root(
                "Torch.sqrt", "operator", "sqrt_backward", "RowNorm", rank=1, direction="backward", mechanism_also=SQRT
            ),
        ),
    ),
    Case(
        "unet-bf16-amp-where",
        "unet",
        "dp",
        2,
        **part("up.1.skip", "WhereLog"),
        dtype="bf16amp",
        ranks=(0,),
        roots=(
            Root(
                "Torch.log",
                "operator",
                "div_by_zero",
                "WhereLog",
                direction="backward",
                mechanism_also=("zero_times_inf", "log_zero"),
            ),
        ),
        benign=("-inf of the unselected branch",),
        harmless_at=(Root("Torch.log", "", "", "WhereLog", kind="birth-inf"),),
    ),
)
