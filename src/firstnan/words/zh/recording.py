"""Chinese: what a guard says while a training runs."""

from __future__ import annotations

RECORDING: dict[str, str] = {
    "guard.fired.loss": "firstnan：step {step} 的 loss 出现 NaN/Inf（rank 0 上为 {value}）。{again}",
    "guard.fired.gradient_norm": "firstnan：step {step} 的梯度出现 NaN/Inf（rank 0 上为 {value}）。{again}",
    "guard.again.reproduced": "同一个 step 重跑一次，仍然出现 NaN/Inf。",
    "guard.again.transient": "同一个 step 重跑一次，结果正常：可能是硬件、竞态，或有状态没有恢复。",
    "guard.again.unfinished": "同一个 step 重跑时抛出了异常。",
    "guard.cause": "{mechanism}（{confidence}），rank {rank}，{op}",
    "guard.cause.line": "{mechanism}（{confidence}），rank {rank}，{op}，{place}",
    "guard.replay.not_reproduced": "在 CPU 上重算该算子，没有出现 NaN/Inf：怀疑设备。",
    "guard.replay.values_differ": "在 CPU 上重算该算子，得到不同的数值：怀疑设备。",
    "guard.replay.reproduced_range": "在 CPU 上重算该算子，结果相同，换更宽的 dtype 即可消除：数值问题。",
    "guard.replay.reproduced": "在 CPU 上重算该算子，结果相同，float64 也一样：数值问题。",
    "guard.replay.agrees": "在 CPU 上重算该算子，得到相同的有限数值。",
    "guard.replay.not_run": "无法在 CPU 上重算该算子。",
    "guard.no_cause": "第二次运行的 dump 中没有发现原因。",
    "guard.no_answer.time_limit": "分析超过时间上限，已停止。",
    "guard.no_answer.not_started": "无法启动分析进程。",
    "guard.no_answer.no_report": "分析结束，但没有产生报告。",
    "guard.dump": "dump：{path}。查看完整的结果页面：firstnan analyze {path} -o report.html",
    "guard.not_written": "firstnan：dump 没有写成，训练继续：{reason}",
    "guard.off.graph_capture": "firstnan：guard 已关闭：该 step 正在被捕获为设备图（graph capture）。",
    "guard.off.parameters_changed": (
        "firstnan：guard 已关闭：某个 step 出现 NaN/Inf，但在重跑之前参数已被修改。"
        "设置 immediate=True，guard 会在其他操作之前先检查该 step。"
    ),
    "guard.off.no_answer": "firstnan：guard 已关闭：有 rank 在进程组的超时时间内没有响应。{detail}",
    "guard.off.state_not_saved": "firstnan：guard 已关闭：无法保存 step 的状态。{detail}",
    "guard.off.failed": "firstnan：guard 已关闭：guard 自身出错。{detail}",
}
