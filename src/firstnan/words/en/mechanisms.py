"""English: every mechanism, its name, why it makes a non-finite value, what to check or change next."""

from __future__ import annotations

MECHANISMS: dict[str, str] = {
    "mechanism.fp16_overflow.name": "float16 overflow",
    "mechanism.fp16_overflow.why": (
        "The exact result is beyond 65504, the largest finite float16. Sums over a long dimension (matmul, sum, "
        "squares, norms) reach it with inputs of ordinary size."
    ),
    "mechanism.fp16_overflow.advice": (
        "Run this operator in float32 or bfloat16 (leave it out of autocast), or scale its inputs down before it. "
        "Check whether the inputs grew over the last steps (learning rate, missing normalisation)."
    ),
    "mechanism.fp16_overflow.advice.backward": (
        "Lower the loss scale and see whether the overflow goes away; if it stays, run this operator in float32 or "
        "bfloat16 (leave it out of autocast)."
    ),
    "mechanism.bf16_overflow.name": "bfloat16 overflow",
    "mechanism.bf16_overflow.why": (
        "The exact result is beyond 3.39e38, the largest finite bfloat16. Its range is that of float32, so a value of "
        "this size is rarely meant: look for what made the inputs so large."
    ),
    "mechanism.bf16_overflow.advice": (
        "Find the first jump in size of the inputs, before this operator; another dtype only hides it. Check "
        "learning rate, weight initialisation and normalisation of that layer."
    ),
    "mechanism.fp32_overflow.name": "float32 overflow",
    "mechanism.fp32_overflow.why": (
        "The exact result is beyond 3.40e38, the largest finite float32. Inputs this large are almost always wrong "
        "already."
    ),
    "mechanism.fp32_overflow.advice": (
        "Find the first jump in size of the inputs, before this operator. Check learning rate, gradient clipping and "
        "weights of that layer in the steps before."
    ),
    "mechanism.exp_overflow.name": "exp overflow",
    "mechanism.exp_overflow.why": (
        "An exponential (exp, pow, sinh, cosh, softplus written by hand ...) of an argument beyond the limit of its "
        "dtype: about 11.09 in float16, 88.7 in bfloat16 and float32, 709.8 in float64."
    ),
    "mechanism.exp_overflow.advice": (
        "Subtract the maximum before exp, or use the fused form (softmax, log_softmax, logsumexp, softplus, expm1), or "
        "clamp the argument. Find out why the argument grew: logits without a bound, a missing scale factor, a missing "
        "normalisation."
    ),
    "mechanism.cast_overflow.name": "overflow in a cast",
    "mechanism.cast_overflow.why": (
        "A finite value was converted to a dtype whose largest finite value is smaller, and became Inf."
    ),
    "mechanism.cast_overflow.advice": (
        "Scale or clamp the value before the cast, or keep the wider dtype up to the next normalisation. If the "
        "value is a mask constant (-1e9, finfo(float32).min): use finfo(x.dtype).min instead."
    ),
    "mechanism.cast_overflow.advice.backward": (
        "The gradient is too large for the dtype it is cast to: lower the loss scale, or keep this part of "
        "backward in the wider dtype or in bfloat16."
    ),
    "mechanism.fp8_scale.name": "bad quantisation scale",
    "mechanism.fp8_scale.why": (
        "The scale factor of a low-precision (fp8, int8) quantisation became zero, tiny or infinite; multiplying or "
        "dividing by it leaves the range of the dtype."
    ),
    "mechanism.fp8_scale.advice": (
        "Put a lower bound on the absolute maximum before the reciprocal, check the history of the scale (delayed "
        "scaling, amax history length), and look for a tensor block that is all zeros."
    ),
    "mechanism.div_by_zero.name": "division by zero",
    "mechanism.div_by_zero.why": (
        "A divisor holds zero, or something that divides inside does: rsqrt(0), a normalisation over zero variance or "
        "zero norm, a mean over no elements. x/0 gives Inf, 0/0 gives NaN."
    ),
    "mechanism.div_by_zero.advice": (
        "Clamp the divisor or add eps to it (rsqrt(x + eps)), inside the operation: a where() behind it comes too late."
    ),
    "mechanism.div_by_zero.advice.float16": "In float16 an eps of 1e-8 is 0: take 1e-4 or larger.",
    "mechanism.div_by_zero.advice.all_ignored": (
        "Guard the batch without a valid target: use reduction='sum' and divide by max(count, 1), or skip it."
    ),
    "mechanism.div_by_zero.advice.empty_mean": (
        "Guard the empty selection (no valid token, no expert chosen): divide by max(count, 1), or skip the term."
    ),
    "mechanism.div_by_zero.advice.single_elements": (
        "Guard the reduction of a single element: use correction=0 (unbiased=False), or skip the term where the count "
        "is below 2."
    ),
    "mechanism.div_by_zero.advice.no_variance": (
        "Give the normalisation an eps above 0 (such as eps=1e-5; in float16 1e-8 is 0), and find out why rows of "
        "its input are constant."
    ),
    "mechanism.div_by_zero.advice.one_element": (
        "Check over which dimension the normalisation goes: of a single element it gives 0 or NaN and never a signal, "
        "with any eps."
    ),
    "mechanism.log_zero.name": "log of zero or less",
    "mechanism.log_zero.why": "The logarithm of 0 is -Inf, that of a negative number NaN.",
    "mechanism.log_zero.advice": (
        "Clamp the argument: torch.log(p.clamp_min(1e-7)), or use log_softmax, logsigmoid or a *_with_logits loss "
        "instead of the log of a probability. A softmax of large logits gives exact zeros."
    ),
    "mechanism.log_zero.advice.float16": "In float16 a limit of 1e-7 is close to 0: clamp at 1e-4.",
    "mechanism.domain_error.name": "argument outside the domain",
    "mechanism.domain_error.why": (
        "The operator is not defined for this argument: the square root of a negative number, acos or asin beyond 1, a "
        "negative base with a fractional exponent. The result is NaN."
    ),
    "mechanism.domain_error.advice": (
        "Clamp the argument to the domain (acos(x.clamp(-1, 1)), sqrt(x.clamp_min(0))), and find out why it left the "
        "domain: rounding in a short dtype, a variance computed as a difference."
    ),
    "mechanism.nan_argument.name": "NaN as a plain number",
    "mechanism.nan_argument.why": "A plain argument is NaN: Python computed it, outside the framework.",
    "mechanism.nan_argument.advice": (
        "Follow the number back in the calling code: the mean of an empty list, a metric that was never set, a setting "
        "that was parsed wrongly."
    ),
    "mechanism.saved_nonfinite.name": "saved bad value in backward",
    "mechanism.saved_nonfinite.why": (
        "Forward dropped a bad value by a selection or a mask, but autograd saved it: backward multiplies the gradient "
        "by it."
    ),
    "mechanism.saved_nonfinite.advice": (
        "Replace the bad value before the operator that saves it, not after it: mask the input, not the output."
    ),
    "mechanism.sqrt_backward.name": "infinite derivative",
    "mechanism.sqrt_backward.why": (
        "The forward value is finite, its derivative is not: sqrt, norm and pow at 0, acos and asin at 1 have an "
        "infinite slope, and Inf times a zero gradient is NaN."
    ),
    "mechanism.sqrt_backward.advice": (
        "Keep the argument away from the boundary: sqrt(x + eps), clamp before acos / asin, a norm with eps. A "
        "where() after the operation does not help: choose a safe argument before it (mask the input, not the "
        "output)."
    ),
    "mechanism.masked_softmax.name": "softmax over a fully masked row",
    "mechanism.masked_softmax.why": (
        "Every element of a row is -Inf, so that softmax computes 0/0 (its maximum is -Inf as well)."
    ),
    "mechanism.masked_softmax.advice": (
        "Mask with a finite value: scores.masked_fill(mask, torch.finfo(scores.dtype).min) instead of -Inf. Then "
        "find the query rows with no key allowed (padding, window, packed sequences, wrong mask shape)."
    ),
    "mechanism.inf_minus_inf.name": "Inf - Inf",
    "mechanism.inf_minus_inf.why": "The difference (or sum) of two infinities of opposite effect is NaN.",
    "mechanism.inf_minus_inf.advice": (
        "Look for the infinity that enters here: often -Inf from a mask minus its own maximum, or two masks added "
        "together. Use a finite mask value, or guard rows whose maximum is -Inf."
    ),
    "mechanism.zero_times_inf.name": "0 * Inf",
    "mechanism.zero_times_inf.why": "Zero times infinity is NaN.",
    "mechanism.zero_times_inf.advice": (
        "Mask by selection, not by multiplication with 0: x.masked_fill(mask, 0.0) or torch.where(keep, x, 0.0). 0 "
        "* Inf is NaN. Find the infinity that enters here."
    ),
    "mechanism.reduction_overflow.name": "overflow in a reduction across ranks",
    "mechanism.reduction_overflow.why": (
        "The input of every rank is finite, but their sum is beyond the largest finite value of the dtype in which "
        "the reduction runs."
    ),
    "mechanism.reduction_overflow.advice": (
        "Divide by the number of ranks before the sum instead of after it, or reduce in float32 (gradient buckets, "
        "tensor-parallel sums), or lower the loss scale if these are gradients."
    ),
    "mechanism.comm_corruption.name": "corrupted communication",
    "mechanism.comm_corruption.why": (
        "The result of the communication cannot come from its inputs: they are finite and small enough on all "
        "members, or other members received a different result from the same call."
    ),
    "mechanism.comm_corruption.advice": (
        "Look for a buffer that is reused or read before the transfer ended (a missing wait() or stream "
        "synchronisation). Repeat with synchronous communication. If it comes back on the same host or device, "
        "test that hardware and its link."
    ),
    "mechanism.uninitialised_memory.name": "uninitialised memory",
    "mechanism.uninitialised_memory.why": (
        "Memory was read before anything was written to it (torch.empty, new_empty, a padded tail, an unfilled "
        "receive buffer); its content is whatever lay there."
    ),
    "mechanism.uninitialised_memory.advice": (
        "Find the buffer and write all of it (torch.zeros instead of torch.empty, fill the padding), or read only "
        "the written part. It comes and goes between runs: one good repeat is no proof."
    ),
    "mechanism.bad_parameter.name": "bad parameter",
    "mechanism.bad_parameter.why": (
        "A weight was already not finite when this step first used it: the cause is in the step before (gradient, "
        "optimizer, all-gather of parameters) or in the loaded checkpoint."
    ),
    "mechanism.bad_parameter.advice": (
        "Dump the step before this one up to the end of the optimizer step (gradients, optimizer, all-gather of "
        "parameters). After loading a checkpoint: check the file and its conversion for NaN and Inf first."
    ),
    "mechanism.bad_input.name": "bad input data",
    "mechanism.bad_input.why": "The batch itself held a non-finite value when it reached the model.",
    "mechanism.bad_input.advice": (
        "Check this batch in the data pipeline: the sample, its normalisation (division by zero standard deviation), "
        "its decoding and augmentation. A check for finite values in the data loader names the sample."
    ),
    "mechanism.large_value_propagation.name": "extreme value from an earlier operator",
    "mechanism.large_value_propagation.why": (
        "An extremely large but finite value entered earlier and exceeds the limit only here: this operator shows "
        "the fault and did not make it."
    ),
    "mechanism.large_value_propagation.advice": (
        "Look for the place where the value entered, not at the overflow: a single weight, a corrupted element, a "
        "scale factor or an uninitialised buffer."
    ),
    "mechanism.saturation.name": "saturated value",
    "mechanism.saturation.why": (
        "A value was clamped at the limit of its dtype earlier on instead of becoming Inf; the bad value follows "
        "from it."
    ),
    "mechanism.saturation.advice": (
        "Treat the clamped operator as an overflow. On Ascend devices in saturation mode, switch to INF/NAN mode "
        "(INF_NAN_MODE_ENABLE=1 where the device has it) and dump again: then the overflow shows where it happens."
    ),
    "mechanism.divergence.name": "divergence",
    "mechanism.divergence.why": "Values grew from step to step until one of them overflowed: the training diverged.",
    "mechanism.divergence.advice": (
        "Look at the step in which the growth began, not at the one that broke: lower the learning rate or lengthen "
        "the warm-up, clip the gradients, and see that no normalisation is absent around the module named there."
    ),
    "mechanism.device_fault_suspected.name": "suspected device fault",
    "mechanism.device_fault_suspected.why": (
        "The inputs are small and finite, the result is beyond what arithmetic allows, and ranks that computed "
        "the same "
        "from nearly equal inputs are finite."
    ),
    "mechanism.device_fault_suspected.advice": (
        "Run the same step again on the same device, then move the rank to another device. If the fault stays with "
        "the device, run the vendor's diagnosis and take it out; if it stays with the rank, compare the operator "
        "with a CPU reference on the same inputs."
    ),
    "mechanism.transient.name": "transient fault",
    "mechanism.transient.why": (
        "The first run of the step was not finite, the same step again is finite: a bit flipped, a link or a kernel "
        "answered wrongly once, two streams raced, or the two runs did not start from the same state."
    ),
    "mechanism.transient.advice": (
        "Make sure that the step draws its batch outside of what runs again, and name every generator and state to the "
        "guard. Then run the same step several times on the same device and on another one: a fault that comes back "
        "on one device only is a fault of that device."
    ),
    "mechanism.unknown.name": "mechanism unknown",
    "mechanism.unknown.why": "The place is known; the recorded statistics do not show why the value turned bad.",
    "mechanism.unknown.advice": (
        "Dump this operator again with task 'tensor' (list set to it) and give that dump to 'firstnan replay', which "
        "tells numerics from the device; and dump with risk_level ALL, so that casts and copies around it are recorded."
    ),
    "mechanism.unknown.advice.module": (
        "Dump again with level mix to record the operators inside this module: the dump does not show which of them "
        "it was."
    ),
    "mechanism.unknown.advice.module_beside_operators": (
        "Look in the code of this module: the dump holds operators, and none recorded here made the value (risk_level, "
        "a list or scope, recording that ended early; sums of gradients have no record). Dump again with risk_level "
        "ALL and without a list."
    ),
    "mechanism.unknown.advice.received": (
        "Run firstnan analyze on the folder of all ranks: it follows the value to the rank where it began."
    ),
    "mechanism.unknown.advice.unmatched": (
        "Look at the records of this call on the other ranks (firstnan show): the sender's input tells where the "
        "value came from."
    ),
}
