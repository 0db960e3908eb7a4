"""How well the replay of records tells a device's fault from rounding, on dumps of healthy runs.

    python benchmarks/replay.py --make DIR      four models of transformers, small, in float32 and bfloat16, forward and
                                                backward, under MSProbe (needs transformers and mindstudio-probe)
    python benchmarks/replay.py RANKDIR...      folders of ranks, dumped with task tensor, in which nothing is wrong

Four things are done to each record that can be run again, and counted:

clean       nothing: no difference may be told
tf32        products of float32 get inputs of 11 bits, as on tensor cores (TF32) and Ascend (HF32)
order       products and sums are computed in two halves, from the end, each half rounded to the dtype
bit flips   one bit of one element of the result is turned: of the exponent (top, middle, lowest), of the mantissa

Needs torch (firstnan[replay]).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import replace
from torch import Tensor

from firstnan.answer.replay import ReplayVerdict
from firstnan.replaying.experiment import Experiment, RankTensors, experiment
from firstnan.replaying.record import Limits, judge
from firstnan.replaying.refusal import RefusedError
from firstnan.replaying.tolerance import shortened

MODELS: dict[str, dict[str, Any]] = {
    "bert": {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128},
    "gpt2": {"n_layer": 2, "n_embd": 64, "n_head": 4},
    "llama": {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
              "intermediate_size": 128},
    "t5": {"num_layers": 2, "d_model": 64, "num_heads": 4, "d_kv": 16, "d_ff": 128, "decoder_start_token_id": 0},
}  # fmt: skip
VOCABULARY = 512

FLIPS = {
    torch.float32: {"exponent top": 30, "exponent middle": 26, "exponent lowest": 23, "mantissa top": 22},
    torch.bfloat16: {"exponent top": 14, "exponent middle": 10, "exponent lowest": 7, "mantissa top": 6},
    torch.float16: {"exponent top": 14, "exponent middle": 12, "exponent lowest": 10, "mantissa top": 9},
}
WORDS = {4: torch.int32, 2: torch.int16}


def in_tf32(made: Experiment) -> list[Tensor | None] | None:
    if not made.operator.is_product or any(leaf.tensor.dtype == torch.float64 for leaf in made.leaves):
        return None
    return made.run(lambda tensor: shortened(tensor) if tensor.dtype == torch.float32 else tensor)


def in_halves(made: Experiment) -> list[Tensor | None] | None:
    """The result of another order of summation, where the operator is a sum whose halves are simple."""
    if made.gradients is not None:
        return None
    api, leaves = made.operator.api, [leaf.tensor for leaf in made.args.leaves]
    if api in ("matmul", "bmm", "__matmul__", "mm") and len(leaves) == 2 and leaves[1].dim() >= 2:
        return [_halves(lambda a, b: torch.matmul(a, b), leaves[0], leaves[1], -1, -2)]
    if api == "linear" and len(leaves) >= 2:
        made_of = _halves(lambda a, b: torch.nn.functional.linear(a, b), leaves[0], leaves[1], -1, -1)
        return [made_of + leaves[2] if len(leaves) > 2 else made_of]
    if api in ("softmax", "log_softmax") and leaves[0].dim():
        return [None if one is None else one.flip(-1) for one in made.run(lambda tensor: tensor.flip(-1))]
    if api in ("mean", "sum") and leaves and leaves[0].is_floating_point():
        flipped = made.run(lambda tensor: tensor.flip(tuple(range(tensor.dim()))))
        return [None if one is None else one.flip(tuple(range(one.dim()))) for one in flipped]
    return None


def _halves(product: Callable[[Tensor, Tensor], Tensor], one: Tensor, other: Tensor, axis: int, across: int) -> Tensor:
    size = one.shape[axis]
    if size < 2:
        return product(one, other)
    first, last = [product(one.narrow(axis, at, n), other.narrow(across, at, n))
                   for at, n in ((0, size // 2), (size // 2, size - size // 2))]  # fmt: skip
    return last + first


def turned(made: Experiment, bit: int, dtype: torch.dtype, chance: random.Random) -> Experiment | None:
    """The experiment with one bit of one element of its recorded result turned."""
    fitting = [at for at, leaf in enumerate(made.recorded) if leaf.tensor.dtype == dtype and leaf.tensor.numel()]
    if not fitting:
        return None
    at = chance.choice(fitting)
    tensor = made.recorded[at].tensor.clone().contiguous()
    words = tensor.view(-1).view(WORDS[tensor.element_size()])
    words[chance.randrange(words.numel())] ^= 1 << bit
    return with_result(made, {at: tensor})


def with_result(made: Experiment, tensors: dict[int, Tensor]) -> Experiment:
    leaves = tuple(
        replace(leaf, tensor=tensors[at].to(leaf.tensor.dtype)) if at in tensors else leaf
        for at, leaf in enumerate(made.recorded)
    )
    return replace(made, recorded=leaves)


def experiments(folder: Path) -> Iterator[Experiment]:
    top = json.loads((folder / "dump.json").read_text("utf-8"))
    rank = RankTensors.of(top["data"], top.get("framework"), folder)
    for name in rank.records:
        try:
            yield experiment(name, rank)
        except RefusedError:
            continue


def told(made: Experiment) -> ReplayVerdict:
    try:
        return judge(made, Limits()).verdict
    except RefusedError:
        return ReplayVerdict.NOT_RUN


def measure(folders: Sequence[Path]) -> dict[str, Counter[str]]:
    """What is told, for each thing that was done."""
    found: dict[str, Counter[str]] = {}
    chance = random.Random(0)

    def count(what: str, made: Experiment) -> None:
        verdict = told(made)
        found.setdefault(what, Counter())[verdict.value] += 1
        if verdict.blames_device and what in ("clean", "tf32", "order"):
            print(f"    {what}: {made.name.full}", judge(made, Limits()).example)

    for folder in folders:
        for made in experiments(folder):
            count("clean", made)
            for what, imitate in (("tf32", in_tf32), ("order", in_halves)):
                try:
                    results = imitate(made)
                except RefusedError:
                    continue
                if results is not None:
                    done = {at: one for at, one in enumerate(results) if one is not None}
                    count(what, with_result(made, done))
            for dtype, bits in FLIPS.items():
                for name, bit in bits.items():
                    spoilt = turned(made, bit, dtype, chance)
                    if spoilt is not None:
                        count(f"{str(dtype).removeprefix('torch.')} {name}", spoilt)
    return found


def make(folder: Path) -> None:
    """The dumps; each in a process of its own, since MSProbe hooks a process once."""
    context = multiprocessing.get_context("spawn")
    for name in MODELS:
        for dtype in (torch.float32, torch.bfloat16):
            process = context.Process(target=train, args=(name, dtype, folder / f"{name}-{str(dtype)[6:]}"))
            process.start()
            process.join()
            if process.exitcode:
                sys.exit(f"{name} cannot be dumped here")


def train(name: str, dtype: torch.dtype, folder: Path) -> None:
    """One step on random tokens, all tensors dumped."""
    import transformers
    from msprobe.pytorch import PrecisionDebugger

    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, vocab_size=VOCABULARY, **MODELS[name])
    kinds = (transformers.AutoModelForSeq2SeqLM if name == "t5" else
             transformers.AutoModelForMaskedLM if name == "bert" else transformers.AutoModelForCausalLM)  # fmt: skip
    model = kinds.from_config(config).to(dtype).eval()  # without dropout
    folder.mkdir(parents=True)
    settings = folder / "config.json"
    settings.write_text(json.dumps({"task": "tensor", "dump_path": str(folder), "rank": [], "step": [], "level": "mix",
                                    "tensor": {"scope": [], "list": [], "data_mode": ["all"]}}))  # fmt: skip
    debugger = PrecisionDebugger(config_path=str(settings))
    debugger.start(model=model)
    tokens = torch.randint(0, VOCABULARY, (2, 32))
    model(input_ids=tokens, labels=tokens).loss.backward()
    debugger.stop()
    debugger.step()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("folders", type=Path, nargs="*")
    options.add_argument("--make", type=Path)
    torch.set_num_threads(1)
    chosen = options.parse_args()
    if chosen.make is not None:
        make(chosen.make.absolute())
    for what, counts in sorted(measure(chosen.folders).items()):
        run = sum(counts.values()) - counts["not_run"]
        blamed = counts["not_reproduced"] + counts["values_differ"]
        print(f"{what:28} {blamed:6} told of {run:6} ({100 * blamed / max(run, 1):.2f} %)  {dict(counts)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
