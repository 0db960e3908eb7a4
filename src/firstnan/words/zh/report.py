"""Chinese: verdicts, places, states, labels and titles."""

from __future__ import annotations

REPORT: dict[str, str] = {
    # The first line: where the value began, in one sentence.
    "verdict.operator": "{value:value} 最早出现在 {ranks}、step {step} 的 {op}（{direction:direction}）：{reason}",
    "verdict.communication": "{value:value} 最早产生于通信：{ranks}、step {step} 的 {op}：{reason}",
    "verdict.communication.received": "{value:value} 在 step {step} 经 {op} 传到 {ranks}：它产生于其他 rank",
    "verdict.communication.excluded": (
        "rank {sender} 的 {before}（你已用 --exclude-op 剔除）的 {value:value} 在 step {step} 经 {op} 传到 {ranks}"
    ),
    "verdict.parameter": (
        "{ranks} 上的参数在 step {step} 首次使用时就已含有 {value:value}，首次使用者为 "
        "{op}（{direction:direction}）：{reason}"
    ),
    "verdict.input_data": (
        "{value:value} 随输入数据进入 {ranks}、step {step}，首次使用者为 {op}（{direction:direction}）：{reason}"
    ),
    "verdict.undumped_operator": (
        "{value:value} 最早出现在 {ranks}、step {step}，由 dump 中没有的算子产生，在 {op} 之前：{reason}"
    ),
    "verdict.undumped_operator.memory": "{ranks}、step {step} 的 {op} 从未写入的内存中读到 {value:value}：{reason}",
    "verdict.undumped_operator.excluded": (
        "{ranks}、step {step}：{before}（你已用 --exclude-op 剔除）的 {value:value} 进入 {after}"
    ),
    "verdict.undumped_operator.between": (
        "{value:value} 最早出现在 {ranks}、step {step} 的 {before} 与 {after} 之间：{reason}"
    ),
    "verdict.before_dump": (
        "{value:value} 在 dump 开始之前就已存在于 {ranks}、step {step}，首次见于 "
        "{op}（{direction:direction}）：{reason}"
    ),
    "verdict.missing_rank": "{value:value} 来自 {ranks}、step {step}，其 dump 缺失或在根因之前就已结束",
    "verdict.missing_rank.op": (
        "{value:value} 来自 {ranks}、step {step}，其 dump 缺失或在根因之前就已结束，最后已知的记录为 {op}"
    ),
    "verdict.missing_rank.absent": (
        "{value:value} 在 step {step} 从 {ranks} 传到 {receivers:ranks}，而 {ranks} 没有 dump：看不到根因"
    ),
    "verdict.missing_rank.left_out": (
        "{value:value} 在 step {step} 从 {ranks} 传到 {receivers:ranks}，而 {ranks} 不在本次分析范围内：根因"
        "在那里或更早的地方"
    ),
    "verdict.missing_rank.cut": (
        "{value:value} 在 step {step} 从 {ranks} 传到 {receivers:ranks}，而 {ranks} 的 dump.json 在 {records} 条记"
        "录之后被截断，最后一条为 {last}：看不到根因"
    ),
    "verdict.missing_rank.unreadable": (
        "{value:value} 在 step {step} 从 {ranks} 传到 {receivers:ranks}，而 {ranks} 的 dump 无法读取（{reason}）："
        "看不到根因"
    ),
    "verdict.missing_rank.empty": (
        "{value:value} 在 step {step} 从 {ranks} 传到 {receivers:ranks}，而 {ranks} 的 dump 没有任何记录：看不到根因"
    ),
    "verdict.first_run": "step {step} 第一次运行时 {ranks} 上出现 NaN/Inf，重跑后全部正常：{reason}",
    "verdict.several": "{count} 个独立的根因：",
    "verdict.several_left_out": "NaN 或 Inf 来自 {count} 个不在本次分析范围内的 rank：",
    "verdict.and_more": "除此之外的独立根因：{count} 个。",
    "verdict.anomaly": "存在有影响的 NaN 或 Inf，但从 dump 中看不出来源。",
    "verdict.clean": "正常：{records} 条记录（step {steps}，{ranks}）中没有有影响的 NaN 或 Inf。",
    "verdict.clean_excluded": (
        "没有其他异常：除你剔除的记录外，{records} 条记录（step {steps}，{ranks}）中没有有影响的 NaN 或 Inf。"
    ),
    "verdict.clean_incomplete": (
        "可判断的部分（{records} 条记录，step {steps}，{ranks}）正常，但有一部分无法判断：见下文。"
    ),
    "verdict.unknown": "无法判断：该 dump（{records} 条记录，step {steps}，{ranks}）中没有可供判断的内容。",
    "ranks.first": "最早受影响的通信是 step {step} 的 {op}。源卡：{source}；传播卡：{propagated}。",
    "ranks.source.absent": "未记录（{ranks} 没有 dump）",
    "ranks.source.left_out": "未记录（{ranks} 不在本次分析范围内）",
    "ranks.source.cut": "未记录（{ranks} 的 dump 在该调用之前被截断）",
    "ranks.source.empty": "未记录（{ranks} 的 dump 为空）",
    "ranks.source.unreadable": "未记录（{ranks} 的 dump 无法读取）",
    "ranks.source.call": "无，该通信调用本身就是根因（所有输入均有限）",
    "ranks.source.unknown": "未记录",
    "ranks.none": "没有通信调用发送或收到有影响的 NaN 或 Inf。",
    "ranks.anomaly": "但 {ranks:ranks} 上存在异常：用 {command} 查看其来源和原因。",
    "ranks.anomaly.nowhere": "但仍存在异常：用 {command} 查看已知的情况。",
    "ranks.count": (
        "共 {total} 次通信调用：{source} 次有源卡，{propagated} 次只有传播卡（源卡未记录），"
        "{contained} 次的 NaN 或 Inf 合法或未被使用，{undecided} 次无法判定，{normal} 次在所有卡上均正常。"
    ),
    "ranks.contained": "NaN 或 Inf 未被后续记录使用的通信调用不算受影响。",
    "ranks.legend": (
        "源卡：自身输入非有限。传播卡：输入正常，结果非有限。正常卡：输入和结果都正常。无法判定：没有 dump、"
        "被截断、没有统计量，或异步结果未刷新。"
    ),
    "trace.none": "rank {rank} 上没有有影响的 NaN 或 Inf。",
    "trace.unknown": "无法判断：rank {rank} 上没有可供判断的内容。",
    "show.headline": "{ranks}、step {step} 第 {index} 条记录附近（共 {total} 条，从 0 起）",
    # Kinds of place.
    "where.operator.module": "模块内部：输入正常，结果异常；内部没有记录能说明更多",
    "where.operator.jump": "算子内部：输入正常，结果有限但异常大",
    "where.operator": "算子内部：输入正常，结果异常",
    "where.operator.blind": "据现有记录在算子内部：结果异常，输入没有统计量",
    "where.no_result": "据现有记录就在此处：其结果没有统计量，而读取它的算子输入已异常",
    "where.communication.received": "从其他 rank 收到",
    "where.communication": "通信：所有输入正常，结果异常",
    "where.parameter": "参数：在本 step 首次使用之前就已异常",
    "where.input_data": "输入数据：batch 本身异常",
    "where.undumped_operator": "两条记录之间：由 dump 中没有的算子产生",
    "where.communication.excluded": "从其他 rank 上你已剔除的记录接收",
    "where.undumped_operator.excluded": "在你剔除的记录之后：它的值没有其他来源",
    "where.first_run": "在该 step 的第一次运行中，那次运行没有记录",
    "where.before_dump": "dump 之前：从第一条记录起就已异常",
    "where.missing_rank": "在 dump 缺失或在根因之前结束的 rank 上",
    "where.missing_rank.absent": "在没有 dump 的 rank 上",
    "where.missing_rank.left_out": "在本次分析范围之外的 rank 上",
    "where.missing_rank.cut": "在 dump 于根因之前被截断的 rank 上",
    "where.missing_rank.unreadable": "在 dump 无法读取的 rank 上",
    "where.missing_rank.empty": "在 dump 没有任何记录的 rank 上",
    "where.missing_rank.advice": (
        "收集该 rank 的 dump：去掉配置中的 rank 过滤，让被终止的任务有时间写盘（结束前调用 stop() 或 step()），"
        "或减少 dump 的 step 数，然后重新运行本工具。"
    ),
    "where.missing_rank.advice.absent": (
        "同时 dump 该 rank：检查 dump 配置和文件拷贝中是否过滤了它；如果它本应产生 dump，查看其日志。然后重新运行本"
        "工具。"
    ),
    "where.missing_rank.advice.left_out": (
        "把该 rank 也纳入分析：给出整个 step 的目录，不用 --ranks，或在其中加入该 rank。"
    ),
    "where.missing_rank.advice.cut": (
        "让该 rank 写完：在任务结束或被终止之前调用 stop() 或 step()，或减少 dump 的 step 数；如果文件是拷贝来的，"
        "请核对大小。然后重新运行本工具。"
    ),
    "where.missing_rank.advice.unreadable": (
        "让该 rank 的 dump 可读（权限），或重新完整复制；如果文件已损坏，请重新 dump 该 rank。然后重新运行本工具。"
    ),
    "where.missing_rank.advice.empty": (
        "该 rank 在第一次落盘之前就被终止（每 1000 条记录以及在 stop() 和 step() 时落盘）：更早调用 stop() 或 "
        "step()，或减少 dump 的 step 数，并查看其日志。然后重新运行本工具。"
    ),
    "where.undumped_operator.advice": (
        "在最后正常的记录与第一条异常记录之间的代码中，查找类型转换、融合 kernel、自定义 autograd 函数或按索引写入。"
        "如需看到它，用 risk_level ALL 和 level mix 重新 dump：类型转换、复制和 view 也会被记录。"
    ),
    "where.undumped_operator.advice.beside_operators": (
        "在最后正常的记录与第一条异常记录之间的代码中，查找类型转换、融合 kernel、自定义 autograd 函数或按索引写入。"
        "如需看到它，用 risk_level ALL 重新 dump：类型转换、复制和 view 也会被记录。"
    ),
    "where.before_dump.advice": "更早开始 dump：上一个 step，或本 step 的开头，并包含所有模块。",
    "confidence.certain": "确定",
    "confidence.likely": "很可能",
    "confidence.possible": "可能",
    "direction.forward": "前向",
    "direction.backward": "反向",
    "value.nan": "NaN",
    "value.+inf": "+Inf",
    "value.-inf": "-Inf",
    "value.both_inf": "Inf",
    "value.non_finite": "NaN/Inf",
    "value.mixed": "NaN/Inf",
    "state.finite": "有限",
    "state.nan": "NaN",
    "state.+inf": "+Inf",
    "state.-inf": "-Inf",
    "state.both_inf": "+Inf、-Inf",
    "state.non_finite": "溢出",
    "state.unknown": "未知",
    "state.empty": "空",
    "rank_state.source": "源卡",
    "rank_state.propagated": "传播卡",
    "rank_state.normal": "正常卡",
    "rank_state.undecided": "无法判定",
    "match.matched": "调用按通信组、API 和调用序号匹配；类型和大小一致。",
    "match.by_name": ("没有记录通信组：调用按记录名匹配；如果各 rank 运行的代码不同或存在子通信组，结果会有误。"),
    "match.partial": "通信组的部分成员没有该调用（rank 缺失或文件被截断）。",
    "match.doubtful": "部分调用的次数、类型或大小在成员之间不一致：从该处起匹配存疑。",
    "symptom.loss": "loss",
    "symptom.gradient": "梯度",
    "symptom.grad_norm": "grad norm",
    "symptom.parameter": "参数",
    "symptom.activation": "激活值",
    "via.parameters": "参数（下一个 step）",
    "via.unrecorded": "没有留下记录的通信",
    "section.cause": "根因 {number}/{total}",
    "section.of_cause": "根因 {number}：{part}",
    # Titles.
    "section.where": "位置",
    "section.why": "原因",
    "section.spread": "传播路径",
    "section.symptom": "受影响的量",
    "section.collectives": "含 NaN 或 Inf 的通信调用",
    "section.collectives_step": "含 NaN 或 Inf 的通信调用，step {step}",
    "section.commands": "后续命令",
    "command.show": "查看根因前后的记录：",
    "command.turn": "查看数值变化最大的记录：",
    "command.reject": "如果这不是根因，查找下一个候选：",
    "command.dump": "生成补采所缺数据的 MSProbe config.json：",
    "command.dump_tensors": "生成采集该记录张量的 config.json，用于在 CPU 上复算（firstnan replay）：",
    "command.trace": "在源卡上追溯算子：",
    "command.analyze": "查看完整分析：",
    "line.code": "，代码 {place}",
    "section.every_call": "全部通信调用",
    "section.advice": "下一步",
    "section.unjudged": "无法判断的原因",
    "section.doubts": "可能改变结论的因素",
    "section.alternatives": "其他候选",
    "section.consequences": "由根因引起的异常记录",
    "section.contained": "未被后续结果使用的 NaN 或 Inf",
    "section.benign": "按规则判为无害",
    "section.input": "读取范围",
    "section.records": "{label} 的记录",
    "section.record": "记录 {index}",
    # Labels of fields and parts of lines.
    "label.yes": "是",
    "label.no": "否",
    "label.none": "无",
    "label.rank": "rank {ranks}",
    "label.ranks": "rank {ranks}",
    "label.rank_step": "{ranks}、step {step}",
    "label.comma": "，",
    "label.colon": "：",
    "label.where": "rank",
    "label.operator": "算子",
    "label.record_at": "  第 {index} 条记录",
    "label.record_of": "  rank {rank} 的第 {index} 条记录",
    "label.not_recorded": "没有记录",
    "label.slot": "，{slot}",
    "label.last_good": "最后正常",
    "label.first_bad": "首个异常",
    "label.suspects": "可疑算子",
    "label.same_module": "  （同一模块内，没有记录）",
    "label.first_used": "首次使用",
    "label.first_seen": "首次出现",
    "label.read_at": "读取处",
    "label.last_record": "最后记录",
    "label.reached": "传到",
    "label.reached_by": "{receivers:ranks}，经由 {op_name}",
    "label.cast_overflow": "转换为 {dtype} 时溢出",
    "advice.turn": "先看第 {index} 条记录 {op}：数值在那里变化最大，其后的可能只是结果。",
    "advice.excluded_writer": (
        "如果你剔除的记录确实无害，请把 {op} 也剔除（--exclude-op），再看下一个结论；否则它就是根因。"
    ),
    "advice.where_trap": ("在进入算子之前就让输入安全，例如 x / where(y == 0, 1, y)：在其后舍弃异常结果只能修复前向。"),
    "label.grew": "数值在第 {index} 条记录 {op} 处跳变：{before} -> {after}（{factor} 倍）",
    "label.fell": "数值在第 {index} 条记录 {op} 处变为 0：{before} -> {after}",
    "label.ruled_out": "已剔除",
    "label.kind": "来源",
    "label.module": "模块",
    "label.code": "代码",
    "label.in_function": "  函数 {function}",
    "label.called_at": "外层代码",
    "label.called_from": "调用者",
    "label.stack": "堆栈",
    "label.place_confidence": "（{confidence:confidence}）",
    "label.mechanism_confidence": "{mechanism}（{confidence:confidence}）",
    "label.run_up": "到达此处之前各记录的最大绝对值：",
    "label.in": "输入",
    "label.out": "输出",
    "label.more": "另有 {count} 项（-v 显示全部）",
    "label.through": "，{op}",
    "label.hop": "-> {via} -> rank {ranks}",
    "label.hops": "-> {via} -> rank {ranks}",
    "label.symptom_at": "rank {rank} 的第 {index} 条记录：{op}",
    "label.symptom_in_step": "step {step}、rank {rank} 的第 {index} 条记录：{op}",
    "label.by_name": "按名称",
    "label.group_unknown": "未知",
    "label.call_number": "#n 为该 API 在其通信组内的第 n 次调用（从 0 起）；记录名按 rank 各自编号。",
    "label.message": "{call}：rank {source} 发送（{sent}），rank {target} 接收（{received}）",
    "label.call_record": "{call} 在 {ranks} 上为 {op}",
    "label.began_here": "<- 由此开始",
    "label.passed_over": "按规则判为无害：{count} 个结果（mask、未写入的内存等，见下文）。",
    "label.benign_rule": "{rule}：{count} 次，例如 {example}",
    "label.benign_words": "{what}，例如 {example}（{rule}）",
    "label.path": "路径",
    "label.read": "已读取",
    "label.read_amount": "step {steps}；{ranks}；{records} 条记录，{size}",
    "label.accounts": "NaN 与 Inf",
    "label.accounts_part": "{account} {count}",
    "label.missing_ranks": "缺失 rank",
    "label.ignored": "忽略",
    "label.times": "（{count} 次）",
    "label.on_rank": "，rank {ranks}",
    "label.on_ranks": "，rank {ranks}",
    "label.such_as": "，例如 ",
    "column.slot": "参数",
    "column.dtype": "dtype",
    "column.shape": "shape",
    "column.max": "Max",
    "column.min": "Min",
    "column.state": "状态",
    "column.record": "记录",
    "column.operator": "算子",
    "column.magnitude_in": "输入",
    "column.magnitude_out": "输出",
    "column.call": "调用",
    "column.group": "通信组",
    "column.source": "源卡",
    "column.propagated": "传播卡",
    "column.normal": "正常卡",
    "column.undecided": "无法判定",
    "column.total": "总数",
    "column.bad_input": "输入异常 （源卡）",
    "column.became_bad": "结果异常 （传播卡）",
    "column.stayed_finite": "保持有限 （正常卡）",
    "column.not_recorded": "没有记录 （无法判定）",
    "column.inputs": "输入",
    "column.outputs": "输出",
    # Progress, what is not installed, and the demo.
    "progress.reading": "读取 rank",
    "progress.ranks": "读取 rank {done}",
    "progress.first": "目前最早的非有限值：rank {rank}，记录 {record}，{name}",
    "progress.done": "已读取 {ranks} 个 rank，{size}，用时 {seconds} s（{rate}/s）",
    "scan.done": "已查看 rank {ranks}，其中 {suspected} 有可疑之处；请合并（merge）所有主机的 part 文件",
    "scan.clean": "已查看 rank {ranks}，没有可疑之处；请合并（merge）所有主机的 part 文件",
    "output.affected_only": "该文件只列出受影响的通信调用：旧版本的 part 文件不含其他调用。",
    "output.written": "已写入：{file}",
    "setup.lacking": "未安装 {packages}；结论不受影响",
    "setup.stringzilla": "stringzilla（查找较慢）",
    "setup.rich": "rich（无颜色，无进度条）",
    "demo.what": "firstnan 自带的示例 dump：4 个 rank，数据并行 2，张量并行 2。",
    "demo.ran": "已运行：{command}",
    "demo.keep": "如需进一步查看：firstnan demo --to 目录",
    "markdown.footer": "由 firstnan {version} 生成",
    "next.clean": "如果日志中出现 NaN 或 Inf：dump 它出现的那个 step，包含所有 rank，然后重新运行本工具。",
    "next.incomplete": "目前还不能认为正常：补齐“可能改变结论的因素”中列出的内容，然后重新运行本工具。",
    "next.anomaly": "用 firstnan show 查看下面列出的记录，并在所有 rank 上用 risk_level ALL 重新 dump。",
    "next.no_statistics": (
        "用 task 'statistics' 和 summary_mode 'statistics' 重新 dump（不要用 md5、xor 或 structure），包含所有 rank。"
    ),
    "next.no_records": (
        "让任务完成写盘：在结束或被终止之前调用 stop() 或 step()（MSProbe 每 1000 条记录也会写盘），或减少 dump 的 "
        "step 数。"
    ),
    "next.unknown": "处理下面列出的问题，或用 task 'statistics' 在所有 rank 上重新 dump。",
    "advice.loss_scaler": (
        "首先确认这是否真的有影响：使用 loss scaler 时，float16 梯度偶尔溢出并跳过该 step 属于正常现象。查看日志中 "
        "loss scale 是否下降，或同时 dump 下一个 step：如果下一个 step 开始时的权重完全相同，就没有问题。"
    ),
    "benign.saturation": "被映射为有限值的无穷：{count} 个",
    "benign.sampling_and_clipping": "读取异常值的采样与裁剪操作：{count} 次",
    "benign.unfilled_buffer": "尚未填充的缓冲区：{count} 个",
    "benign.observers": "读取异常值的检查操作：{count} 次",
    "benign.selection": "被选取操作舍弃的异常值：{count} 个",
    "benign.mask_from_outside": "来自 dump 之外的 -Inf mask：{count} 个",
    "benign.minus_inf_constant": "由给定的 -Inf 得到的结果：{count}",
    "benign.mask_sum": "多个 mask 相加而得到 -Inf：{count}",
    "benign.inherited_minus_inf": "沿用合法 -Inf 的结果：{count} 个",
    "benign.written_minus_inf": "有意写入的 -Inf：{count} 次",
    "benign.legal_minus_inf": "填充 -Inf 的 mask（合法）：{count} 个",
    "benign.views": "view：{count} 个",
    "benign.copy_and_cast": "复制和类型转换：{count} 次",
    "benign.fill_with_constant": "填充常数：{count} 次",
    "benign.random_fill": "填充随机数：{count} 次",
    "benign.memory_initialisation": "刚分配、尚未写入的内存：{count} 个",
    "section.growth": "逐步增长（rank {rank}，各 step 的最大绝对值）",
    "column.what": "类别",
    "column.value": "数值",
    "growth.activation": "激活值",
    "growth.parameter": "权重",
    "growth.gradient": "梯度",
}
