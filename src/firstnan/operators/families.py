"""Families of operators by what they compute, under the names that all frameworks use (without prefix).

They select which arithmetic a test in :mod:`mechanism` applies; whether a value is legal or carried is the
business of the rules file.
"""

from __future__ import annotations

PRODUCTS = frozenset(
    [
        "matmul",
        "__matmul__",
        "__rmatmul__",
        "mm",
        "bmm",
        "baddbmm",
        "addmm",
        "addmv",
        "mv",
        "dot",
        "einsum",
        "linear",
        "bilinear",
        "inner",
        "outer",
        "tensordot",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "_grouped_mm",
        "grouped_matmul",
        "batch_matmul",
        "dense",
        "npu_linear",
        "npu_grouped_matmul",
        "npu_quant_matmul",
        "npu_bmmV2",
        "scaled_mm",
        "_scaled_mm",
        "scaled_dot_product_attention",
        "npu_fusion_attention",
        "npu_prompt_flash_attention",
        "multi_head_attention_forward",
        "lstm",
        "gru",
        "rnn_tanh",
        "Linear",
        "Conv1d",
        "Conv2d",
        "Conv3d",
        "Dense",
        "ColumnParallelLinear",
        "RowParallelLinear",
    ]
)
"""Sums of products of two tensors."""
SUMS = frozenset(
    [
        "sum",
        "nansum",
        "cumsum",
        "logsumexp",
        "trace",
        "add",
        "__add__",
        "__iadd__",
        "__radd__",
        "sub",
        "__sub__",
        "__isub__",
        "__rsub__",
        "subtract",
        "rsub",
        "mean",
        "index_add",
        "scatter_add",
        "lerp",
        "avg_pool2d",
    ]
)
"""Sums of elements of one tensor, or of several tensors."""
REDUCING_SUMS = frozenset(["sum", "nansum", "cumsum", "logsumexp", "trace", "mean", "avg_pool2d"])
"""Those of :data:`SUMS` that add the elements of one tensor."""
NORMS = frozenset(
    [
        "norm",
        "vector_norm",
        "matrix_norm",
        "_foreach_norm",
        "dist",
        "cdist",
        "pairwise_distance",
        "var",
        "std",
        "var_mean",
        "std_mean",
        "clip_grad_norm",
    ]
)
"""Sums of squares inside."""
SCALES = NORMS | frozenset(
    [
        "mul",
        "__mul__",
        "__rmul__",
        "__imul__",
        "multiply",
        "addcmul",
        "_foreach_mul",
        "square",
        "pow",
        "__pow__",
        "float_power",
        "mse_loss",
        "prod",
        "cumprod",
    ]
)
"""Products of elements, squares inside."""
MULTIPLICATIONS = PRODUCTS | frozenset(["mul", "__mul__", "__rmul__", "__imul__", "multiply", "addcmul"])
"""Where 0 * Inf can stand."""
DIFFERENCES = frozenset(
    [
        "sub",
        "__sub__",
        "__rsub__",
        "__isub__",
        "subtract",
        "rsub",
        "add",
        "__add__",
        "__radd__",
        "__iadd__",
        "sum",
        "mean",
        "cumsum",
        "lerp",
        "var",
        "std",
        "layer_norm",
        "baddbmm",
        "addmm",
        "group_norm",
        "rms_norm",
    ]
)
"""Where Inf - Inf can stand."""
SOFTMAXES = frozenset(
    [
        "softmax",
        "log_softmax",
        "scaled_dot_product_attention",
        "npu_fusion_attention",
        "softmin",
        "npu_scaled_masked_softmax",
        "logsumexp",
        "npu_prompt_flash_attention",
        "_softmax",
        "gumbel_softmax",
        "scaled_masked_softmax",
        "multi_head_attention_forward",
        "npu_incre_flash_attention",
        "flash_attn_func",
        "flash_attention",
        "flash_attention_score",
        "cross_entropy",
        "Softmax",
    ]
)
"""Exponentials divided by their sum."""
PLAIN_SOFTMAXES = frozenset(["softmax", "log_softmax", "_softmax", "softmin", "Softmax"])
EXPONENTIALS = frozenset(["exp", "exp2", "expm1", "sinh", "cosh", "softplus"])
POWERS = frozenset(["pow", "__pow__", "__rpow__", "float_power", "__ipow__"])
LOGS = frozenset(
    [
        "log",
        "log2",
        "log10",
        "log1p",
        "logit",
        "xlogy",
        "binary_cross_entropy",
        "lgamma",
        "digamma",
        "mvlgamma",
        "Log",
    ]
)
"""Logarithms and losses that take one of their argument."""
DIVISIONS = frozenset(
    [
        "div",
        "divide",
        "true_divide",
        "__truediv__",
        "__rtruediv__",
        "__itruediv__",
        "__floordiv__",
        "fmod",
        "remainder",
        "__mod__",
        "reciprocal",
        "rsqrt",
        "addcdiv",
        "floor_divide",
        "__rdiv__",
        "_foreach_div",
        "_foreach_addcdiv",
        "real_div",
        "RealDiv",
        "Div",
    ]
)
INVERSES = frozenset(["reciprocal", "rsqrt", "__rtruediv__", "__rdiv__"])
"""Divisions whose divisor is the first argument."""
NORMALISATIONS = frozenset(
    [
        "normalize",
        "layer_norm",
        "rms_norm",
        "group_norm",
        "batch_norm",
        "instance_norm",
        "npu_rms_norm",
        "cosine_similarity",
        "std",
        "var",
        "local_response_norm",
        "native_layer_norm",
        "npu_add_rms_norm",
        "cosine_embedding_loss",
        "corrcoef",
        "cov",
        "var_mean",
        "std_mean",
        "renorm",
        "weight_norm",
        "_weight_norm",
        "LayerNorm",
        "RMSNorm",
    ]
)
"""Divided by a spread or a length."""
MEANS = frozenset(
    [
        "mean",
        "nanmean",
        "cross_entropy",
        "nll_loss",
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "kl_div",
        "avg_pool2d",
        "binary_cross_entropy_with_logits",
        "adaptive_avg_pool2d",
        "ctc_loss",
    ]
)
"""Divided by a count."""
ROOTS = frozenset(
    [
        "sqrt",
        "norm",
        "vector_norm",
        "matrix_norm",
        "pow",
        "__pow__",
        "float_power",
        "acos",
        "asin",
        "arccos",
        "arcsin",
        "dist",
        "cdist",
        "std",
        "pairwise_distance",
        "acosh",
        "atanh",
        "normalize",
        "cosine_similarity",
        "rsqrt",
        "std_mean",
        "hypot",
        "__rpow__",
        "atan2",
        "_foreach_norm",
        "weight_norm",
        "_weight_norm",
    ]
)
"""Their derivative is infinite at the edge of the domain."""
DOMAINS = {
    "sqrt": 0.0,
    "rsqrt": 0.0,
    "acos": -1.0,
    "asin": -1.0,
    "arccos": -1.0,
    "arcsin": -1.0,
    "acosh": 1.0,
    "atanh": -1.0,
}
"""Functions that give NaN for arguments below this value."""
CASTS = frozenset(
    [
        "to",
        "half",
        "float",
        "bfloat16",
        "double",
        "type",
        "type_as",
        "cast",
        "npu_dtype_cast",
        "copy",
        "_to_copy",
        "Cast",
    ]
)
FUSED = frozenset(
    [
        "scaled_dot_product_attention",
        "npu_fusion_attention",
        "npu_prompt_flash_attention",
        "npu_incre_flash_attention",
        "multi_head_attention_forward",
        "_grouped_mm",
        "grouped_matmul",
        "npu_grouped_matmul",
        "npu_quant_matmul",
        "scaled_mm",
        "_scaled_mm",
        "lstm",
        "gru",
        "rnn_tanh",
    ]
)
"""Kernels that do more than their arguments say (padding, tails, workspace): bounds prove nothing about the device."""
NO_MASKS = NORMALISATIONS | frozenset(["linear", "conv1d", "conv2d", "conv3d", "embedding", "Linear"])
"""Operators into which no mask is ever fed."""
ABSORBERS = (
    SOFTMAXES
    | EXPONENTIALS
    | frozenset(["maximum", "max", "amax", "fmax", "logaddexp", "logaddexp2", "sigmoid", "topk", "sort", "argmax"])
)
"""Where a legal -Inf disappears."""
MASK_FREE = (
    NO_MASKS | PRODUCTS | NORMS | SCALES | DIVISIONS | LOGS | REDUCING_SUMS | frozenset(["sub", "__sub__", "__isub__"])
) - SOFTMAXES
"""Operators into which a mask comes only from a record or from a fill that is listed."""
BIAS_FIRST = frozenset(["addmm", "baddbmm", "addmv", "addbmm"])
"""Products that add their first argument."""
NO_GROWTH = frozenset(
    [
        "relu", "relu6", "leaky_relu", "gelu", "silu", "elu", "selu", "mish", "tanh", "sigmoid", "logsigmoid",
        "hardtanh", "hardsigmoid", "hardswish", "softsign", "erf", "sin", "cos", "atan", "abs", "neg", "sign",
        "softmax", "max", "min", "amax", "amin", "maximum", "minimum", "clamp", "clip", "max_pool2d", "where",
        "masked_fill", "masked_select", "gather", "index_select", "take", "__getitem__", "embedding", "cat",
        "concat", "stack", "split", "chunk", "roll", "flip", "tril", "triu", "pad", "sort", "topk", "select",
    ]
)  # fmt: skip
"""Operators whose results are no larger than their arguments (or 1): finite ones do not overflow in them. Copies and
views are told apart before (:mod:`carriers`)."""
WEIGHT_ARGUMENTS: dict[str, tuple[int, ...]] = {
    "linear": (1, 2), "addmm": (0, 2), "embedding": (1,), "embedding_bag": (1,), "layer_norm": (2, 3), "rms_norm": (2,),
    "group_norm": (2, 3), "batch_norm": (3, 4), "instance_norm": (3, 4), "bilinear": (2, 3), "prelu": (1,),
    "conv1d": (1, 2), "conv2d": (1, 2), "conv3d": (1, 2), "conv_transpose1d": (1, 2), "conv_transpose2d": (1, 2),
    "conv_transpose3d": (1, 2), "npu_rms_norm": (1,), "npu_add_rms_norm": (2,), "npu_linear": (1, 2),
}  # fmt: skip
"""Positions of weights among the arguments of common operators."""
WEIGHT_KEYWORDS = ("weight", "bias", "gamma", "beta", "embedding_weight")
"""Names of weights among the keyword arguments of common operators."""
