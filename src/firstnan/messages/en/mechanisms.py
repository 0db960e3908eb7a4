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
        "Check whether the inputs grew over the last steps (learning rate, missing normalisation). In backward: lower "
        "the loss scale and see whether the overflow goes away."
    ),
    "mechanism.bf16_overflow.name": "bfloat16 overflow",
    "mechanism.bf16_overflow.why": (
        "The exact result is beyond 3.39e38, the largest finite bfloat16. Its range is that of float32, so a value of "
        "this size is rarely meant: look for what made the inputs so large."
    ),
    "mechanism.bf16_overflow.advice": (
        "Follow the inputs upstream to the first jump in size (see the run-up); another dtype only hides it. Check "
        "learning rate, weight initialisation and normalisation of that layer."
    ),
    "mechanism.fp32_overflow.name": "float32 overflow",
    "mechanism.fp32_overflow.why": (
        "The exact result is beyond 3.40e38, the largest finite float32. Inputs this large are almost always wrong "
        "already."
    ),
    "mechanism.fp32_overflow.advice": (
        "Follow the inputs upstream to the first jump in size (see the run-up). Check learning rate, gradient "
        "clipping and weights of that layer in the steps before."
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
        "Keep the wider dtype up to the next normalisation, or clamp or scale before the cast. Mask constants such as "
        "-1e9 or finfo(float32).min belong in the dtype they are used in: take finfo(x.dtype).min."
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
        "Add eps inside the operation (rsqrt(x + eps), normalize(eps=...)), clamp the divisor, or guard empty "
        "selections (no valid token, no expert chosen). Make sure that eps survives the dtype: 1e-8 is 0 in float16."
    ),
    "mechanism.log_zero.name": "log of zero or less",
    "mechanism.log_zero.why": "The logarithm of 0 is -Inf, that of a negative number NaN.",
    "mechanism.log_zero.advice": (
        "Clamp the argument from below or add eps, or use log_softmax / logsigmoid / the *_with_logits losses instead "
        "of the log of a probability. Check whether the probability underflowed to 0 in a short dtype."
    ),
    "mechanism.sqrt_backward.name": "derivative at the edge",
    "mechanism.sqrt_backward.why": (
        "The forward value is finite, its derivative is not: sqrt, norm and pow at 0, acos and asin at 1 have an "
        "infinite slope, and Inf times a zero gradient is NaN."
    ),
    "mechanism.sqrt_backward.advice": (
        "Keep the argument away from the edge: sqrt(x + eps), clamp before acos / asin, a norm with eps. A where() "
        "after the operation does not help: choose a safe argument before it (mask the input, not the output)."
    ),
    "mechanism.masked_softmax.name": "softmax over a fully masked row",
    "mechanism.masked_softmax.why": (
        "Every element of a row is -Inf, so that softmax computes 0/0 (its maximum is -Inf as well)."
    ),
    "mechanism.masked_softmax.advice": (
        "Find the query rows with no key allowed (padding, window, packed sequences, wrong mask shape) and leave them "
        "out, or mask with finfo(dtype).min in place of -Inf, or zero these rows after softmax with their gradient "
        "masked as well."
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
        "Mask by selection (where, masked_fill with a finite value), not by multiplication with 0: a multiplication "
        "keeps Inf and NaN alive. Look for the infinity that enters here."
    ),
    "mechanism.reduction_overflow.name": "overflow in a reduction across ranks",
    "mechanism.reduction_overflow.why": (
        "The input of every rank is finite, but their sum is beyond the largest finite value of the dtype in which "
        "the reduction runs."
    ),
    "mechanism.reduction_overflow.advice": (
        "Reduce in float32 (gradient buckets, tensor-parallel sums), divide by the number of ranks before the sum "
        "in place of after it, or lower the loss scale."
    ),
    "mechanism.comm_corruption.name": "corrupted communication",
    "mechanism.comm_corruption.why": (
        "The result of the communication cannot come from its inputs: they are finite and small enough on all "
        "members, or other members received a different result from the same call."
    ),
    "mechanism.comm_corruption.advice": (
        "Look for a buffer that is reused or read before the transfer ended (a missing wait() or stream "
        "synchronisation), then for the link and the devices of the ranks named. Repeat with synchronous "
        "communication; if the place moves or goes with the host, test the hardware."
    ),
    "mechanism.uninitialised_memory.name": "uninitialised memory",
    "mechanism.uninitialised_memory.why": (
        "Memory was read before anything was written to it (torch.empty, new_empty, a padded tail, an unfilled "
        "receive buffer); its content is whatever lay there."
    ),
    "mechanism.uninitialised_memory.advice": (
        "Find the buffer and write all of it (zeros in place of empty, fill the padding), or read only the written "
        "part. Such faults come and go between runs: do not take a good repeat for a cure."
    ),
    "mechanism.bad_parameter.name": "bad parameter",
    "mechanism.bad_parameter.why": (
        "A weight was already not finite when this step first used it: the cause is in the step before (gradient, "
        "optimizer, all-gather of parameters) or in the checkpoint that was loaded."
    ),
    "mechanism.bad_parameter.advice": (
        "Dump the step before this one with its gradients and the optimizer's calls. After loading a checkpoint: check "
        "the file and the conversion for non-finite values first."
    ),
    "mechanism.bad_input.name": "bad input data",
    "mechanism.bad_input.why": "The batch itself held a non-finite value when it reached the model.",
    "mechanism.bad_input.advice": (
        "Check this batch in the data pipeline: the sample, its normalisation (division by zero standard deviation), "
        "its decoding and augmentation. A check for finite values in the data loader names the sample."
    ),
    "mechanism.large_value_propagation.name": "absurd value from upstream",
    "mechanism.large_value_propagation.why": (
        "An absurdly large but finite value entered earlier and went over the limit only here: this operator is where "
        "it shows, not where it was made."
    ),
    "mechanism.large_value_propagation.advice": (
        "Start at the first jump named in the run-up, not at the overflow: a single weight, a corrupted element, a "
        "scale factor or an uninitialised buffer."
    ),
    "mechanism.saturation.name": "saturated value",
    "mechanism.saturation.why": (
        "A value was clamped at the limit of its dtype earlier on in place of becoming Inf; the bad value follows "
        "from it."
    ),
    "mechanism.saturation.advice": (
        "Treat the clamped operator as an overflow. On Ascend devices that run in saturation mode, switch to INF/NAN "
        "mode (INF_NAN_MODE_ENABLE=1 where the device has it) and dump again: then the overflow shows where it happens."
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
    "mechanism.unknown.name": "mechanism not known",
    "mechanism.unknown.why": "The place is known; the recorded statistics do not tell why the value turned bad.",
    "mechanism.unknown.advice": (
        "Dump this operator again with task 'tensor' (list or scope set to it) and look at the elements, and with "
        "risk_level ALL so that casts and copies around it are recorded."
    ),
}
