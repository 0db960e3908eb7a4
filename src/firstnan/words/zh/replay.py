"""Chinese: what records run again on the CPU say. Same keys and placeholders as ``en``."""

from __future__ import annotations

REPLAY: dict[str, str] = {
    "value.wrong": "错误的值",
    "mechanism.device_fault.name": "设备或算子实现故障",
    "mechanism.device_fault.why": (
        "用 dump 中的输入在 CPU 上重算，得不到 dump 中的输出：算子实现（kernel）、设备或其内存算出了别的结果。"
        "未被记录的参数，或在数值改变之后才保存的张量，也会有同样的表现。"
    ),
    "mechanism.device_fault.advice": (
        "生成复现脚本（firstnan replay PATH --repro DIR），在可疑设备和另一台设备上各运行多次。"
        "若故障跟随设备，运行厂商诊断工具并隔离该设备；若同型号设备都能复现，附上脚本反馈算子问题；若都不能复"
        "现，检查是否有未被记录的参数。"
    ),
    "why.not_reproduced": "输入相同，dump 中 {of} 个元素里有 {count} 个为 NaN 或 Inf，而 CPU 算出的是有限值",
    "why.values_differ": "输入相同，{of} 个元素中有 {count} 个与 CPU 的结果不同，超出舍入误差的范围",
    "why.replay_range": (
        "输入相同，CPU 用 {dtype} 得到同样的结果，用 float64 得到有限值：结果超出 {dtype} 的最大有限值 {limit}"
    ),
    "why.replay_arithmetic": "输入相同，CPU 得到同样的结果：这是这些输入的运算结果，不是设备故障",
    "reason.follows_from_device_fault": "由它之前 CPU 无法复现的那条记录引起",
    "section.replay": "在 CPU 上重算",
    "section.replayed": "在 CPU 上重算的记录",
    "section.collect": "补采这些记录的张量",
    "replay.not_reproduced": (
        "未复现：dump 的输出中有 {device} 个元素为 NaN 或 Inf；输入相同，CPU 得到 {cpu} 个，float64 得到 {float64} 个。"
    ),
    "replay.values_differ": "数值不一致：{of} 个元素中有 {count} 个是有限但错误的值；输入相同，舍入误差无法解释。",
    "replay.reproduced_range": (
        "已复现，换用更宽的 dtype 即可消除：输入相同，CPU 用 {dtype} 得到 {cpu} 个 NaN 或 Inf，"
        "用 float64 得到 {float64} 个。"
    ),
    "replay.reproduced": (
        "已复现：输入相同，CPU 也得到 {cpu} 个 NaN 或 Inf，用 float64 得到 {float64} 个。"
        "这是这些输入的运算结果，与设备无关。"
    ),
    "replay.place": "rank {rank}，step {step}",
    "replay.agrees": "一致：输入相同，CPU 得到 dump 中的结果。",
    "replay.not_run": "未重算：{reason:not_run}。",
    "replay.not_run_detail": "未重算：{reason:not_run}（{detail}）。",
    "replay.inside": "模块内对应的记录是 {op}。",
    "replay.doubt": (
        "未被记录的参数，或保存过晚的张量，也会有同样的表现：请在本设备和另一台设备上运行复现脚本（--repro DIR）。"
    ),
    "replay.rows": "只重算了 {of} 行中的 {looked} 行：整条记录超出内存上限。",
    "replay.elements": "{of} 个元素中有 NaN {nan} 个、+Inf {posinf} 个、-Inf {neginf} 个；第一个位于 {first}",
    "replay.wrong_elements": "{of} 个元素中有 {count} 个不一致；第一个位于 {first}",
    "replay.axis": "维度 {axis}：{size} 中的 {hit} 处：{which}",
    "replay.axis_whole": "维度 {axis}：全部 {size} 处",
    "replay.block": "恰好填满一个 {shape} 的块",
    "replay.batch": "第一个属于 batch {op} {slot}（形状 {shape}）的 {index}",
    "replay.batch_value": "第一个属于 batch {op} {slot}（形状 {shape}）的 {index}，其值为 {value}",
    "replay.example": "位于 {index}：dump {dumped}，CPU {cpu}，float64 {float64}",
    "replay.example_allowed": "位于 {index}：dump {dumped}，CPU {cpu}，float64 {float64}，允许误差 ±{allowed}",
    "replay.share": "rank {rank}：{value}",
    "replay.cut_at": "取自 {index}",
    "replay.counts": (
        "重算 {records} 条：一致 {agrees} 条，不一致 {blamed} 条，得到同样的 NaN 或 Inf {reproduced} 条。"
    ),
    "replay.left_out": "另有 {count} 条记录未重算：时间用尽（--budget）。",
    "replay.not_run_count": "{count} 条未重算：{reason:not_run}",
    "replay.collect": "dump 中没有这些记录的元素。以下 MSProbe 配置只采集这些记录，step {step}，{ranks:ranks}：",
    "label.elements": "元素",
    "label.axes": "分布",
    "label.batch": "batch",
    "label.smallest": "最小输入",
    "label.example": "示例",
    "label.shares": "各成员",
    "not_run.no_tensors": "dump 中只有输入或输出的统计量，没有元素",
    "not_run.bad_file": "张量文件缺失、损坏、不在该 rank 的目录内，或内容不符",
    "not_run.stale_input": "输入文件的内容与记录不符：它是在数值改变之后保存的",
    "not_run.argument": "调用所需的某个参数没有被记录",
    "not_run.unfinished": "该记录没有输出",
    "not_run.no_forward": "dump 中没有该反向记录对应的前向记录",
    "not_run.no_gradient": "CPU 给不出可比较的梯度",
    "not_run.no_result": "输出中没有张量",
    "not_run.other_result": "算子在这里给出的结果形式不同",
    "not_run.module": "这是模块，而 dump 中没有它内部的记录",
    "not_run.members": "dump 中缺少通信调用的某个成员或其张量",
    "not_run.asynchronous": "异步调用，dump 中的结果可能是通信之前的值",
    "not_run.reduction": "该通信调用没有可重算的求和",
    "not_run.random": "该算子使用随机数",
    "not_run.memory": "该算子给出的是未写入的内存",
    "not_run.no_operator": "这里没有这个名称的算子或参考实现",
    "not_run.raised": "该算子在 CPU 上报错",
    "not_run.too_large": "该记录超出内存上限，且不能按行截取",
    "not_run.timed_out": "超出单条记录的时间上限",
    "not_run.crashed": "执行它的进程因本地代码崩溃或被系统终止",
    "html.replay.picture": "异常元素的位置：纵向为维度 {down}，横向为维度 {across}",
    "html.replay.picture_row": "异常元素的位置：沿维度 {across}",
    "html.replay.per_cell": "每格代表 {down} × {across} 个元素",
}
