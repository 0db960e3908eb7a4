"""Chinese: what was wrong with the input (``problem.<kind>``) and what it does to the answer (``.effect``)."""

from __future__ import annotations

PROBLEMS: dict[str, str] = {
    "problem.missing_file": "文件缺失",
    "problem.missing_file.effect": (
        "缺少 dump.json 则无法判断该 rank；缺少 construct.json 或 stack.json 则结论中没有调用链或代码位置。"
    ),
    "problem.unreadable": "无法读取",
    "problem.unreadable.effect": "其中内容均未使用；如果根因在其中则看不到。",
    "problem.truncated": "文件被截断",
    "problem.truncated.effect": "截断之前的内容已使用；之后的内容未知。",
    "problem.no_records": "dump.json 中没有记录",
    "problem.no_records.effect": (
        "该 rank 在第一次落盘之前就已结束，无法判断。MSProbe 每 1000 条记录以及在 stop() 和 step() 时写盘："
        "请减少 dump 的 step 数或更早调用 stop()。"
    ),
    "problem.no_statistics": "dump 中没有 Max/Min",
    "problem.no_statistics.effect": (
        "无法做任何判断。请用 task 'statistics' 和 summary_mode 'statistics' 重新 dump（不要用 md5、xor 或 "
        "structure）。"
    ),
    "problem.open_values": "去向不明的 NaN 或 Inf",
    "problem.open_values.effect": "dump 中看不出是否有记录使用了这些值：它们可能有影响。",
    "problem.ended_inside": "运行在某个模块或调用内部结束",
    "problem.ended_inside.effect": "结束时仍在其中的异常值按异常处理。",
    "problem.ended_at_check": "运行紧接在一次看到 NaN 或 Inf 的检查之后结束",
    "problem.ended_at_check.effect": "检查看到的值按异常处理：运行可能正是因此结束。",
    "problem.settled_operands": "部分输入没有 Max/Min，但所在记录的结果有限",
    "problem.settled_operands.effect": "其结果有限，结论不受影响。",
    "problem.partly_no_statistics": "部分记录没有 Max/Min",
    "problem.partly_no_statistics.effect": "这些记录状态未知，不等于正常；其余记录已判断。",
    "problem.unfinished_records": "没有输出的记录",
    "problem.saved_values": "只 dump 了用 debugger.save 保存的值",
    "problem.saved_values.effect": (
        "结论是两个已保存值之间的位置，没有保存的值看不到。用 level mix 重新 dump 可看到算子。"
    ),
    "problem.inputs_only": "只 dump 了输入（data_mode）",
    "problem.inputs_only.effect": (
        "算子的输出只能从读取它的记录看到：结论是两条记录之间的位置。用 data_mode all 重新 dump 可看到算子本身。"
    ),
    "problem.unfinished_records.effect": "调用抛出了异常，或进程在调用中退出：其结果未知。",
    "problem.bad_content": "内容格式无法识别",
    "problem.bad_content.effect": (
        "该部分已跳过：若在 dump.json 中，其中的值看不到；"
        "若在 construct.json 或 stack.json 中，调用者或代码位置看不到。"
    ),
    "problem.empty_rank": "rank 目录中没有 dump",
    "problem.empty_rank.effect": "无法判断该 rank；如果根因在该 rank 上则看不到。",
    "problem.empty_step": "step 目录中没有 rank",
    "problem.empty_step.effect": "无法判断该 step。",
    "problem.missing_rank": "其他 rank 所列的通信组成员没有目录",
    "problem.missing_rank.effect": "如果根因在该 rank 上，只能在接收其数据的 rank 上看到影响。",
    "problem.ignored_folder": "被忽略",
    "problem.ignored_folder.effect": "它不属于本次运行的 rank，不影响结论。",
    "problem.second_dump": "未分析",
    "problem.second_dump.effect": "其中的内容不在本结论之内。",
    "problem.duplicate_rank": "两个目录对应同一个 rank",
    "problem.duplicate_rank.effect": "使用了按名称排序的第一个；如果它来自另一次运行，结论也可能来自那次运行。",
    "problem.other_dump": "其他类型的 dump",
    "problem.other_dump.effect": "不分析 debug 和 kernel dump，只分析 dump.json。",
    "problem.narrowed_float64": "float64 统计量经过了 float32 转换",
    "problem.narrowed_float64.effect": "其中的 Infinity 可能是假象，按未知处理。",
    "problem.tool_error": "dump 工具自身报告了错误",
    "problem.tool_error.effect": "工具出错处可能缺少记录。",
    "problem.stopped_early": "未读取全部 rank（--first）",
    "problem.stopped_early.effect": "根因可能在其余 rank 上；去掉 --first 会读取全部 rank。",
    "problem.short_rank": "该 rank 的记录先于其他 rank 结束",
    "problem.short_rank.effect": "如果根因在该 rank 最后一条记录之后则看不到。",
    "problem.unmatched_calls": "跨 rank 无法匹配的通信调用",
    "problem.unmatched_calls.effect": "从该处起，经由此通信组的传播不确定。",
    "problem.group_unknown": "没有记录通信组",
    "problem.group_unknown.effect": "调用按名称和序号匹配：存在子通信组时可能有误。",
    "problem.guard_file": "无法解析 guard.json",
    "problem.guard_file.effect": "不知道该 step 重跑时是否正常。",
    "problem.second_run_raised": "该 step 重跑时抛出了异常",
    "problem.second_run_raised.effect": "记录到此为止，之后的内容没有看到。",
    "problem.second_run_unexplained": "该 step 重跑后仍然出现 NaN/Inf，但没有记录显示它",
    "problem.second_run_unexplained.effect": "该值来自没有留下记录的操作。",
    "problem.worker_failed": "处理该 rank 时失败",
    "problem.worker_failed.effect": (
        "该 rank 的内容均未使用；如果根因在该 rank 上则看不到。如果进程被系统终止，请用更小的 --jobs 重新运行。"
    ),
    "problem.not_reached": "从这里无法再次查看其文件",
    "problem.not_reached.effect": (
        "结论可能不如一次分析全部文件时确定。请在该主机上用 --others 加上所有 part 文件重新 scan，再 merge。"
    ),
    "problem.limit": "达到本工具的限制",
    "problem.limit.effect": "超出部分未查看。",
}
