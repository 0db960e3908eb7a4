"""English: verdicts, places, states, labels and titles."""

from __future__ import annotations

REPORT: dict[str, str] = {
    # The first line: where the value began, in one sentence.
    "verdict.operator": "{value:value} began on {ranks}, step {step}, in {op} ({direction:direction}): {reason}",
    "verdict.communication": "{value:value} began in communication, {ranks}, step {step}, in {op}: {reason}",
    "verdict.communication.received": (
        "{value:value} reached {ranks} in step {step} through {op}: it began on another rank"
    ),
    "verdict.communication.excluded": (
        "{value:value} of {before} on rank {sender}, which you ruled out, reaches {ranks} in step {step} through {op}"
    ),
    "verdict.parameter": (
        "{value:value} was already in a parameter on {ranks} when step {step} first used it, in {op} "
        "({direction:direction}): {reason}"
    ),
    "verdict.input_data": (
        "{value:value} was in the input data on {ranks}, step {step}, first used in {op} ({direction:direction}): "
        "{reason}"
    ),
    "verdict.undumped_operator": (
        "{value:value} appeared on {ranks}, step {step}, in an operator that is not in the dump, before {op}: {reason}"
    ),
    "verdict.undumped_operator.memory": (
        "{op} on {ranks}, step {step}, reads {value:value} from memory that nothing has written: {reason}"
    ),
    "verdict.undumped_operator.excluded": (
        "{value:value} of {before}, which you ruled out, goes into {after} on {ranks}, step {step}"
    ),
    "verdict.undumped_operator.between": (
        "{value:value} appeared on {ranks}, step {step}, between {before} and {after}: {reason}"
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
    "verdict.missing_rank.absent": (
        "{value:value} reached {receivers:ranks} in step {step} from {ranks}, which has no dump: the dump does not "
        "show the cause"
    ),
    "verdict.missing_rank.left_out": (
        "{value:value} reached {receivers:ranks} in step {step} from {ranks}, which this analysis leaves out: the "
        "cause is on that rank or on one behind it"
    ),
    "verdict.missing_rank.cut": (
        "{value:value} reached {receivers:ranks} in step {step} from {ranks}, whose dump.json is cut after {records} "
        "records, the last is {last}: the dump does not show the cause"
    ),
    "verdict.missing_rank.unreadable": (
        "{value:value} reached {receivers:ranks} in step {step} from {ranks}, whose dump cannot be read ({reason}): "
        "the dump does not show the cause"
    ),
    "verdict.missing_rank.empty": (
        "{value:value} reached {receivers:ranks} in step {step} from {ranks}, whose dump holds no record: the dump "
        "does not show the cause"
    ),
    "verdict.first_run": (
        "A value on {ranks} was not finite in the first run of step {step}, and everything is finite in the second: "
        "{reason}"
    ),
    "verdict.several": "{count} independent causes:",
    "verdict.several_left_out": "NaN or Inf came from {count} ranks that this analysis leaves out:",
    "verdict.and_more": "Independent causes besides this one: {count}.",
    "verdict.anomaly": "The dump holds NaN or Inf that matter, but does not show where they began.",
    "verdict.clean": "Clean: no NaN or Inf that matters in {records} records (step {steps}, {ranks}).",
    "verdict.clean_excluded": (
        "Nothing else: apart from the records that you ruled out, no NaN or Inf that matters in {records} records "
        "(step {steps}, {ranks})."
    ),
    "verdict.clean_incomplete": (
        "Clean as far as firstnan can judge ({records} records, step {steps}, {ranks}), but parts could not be "
        "judged: see below."
    ),
    "verdict.unknown": (
        "Undecided: firstnan cannot judge anything in this dump ({records} records, step {steps}, {ranks})."
    ),
    "ranks.first": (
        "The first affected communication is {op} in step {step}. Source: {source}. Propagated: {propagated}."
    ),
    "ranks.source.absent": "not recorded, {ranks} has no dump",
    "ranks.source.left_out": "not recorded, {ranks} was not included in this analysis",
    "ranks.source.cut": "not recorded, the dump of {ranks} ends before the call",
    "ranks.source.empty": "not recorded, the dump of {ranks} is empty",
    "ranks.source.unreadable": "not recorded, the dump of {ranks} cannot be read",
    "ranks.source.call": "none, the call itself is the cause (every input is finite)",
    "ranks.source.unknown": "not recorded",
    "ranks.none": "No communication call sent or returned a NaN or Inf that matters.",
    "ranks.anomaly": ("There is still an anomaly, on {ranks:ranks}: {command} shows where it began and why."),
    "ranks.anomaly.nowhere": "There is still an anomaly: {command} shows what is known about it.",
    "ranks.count": (
        "{total} calls: {source} with a source rank, {propagated} that only received (no source recorded), "
        "{contained} with NaN or Inf that is legal or not used, {undecided} undecided, {normal} normal on every rank."
    ),
    "ranks.contained": "A call whose NaN or Inf no later record uses does not count as affected.",
    "ranks.legend": (
        "source: its own input is not finite. propagated: input clean, result not finite. normal: both clean. "
        "undecided: no dump, cut, no statistics, or an asynchronous result that was not refreshed."
    ),
    "trace.none": "No NaN or Inf that matters on rank {rank}.",
    "trace.unknown": "Undecided: firstnan cannot judge anything on rank {rank}.",
    "show.headline": "Around record {index} of {ranks}, step {step} ({total} records, counted from 0)",
    # Kinds of place.
    "where.operator.module": "inside the module: clean inputs, bad result; no record inside it shows more",
    "where.operator.jump": "in the operator: usual inputs, a finite but extremely large result",
    "where.operator": "in the operator: clean inputs, bad result",
    "where.operator.blind": "in the operator, as far as recorded: bad result, inputs without statistics",
    "where.no_result": "in this record, as far as recorded: its result has no statistics, its reader is bad",
    "where.communication.received": "received from another rank",
    "where.communication": "in communication: every input is clean, the result is not",
    "where.parameter": "in a parameter: bad before it was first used in this step",
    "where.input_data": "in the input data: the batch was bad",
    "where.undumped_operator": "between two records: an operator that is not in the dump made it",
    "where.communication.excluded": "received from a record on another rank that you ruled out",
    "where.undumped_operator.excluded": "after the record that you ruled out: nothing else makes its value",
    "where.first_run": "in the first run of the step, which was not recorded",
    "where.before_dump": "before the dump: bad from the first record on",
    "where.missing_rank": "on a rank whose dump is absent or ends before the cause",
    "where.missing_rank.absent": "on a rank that has no dump",
    "where.missing_rank.left_out": "on a rank that this analysis leaves out",
    "where.missing_rank.cut": "on a rank whose dump ends before the cause",
    "where.missing_rank.unreadable": "on a rank whose dump cannot be read",
    "where.missing_rank.empty": "on a rank whose dump holds no record",
    "where.missing_rank.advice": (
        "Collect the dump of that rank: leave the rank filter out of the configuration, give a killed job time to "
        "write (stop() or step() before the end), or dump fewer steps. Then run this again."
    ),
    "where.missing_rank.advice.absent": (
        "Dump this rank too: look for a rank filter in the dump configuration and in what was copied; if it should "
        "have dumped, read its log. Then run this again."
    ),
    "where.missing_rank.advice.left_out": (
        "Analyse this rank as well: the folder of the whole step, without --ranks or with this rank among them."
    ),
    "where.missing_rank.advice.cut": (
        "Let this rank finish writing: call stop() or step() before the job ends or is killed, or dump fewer "
        "steps. If its file was copied, compare the sizes. Then run this again."
    ),
    "where.missing_rank.advice.unreadable": (
        "Make the dump of this rank readable (permissions), or copy it again whole; if it is damaged, dump this rank "
        "again. Then run this again."
    ),
    "where.missing_rank.advice.empty": (
        "This rank was killed before its first flush (every 1000 records, and at stop() and step()): call stop() "
        "or step() earlier, or dump fewer steps; read its log. Then run this again."
    ),
    "where.undumped_operator.advice": (
        "Look in the code between the last good and the first bad record for a cast, a fused kernel, a custom "
        "autograd function or an indexed write. To see it, dump again with risk_level ALL and level mix: casts, "
        "copies and views are then recorded."
    ),
    "where.undumped_operator.advice.beside_operators": (
        "Look in the code between the last good and the first bad record for a cast, a fused kernel, a custom "
        "autograd function or an indexed write. To see it, dump again with risk_level ALL: casts, copies and views "
        "are then recorded."
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
    "match.matched": "firstnan matched calls by group, API and number of the call; types and sizes agree.",
    "match.by_name": (
        "The dump does not record process groups: firstnan matched calls by record name, which is wrong where ranks "
        "run different code or use sub-groups."
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
    "section.cause": "Cause {number} of {total}",
    "section.of_cause": "Cause {number}: {part}",
    # Titles.
    "section.where": "Where",
    "section.why": "Why",
    "section.spread": "How it spread",
    "section.symptom": "What it affects",
    "section.collectives": "Communication calls with NaN or Inf",
    "section.collectives_step": "Communication calls with NaN or Inf, step {step}",
    "section.commands": "Next commands",
    "command.show": "Look at the records around the cause:",
    "command.turn": "Look at the record in which the value changes most:",
    "command.reject": "If this is not the cause, get the next candidate:",
    "command.dump": "To dump what the answer still lacks, write MSProbe's config.json:",
    "command.dump_tensors": (
        "To run this record again on the CPU (firstnan replay), write the config.json that dumps its tensors:"
    ),
    "command.trace": "Trace the operator on the source rank:",
    "command.analyze": "See the whole analysis:",
    "line.code": ", at {place}",
    "section.every_call": "All communication calls",
    "section.advice": "What to do next",
    "section.unjudged": "Why firstnan cannot judge this dump",
    "section.doubts": "What could change this answer",
    "section.alternatives": "Other candidates",
    "section.consequences": "Bad records that follow from the cause",
    "section.contained": "Contained: NaN or Inf that no later result depends on",
    "section.benign": "Harmless by rule",
    "section.input": "What firstnan read",
    "section.records": "Records of {label}",
    "section.record": "Record {index}",
    # Labels of fields and parts of lines.
    "label.yes": "yes",
    "label.no": "no",
    "label.none": "none",
    "label.rank": "rank {ranks}",
    "label.ranks": "ranks {ranks}",
    "label.rank_step": "{ranks}, step {step}",
    "label.comma": ", ",
    "label.colon": ": ",
    "label.where": "rank",
    "label.operator": "operator",
    "label.record_at": "  record {index}",
    "label.record_of": "  record {index} of rank {rank}",
    "label.not_recorded": "not recorded",
    "label.slot": ", {slot}",
    "label.last_good": "last good",
    "label.first_bad": "first bad",
    "label.suspects": "suspects",
    "label.same_module": "  (same module, not recorded)",
    "label.first_used": "first used",
    "label.first_seen": "first seen",
    "label.read_at": "read at",
    "label.last_record": "last record",
    "label.reached": "reached",
    "label.reached_by": "{receivers:ranks}, by {op_name}",
    "label.cast_overflow": "cast to {dtype} overflowed",
    "advice.turn": (
        "Look at record {index}, {op}, first: the value changes most there, and the rest may be its effect."
    ),
    "advice.excluded_writer": (
        "If the record that you ruled out is harmless, rule out {op} as well (--exclude-op) and look at the next "
        "answer. If not, that record is the answer."
    ),
    "advice.where_trap": (
        "Make the input safe before the operator, such as x / where(y == 0, 1, y). Dropping the bad result after it "
        "repairs the forward pass only."
    ),
    "label.grew": "The value grew at record {index}, {op}: {before} -> {after} (x{factor})",
    "label.fell": "The value became 0 at record {index}, {op}: {before} -> {after}",
    "label.ruled_out": "ruled out",
    "label.kind": "place",
    "label.module": "module",
    "label.code": "code",
    "label.in_function": "  in {function}",
    "label.called_at": "called at",
    "label.called_from": "called from",
    "label.stack": "stack",
    "label.place_confidence": " ({confidence:confidence})",
    "label.mechanism_confidence": "{mechanism} ({confidence:confidence})",
    "label.run_up": "Largest absolute values on the way there:",
    "label.in": "in",
    "label.out": "out",
    "label.more": "and {count} more (-v shows all)",
    "label.through": ", {op}",
    "label.hop": "-> {via} -> rank {ranks}",
    "label.hops": "-> {via} -> ranks {ranks}",
    "label.symptom_at": "rank {rank}, record {index}: {op}",
    "label.symptom_in_step": "step {step}, rank {rank}, record {index}: {op}",
    "label.by_name": "by name",
    "label.group_unknown": "not known",
    "label.call_number": "#n is the n-th call of that API in its group, counted from 0. Record names count per rank.",
    "label.call_record": "{call} is {op} on {ranks}",
    "label.message": "{call}: rank {source} sends ({sent}), rank {target} receives ({received})",
    "label.began_here": "<- began here",
    "label.passed_over": "Harmless by rule: {count} results (masks, fresh memory and the like, listed below).",
    "label.benign_rule": "{rule}: {count}, such as {example}",
    "label.benign_words": "{what}, such as {example} ({rule})",
    "label.path": "path",
    "label.read": "read",
    "label.read_amount": "step {steps}; {ranks}; {records} records, {size}",
    "label.accounts": "NaN and Inf",
    "label.accounts_part": "{count} {account}",
    "label.missing_ranks": "absent ranks",
    "label.ignored": "ignored",
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
    "column.bad_input": "bad input on (source)",
    "column.became_bad": "became bad on (propagated)",
    "column.stayed_finite": "stayed finite (normal)",
    "column.not_recorded": "not recorded (undecided)",
    "column.inputs": "inputs",
    "column.outputs": "outputs",
    # Progress, what is not installed, and the demo.
    "progress.reading": "reading ranks",
    "progress.ranks": "reading ranks {done}",
    "progress.first": "first non-finite value so far: rank {rank}, record {record}, {name}",
    "progress.done": "read {ranks} ranks, {size} in {seconds} s ({rate}/s)",
    "scan.done": "read ranks {ranks}, found something suspicious on {suspected}; merge the parts of all hosts",
    "scan.clean": "read ranks {ranks}, found nothing suspicious; merge the parts of all hosts",
    "output.affected_only": "The file lists affected calls only: parts of an earlier version do not hold the rest.",
    "output.written": "written: {file}",
    "setup.lacking": "running without {packages}; the answer is the same",
    "setup.stringzilla": "stringzilla (search is slower)",
    "setup.rich": "rich (no colours, no progress bar)",
    "demo.what": "The example dump that comes with firstnan: 4 ranks, data parallel 2, tensor parallel 2.",
    "demo.ran": "Ran: {command}",
    "demo.keep": "To keep the example and explore it: firstnan demo --to FOLDER",
    "markdown.footer": "Made by firstnan {version}",
    "next.clean": "If your log shows NaN or Inf: dump the step in which it appears, on all ranks, and run this again.",
    "next.incomplete": (
        'This is not a clean result yet: collect what "What could change this answer" lists, then run this again.'
    ),
    "next.anomaly": (
        "Look at the records listed below with firstnan show, and dump again with risk_level ALL on all ranks."
    ),
    "next.no_statistics": (
        "Dump again with task 'statistics' and summary_mode 'statistics' (not md5, xor or structure), on all ranks."
    ),
    "next.no_records": (
        "Let the job write: call stop() or step() before it ends or is killed (MSProbe also writes every 1000 "
        "records), or dump fewer steps."
    ),
    "next.unknown": "Fix the problems listed below, or dump again with task 'statistics' on all ranks.",
    "advice.loss_scaler": (
        "First check whether this is damage at all. With a loss scaler, float16 gradients overflow now and then, and "
        "the scaler skips the step. Look in the log for a lowered loss scale, or dump the next step as well: if it "
        "begins with exactly the same weights, nothing is broken."
    ),
    "benign.saturation": "infinities mapped to finite values: {count}",
    "benign.sampling_and_clipping": "sampling and clipping that read a bad value: {count}",
    "benign.unfilled_buffer": "buffers that are not filled yet: {count}",
    "benign.observers": "checks that read a bad value: {count}",
    "benign.selection": "bad values left behind by a selection: {count}",
    "benign.mask_from_outside": "masks with -Inf from outside of the dump: {count}",
    "benign.minus_inf_constant": "-Inf given as a constant: {count}",
    "benign.mask_sum": "masks added up until they reached -Inf: {count}",
    "benign.inherited_minus_inf": "results that carry a legal -Inf on: {count}",
    "benign.written_minus_inf": "-Inf written on purpose: {count}",
    "benign.legal_minus_inf": "masks filled with -Inf, which is legal: {count}",
    "benign.views": "views: {count}",
    "benign.copy_and_cast": "copies and casts: {count}",
    "benign.fill_with_constant": "fills with a constant: {count}",
    "benign.random_fill": "fills with random numbers: {count}",
    "benign.memory_initialisation": "fresh memory, not written yet: {count}",
    "section.growth": "Growth from step to step (rank {rank}, largest absolute value by step)",
    "column.what": "what",
    "column.value": "value",
    "growth.activation": "activation",
    "growth.parameter": "weight",
    "growth.gradient": "gradient",
}
