"""English: why a mechanism is named, what proves an answer, why others lost, what could change it (``why.*``,
``evidence.*``, ``reason.*``, ``story.*``, ``caveat.*`` and others: the table in :mod:`firstnan.words`).

Placeholders are plain ``{name}``: numbers are written for people by :func:`firstnan.words.text`
(``65504``, ``6.55e+04``, ``NaN``), strings are made harmless and shortened there. Lists of ranks come as one string
(:func:`firstnan.dump.ranges.format_ranges`).
"""

from __future__ import annotations

EVIDENCE: dict[str, str] = {
    "evidence.inputs_finite": "every recorded input is finite: the largest absolute value is {largest}",
    "evidence.output_bad": "{slot} is not finite: Max {max}, Min {min} ({dtype})",
    "evidence.no_result": (
        "its result is recorded without statistics; {op_name} is the first to show a value of that size that is not "
        "finite: {slot}, Max {max}, Min {min}"
    ),
    "evidence.output_clean": "still finite: {slots}",
    "evidence.input_bad": "{slot} is already not finite: Max {max}, Min {min}",
    "evidence.legal_input": "-Inf in {slot} is legal (a mask); NaN or +Inf made of it is not",
    "evidence.excluded_sender": "rank {rank} sends it with {before}, which you ruled out (--exclude-op)",
    "evidence.excluded_writer": "its value is that of {before}, which you ruled out (--exclude-op)",
    "evidence.between": "no record wrote this value: it appeared after {before} and before {after}",
    "evidence.twin_bad": (
        "its forward record {op_name} is already bad: a later operator (where, masked_fill, a selection) drops the "
        "bad elements, but the gradient still passes through them"
    ),
    "evidence.forward_twin": "the forward record of this call is {op_name}",
    "evidence.only_copies": (
        "{op_name} copies or views its input, which is finite: it did not make the value; another operator wrote to "
        "this memory"
    ),
    "evidence.missing_rank": (
        "{op_name} brought the value to {receivers:ranks}; every recorded input of it is clean, and rank {rank} has "
        "no record of it"
    ),
    "evidence.other_missing": "no record of that call on {ranks:ranks} either: it could be the source as well",
    "evidence.rank_absent": "there is no dump of rank {rank}",
    "evidence.rank_left_out": "this analysis leaves out rank {rank}: firstnan did not read its dump",
    "evidence.rank_cut": "the dump of rank {rank} ends after {records} complete records; the last one is {last}",
    "evidence.rank_unreadable": "the dump of rank {rank} cannot be read: {reason}",
    "evidence.rank_empty": "the dump of rank {rank} holds no record: the run was killed before its first flush",
    "evidence.constant": "{slot} is the constant {value}",
    "evidence.parameter_elsewhere": (
        "the same parameter is bad on {ranks:ranks} too; what they computed from it stayed finite"
    ),
    "evidence.parameter_bad_too": "the same parameter is bad on {ranks:ranks} too",
    "evidence.parameter_everywhere": (
        "every rank reads the same parameter, and reads it bad: all replicas are, or one shard that ZeRO-3 or FSDP "
        "gathers on every rank; on which rank that shard lies, the dump does not tell"
    ),
    "evidence.first_effect": "the first non-finite value that follows is in {op_name} on rank {rank}",
    "evidence.peers_finite": "the same operator with inputs of the same size is finite on {ranks:ranks}",
    "evidence.parameter_was_fine": (
        "in step {step} the parameters of this module were finite: the update after it made them bad"
    ),
    "evidence.parameter_from_start": (
        "the parameter is bad in the first step of the dump: look at the checkpoint or the initialisation"
    ),
    "evidence.gradients_before": "step {step} already had non-finite gradients ({op_name} on rank {rank})",
    "evidence.hidden_operators": "construct.json lists operators inside {module} that the dump left out: {ops}",
    "evidence.unknown_inputs": "not all inputs were recorded with statistics: {slots}",
    "why.nan_argument": "the plain number {slot} is already NaN: Python computed it outside the framework",
    "why.saved_nonfinite": (
        "{slot} of the forward call {operator} was NaN; forward dropped the result, but backward multiplies the "
        "gradient by it"
    ),
    "why.unknown": "the recorded numbers do not tell why",
    "why.bad_parameter": "the parameter {name} was not finite when the step first used it",
    "why.bad_input": "the input of the outermost module was not finite: the batch is bad",
    "why.uninitialised": "an operator read memory from {memory} before anything was written to it",
    "why.cast_between": (
        "{before} gave {value}; the largest finite {dtype} is {limit}; a cast that is not in the dump made it infinite"
    ),
    "why.fp16_between": (
        "an infinity in float16 (largest finite value {limit}) that no record made: an undumped float16 "
        "operator or cast overflowed"
    ),
    "why.masked_softmax": "a row of {slot} is -Inf throughout: softmax divides 0 by 0",
    "why.smoothed_mask": (
        "label smoothing {value} gives every class a part of the target, and {slot} is -Inf for some of them: the loss"
        " is infinite; leave forbidden classes out of the smoothing"
    ),
    "why.masked_label": (
        "{slot} is -Inf for some classes and no row throughout: the label of a sample is a forbidden class, and its"
        " loss is infinite; check the labels against the mask"
    ),
    "why.masked_attention": (
        "attention with a mask: a row that is masked throughout would give NaN; the mask's rows are not recorded"
    ),
    "why.inf_minus_inf": "{slot} holds an infinity, and Inf minus Inf is NaN",
    "why.zero_times_inf": "{slot} holds an infinity, and 0 times Inf is NaN",
    "why.cast_overflow": "the input reaches {value}; the largest finite {dtype} is {limit}",
    "why.exp_overflow": "the exponent reaches {value}, {dtype} overflows above {edge}",
    "why.log_zero": "the argument of the logarithm goes down to {value}",
    "why.div_by_zero": "the divisor {slot} holds a zero (Min {min}, Max {max})",
    "why.tiny_divisor": (
        "the divisor goes down to {value}: the quotient is beyond {limit}, the largest finite {dtype}"
    ),
    "why.weight_around_zero": (
        "{slot} lies between {min} and {max}: the derivative is divided by it, and one of its elements may be 0"
    ),
    "why.zero_weight": "{slot} holds a zero, by which the derivative is divided",
    "why.no_variance": "{slot} has rows whose elements are all equal: the normalisation divides by zero",
    "why.one_element_rows": "the rows of {slot} have one element each: their spread is 0 whatever they hold",
    "why.empty_mean": "a mean over no elements: 0 divided by 0",
    "why.single_elements": "{operator} of single elements divides by n - 1 = 0",
    "why.all_ignored": "every target is {value}, which is ignored: the mean over no target is 0 divided by 0",
    "why.sqrt_backward": "the derivative of {operator} is infinite at the boundary of its domain ({value})",
    "why.domain_error": "{slot} goes to {value}, outside the domain of {operator}",
    "why.fp8_scale": "a low-precision dtype takes part: its scale is zero, tiny or infinite",
    "why.large_value": (
        "the input already holds {value}, finite but far too large; the records before it do not show where it entered"
    ),
    "why.large_value_from": (
        "the input already holds {value}, finite but far too large; it entered in {operator} ({before} in, {after} out)"
    ),
    "why.large_value_inside": (
        "the gradients that it gives are finite but far too large ({before} in, {after} out); their sum, which has no "
        "record, is over the limit in {module}"
    ),
    "why.divergence": "{name} has grown {factor} times since step {since}, more than fourfold in every step",
    "caveat.growing": (
        "values grow from step to step on rank {rank}, since step {since} in {name}, and are near the limit of their "
        "dtype: dump the next steps as well"
    ),
    "why.saturation": "{slot} stands exactly at {limit}, the largest finite {dtype}: it was clamped there before",
    "why.saturated_result": (
        "{slot} stands exactly at {limit}, the largest finite {dtype}: the hardware clamped a result that is larger"
    ),
    "why.overflow": "inputs up to {value} allow results up to {bound}; the largest finite {dtype} is {limit}",
    "why.overflow_unseen": (
        "the result does not fit into {dtype} (largest finite value {limit}), as far as is recorded: the inputs have "
        "no statistics"
    ),
    "why.overflow_narrow": (
        "the result does not fit into {dtype} (largest finite value {limit}); the largest input is {value}"
    ),
    "why.flagged": (
        "the device flagged an overflow in a float16 product (largest finite value {limit}); the dump holds "
        "no statistics"
    ),
    "why.reduction_overflow": (
        "the inputs of {members} members are finite, their sum can reach {bound}; the largest finite {dtype} is {limit}"
    ),
    "why.comm_corruption": (
        "every input is finite and their sum is at most {bound}, yet the result on {ranks:ranks} is not finite"
    ),
    "why.comm_corruption_blind": "the inputs are clean as far as they are recorded, the result is not",
    "why.impossible_result": "the result holds {value}; the members' inputs allow {bound} at most",
    "why.members_differ": "the members' results of one call differ; that of {ranks:ranks} differs from the rest",
    "why.transient": "the first run of this step was not finite, the same step again is finite",
    "evidence.first_run_loss": "The loss of the first run is {value}.",
    "evidence.first_run_gradient_norm": "The gradient norm of the first run is {value}.",
    "evidence.again_run_loss": "The loss of the second run is {value}.",
    "evidence.again_run_gradient_norm": "The gradient norm of the second run is {value}.",
    "why.missing_rank_absent": "NaN or Inf reached {receivers:ranks} from rank {rank}, which has no dump",
    "why.missing_rank_left_out": (
        "NaN or Inf reached {receivers:ranks} from rank {rank}, which this analysis leaves out"
    ),
    "why.missing_rank_cut": "NaN or Inf reached {receivers:ranks} from rank {rank}, whose dump ends before it",
    "why.missing_rank_unreadable": "NaN or Inf reached {receivers:ranks} from rank {rank}, whose dump cannot be read",
    "why.missing_rank_empty": "NaN or Inf reached {receivers:ranks} from rank {rank}, whose dump holds no record",
    "why.unmatched_call": "a communication call brought the value; firstnan cannot match the other side of the call",
    "why.ruled_out_sender": "the value is that of a record on another rank that you ruled out",
    "why.received": "the value arrived through communication; firstnan did not read the ranks that sent it",
    "why.device_fault": (
        "inputs up to {value} cannot give a non-finite result in {dtype}, and the same operator with inputs "
        "of the same size is finite on {ranks:ranks}"
    ),
    "reason.contained": "dropped: {closer} uses its value, and the result is finite",
    "reason.dropped_here": "dropped here: this record uses the value, and the result is finite",
    "reason.unread": "no later record uses its value",
    "reason.impossible_result": (
        "its result holds {value}, more than its inputs allow; but no value of that size explains the bad result"
    ),
    "reason.receive_buffer": "what the receive buffer held before the message; the call overwrites it",
    "reason.fresh_memory": "memory that was allocated and not yet written",
    "reason.guess": "only a guess links it to {op_name}: it may be where the value began",
    "reason.trial": "looks like a trial on uninitialised memory: the same code runs again on other data",
    "reason.blind": "its result is not recorded: the bad value may come from it",
    "reason.swallowed": "takes in a bad value and gives a finite one, from which an input of the cause comes",
    "reason.reads_blind": "reads the value first: an operator that is not in the dump may have made it before that",
    "reason.later": "follows from the cause: it uses its value",
    "reason.earlier_dropped": "its value did not reach the loss, the gradients or another rank",
    "reason.parameter_gradient": (
        "a parameter's gradient: where its record stands in the file does not say when it was computed"
    ),
    "reason.excluded": "you ruled it out",
    "story.several_dumps": (
        "There is more than one dump below this path. This answer covers only the one with {used}. firstnan did not "
        "read {count} others, such as {names}; analyse each by its own path."
    ),
    "story.loss": "The loss is non-finite: the forward pass is broken, and every gradient with it.",
    "story.forward": "It began in the forward pass, and the gradients follow.",
    "story.gradient": "The loss is finite and the gradients are not: it began in the backward pass.",
    "story.gradient_alone": "Gradients are non-finite, and nothing before them is: it began in the backward pass.",
    "story.gradient_partly_seen": (
        "The loss is finite on {ranks:ranks} and the gradients are not; the loss of {absent:ranks} is not in the "
        "dump, so the dump does not show whether it began in forward or backward."
    ),
    "story.reduction": "What goes into the reduction of gradients is finite, its result is not: it began there.",
    "story.after_backward": (
        "The recorded gradients of activations are finite: it began after backward, or in a weight gradient "
        "that has no record of its own."
    ),
    "story.grad_norm": (
        "The gradients are finite and their norm is not: the norm itself overflowed, and clipping uses a wrong number."
    ),
    "story.parameter": "Parameters are non-finite.",
    "story.earlier_steps_clean": "Step {steps} is clean; the first bad step is {step}.",
    "story.skipped": (
        "Step {steps}: the gradients overflowed, and the loss scaler skipped the update (the next step begins with "
        "exactly the same weights). This does not count as damage."
    ),
    "caveat.missing_ranks": "no dump of {ranks:ranks}: firstnan cannot see a cause there",
    "caveat.unreadable_ranks": (
        "the dump of {ranks:ranks} is empty or cannot be read: firstnan cannot see a cause there"
    ),
    "caveat.cut_ranks": "the dump of {ranks:ranks} is cut: firstnan cannot see what happened after the cut",
    "caveat.no_statistics": (
        "{ranks:ranks}: firstnan cannot judge records without statistics; dump with task statistics, summary_mode "
        "statistics"
    ),
    "caveat.groups_unknown": (
        "the dump does not record process groups: firstnan matched calls by name, as if every rank ran the same code"
    ),
    "caveat.unmatched_calls": (
        "firstnan could not match {count} communication calls across ranks and did not follow what they carried"
    ),
    "caveat.skip_unknown": (
        "if a loss scaler is in use, it may have skipped this step: dump the next step as well to see"
    ),
    "caveat.skip_gap": (
        "if a loss scaler is in use, it may have skipped this step: the dump lacks the step right after it, "
        "which would show that"
    ),
    "caveat.skip_thin": (
        "if a loss scaler is in use, it may have skipped this step: the dump of the next step shows too few "
        "weights to decide"
    ),
    "caveat.skip_changed": ("the next step begins with other weights: no loss scaler skipped the update"),
    "caveat.excluded": "ruled out with --exclude-op: {names}",
    "caveat.own_rules": "rules and operators of your --rules file are in force: {names}",
    "caveat.excluded_nowhere": "--exclude-op {names}: no such record exists, so this rules out nothing",
    "caveat.listed_calls": "the report lists {shown} of {count} calls with NaN or Inf",
    "caveat.listed_causes": "the report lists {shown} of {count} independent causes",
    "caveat.listed_contained": "the report lists {shown} of {count} contained values",
    "caveat.ranks_left_out": "firstnan read {ranks:ranks} only and does not know what the others hold",
}
