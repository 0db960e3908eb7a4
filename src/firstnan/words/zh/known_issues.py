"""Faults of other projects, in Chinese."""

from __future__ import annotations

KNOWN_ISSUES: dict[str, str] = {
    "advice.known_issue": "可能是已知的上游问题：{issue:known_issue}（{versions}）。参见 {tracker}",
    "known_issue.sdpa_masked_row": "整行被屏蔽的 attention 结果为 NaN",
    "known_issue.sdpa_row_of_lowest": "mask 整行为最小有限值时，memory-efficient attention 算子的结果为 NaN",
    "known_issue.mha_masked_row": "需要返回权重的 MultiheadAttention 对整行被屏蔽的 score 直接做 softmax",
    "known_issue.cdist_backward": "p 小于 1 的 cdist 在两坐标相等处的梯度为无穷乘零",
    "known_issue.all_ignored": "标签全部被忽略时，cross entropy 的均值为 0 / 0",
    "known_issue.where_trap": "torch.where 未选中的分支仍会回传 NaN 梯度",
    "known_issue.t5_feed_forward": "T5 前馈层输出超过 float16 的最大值 65504",
    "known_issue.longt5_feed_forward": "LongT5 前馈层之后的残差和超过 float16 的最大值 65504",
    "known_issue.half_mask_of_lowest": "float16 下最小有限值加上小于 -16 的 score 得到 -Inf：填充行被整行屏蔽",
    "known_issue.two_masks_added": "两个以最小有限值填充的 mask 相加，得到 -Inf",
    "known_issue.deepseek_v4_mask": "两个以最小有限值填充的 mask 在 bfloat16 下相加，得到 -Inf",
    "known_issue.adam_eps_half": "Adam 的 eps=1e-8 在 float16 下为 0：无梯度权重的更新为 0 / 0",
    "known_issue.te_fp8_recompute": "开启重计算时，第二个 micro-batch 使用了从未写入的 FP8 权重缓存",
    "known_issue.te_layernorm_linear_cast": "转换为 FP8 的是 layer norm 的输出，而不是 all-gather 之后的结果",
    "known_issue.te_amax_roll": "模块未执行的 step 中，FP8 张量的 scale 仍被更新",
    "known_issue.flash_attention_preprocess_race": "反向读取了前一个算子尚未写完的梯度",
    "known_issue.torchtune_offload_race": "从主机取回的激活值在仍被读取时被释放",
    "known_issue.deepspeed_zero3_stream": "ZeRO-3 对另一条流尚未写完的梯度做了规约，权重随后变为 NaN",
    "known_issue.mfsdp_main_grad": "主梯度的显存在 reduce-scatter 完成之前被复用",
    "known_issue.deepspeed_bf16_overflow": "bfloat16 梯度溢出未被检查，Adam 将其变为 NaN 权重",
    "known_issue.deep_gemm_scale_packing": "不是 2 的幂的 scale 被错误打包",
}
