"""Chinese: what proves an answer, why others lost, what could change it. Same keys and placeholders as ``en``."""

from __future__ import annotations

EVIDENCE: dict[str, str] = {
    "evidence.inputs_finite": "所有已记录的输入都是有限值：最大绝对值为 {largest}",
    "evidence.output_bad": "{slot} 不是有限值：Max {max}，Min {min}（{dtype}）",
    "evidence.no_result": "其结果没有统计量；{op_name} 最先显示同样大小的异常值：{slot}，Max {max}，Min {min}",
    "evidence.output_clean": "仍为有限值的输出：{slots}",
    "evidence.input_bad": "{slot} 在输入时就已不是有限值：Max {max}，Min {min}",
    "evidence.legal_input": "{slot} 中的 -Inf 合法（mask）；由它得到的 NaN 或 +Inf 则不合法",
    "evidence.excluded_sender": "由 rank {rank} 通过 {before} 发出，即你用 --exclude-op 剔除的记录",
    "evidence.excluded_writer": "它的值来自 {before}，即你用 --exclude-op 剔除的记录",
    "evidence.between": "没有任何记录写出过这个值：它产生于 {before} 之后、{after} 之前",
    "evidence.twin_bad": (
        "它的前向记录 {op_name} 已经出现非有限值：其后的操作（where、masked_fill、选取）舍弃了异常元素，"
        "但梯度仍会经过它们"
    ),
    "evidence.forward_twin": "该次调用的前向记录是 {op_name}",
    "evidence.only_copies": (
        "{op_name} 只是复制输入或取其 view，而输入是有限值：该值不是它产生的，而是另一个算子写入了这块内存"
    ),
    "evidence.missing_rank": (
        "{op_name} 把该值带到了 {receivers:ranks}；它所有已记录的输入都正常，而 rank {rank} 没有这次调用的记录"
    ),
    "evidence.other_missing": "{ranks:ranks} 同样没有这次调用的记录，也可能是源头",
    "evidence.rank_absent": "没有 rank {rank} 的 dump",
    "evidence.rank_left_out": "rank {rank} 不在本次分析范围内：没有读取它的 dump",
    "evidence.rank_cut": "rank {rank} 的 dump 在 {records} 条完整记录之后被截断；最后一条是 {last}",
    "evidence.rank_unreadable": "rank {rank} 的 dump 无法读取：{reason}",
    "evidence.rank_empty": "rank {rank} 的 dump 没有任何记录：运行在首次落盘之前就被终止",
    "evidence.constant": "{slot} 是常数 {value}",
    "evidence.parameter_elsewhere": "同一参数在 {ranks:ranks} 上也已异常；它们由此算出的结果仍是有限值",
    "evidence.parameter_bad_too": "同一参数在 {ranks:ranks} 上也已异常",
    "evidence.parameter_everywhere": (
        "所有 rank 读到的该参数都已异常：可能各副本均异常，也可能只有一个分片异常、经 ZeRO-3 或 FSDP 聚合到每个 rank；"
        "dump 无法判断该分片位于哪个 rank"
    ),
    "evidence.first_effect": "随后第一个非有限值出现在 rank {rank} 的 {op_name}",
    "evidence.peers_finite": "在 {ranks:ranks} 上，同一算子在输入量级相同时结果为有限值",
    "evidence.parameter_was_fine": "step {step} 中该模块的参数仍是有限值：其后的参数更新使其出现异常",
    "evidence.parameter_from_start": "该参数在 dump 的第一个 step 就已异常：请检查 checkpoint 或初始化",
    "evidence.gradients_before": "step {step} 已出现非有限梯度（rank {rank} 的 {op_name}）",
    "evidence.hidden_operators": "construct.json 列出了 {module} 内部未被 dump 的算子：{ops}",
    "evidence.unknown_inputs": "部分输入没有统计量：{slots}",
    "why.nan_argument": "标量参数 {slot} 本身就是 NaN：它在框架之外算出",
    "why.saved_nonfinite": "前向调用 {operator} 的 {slot} 是 NaN；其结果在前向被丢弃，而反向仍用它乘以梯度",
    "why.unknown": "已记录的数值不足以说明原因",
    "why.bad_parameter": "参数 {name} 在本 step 首次使用时就已不是有限值",
    "why.bad_input": "最外层模块的输入不是有限值：输入数据有问题",
    "why.uninitialised": "{memory} 分配的内存在写入之前就被读取",
    "why.cast_between": (
        "{before} 的结果为 {value}；{dtype} 的最大有限值为 {limit}；dump 中没有的类型转换使其变为无穷"
    ),
    "why.fp16_between": (
        "float16（最大有限值 {limit}）中出现了没有任何记录产生的无穷：某个未被 dump 的 float16 算子或类型转换溢出"
    ),
    "why.masked_softmax": "{slot} 有一行全为 -Inf：softmax 计算 0 除以 0",
    "why.smoothed_mask": (
        "标签平滑 {value} 会给每个类别分配一部分目标概率，而 {slot} 对部分类别为 -Inf："
        "损失为无穷；请勿对被禁止的类别做平滑"
    ),
    "why.masked_label": (
        "{slot} 对部分类别为 -Inf，且没有整行为 -Inf：某个样本的标签落在被禁止的类别上，其损失为无穷；请核对标签与 mask"
    ),
    "why.masked_attention": "带 mask 的 attention：若某一行被全部屏蔽会得到 NaN；dump 中没有 mask 各行的信息",
    "why.inf_minus_inf": "{slot} 含无穷，而 Inf 减 Inf 得 NaN",
    "why.zero_times_inf": "{slot} 含无穷，而 0 乘 Inf 得 NaN",
    "why.cast_overflow": "输入达到 {value}；{dtype} 的最大有限值为 {limit}",
    "why.exp_overflow": "指数达到 {value}，超过 {edge} 时 {dtype} 溢出",
    "why.log_zero": "对数的自变量最小为 {value}",
    "why.div_by_zero": "除数 {slot} 含 0（Min {min}，Max {max}）",
    "why.tiny_divisor": "除数小到 {value}：商超出 {dtype} 的最大有限值 {limit}",
    "why.weight_around_zero": "{slot} 介于 {min} 与 {max} 之间：导数要除以它，其中可能有元素为 0",
    "why.zero_weight": "{slot} 含 0，而导数要除以它",
    "why.no_variance": "{slot} 中有元素全部相等的行：归一化除以 0",
    "why.one_element_rows": "{slot} 的每一行只有一个元素：无论取何值，方差都为 0",
    "why.empty_mean": "对 0 个元素求平均：0 除以 0",
    "why.single_elements": "{operator} 作用于单个元素：除以 n - 1 = 0",
    "why.all_ignored": "所有目标都是被忽略的 {value}：对 0 个目标求平均，即 0 除以 0",
    "why.sqrt_backward": "{operator} 的导数在定义域边界（{value}）为无穷",
    "why.domain_error": "{slot} 达到 {value}，超出 {operator} 的定义域",
    "why.fp8_scale": "有低精度 dtype 参与：其缩放因子为 0、过小或为无穷",
    "why.large_value": ("输入中已有 {value}，虽有限但过大；之前的记录没有显示它从何处进入"),
    "why.large_value_from": "输入中已有 {value}，虽有限但过大；它来自 {operator}（输入 {before}，输出 {after}）",
    "why.large_value_inside": (
        "给出的梯度虽有限但过大（输入 {before}，输出 {after}）；这些梯度在 {module} 中相加（无记录）后超出上限"
    ),
    "why.divergence": "{name} 自 step {since} 起放大了 {factor} 倍，每一步都超过 4 倍",
    "caveat.growing": "rank {rank} 上的数值逐步放大（自 step {since} 起，{name}），已接近 dtype 上限：请继续 dump",
    "why.saturation": "{slot} 恰好等于 {dtype} 的最大有限值 {limit}：此前已被截断",
    "why.saturated_result": "{slot} 恰好等于 {dtype} 的最大有限值 {limit}：更大的结果被硬件截断",
    "why.overflow": "输入最大为 {value}，结果可达 {bound}；{dtype} 的最大有限值为 {limit}",
    "why.overflow_unseen": "据现有记录，结果超出 {dtype}（最大有限值 {limit}）；输入没有统计量",
    "why.overflow_narrow": "结果超出 {dtype}（最大有限值 {limit}）；最大的输入为 {value}",
    "why.flagged": "设备在一个 float16 乘积中标记了溢出（最大有限值 {limit}）；dump 没有统计量",
    "why.reduction_overflow": "{members} 个成员的输入都有限，其和可达 {bound}；{dtype} 的最大有限值为 {limit}",
    "why.comm_corruption": "所有输入都有限，其和不超过 {bound}，但 {ranks:ranks} 的结果不是有限值",
    "why.comm_corruption_blind": "就已记录的内容看输入正常，但结果不正常",
    "why.impossible_result": "结果中有 {value}；各成员的输入最多只能得到 {bound}",
    "why.members_differ": "同一次调用中各成员的结果不一致；{ranks:ranks} 与其余成员不同",
    "why.transient": "该 step 第一次运行出现 NaN/Inf，同一个 step 重跑结果正常",
    "evidence.first_run_loss": "第一次运行的 loss 为 {value}。",
    "evidence.first_run_gradient_norm": "第一次运行的梯度范数为 {value}。",
    "evidence.again_run_loss": "重跑的 loss 为 {value}。",
    "evidence.again_run_gradient_norm": "重跑的梯度范数为 {value}。",
    "why.missing_rank_absent": "NaN 或 Inf 从 rank {rank} 传到 {receivers:ranks}，而 rank {rank} 没有 dump",
    "why.missing_rank_left_out": (
        "NaN 或 Inf 从 rank {rank} 传到 {receivers:ranks}，而 rank {rank} 不在本次分析范围内"
    ),
    "why.missing_rank_cut": "NaN 或 Inf 从 rank {rank} 传到 {receivers:ranks}，而 rank {rank} 的 dump 在此之前被截断",
    "why.missing_rank_unreadable": (
        "NaN 或 Inf 从 rank {rank} 传到 {receivers:ranks}，而 rank {rank} 的 dump 无法读取"
    ),
    "why.missing_rank_empty": "NaN 或 Inf 从 rank {rank} 传到 {receivers:ranks}，而 rank {rank} 的 dump 没有任何记录",
    "why.unmatched_call": "该值由一次通信带来；这次通信的对端未能匹配",
    "why.ruled_out_sender": "该值来自其他 rank 上你已剔除的记录",
    "why.received": "该值由通信传入；没有查看发送它的 rank",
    "why.device_fault": (
        "输入最大为 {value}，在 {dtype} 下不可能得到非有限结果，而同一算子在 {ranks:ranks} 上输入量级相同时结果有限"
    ),
    "reason.contained": "已丢弃：{closer} 使用了它的值，结果为有限值",
    "reason.dropped_here": "在此丢弃：该记录使用了这个值，结果为有限值",
    "reason.unread": "之后没有记录使用它的值",
    "reason.impossible_result": "其结果含有 {value}，超出其输入所允许的范围；但这样大小的值不会产生出错的结果",
    "reason.receive_buffer": "接收缓冲区在收到消息之前的旧数据，会被该调用覆盖",
    "reason.fresh_memory": "刚分配、尚未写入的内存",
    "reason.guess": "{op_name} 的值到达此处只是推测：异常也可能始于此处",
    "reason.trial": "像是在未初始化内存上的试运行：同样的代码随后在其他数据上再次运行",
    "reason.blind": "其结果没有记录，异常值可能来自此处",
    "reason.swallowed": "读入异常值而结果有限，根因的输入由此而来",
    "reason.reads_blind": "最先读到该值：也可能是在它之前由未采集的算子产生",
    "reason.later": "由根因引起：使用了根因的值",
    "reason.earlier_dropped": "它的值没有到达 loss、梯度或其他 rank",
    "reason.parameter_gradient": "参数梯度：该记录在文件中的位置不代表其计算时间",
    "reason.excluded": "你已剔除",
    "story.several_dumps": (
        "该路径下不止一份 dump。本结论只针对含 {used} 的那一份；"
        "另有 {count} 份未分析（例如 {names}），请分别以各自的路径分析。"
    ),
    "story.loss": "loss 不是有限值：前向已异常，所有梯度随之异常。",
    "story.forward": "问题始于前向，梯度随之异常。",
    "story.gradient": "loss 有限而梯度不是：问题始于反向。",
    "story.gradient_alone": "梯度非有限，而之前没有非有限值：异常始于反向。",
    "story.gradient_partly_seen": (
        "{ranks:ranks} 的 loss 有限而梯度不是；{absent:ranks} 的 loss 没有看到，因此无法判断始于前向还是反向。"
    ),
    "story.reduction": "进入梯度归约的值有限，而归约结果不是：问题始于此处。",
    "story.after_backward": "已记录的激活梯度都有限：问题始于反向之后，或始于没有单独记录的权重梯度。",
    "story.grad_norm": "梯度有限，而其范数不是：范数自身溢出，梯度裁剪用到的是错误的数。",
    "story.parameter": "参数不是有限值。",
    "story.earlier_steps_clean": "step {steps} 正常；第一个异常的 step 是 {step}。",
    "story.skipped": "step {steps}：梯度溢出，loss scaler 跳过了更新（下一 step 的初始权重完全相同）。不计为损坏。",
    "caveat.missing_ranks": "没有 {ranks:ranks} 的 dump：如果根因在那里则看不到",
    "caveat.unreadable_ranks": "{ranks:ranks} 的 dump 为空或不可读：如果根因在那里则看不到",
    "caveat.cut_ranks": "{ranks:ranks} 的 dump 被截断：之后的内容看不到",
    "caveat.no_statistics": (
        "{ranks:ranks}：没有统计量的记录未作判断；请用 task statistics、summary_mode statistics 重新 dump"
    ),
    "caveat.groups_unknown": "dump 没有记录通信组：通信按名称匹配，相当于假定所有 rank 运行相同的代码",
    "caveat.unmatched_calls": "{count} 次通信未能跨 rank 匹配：它们传递的值没有被追踪",
    "caveat.skip_unknown": "如果使用了 loss scaler，本 step 可能已被跳过：请同时 dump 下一个 step 以确认",
    "caveat.skip_gap": "如果使用了 loss scaler，本 step 可能已被跳过：下一份 dump 不是紧接着的 step，无法判断",
    "caveat.skip_thin": "如果使用了 loss scaler，本 step 可能已被跳过：下一个 step 的 dump 中权重太少，无法判断",
    "caveat.skip_changed": "下一个 step 开始时权重已变化：loss scaler 没有跳过更新",
    "caveat.excluded": "已用 --exclude-op 剔除：{names}",
    "caveat.own_rules": "使用了 --rules 文件中的规则和算子：{names}",
    "caveat.excluded_nowhere": "--exclude-op {names}：没有这样的记录，因此没有剔除任何内容",
    "caveat.listed_calls": "共有 {count} 次含 NaN 或 Inf 的通信，列出了 {shown} 次",
    "caveat.listed_causes": "共有 {count} 个独立的根因，列出了 {shown} 个",
    "caveat.listed_contained": "共有 {count} 个未扩散的值，列出了 {shown} 个",
    "caveat.ranks_left_out": "只读取了 {ranks:ranks}：其余 rank 的内容未知",
}
