"""English: verdicts, places, states, labels and titles."""

from __future__ import annotations

REPORT: dict[str, str] = {
    # The first line: where the value began, in one sentence.
    "verdict.operator": "{value:value} began on {ranks}, step {step}, in {op} ({direction:direction}): {reason}",
    "verdict.communication": (
        "{value:value} began in communication, {ranks}, step {step}, in {op} ({direction:direction}): {reason}"
    ),
    "verdict.parameter": (
        "{value:value} was already in a parameter on {ranks} when step {step} first used it, in {op} "
        "({direction:direction}): {reason}"
    ),
    "verdict.input_data": (
        "{value:value} came in with the data on {ranks}, step {step}, first used in {op} ({direction:direction}): "
        "{reason}"
    ),
    "verdict.undumped_operator": (
        "{value:value} began on {ranks}, step {step}, in an operator that is not in the dump, first read by {op} "
        "({direction:direction}): {reason}"
    ),
    "verdict.before_dump": (
        "{value:value} was there before the dump began on {ranks}, step {step}, first seen in {op} "
        "({direction:direction}): {reason}"
    ),
    "verdict.missing_rank": (
        "{value:value} came from {ranks}, step {step}, whose dump is absent or ends before the cause"
    ),
    "verdict.missing_rank.op": (
        "{value:value} came from {ranks}, step {step}, whose dump is absent or ends before the cause; its last "
        "known record is {op}"
    ),
    "verdict.and_more": "And {count} more independent of it.",
    "verdict.anomaly": "There are non-finite values that matter; where they began could not be told.",
    "verdict.clean": "Clean: no NaN or Inf that matters in {records} records of {ranks}, {steps}.",
    "verdict.clean_incomplete": (
        "Clean as far as it could be judged ({records} records of {ranks}, {steps}), but a part could not be judged: "
        "see below."
    ),
    "verdict.unknown": "Undecided: nothing in this dump could be judged ({records} records of {ranks}, {steps}).",
    "ranks.first": (
        "The first affected communication is {op} in step {step}. Source: {source}. Propagated: {propagated}."
    ),
    "ranks.none": "No communication call took in or gave out a NaN or Inf that matters.",
    "ranks.legend": (
        "source: its own input is not finite. propagated: input clean, result not finite. normal: both clean. "
        "undecided: no dump, cut, no statistics, or an asynchronous result that was not refreshed."
    ),
    "trace.none": "No NaN or Inf that matters on rank {rank}.",
    "trace.unknown": "Undecided: nothing on rank {rank} could be judged.",
    "show.headline": "Around record {index} of {ranks}, step {step} ({total} records, counted from 0)",
    # Kinds of place.
    "where.operator": "in the operator: clean inputs, bad result",
    "where.communication": "in communication: every input is clean, the result is not",
    "where.parameter": "in a parameter: bad before it was first used in this step",
    "where.input_data": "in the input data: the batch was bad",
    "where.undumped_operator": "between two records: made by something the dump does not hold",
    "where.before_dump": "before the dump: bad from the first record on",
    "where.missing_rank": "on a rank whose dump is absent or ends before the cause",
    "where.missing_rank.advice": (
        "Collect the dump of that rank: leave the rank filter out of the configuration, give a killed job time to "
        "write (stop() or step() before the end), or dump fewer steps. Then run this again."
    ),
    "where.undumped_operator.advice": (
        "Dump again with risk_level ALL and level mix, so that casts, copies and views are recorded; look in the code "
        "between the writer and the reader for a fused kernel, a custom autograd function or an indexed write."
    ),
    "where.before_dump.advice": (
        "Start the dump earlier: the step before this one, or the beginning of this step, with all modules in scope."
    ),
    "confidence.certain": "certain",
    "confidence.likely": "likely",
    "confidence.possible": "possible",
    "direction.forward": "forward",
    "direction.backward": "backward",
    "value.nan": "NaN",
    "value.+inf": "+Inf",
    "value.-inf": "-Inf",
    "value.both_inf": "Inf",
    "value.non_finite": "NaN/Inf",
    "value.mixed": "NaN/Inf",
    "state.finite": "finite",
    "state.nan": "NaN",
    "state.+inf": "+Inf",
    "state.-inf": "-Inf",
    "state.both_inf": "+Inf, -Inf",
    "state.non_finite": "overflow",
    "state.unknown": "unknown",
    "state.empty": "empty",
    "rank_state.source": "source",
    "rank_state.propagated": "propagated",
    "rank_state.normal": "normal",
    "rank_state.undecided": "undecided",
    "match.matched": "Calls were matched by group, API and number of the call; types and sizes agree.",
    "match.by_name": (
        "Process groups are not recorded: calls were matched by record name, which is wrong where ranks run different "
        "code or there are sub-groups."
    ),
    "match.partial": "Some members of a group have no such call (absent rank or cut file).",
    "match.doubtful": (
        "Counts, types or sizes of some calls differ between the members: from there on the match is doubtful."
    ),
    "symptom.loss": "loss",
    "symptom.gradient": "gradient",
    "symptom.grad_norm": "grad norm",
    "symptom.parameter": "parameter",
    "symptom.activation": "activation",
    "via.parameters": "parameters, next step",
    "via.unrecorded": "communication that leaves no record",
    # Titles.
    "section.cause": "Cause {number} of {total}",
    "section.causes": "More causes",
    "section.where": "Where",
    "section.why": "Why",
    "section.spread": "How it spread",
    "section.symptom": "What is hit",
    "section.collectives": "Communication calls (step 1)",
    "section.advice": "What to do next",
    "section.unjudged": "Why nothing could be judged",
    "section.doubts": "What could change this answer",
    "section.alternatives": "Other candidates",
    "section.contained": "Contained (no later record takes it in)",
    "section.benign": "Left out as harmless, by rule",
    "section.input": "What was looked at",
    "section.records": "Records of {label}",
    "section.record": "Record {index}",
    # Labels of fields and parts of lines.
    "label.yes": "yes",
    "label.no": "no",
    "label.none": "none",
    "label.rank": "rank {ranks}",
    "label.ranks": "ranks {ranks}",
    "label.rank_step": "{ranks}, step {step}",
    "label.count_rank": "1 rank",
    "label.count_ranks": "{count} ranks",
    "label.count_step": "1 step",
    "label.count_steps": "{count} steps",
    "label.comma": ", ",
    "label.colon": ": ",
    "label.where": "rank",
    "label.operator": "operator",
    "label.record_at": "  record {index} of rank {rank}, counted from 0",
    "label.kind": "place",
    "label.module": "module",
    "label.code": "code",
    "label.in_function": "  in {function}",
    "label.called_from": "called from",
    "label.stack": "stack",
    "label.mechanism_confidence": "{mechanism} ({confidence:confidence})",
    "label.run_up": "Largest absolute values on the way there:",
    "label.in": "in",
    "label.out": "out",
    "label.more": "and {count} more (-v shows all)",
    "label.through": ", {op}",
    "label.hop": "-> {via} -> rank {ranks}",
    "label.hops": "-> {via} -> ranks {ranks}",
    "label.symptom_at": "{op}  record {index} of rank {rank}, step {step}",
    "label.by_name": "by name",
    "label.group_unknown": "not known",
    "label.call_record": "{call} is {op} on {ranks}",
    "label.benign_rule": "{rule}: {count}, such as {example}",
    "label.path": "path",
    "label.read": "read",
    "label.read_amount": "step {steps}; rank {ranks}; {records} records, {size}",
    "label.missing_ranks": "absent ranks",
    "label.times": " ({count} times)",
    "label.on_rank": ", rank {ranks}",
    "label.on_ranks": ", ranks {ranks}",
    "label.such_as": ", such as ",
    "column.slot": "slot",
    "column.dtype": "dtype",
    "column.shape": "shape",
    "column.max": "Max",
    "column.min": "Min",
    "column.state": "state",
    "column.record": "record",
    "column.operator": "operator",
    "column.magnitude_in": "in",
    "column.magnitude_out": "out",
    "column.call": "call",
    "column.group": "group",
    "column.source": "source",
    "column.propagated": "propagated",
    "column.normal": "normal",
    "column.undecided": "undecided",
    "column.total": "total",
    "column.inputs": "inputs",
    "column.outputs": "outputs",
    # Progress, what is not installed, and the demo.
    "progress.reading": "reading ranks",
    "progress.ranks": "reading ranks {done}",
    "progress.done": "read {ranks} ranks, {size} in {seconds} s ({rate}/s)",
    "output.written": "written: {file}",
    "setup.lacking": "running without {packages}; the answer is the same",
    "setup.jiter": "jiter (reading is slower)",
    "setup.rich": "rich (no colours, no progress bar)",
    "demo.what": "The example dump that comes with firstnan: 4 ranks, data parallel 2, tensor parallel 2.",
    "demo.ran": "Ran: {command}",
    "demo.keep": "To look around in it: firstnan demo --to FOLDER",
    "markdown.footer": "Made by firstnan {version}",
}
