"""What the commands say besides the report: watching a run, comparing two dumps."""

from __future__ import annotations

COMMANDS: dict[str, str] = {
    "watch.clean": "step {step}: clean ({ranks} ranks)",
    "watch.undecided": "step {step}: nothing found, but not all of it could be judged ({ranks} ranks)",
    "watch.suspected": "step {step}: {op} on rank {rank} is not finite; the next step tells whether it was skipped",
    "watch.skipped": "step {step}: the loss scaler skipped its update",
    "watch.anomaly": "step {step}: first bad step, {op} on rank {rank}",
    "watch.ended": "no new step came: the run has ended",
    "compare.began": "The runs first differ on rank {rank}, step {step}, in {op}: same inputs, another result",
    "compare.taken": "The runs first differ on rank {rank}, step {step}, in {op}: its inputs already differ",
    "compare.records": "The runs hold different records; the {records} that belong together agree",
    "compare.same": "No difference in {records} records",
    "compare.incomplete": "No difference in {records} records, but not everything could be compared",
    "compare.numbers": (
        "{slot}: {statistic} is {a} in A, {b} in B: they differ by {difference}, and up to {allowed} does not count"
    ),
    "compare.state": "{slot}: finite in one run only (Max {a} in A, {b} in B)",
    "compare.shape": "{slot}: the shapes differ",
    "compare.dtype": "{slot}: the dtypes differ",
    "compare.argument": "the argument {slot} is {a} in A, {b} in B",
    "compare.place": "record {a} of A, record {b} of B",
    "compare.section.ranks": "By rank",
    "compare.column.rank": "rank",
    "compare.column.step": "step",
    "compare.column.matched": "compared",
    "compare.column.only_a": "only in A",
    "compare.column.only_b": "only in B",
    "compare.column.differing": "differ",
    "compare.column.first": "first difference",
    "compare.none": "none",
    "compare.more": "and {count} ranks more (--verbose lists them)",
    "compare.names_a": "only in A: {names}",
    "compare.names_b": "only in B: {names}",
    "compare.section.basis": "What counts as no difference",
    "compare.noise": "up to 4 times the difference between A and {path}, at this record or before it",
    "compare.tolerances": "relative to the largest value: {listed}",
    "compare.section.gaps": "What was not compared",
    "compare.ranks_a": "ranks only in A: {listed}",
    "compare.ranks_b": "ranks only in B: {listed}",
}
