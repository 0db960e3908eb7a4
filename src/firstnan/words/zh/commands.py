"""What the commands say besides the report, in Chinese."""

from __future__ import annotations

COMMANDS: dict[str, str] = {
    "watch.clean": "第 {step} 步：正常（{ranks} 个 rank）",
    "watch.undecided": "第 {step} 步：未发现异常，但有部分内容无法判断（{ranks} 个 rank）",
    "watch.suspected": "第 {step} 步：rank {rank} 上的 {op} 出现非有限值；等待下一步确认是否被 loss scaler 跳过",
    "watch.skipped": "第 {step} 步：loss scaler 跳过了本步更新",
    "watch.anomaly": "第 {step} 步：首个异常步，rank {rank} 上的 {op}",
    "watch.ended": "没有新的 step 写入：训练已结束",
}
