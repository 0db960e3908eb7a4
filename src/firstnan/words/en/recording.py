"""English: what a guard says while a training runs."""

from __future__ import annotations

RECORDING: dict[str, str] = {
    "guard.fired.loss": "firstnan: the loss of step {step} is not finite (rank 0 has {value}). {again}",
    "guard.fired.gradient_norm": "firstnan: the gradients of step {step} are not finite (rank 0 has {value}). {again}",
    "guard.again.reproduced": "The same step, run again, is not finite again.",
    "guard.again.transient": ("The same step, run again, is finite: hardware, a race, or state that was not restored."),
    "guard.again.unfinished": "The same step was run again and raised an exception.",
    "guard.cause": "{mechanism} ({confidence}) on rank {rank}, in {op}",
    "guard.cause.line": "{mechanism} ({confidence}) on rank {rank}, in {op}, {place}",
    "guard.replay.not_reproduced": "Run again on the CPU, it does not give the NaN or Inf: the device is suspected.",
    "guard.replay.values_differ": "Run again on the CPU, it gives other numbers: the device is suspected.",
    "guard.replay.reproduced_range": "On the CPU it gives the same, and stays finite in a wider dtype: it is numerics.",
    "guard.replay.reproduced": "Run again on the CPU, it gives the same, in float64 too: it is numerics.",
    "guard.replay.agrees": "Run again on the CPU, it gives the same finite numbers.",
    "guard.replay.not_run": "It could not be run again on the CPU.",
    "guard.no_cause": "The dump of the second run shows no cause.",
    "guard.no_answer.time_limit": "The analysis was stopped at its time limit.",
    "guard.no_answer.not_started": "The analysis could not be started.",
    "guard.no_answer.no_report": "The analysis ended without a report.",
    "guard.dump": "Dump: {path}. The whole answer as a page: firstnan analyze {path} -o report.html",
    "guard.not_written": "firstnan: the dump is lost, the training goes on: {reason}",
    "guard.off.graph_capture": "firstnan: the guard is off: the step is captured into a device graph.",
    "guard.off.parameters_changed": (
        "firstnan: the guard is off: a step was not finite, and parameters were changed before it could run again. "
        "With immediate=True the guard looks at a step before anything else does."
    ),
    "guard.off.no_answer": "firstnan: the guard is off: a rank did not answer in the time of its group. {detail}",
    "guard.off.state_not_saved": "firstnan: the guard is off: the state of a step could not be saved. {detail}",
    "guard.off.failed": "firstnan: the guard is off: it failed. {detail}",
}
