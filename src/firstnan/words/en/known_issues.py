"""Faults of other projects, one line each."""

from __future__ import annotations

KNOWN_ISSUES: dict[str, str] = {
    "advice.known_issue": "Possibly a known fault elsewhere: {issue:known_issue} ({versions}). See {tracker}",
    "known_issue.sdpa_masked_row": "attention over a row that is masked throughout gives NaN",
    "known_issue.sdpa_row_of_lowest": (
        "the memory-efficient attention kernel gives NaN for a row whose mask holds the lowest finite value throughout"
    ),
    "known_issue.mha_masked_row": (
        "MultiheadAttention that returns its weights takes a plain softmax over a row that is masked throughout"
    ),
    "known_issue.cdist_backward": (
        "the gradient of cdist with p below 1 is infinity times zero where two coordinates are equal"
    ),
    "known_issue.all_ignored": "the mean of a cross entropy of which every label is ignored is 0 / 0",
    "known_issue.where_trap": "the branch that torch.where did not select still sends its NaN gradient back",
    "known_issue.t5_feed_forward": "T5's feed-forward output exceeds 65504, the largest float16",
    "known_issue.longt5_feed_forward": (
        "LongT5's residual sum behind the feed-forward exceeds 65504, the largest float16"
    ),
    "known_issue.half_mask_of_lowest": (
        "in float16 the lowest finite value plus a score below -16 is -Inf: a padded row is masked throughout"
    ),
    "known_issue.two_masks_added": "two masks of the lowest finite value are added, and their sum is -Inf",
    "known_issue.deepseek_v4_mask": (
        "two masks of the lowest finite value are added in bfloat16, and their sum is -Inf"
    ),
    "known_issue.adam_eps_half": (
        "Adam's eps of 1e-8 is 0 in float16: the update of a weight without gradient is 0 / 0"
    ),
    "known_issue.te_fp8_recompute": (
        "with recomputation, the second micro-batch computes with an FP8 copy of the weights that nothing has written"
    ),
    "known_issue.te_layernorm_linear_cast": (
        "the layer norm's output is cast to FP8 instead of what was gathered from it"
    ),
    "known_issue.te_amax_roll": "the scale of an FP8 tensor changes in a step in which its module did not run",
    "known_issue.flash_attention_preprocess_race": (
        "the backward pass reads a gradient that the kernel before it still writes"
    ),
    "known_issue.torchtune_offload_race": (
        "an activation that comes back from the host is deleted while it is still read"
    ),
    "known_issue.deepspeed_zero3_stream": (
        "ZeRO-3 reduces a gradient that another stream has not finished writing, and the weights turn to NaN"
    ),
    "known_issue.mfsdp_main_grad": "the memory of the main gradient is used again before its reduce-scatter ends",
    "known_issue.deepspeed_bf16_overflow": (
        "an overflow in bfloat16 gradients is not checked for, and Adam turns it into NaN weights"
    ),
    "known_issue.deep_gemm_scale_packing": "scales that are no powers of two are packed wrongly",
}
