"""English: ranks that should be equal."""

from __future__ import annotations

AGREEMENT: dict[str, str] = {
    "section.agreement": "Ranks that should be equal",
    "section.agreement_of": "Ranks that should be equal: {part}",
    "verdict.differ": "Ranks that should hold the same numbers do not: {what}",
    "verdict.agree": (
        "All ranks that should hold the same numbers do, in {parameters} parameters, {calls} communication calls and "
        "{records} operators"
    ),
    "verdict.not_compared": "Nothing could be compared between ranks",
    # One disagreement in one sentence.
    "differ.parameter": "parameter {name} differs between {ranks} from step {step} on",
    "differ.parameter.odd": "parameter {name} differs on {odd} of {ranks} from step {step} on",
    "differ.communication": "{name} gave {ranks} different results in step {step}",
    "differ.communication.odd": "{name} gave {odd} of {ranks} another result in step {step}",
    "differ.operator": "{name} gave {ranks} different outputs for equal inputs in step {step}",
    "differ.operator.odd": "{name} gave {odd} of {ranks} another output for equal inputs in step {step}",
    "differ.reason": "{reason:disagreement} ({confidence:confidence})",
    "differ.or": "or: {what}",
    "differ.count": "{count} of {of} parameters that were compared differ",
    "differ.also": "also: {names}",
    "differ.also_more": "also: {names} and {more} more",
    "disagreement.reduction_missing": "a gradient is not reduced over all of them",
    "disagreement.memory_corruption": "memory changed between two steps",
    "disagreement.comm_corruption": "communication was corrupted",
    "disagreement.device_fault_suspected": "a device may compute wrongly",
    "disagreement.seed_mismatch": "they began with different values",
    # Why.
    "differ.why.reduction_missing": (
        "Replicas begin equal and stay equal only if each gradient is reduced over all of them."
    ),
    "differ.why.reduction_missing.possible": (
        "If this parameter is meant to be replicated, its gradient must be reduced over these ranks (sequence parallel "
        "norms, embeddings and biases need it too)."
    ),
    "differ.why.memory_corruption": "The parameter was equal before. No update changes one replica alone.",
    "differ.why.seed_mismatch": "Replicas must begin with the same values: the same seed, or the same checkpoint.",
    "differ.why.result": "{api} gives every member the same tensor. The {members} members recorded different ones.",
    "differ.why.received": "What a rank receives must be what its peer sent.",
    "differ.why.operator": "{api} had the same inputs and settings on {members} ranks and gave different outputs.",
    # What shows it.
    "evidence.replicas_equal": "{equal} of {of} comparable parameters are equal on these ranks.",
    "evidence.equal_at_step": "It was equal on all of them in step {step}.",
    "evidence.constant_at_step": "It was constant on all of them in step {step}.",
    "evidence.gradient_was_reduced": "Its gradient was reduced over these ranks in step {step}.",
    "evidence.call_name": "On rank {rank} the record is {op_name}.",
    "evidence.equal_inputs": "All recorded inputs and settings are equal, in all four statistics.",
    # What to do.
    "advice.agree.synchronise": (
        "Reduce the gradient of this parameter over these ranks: under sequence parallelism set the flag that marks it "
        "(sequence_parallel on norms), and check that no parameter was left out of the wrapper or the buckets."
    ),
    "advice.agree.previous_step": "Dump the step before as well, on all ranks: there the gradient can be seen.",
    "advice.agree.reload": "Reload the parameter from a checkpoint that is known to be good, on all ranks.",
    "advice.agree.swap_device": (
        "Run the rank that stands out on another device. If the difference follows the device, replace it."
    ),
    "advice.agree.checksums": (
        "Run this step again with summary_mode md5: checksums of device tensors show every single bit."
    ),
    "advice.agree.seed": (
        "Set the same seed on all replicas before the model is built, or broadcast its parameters from one rank."
    ),
    "advice.agree.link": (
        "Repeat the step. If the same rank stands out again, check its links and its communication library."
    ),
    "advice.agree.replay": "Save the tensors of this operator (task tensor) and run it again on a CPU.",
    "alternative.memory_corruption": "A memory cell changed on one of the ranks.",
    "alternative.reduction_missing": "Its gradient is not reduced over these ranks.",
    "alternative.shards": "Each rank holds its own part of this parameter.",
    # How much was compared.
    "agreement.compared": "compared: {parameters} parameters, {calls} communication calls, {records} operators",
    "agreement.nothing": "Nothing could be compared.",
    "agreement.left_out": "not compared: {what:compared_kind}, {count} ({reason:not_comparable})",
    "compared_kind.parameters": "parameters",
    "compared_kind.calls": "calls",
    "compared_kind.records": "operators",
    "not_comparable.constant": "all their elements are the same number, which proves nothing",
    "not_comparable.no_statistics": "no statistics",
    "not_comparable.no_peer": "no other rank has them",
    "not_comparable.other_shape": "other shapes on other ranks",
    "not_comparable.maybe_shard": "they differ, but they may be shards, which should",
    "not_comparable.stale": "integers, or asynchronous results that may be old",
    "not_comparable.doubtful_match": "firstnan cannot match the calls of the members with certainty",
    "not_comparable.checksum_of_host_memory": "only checksums differ, and those of host tensors prove nothing",
    "not_comparable.other_inputs": "no two ranks had equal inputs",
    "not_comparable.not_telling": "random, indexing, integer or coarse values",
    "not_comparable.not_reached": "their files cannot be reached",
    "label.differing": "what differs",
    "label.checksum": "checksum",
    "html.agreement.rank": "rank",
}
