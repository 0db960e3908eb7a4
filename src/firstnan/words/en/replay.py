"""English: what running records again on the CPU says."""

from __future__ import annotations

REPLAY: dict[str, str] = {
    "value.wrong": "A wrong value",
    "mechanism.device_fault.name": "device fault",
    "mechanism.device_fault.why": (
        "The CPU does not get the recorded result from the recorded inputs: a kernel, the device or its memory "
        "computed something else. An argument that is not recorded, or a tensor that was saved after it had changed, "
        "can look the same."
    ),
    "mechanism.device_fault.advice": (
        "Write the repro (firstnan replay PATH --repro DIR) and run it many times on the suspect device and on another "
        "one. If the fault stays with the device, run the vendor's diagnosis and take it out; if every device of the "
        "kind shows it, report the kernel with the repro; if no run shows it, look for an argument that is not "
        "recorded."
    ),
    "why.not_reproduced": (
        "from the recorded inputs the CPU gets finite numbers where {count} of {of} elements are NaN or Inf"
    ),
    "why.values_differ": (
        "from the recorded inputs the CPU gets other numbers in {count} of {of} elements, beyond what rounding allows"
    ),
    "why.replay_range": (
        "the CPU gets the same from the same inputs in {dtype}, and finite numbers in float64: the result is beyond "
        "{limit}, the largest finite {dtype}"
    ),
    "why.replay_arithmetic": "the CPU gets the same from the same inputs: it is the arithmetic, not the device",
    "reason.follows_from_device_fault": "follows from the record before it that the CPU does not reproduce",
    "section.replay": "Run again on the CPU",
    "section.replayed": "Records run again on the CPU",
    "section.collect": "Dump these records with their tensors",
    "replay.not_reproduced": (
        "Not reproduced: of the recorded result {device} elements are NaN or Inf; from the same inputs the CPU gets "
        "{cpu}, and {float64} in float64."
    ),
    "replay.values_differ": (
        "Values differ: {count} of {of} elements are finite and wrong: rounding does not explain them."
    ),
    "replay.reproduced_range": (
        "Reproduced, and finite in a wider dtype: from the same inputs the CPU gets {cpu} NaN or Inf in {dtype}, and "
        "{float64} in float64."
    ),
    "replay.reproduced": (
        "Reproduced: from the same inputs the CPU gets {cpu} NaN or Inf too, and {float64} in float64. It is the "
        "arithmetic of these inputs, not the device."
    ),
    "replay.place": "rank {rank}, step {step}",
    "replay.agrees": "Agrees: from the same inputs the CPU gets the recorded result.",
    "replay.not_run": "Not run again: {reason:not_run}.",
    "replay.not_run_detail": "Not run again: {reason:not_run} ({detail}).",
    "replay.inside": "In the module it is {op}.",
    "replay.doubt": (
        "An argument that is not recorded, or a tensor that was saved late, can look the same: run the repro "
        "(--repro DIR) on this device and on another."
    ),
    "replay.rows": "Only {looked} of {of} rows were run: the whole record exceeds the memory limit.",
    "replay.elements": "{nan} NaN, {posinf} +Inf, {neginf} -Inf of {of} elements; first at {first}",
    "replay.wrong_elements": "{count} of {of} elements differ; first at {first}",
    "replay.axis": "axis {axis}: {hit} of {size}: {which}",
    "replay.axis_whole": "axis {axis}: all {size}",
    "replay.block": "they fill a block of {shape}",
    "replay.batch": "the first belongs to {index} of the batch {op} {slot}, of shape {shape}",
    "replay.batch_value": (
        "the first belongs to {index} of the batch {op} {slot}, of shape {shape}, which holds {value}"
    ),
    "replay.example": "at {index}: recorded {dumped}, CPU {cpu}, float64 {float64}",
    "replay.example_allowed": "at {index}: recorded {dumped}, CPU {cpu}, float64 {float64}, allowed ±{allowed}",
    "replay.share": "rank {rank}: {value}",
    "replay.cut_at": "cut out at {index}",
    "replay.counts": "Run: {records}. Agree: {agrees}. Differ: {blamed}. Give the same NaN or Inf: {reproduced}.",
    "replay.left_out": "{count} more records were not run: the time was up (--budget).",
    "replay.not_run_count": "{count} not run: {reason:not_run}",
    "replay.collect": (
        "The dump holds no elements of these records. This configuration of MSProbe dumps them and nothing else, "
        "step {step}, {ranks:ranks}:"
    ),
    "label.elements": "elements",
    "label.axes": "where",
    "label.batch": "batch",
    "label.smallest": "smallest",
    "label.example": "example",
    "label.shares": "members",
    "not_run.no_tensors": "the dump holds statistics and no elements of an argument or of the result",
    "not_run.bad_file": "a tensor's file is absent, damaged, outside of the rank's folder, or holds something else",
    "not_run.stale_input": "an input's file does not hold what the record says of it: it was saved after a change",
    "not_run.argument": "an argument that the call needs is not recorded",
    "not_run.unfinished": "the record has no result",
    "not_run.no_forward": "the forward record of this backward record is not in the dump",
    "not_run.no_gradient": "the CPU gives no gradient that can be compared",
    "not_run.no_result": "the result holds no tensor",
    "not_run.other_result": "the operator gives a result of another form here",
    "not_run.module": "a module, and no record inside it is in the dump",
    "not_run.members": "a member of the communication call, or its tensors, are not in the dump",
    "not_run.asynchronous": "an asynchronous call, whose recorded result may be from before the communication",
    "not_run.reduction": "no sum to do again for this communication call",
    "not_run.random": "the operator draws random numbers",
    "not_run.memory": "the operator returns uninitialised memory",
    "not_run.no_operator": "there is no operator or reference of this name here",
    "not_run.raised": "the operator raises an error on the CPU",
    "not_run.too_large": "the record exceeds the memory limit and cannot be cut to rows",
    "not_run.timed_out": "the run took longer than the time limit of one record",
    "not_run.crashed": "the process that ran it was ended by a crash of native code or by the system",
    "html.replay.picture": "Where the bad elements are: axis {down} down, axis {across} across",
    "html.replay.picture_row": "Where the bad elements are: along axis {across}",
    "html.replay.per_cell": "one cell stands for {down} × {across} elements",
}
