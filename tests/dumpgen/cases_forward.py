"""Faults in the code of the model: a part computes something that cannot be computed."""

from __future__ import annotations

from edits import BERT_OUT, EXP, LLAMA_UP, VIT_OUT, part, plain_sgd
from spec import Case, Root

FORWARD: tuple[Case, ...] = (
    Case(
        "bert-exp",
        "bert",
        **part(BERT_OUT, "ExpGate"),
        roots=(
            Root(
                "Torch.exp",
                "operator",
                "exp_overflow",
                "ExpGate",
                mechanism_also=EXP,
                half=(Root("Torch.exp", "", "", "ExpGate", direction="backward"),),
            ),
        ),
        notes="exp overflows to inf, x / inf is 0: the forward is finite again, the gradient is not",
    ),
    Case(
        "llama-ckpt-nonreentrant-exp",
        "llama",
        "dp",
        2,
        **part(LLAMA_UP, "SoftPlusGate"),
        ranks=(1,),
        ckpt="nonreentrant",
        roots=(Root("Tensor.exp", "operator", "exp_overflow", "SoftPlusGate", rank=1, mechanism_also=EXP),),
    ),
    Case(
        "llama-ckpt-reentrant-norm",
        "llama",
        "single",
        1,
        **part(LLAMA_UP, "DivNorm"),
        ckpt="reentrant",
        roots=(Root("Tensor.__truediv__", "operator", "div_by_zero", "DivNorm"),),
    ),
    Case(
        "t5-decoder-masked-softmax",
        "t5",
        "dp",
        2,
        **part("decoder.block.0.layer.2.DenseReluDense", "LocalAttention"),
        ranks=(0,),
        roots=(
            Root(
                "Functional.softmax", "operator", "masked_softmax", "LocalAttention", mechanism_also=("inf_minus_inf",)
            ),
        ),
        benign=("log(0) in position buckets", "-inf mask"),
    ),
    Case(
        "t5-alibi-zero-inf",
        "t5",
        "ddp",
        2,
        **part("encoder.block.0.layer.1.DenseReluDense.wi", "GatedBias"),
        ranks=(1,),
        roots=(Root("Tensor.__mul__", "operator", "zero_times_inf", "GatedBias", rank=1),),
        benign=("log(0) in position buckets", "-inf mask"),
    ),
    Case(
        "llama-double-finfo-mask",
        "llama",
        "ddp",
        2,
        **part("model.layers.0.self_attn.o_proj", "DoubleMask"),
        ranks=(1,),
        roots=(
            Root(
                "Torch.softmax",
                "operator",
                "masked_softmax",
                "DoubleMask",
                rank=1,
                mechanism_also=("inf_minus_inf", "fp32_overflow"),
            ),
        ),
        benign=("finfo.min + finfo.min",),
    ),
    Case(
        "vit-bf16-divnorm",
        "vit",
        "ddp",
        4,
        **part(VIT_OUT, "DivNorm"),
        dtype="bf16",
        optim=plain_sgd,
        ranks=(0, 2),
        over={"num_hidden_layers": 1},
        roots=(
            Root("Tensor.__truediv__", "operator", "div_by_zero", "DivNorm"),
            Root("Tensor.__truediv__", "operator", "div_by_zero", "DivNorm", rank=2),
        ),
        notes="the same fault on two of four ranks",
    ),
)
