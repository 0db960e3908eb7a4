"""What the commands say besides the report: watching a run, comparing two dumps."""

from __future__ import annotations

COMMANDS: dict[str, str] = {
    "watch.clean": "step {step}: clean ({ranks} ranks)",
    "watch.undecided": "step {step}: nothing found, but not all of it could be judged ({ranks} ranks)",
    "watch.suspected": "step {step}: {op} on rank {rank} is not finite; the next step tells whether it was skipped",
    "watch.skipped": "step {step}: its update was skipped by the loss scaler",
    "watch.anomaly": "step {step}: first bad step, {op} on rank {rank}",
    "watch.ended": "no new step came: the run has ended",
}
