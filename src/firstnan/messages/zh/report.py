"""Chinese: verdicts, places, states, labels and titles."""

from __future__ import annotations

REPORT: dict[str, str] = {
    # The first line: where the value began, in one sentence.
    "verdict.operator": "{value:value} 最早出现在 {ranks}、step {step} 的 {op}（{direction:direction}）：{reason}",
    "verdict.communication": (
        "{value:value} 最早产生于通信：{ranks}、step {step} 的 {op}（{direction:direction}）：{reason}"
    ),
    "verdict.parameter": (
        "{ranks} 上的参数在 step {step} 首次使用时就已含有 {value:value}，首次使用者为 "
        "{op}（{direction:direction}）：{reason}"
    ),
    "verdict.input_data": (
        "{value:value} 随输入数据进入 {ranks}、step {step}，首次使用者为 {op}（{direction:direction}）：{reason}"
    ),
    "verdict.undumped_operator": (
        "{value:value} 最早出现在 {ranks}、step {step} 的一个未被 dump 的算子，首个读取者为 "
        "{op}（{direction:direction}）：{reason}"
    ),
    "verdict.before_dump": (
        "{value:value} 在 dump 开始之前就已存在于 {ranks}、step {step}，首次见于 "
        "{op}（{direction:direction}）：{reason}"
    ),
    "verdict.missing_rank": "{value:value} 来自 {ranks}、step {step}，其 dump 缺失或在根因之前就已结束",
    "verdict.missing_rank.op": (
        "{value:value} 来自 {ranks}、step {step}，其 dump 缺失或在根因之前就已结束，最后已知的记录为 {op}"
    ),
    "verdict.and_more": "另有 {count} 个独立的根因。",
    "verdict.anomaly": "存在有影响的非有限值，但无法判断其来源。",
    "verdict.clean": "正常：{ranks}、{steps}的 {records} 条记录中没有有影响的 NaN 或 Inf。",
    "verdict.clean_incomplete": (
        "可判断的部分（{ranks}、{steps}的 {records} 条记录）正常，但有一部分无法判断：见下文。"
    ),
    "verdict.unknown": "无法判断：该 dump（{ranks}、{steps}的 {records} 条记录）中没有可供判断的内容。",
    "ranks.first": "最早受影响的通信是 step {step} 的 {op}。源卡：{source}；传播卡：{propagated}。",
    "ranks.none": "没有通信调用读入或输出有影响的 NaN 或 Inf。",
    "ranks.legend": (
        "源卡：自身输入非有限。传播卡：输入正常，结果非有限。正常卡：输入和结果都正常。"
        "未定卡：没有 dump、被截断、没有统计量，或异步结果未刷新。"
    ),
    "trace.none": "rank {rank} 上没有有影响的 NaN 或 Inf。",
    "trace.unknown": "无法判断：rank {rank} 上没有可供判断的内容。",
    "show.headline": "{ranks}、step {step} 第 {index} 条记录附近（共 {total} 条，从 0 起）",
    # Kinds of place.
    "where.operator": "算子内部：输入正常，结果异常",
    "where.communication": "通信：所有输入正常，结果异常",
    "where.parameter": "参数：在本 step 首次使用之前就已损坏",
    "where.input_data": "输入数据：batch 本身异常",
    "where.undumped_operator": "两条记录之间：由 dump 中没有的操作产生",
    "where.before_dump": "dump 之前：从第一条记录起就已异常",
    "where.missing_rank": "在 dump 缺失或在根因之前结束的 rank 上",
    "where.missing_rank.advice": (
        "收集该 rank 的 dump：去掉配置中的 rank 过滤，让被终止的任务有时间写盘（结束前调用 stop() 或 step()），"
        "或减少 dump 的 step 数，然后重新运行本工具。"
    ),
    "where.undumped_operator.advice": (
        "用 risk_level ALL 和 level mix 重新 dump，以便记录类型转换、复制和 view；"
        "在写入者与读取者之间的代码中查找融合 kernel、自定义 autograd 函数或按索引写入。"
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
    "rank_state.undecided": "未定卡",
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
    # Titles.
    "section.cause": "根因 {number}/{total}",
    "section.causes": "其余根因",
    "section.where": "位置",
    "section.why": "原因",
    "section.spread": "传播路径",
    "section.symptom": "受影响的量",
    "section.collectives": "通信调用（步骤 1）",
    "section.advice": "下一步",
    "section.unjudged": "无法判断的原因",
    "section.doubts": "可能改变结论的因素",
    "section.alternatives": "其他候选",
    "section.contained": "未扩散（之后没有记录读入）",
    "section.benign": "按规则判为无害",
    "section.input": "检查范围",
    "section.records": "{label} 的记录",
    "section.record": "记录 {index}",
    # Labels of fields and parts of lines.
    "label.yes": "是",
    "label.no": "否",
    "label.none": "无",
    "label.rank": "rank {ranks}",
    "label.ranks": "rank {ranks}",
    "label.rank_step": "{ranks}、step {step}",
    "label.count_rank": "1 个 rank",
    "label.count_ranks": "{count} 个 rank",
    "label.count_step": "1 个 step ",
    "label.count_steps": "{count} 个 step ",
    "label.comma": "，",
    "label.colon": "：",
    "label.where": "rank",
    "label.operator": "算子",
    "label.record_at": "  rank {rank} 的第 {index} 条记录（从 0 起）",
    "label.kind": "类别",
    "label.module": "模块",
    "label.code": "代码",
    "label.in_function": "  函数 {function}",
    "label.called_from": "调用者",
    "label.stack": "堆栈",
    "label.mechanism_confidence": "{mechanism}（{confidence:confidence}）",
    "label.run_up": "到达此处之前各记录的最大绝对值：",
    "label.in": "输入",
    "label.out": "输出",
    "label.more": "另有 {count} 项（-v 显示全部）",
    "label.through": "，{op}",
    "label.hop": "-> {via} -> rank {ranks}",
    "label.hops": "-> {via} -> rank {ranks}",
    "label.symptom_at": "{op}  rank {rank}、step {step} 的第 {index} 条记录",
    "label.by_name": "按名称",
    "label.group_unknown": "未知",
    "label.call_record": "{call} 在 {ranks} 上为 {op}",
    "label.benign_rule": "{rule}：{count} 次，例如 {example}",
    "label.path": "路径",
    "label.read": "已读取",
    "label.read_amount": "step {steps}；rank {ranks}；{records} 条记录，{size}",
    "label.missing_ranks": "缺失 rank",
    "label.times": "（{count} 次）",
    "label.on_rank": "，rank {ranks}",
    "label.on_ranks": "，rank {ranks}",
    "label.such_as": "，例如 ",
    "column.slot": "位置",
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
    "column.undecided": "未定卡",
    "column.total": "总数",
    "column.inputs": "输入",
    "column.outputs": "输出",
    # Progress, what is not installed, and the demo.
    "progress.reading": "读取 rank",
    "progress.ranks": "读取 rank {done}",
    "progress.done": "已读取 {ranks} 个 rank，{size}，用时 {seconds} s（{rate}/s）",
    "output.written": "已写入：{file}",
    "setup.lacking": "未安装 {packages}；结论不受影响",
    "setup.jiter": "jiter（读取较慢）",
    "setup.rich": "rich（无颜色，无进度条）",
    "demo.what": "firstnan 自带的示例 dump：4 个 rank，数据并行 2，张量并行 2。",
    "demo.ran": "已运行：{command}",
    "demo.keep": "如需进一步查看：firstnan demo --to 目录",
    "markdown.footer": "由 firstnan {version} 生成",
}
