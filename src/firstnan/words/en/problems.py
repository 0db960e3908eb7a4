"""English: what was wrong with the input (``problem.<kind>``) and what it does to the answer (``.effect``)."""

from __future__ import annotations

PROBLEMS: dict[str, str] = {
    "problem.missing_file": "file is missing",
    "problem.missing_file.effect": (
        "Without dump.json the rank cannot be judged; without construct.json or stack.json the call chain or the code "
        "location is absent from the answer."
    ),
    "problem.unreadable": "cannot be read",
    "problem.unreadable.effect": "Nothing of it was used; a cause in it would not be seen.",
    "problem.truncated": "file is cut off",
    "problem.truncated.effect": "What stands before the cut was used; whatever came after it is not known.",
    "problem.no_records": "dump.json holds no record",
    "problem.no_records.effect": (
        "The run ended before the first flush of this rank, so it cannot be judged. MSProbe writes every 1000 records "
        "and at stop() and step(): dump fewer steps or call stop() earlier."
    ),
    "problem.no_statistics": "no Max/Min in the dump",
    "problem.no_statistics.effect": (
        "Nothing can be judged. Dump again with task 'statistics' and summary_mode 'statistics' (not md5, xor or "
        "structure)."
    ),
    "problem.settled_operands": "some operands have no Max/Min, and their records' results are finite",
    "problem.settled_operands.effect": "Nothing bad came out of them; the answer does not depend on them.",
    "problem.partly_no_statistics": "some records have no Max/Min",
    "problem.partly_no_statistics.effect": "These records are unknown, not clean; the others were judged.",
    "problem.unfinished_records": "records without output",
    "problem.saved_values": "only values saved with debugger.save were dumped",
    "problem.saved_values.effect": (
        "They are a sample: the answer is a place between two of them, and a value that was not saved is not seen. "
        "Dump with level mix to see the operators."
    ),
    "problem.inputs_only": "only inputs were dumped (data_mode)",
    "problem.inputs_only.effect": (
        "What an operator gave shows only where it is read: the answer is a place between two records. "
        "Dump with data_mode all to see the operator itself."
    ),
    "problem.unfinished_records.effect": "The call raised or the run died inside it: its result is not known.",
    "problem.bad_content": "content of an unknown form",
    "problem.bad_content.effect": (
        "This part was skipped: in dump.json a value in it would not be seen, in construct.json or stack.json a caller "
        "or a code location."
    ),
    "problem.empty_rank": "rank folder without a dump",
    "problem.empty_rank.effect": "The rank cannot be judged; a cause on it would not be seen.",
    "problem.empty_step": "step folder without ranks",
    "problem.empty_step.effect": "The step cannot be judged.",
    "problem.missing_rank": "no folder for a rank that others name as a member",
    "problem.missing_rank.effect": "A cause on this rank would show only on the ranks that received its value.",
    "problem.ignored_folder": "left out",
    "problem.ignored_folder.effect": "It does not belong to the ranks of this run and does not change the answer.",
    "problem.second_dump": "not looked at",
    "problem.second_dump.effect": "What it holds is no part of this answer.",
    "problem.duplicate_rank": "two folders claim the same rank",
    "problem.duplicate_rank.effect": (
        "The first in name order was used; if it belongs to another run, so does what is said of this rank."
    ),
    "problem.other_dump": "dump of another kind",
    "problem.other_dump.effect": "Debug and kernel dumps are not analysed; only dump.json is.",
    "problem.narrowed_float64": "float64 statistics went through float32",
    "problem.narrowed_float64.effect": "An Infinity in them may be an artefact; it was taken as unknown.",
    "problem.tool_error": "the dumping tool reported errors",
    "problem.tool_error.effect": "Records may be absent where the tool failed.",
    "problem.short_rank": "records end while other ranks go on",
    "problem.short_rank.effect": "A cause on this rank after its last record would not be seen.",
    "problem.unmatched_calls": "communication calls that do not match across ranks",
    "problem.unmatched_calls.effect": "From there on, spread through this group is not certain.",
    "problem.group_unknown": "process groups are not recorded",
    "problem.group_unknown.effect": "Calls were put together by name and number: with sub-groups this may be wrong.",
    "problem.guard_file": "guard.json cannot be understood",
    "problem.guard_file.effect": "Whether this step was finite when it ran again is not known.",
    "problem.second_run_raised": "the second run of the step raised an exception",
    "problem.second_run_raised.effect": "The records end there: what came after it was not seen.",
    "problem.second_run_unexplained": "the second run of the step was not finite again, and no record shows it",
    "problem.second_run_unexplained.effect": "The value was made by something that leaves no record.",
    "problem.worker_failed": "this rank could not be worked on",
    "problem.worker_failed.effect": (
        "Nothing of it was used; a cause on it would not be seen. If its process was killed, run again with fewer "
        "--jobs."
    ),
    "problem.not_reached": "its files could not be looked at a second time from here",
    "problem.not_reached.effect": (
        "The cause may be less certain than a run over all files would tell. On that host, scan again with --others "
        "and all part files, then merge."
    ),
    "problem.limit": "a limit of this tool was reached",
    "problem.limit.effect": "What lies beyond was not looked at.",
}
