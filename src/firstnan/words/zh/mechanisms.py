"""Chinese: every mechanism, its name, why it makes a non-finite value, what to check or change next."""

from __future__ import annotations

MECHANISMS: dict[str, str] = {
    "mechanism.fp16_overflow.name": "float16 溢出",
    "mechanism.fp16_overflow.why": (
        "精确结果超过了 float16 的最大有限值 65504。在较长维度上求和的运算（matmul、sum、平方、"
        "范数）即使输入大小正常也可能达到这个上限。"
    ),
    "mechanism.fp16_overflow.advice": (
        "让该算子用 float32 或 bfloat16 计算（移出 autocast），或在其之前缩小输入。检查输入在最近几个 step 是否持续"
        "变大（学习率、缺少归一化）。"
    ),
    "mechanism.fp16_overflow.advice.backward": (
        "降低 loss scale，看溢出是否消失；如果仍在，让该算子用 float32 或 bfloat16 计算（移出 autocast）。"
    ),
    "mechanism.bf16_overflow.name": "bfloat16 溢出",
    "mechanism.bf16_overflow.why": (
        "精确结果超过了 bfloat16 的最大有限值 3.39e38。它的范围与 float32 相同，这么大的值几乎不会是正常结果："
        "应查找是什么让输入变得这么大。"
    ),
    "mechanism.bf16_overflow.advice": (
        "沿输入向上游找到数值第一次跳变的位置；换 dtype 只会掩盖问题。检查学习率、权重初始化以及该层的归一化。"
    ),
    "mechanism.fp32_overflow.name": "float32 溢出",
    "mechanism.fp32_overflow.why": (
        "精确结果超过了 float32 的最大有限值 3.40e38。这么大的输入几乎必然在此之前就已出错。"
    ),
    "mechanism.fp32_overflow.advice": (
        "沿输入向上游找到数值第一次跳变的位置。检查之前几个 step 的学习率、梯度裁剪以及该层的权重。"
    ),
    "mechanism.exp_overflow.name": "exp 溢出",
    "mechanism.exp_overflow.why": (
        "指数类运算（exp、pow、sinh、cosh、手写的 softplus 等）的自变量超过了该 dtype 的上限："
        "float16 约为 11.09，bfloat16 和 float32 约为 88.7，float64 约为 709.8。"
    ),
    "mechanism.exp_overflow.advice": (
        "在 exp 之前减去最大值，或改用融合形式（softmax、log_softmax、logsumexp、softplus、expm1），"
        "或对自变量做 clamp。"
        "并查清自变量为何变大：logits 没有上界、漏乘缩放系数、缺少归一化。"
    ),
    "mechanism.cast_overflow.name": "类型转换溢出",
    "mechanism.cast_overflow.why": "一个有限值被转换到最大有限值更小的 dtype，变成了 Inf。",
    "mechanism.cast_overflow.advice": (
        "在转换前缩放或 clamp 该值，或把较宽的 dtype 保持到下一次归一化。如果该值是 mask 常数（-1e9、"
        "finfo(float32).min）：改用 finfo(x.dtype).min。"
    ),
    "mechanism.cast_overflow.advice.backward": (
        "梯度超出了目标 dtype 的范围：降低 loss scale，或让这部分反向保持较宽的 dtype 或使用 bfloat16。"
    ),
    "mechanism.fp8_scale.name": "量化 scale 异常",
    "mechanism.fp8_scale.why": (
        "低精度（fp8、int8）量化的 scale 变成了零、极小值或无穷；乘以或除以它都会超出 dtype 的范围。"
    ),
    "mechanism.fp8_scale.advice": (
        "在取倒数之前给绝对最大值（amax）设下限，检查 scale 的历史（delayed scaling、amax 历史长度），"
        "并查找是否有全零的张量块。"
    ),
    "mechanism.div_by_zero.name": "除零",
    "mechanism.div_by_zero.why": (
        "除数中含有零，或运算内部出现除零：rsqrt(0)、方差或范数为零的归一化、对零个元素求均值。x/0 得 Inf，0/0 得 NaN。"
    ),
    "mechanism.div_by_zero.advice": (
        "对除数 clamp 或加 eps（rsqrt(x + eps)），要在运算之内处理：在其后用 where() 为时已晚。"
    ),
    "mechanism.div_by_zero.advice.float16": "在 float16 中，1e-8 的 eps 就是 0：应取 1e-4 或更大。",
    "mechanism.div_by_zero.advice.all_ignored": (
        "处理没有有效目标的 batch：用 reduction='sum' 并除以 max(count, 1)，或跳过该 batch。"
    ),
    "mechanism.div_by_zero.advice.empty_mean": (
        "处理空选择（没有有效 token、没有 expert 被选中）：除以 max(count, 1)，或跳过该项。"
    ),
    "mechanism.div_by_zero.advice.single_elements": (
        "对单个元素的归约加保护：使用 correction=0（unbiased=False），或在元素个数小于 2 时跳过该项。"
    ),
    "mechanism.div_by_zero.advice.no_variance": (
        "给归一化设置大于 0 的 eps（例如 eps=1e-5；在 float16 中 1e-8 就是 0），并查清其输入为何有恒定的行。"
    ),
    "mechanism.div_by_zero.advice.one_element": (
        "检查归一化所沿的维度：只有一个元素时，无论 eps 取何值，结果都是 0 或 NaN，不含任何信号。"
    ),
    "mechanism.log_zero.name": "对零或负数取 log",
    "mechanism.log_zero.why": "0 的对数是 -Inf，负数的对数是 NaN。",
    "mechanism.log_zero.advice": (
        "对自变量设下限：torch.log(p.clamp_min(1e-7))，或用 log_softmax、logsigmoid、"
        "*_with_logits 类 loss 代替对概率取 log。logits 很大时 softmax 会得到精确的 0。"
    ),
    "mechanism.log_zero.advice.float16": "在 float16 中，1e-7 接近 0：下限用 1e-4。",
    "mechanism.domain_error.name": "自变量超出定义域",
    "mechanism.domain_error.why": (
        "该算子在这个自变量处没有定义：负数开平方、acos 或 asin 的自变量超过 1、负底数配分数指数。结果为 NaN。"
    ),
    "mechanism.domain_error.advice": (
        "把自变量限制在定义域内（acos(x.clamp(-1, 1))、sqrt(x.clamp_min(0))），并查明它为何越界："
        "低精度 dtype 的舍入、用相减得到的方差。"
    ),
    "mechanism.nan_argument.name": "标量参数为 NaN",
    "mechanism.nan_argument.why": "参数中的一个普通数值就是 NaN。它由框架之外的 Python 代码算出。",
    "mechanism.nan_argument.advice": (
        "在调用处的代码中追查这个数值的来源：对空列表求平均、从未赋值的指标、解析错误的配置项。"
    ),
    "mechanism.saved_nonfinite.name": "反向用到了已保存的异常值",
    "mechanism.saved_nonfinite.why": ("前向通过选取或 mask 丢弃了一个异常值，但 autograd 保存了它：反向用它去乘梯度。"),
    "mechanism.saved_nonfinite.advice": ("在保存该值的算子之前就替换异常值，而不是之后：对输入做 mask，而不是对输出。"),
    "mechanism.sqrt_backward.name": "导数为无穷",
    "mechanism.sqrt_backward.why": (
        "前向值是有限的，导数却不是：sqrt、norm、pow 在 0 处，acos、asin 在 1 处的斜率为无穷，而 Inf 乘以零梯度得 NaN。"
    ),
    "mechanism.sqrt_backward.advice": (
        "让自变量远离边缘：sqrt(x + eps)，在 acos、asin 之前 clamp，norm 加 eps。在运算之后用 where() 无效："
        "应在运算之前选一个安全的自变量（屏蔽输入，而不是输出）。"
    ),
    "mechanism.masked_softmax.name": "整行被 mask 的 softmax",
    "mechanism.masked_softmax.why": "某一行的所有元素都是 -Inf（最大值也是 -Inf），softmax 计算的是 0/0。",
    "mechanism.masked_softmax.advice": (
        "用有限值做 mask：scores.masked_fill(mask, torch.finfo(scores.dtype).min)，不要用 -Inf。然后找出没有任何可"
        "见 key 的 query 行（padding、滑动窗口、packed 序列、mask 形状错误）。"
    ),
    "mechanism.inf_minus_inf.name": "Inf - Inf",
    "mechanism.inf_minus_inf.why": "两个作用相反的无穷相减（或相加）得 NaN。",
    "mechanism.inf_minus_inf.advice": (
        "查找进入这里的无穷：常见的是 mask 的 -Inf 减去自身的最大值，或两个 mask 相加。使用有限的 mask 值，"
        "或处理最大值为 -Inf 的行。"
    ),
    "mechanism.zero_times_inf.name": "0 * Inf",
    "mechanism.zero_times_inf.why": "零乘以无穷得 NaN。",
    "mechanism.zero_times_inf.advice": (
        "用选择的方式做 mask，不要用乘 0：x.masked_fill(mask, 0.0) 或 torch.where(keep, x, 0.0)。0 * Inf 得 NaN。查"
        "找进入这里的无穷。"
    ),
    "mechanism.reduction_overflow.name": "跨 rank 归约溢出",
    "mechanism.reduction_overflow.why": "每个 rank 的输入都是有限的，但它们的和超过了归约所用 dtype 的最大有限值。",
    "mechanism.reduction_overflow.advice": (
        "在求和之前而不是之后除以 rank 数，或用 float32 做归约（梯度 bucket、张量并行求和）；如果是梯度，也可降低 "
        "loss scale。"
    ),
    "mechanism.comm_corruption.name": "通信数据损坏",
    "mechanism.comm_corruption.why": (
        "通信结果不可能由其输入得到：所有成员的输入都是有限的且足够小，或其他成员在同一次调用中得到了不同的结果。"
    ),
    "mechanism.comm_corruption.advice": (
        "检查是否有缓冲区在传输结束之前被复用或读取（缺少 wait() 或 stream 同步）。改用同步通信重跑；如果总在同一主"
        "机或设备上出现，则检测该硬件及其链路。"
    ),
    "mechanism.uninitialised_memory.name": "未初始化内存",
    "mechanism.uninitialised_memory.why": (
        "内存在写入之前就被读取（torch.empty、new_empty、padding 尾部、未填充的接收缓冲区），其内容是残留的任意值。"
    ),
    "mechanism.uninitialised_memory.advice": (
        "找到该缓冲区并完整写入（用 torch.zeros 代替 torch.empty，填充 padding），或只读取已写入的部分。这类问题时"
        "有时无：一次重跑正常不能说明已修复。"
    ),
    "mechanism.bad_parameter.name": "参数异常",
    "mechanism.bad_parameter.why": (
        "权重在本 step 第一次使用时就不是有限值：原因在上一个 step（梯度、优化器、参数 all-gather）或所加载的 "
        "checkpoint。"
    ),
    "mechanism.bad_parameter.advice": (
        "dump 上一个 step，直到优化器更新结束（梯度、优化器、参数 all-gather）。如果刚加载过 checkpoint：先检查文件"
        "及其转换过程中是否有 NaN 或 Inf。"
    ),
    "mechanism.bad_input.name": "输入数据异常",
    "mechanism.bad_input.why": "batch 数据到达模型时就已含有非有限值。",
    "mechanism.bad_input.advice": (
        "在数据流水线中检查该 batch：样本本身、归一化（标准差为零的除法）、解码和数据增强。在 data loader "
        "中加有限值检查可以找到具体样本。"
    ),
    "mechanism.large_value_propagation.name": "来自前面算子的异常大值",
    "mechanism.large_value_propagation.why": (
        "一个远超正常范围但仍有限的值在更早处进入，到这里才超过上限：该算子只是显现问题，并不是产生问题。"
    ),
    "mechanism.large_value_propagation.advice": (
        "查找该值进入的位置，而不是溢出处：可能是单个权重、一个损坏的元素、缩放系数或未初始化的缓冲区。"
    ),
    "mechanism.saturation.name": "数值饱和",
    "mechanism.saturation.why": "更早的某个值被截断在 dtype 的上限，而没有变成 Inf；异常值由它引起。",
    "mechanism.saturation.advice": (
        "把被截断的算子当作溢出处理。以饱和模式运行的昇腾设备请切换到 INF/NAN 模式（设备支持时设置 "
        "INF_NAN_MODE_ENABLE=1）"
        "后重新 dump：溢出会在发生处显现。"
    ),
    "mechanism.divergence.name": "训练发散",
    "mechanism.divergence.why": "数值逐步放大，直到其中之一溢出：训练已发散。",
    "mechanism.divergence.advice": (
        "从数值开始放大的那一步查起，而不是从溢出的那一步：降低学习率或延长 warm-up，做梯度裁剪，"
        "并检查所指模块附近是否缺少归一化。"
    ),
    "mechanism.device_fault_suspected.name": "疑似设备故障",
    "mechanism.device_fault_suspected.why": (
        "输入小且有限，结果却超出了算术允许的范围，而用几乎相同的输入做相同计算的其他 rank 结果是有限的。"
    ),
    "mechanism.device_fault_suspected.advice": (
        "在同一设备上重跑同一个 step，再把该 rank 换到另一个设备。如果故障跟随设备，运行厂商诊断并将其隔离；"
        "如果跟随 rank，用相同输入与 CPU 参考结果对比该算子。"
    ),
    "mechanism.transient.name": "瞬时故障",
    "mechanism.transient.why": (
        "该 step 第一次运行出现 NaN/Inf，同一个 step 重跑结果正常：比特翻转、链路或算子偶发出错、两条流之间的竞态，"
        "或者两次运行的起始状态不同。"
    ),
    "mechanism.transient.advice": (
        "确认 batch 在重跑的函数之外取得，并把所有随机数生成器和其他状态都交给 guard。然后在同一设备上多次重"
        "跑该 step，"
        "再换一台设备：只在某一台设备上复现的，就是该设备的问题。"
    ),
    "mechanism.unknown.name": "机理未知",
    "mechanism.unknown.why": "位置已知；已记录的统计量不足以说明该值为何异常。",
    "mechanism.unknown.advice": (
        "用 task 'tensor'（list 设为该算子）重新 dump，交给 'firstnan replay' 区分数值问题和设备问题；"
        "再把 risk_level 设为 ALL 采集一次，以便记录其前后的类型转换和复制。"
    ),
    "mechanism.unknown.advice.module": ("用 level mix 重新 dump，以便记录该模块内部的算子：目前不知道是其中哪一个。"),
    "mechanism.unknown.advice.module_beside_operators": (
        "查看该模块的代码：dump 中有算子，但该模块内部没有记录到产生该值的算子（risk_level、list 或 scope、"
        "记录提前结束；梯度求和本身没有记录）。"
        "用 risk_level ALL 且不设 list 重新 dump。"
    ),
    "mechanism.unknown.advice.received": (
        "对包含所有 rank 的目录运行 firstnan analyze：它会沿该值追踪到最早产生它的 rank。"
    ),
    "mechanism.unknown.advice.unmatched": (
        "用 firstnan show 查看其他 rank 上这次调用的记录：发送方的输入能说明该值来自哪里。"
    ),
}
