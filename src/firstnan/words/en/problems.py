"""English: what was wrong with the input (``problem.<kind>``) and what it does to the answer (``.effect``)."""

from __future__ import annotations

PROBLEMS: dict[str, str] = {
    "problem.missing_file": "file is missing",
    "problem.missing_file.effect": (
        "Without dump.json firstnan cannot judge the rank; without construct.json or stack.json the answer lacks the "
        "call chain or the code location."
    ),
    "problem.unreadable": "cannot be read",
    "problem.unreadable.effect": "firstnan uses nothing of it and cannot see a cause in it.",
    "problem.truncated": "file is cut off",
    "problem.truncated.effect": "firstnan uses what stands before the cut and does not know what comes after it.",
    "problem.no_records": "dump.json holds no record",
    "problem.no_records.effect": (
        "The run ended before the first flush of this rank, so firstnan cannot judge it. MSProbe writes every 1000 "
        "records and at stop() and step(): dump fewer steps or call stop() earlier."
    ),
    "problem.no_statistics": "no Max/Min in the dump",
    "problem.no_statistics.effect": (
        "firstnan cannot judge anything. Dump again with task 'statistics' and summary_mode 'statistics' (not md5, "
        "xor or structure)."
    ),
    "problem.open_values": "NaN or Inf that the dump does not follow to the end",
    "problem.open_values.effect": "The dump does not show whether anything used these values: they may matter.",
    "problem.ended_inside": "the run ended inside a module or call",
    "problem.ended_inside.effect": "NaN or Inf inside it at that moment counts as an anomaly.",
    "problem.ended_at_check": "the run ended right after a check that saw a NaN or Inf",
    "problem.ended_at_check.effect": "What the check saw counts as an anomaly: the run may have ended because of it.",
    "problem.settled_operands": "some inputs have no Max/Min, but the results of their records are finite",
    "problem.settled_operands.effect": "Their results are finite, so the answer does not depend on them.",
    "problem.partly_no_statistics": "some records have no Max/Min",
    "problem.partly_no_statistics.effect": "These records are unknown, not clean; firstnan judges the others.",
    "problem.unfinished_records": "records without output",
    "problem.saved_values": "only values saved with debugger.save were dumped",
    "problem.saved_values.effect": (
        "The answer is a place between two saved values; firstnan cannot see what was not saved. Dump with level mix "
        "to see the operators."
    ),
    "problem.inputs_only": "only inputs were dumped (data_mode)",
    "problem.inputs_only.effect": (
        "A result shows only where another record reads it: the answer is a place between two records. Dump with "
        "data_mode all to see the operator itself."
    ),
    "problem.unfinished_records.effect": "The call raised or the run died inside it: its result is not known.",
    "problem.bad_content": "content of an unknown form",
    "problem.bad_content.effect": (
        "firstnan skips this part: it cannot see a value there in dump.json, or a caller or code location in "
        "construct.json or stack.json."
    ),
    "problem.empty_rank": "rank folder without a dump",
    "problem.empty_rank.effect": "firstnan cannot judge the rank or see a cause on it.",
    "problem.empty_step": "step folder without ranks",
    "problem.empty_step.effect": "firstnan cannot judge the step.",
    "problem.missing_rank": "no folder for a rank that others name as a member",
    "problem.missing_rank.effect": "A cause on this rank shows only on the ranks that received its value.",
    "problem.ignored_folder": "ignored",
    "problem.ignored_folder.effect": "It does not belong to the ranks of this run and does not change the answer.",
    "problem.second_dump": "another dump, not read",
    "problem.second_dump.effect": "This answer does not cover it.",
    "problem.duplicate_rank": "two folders claim the same rank",
    "problem.duplicate_rank.effect": (
        "firstnan uses the first in name order; if it belongs to another run, so does what the answer says about "
        "this rank."
    ),
    "problem.other_dump": "dump of another kind",
    "problem.other_dump.effect": "firstnan does not analyse debug and kernel dumps, only dump.json.",
    "problem.narrowed_float64": "float64 statistics went through float32",
    "problem.narrowed_float64.effect": "An Infinity in them may be an artefact; firstnan treats it as unknown.",
    "problem.tool_error": "the dumping tool reported errors",
    "problem.tool_error.effect": "Records may be missing where the tool failed.",
    "problem.stopped_early": "not all ranks were read (--first)",
    "problem.stopped_early.effect": "The cause may be on one of the others; without --first firstnan reads them all.",
    "problem.short_rank": "records end while other ranks go on",
    "problem.short_rank.effect": "firstnan cannot see a cause on this rank after its last record.",
    "problem.unmatched_calls": "communication calls that do not match across ranks",
    "problem.unmatched_calls.effect": "From there on, the spread through this group is not certain.",
    "problem.group_unknown": "the dump does not record process groups",
    "problem.group_unknown.effect": "firstnan matches calls by name and number: with sub-groups this may be wrong.",
    "problem.guard_file": "guard.json cannot be understood",
    "problem.guard_file.effect": "Whether this step was finite when it ran again is not known.",
    "problem.second_run_raised": "the second run of the step raised an exception",
    "problem.second_run_raised.effect": "The records end there: what came after it was not seen.",
    "problem.second_run_unexplained": "the second run of the step was not finite again, and no record shows it",
    "problem.second_run_unexplained.effect": "The value was made by something that leaves no record.",
    "problem.worker_failed": "the work on this rank failed",
    "problem.worker_failed.effect": (
        "firstnan uses nothing of it and cannot see a cause on it. If its process was killed, run again with fewer "
        "--jobs."
    ),
    "problem.not_reached": "firstnan cannot read its files a second time from here",
    "problem.not_reached.effect": (
        "The cause may be less certain than a run over all files would tell. On that host, scan again with --others "
        "and all part files, then merge."
    ),
    "problem.limit": "firstnan reached one of its limits",
    "problem.limit.effect": "firstnan did not look beyond it.",
}
