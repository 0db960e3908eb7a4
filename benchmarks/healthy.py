"""Healthy runs of other people's models have to be clean: trains a step of each under MSProbe and analyses the dump.

    python benchmarks/healthy.py [--families NAME ...] [--levels L0 L1 mix] [--keep DIR] [--evaluate]

Needs torch, transformers and mindstudio-probe; diffusers where it is there. Every family is a tiny model with random
weights: a forward pass on padded batches, a loss, backward, clipping, and a step of the optimizer; with ``--evaluate``
a forward pass without gradients in place of it, and some tokens drawn where the model can. Each run must be
``clean``, complete, exit code 0. A family that this version of a library cannot build is told and does not count.
Exit code 1 when a run was not clean.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from healthy_nets import NETS
from torch import nn

import firstnan

LEVELS = ("L0", "L1", "mix")
FAMILIES = Path(__file__).with_name("healthy_families.txt")
"""Kinds of models of transformers, each line: a task, and names."""

SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embedding_size", "emb_dim", "state_size_"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_decoder_layers", "num_encoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "num_kv_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_encoder_attention_heads", "num_decoder_attention_heads"), 4),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "n_inner", "d_ff", "d_inner", "ffn_hidden_size"), 64),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "expansion_ratio_"), 64),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_source_positions"), 64),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 32),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token"), 2),
    "vocab_size": 128,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "d_kv": 8,
    "sliding_window": 16,
    "num_labels": 3,
    "image_size": 64,
    "patch_size": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "rotary_dim": 8,
    "type_vocab_size": 2,
    "decoder_start_token_id": 1,
    "attention_window": 8,
}
"""What makes a model small, under the names that configurations have."""
SPECIAL: dict[str, dict[str, Any]] = {
    "mamba2": {"num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 8},
    "reformer": {"attn_layers": ["local", "local"], "axial_pos_shape": [4, 4], "axial_pos_embds_dim": [16, 16]},
    "time_series_transformer": {"prediction_length": 6, "context_length": 12, "lags_sequence": [1, 2, 3]},
    "patchtst": {"context_length": 24, "patch_length": 6, "patch_stride": 6, "prediction_length": 6},
    "patchtsmixer": {"context_length": 24, "patch_length": 6, "patch_stride": 6, "prediction_length": 6},
    "wav2vec2": {"conv_dim": (16, 16), "conv_kernel": (10, 3), "conv_stride": (5, 2), "num_feat_extract_layers": 2,
                 "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "mask_time_length": 2},
    "swin": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4, "patch_size": 4},
    "whisper": {"num_mel_bins": 16, "max_source_positions": 24, "max_target_positions": 32},
    "audio-spectrogram-transformer": {"max_length": 32, "num_mel_bins": 16},
}  # fmt: skip
SPECIAL["deepseek_v2"] = SPECIAL["deepseek_v3"] = {
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
}
SPECIAL["swinv2"] = SPECIAL["swin"]
for _one in ("hubert", "wavlm", "sew", "unispeech"):
    SPECIAL[_one] = SPECIAL["wav2vec2"]


@dataclass(frozen=True)
class Family:
    """One kind of model: how to make it with a batch; the call of the model gives what the loss is made of."""

    name: str
    make: Callable[[], tuple[nn.Module, dict[str, Any]]]


@dataclass(frozen=True)
class Outcome:
    """What came of one run."""

    family: str
    level: str
    built: bool
    clean: bool = False
    detail: str = ""


def families() -> list[Family]:
    """Every family, each under its own name."""
    found = [Family(name, make) for name, make in NETS.items()]
    for line in FAMILIES.read_text(encoding="utf-8").splitlines():
        task, names = line.split(": ")
        found += [Family(name, _of_transformers(name, task)) for name in names.split()]
    return found


def _of_transformers(name: str, task: str) -> Callable[[], tuple[nn.Module, dict[str, Any]]]:
    def make() -> tuple[nn.Module, dict[str, Any]]:
        import transformers

        plain = transformers.CONFIG_MAPPING[name]()
        known = {*vars(plain), *getattr(plain, "attribute_map", {})}
        config = type(plain)(**{key: value for key, value in SMALL.items() if key in known} | SPECIAL.get(name, {}))
        config.decoder_start_token_id = 1
        classes = {
            "causal": transformers.AutoModelForCausalLM,
            "masked": transformers.AutoModelForMaskedLM,
            "translation": transformers.AutoModelForSeq2SeqLM,
        }
        chosen = classes.get(task, transformers.AutoModel)
        try:
            model = chosen.from_config(config, attn_implementation="eager")
        except ValueError:
            model = chosen.from_config(config)
        return model, _batch(task, config)

    return make


def _batch(task: str, config: Any) -> dict[str, Any]:
    """A batch of two: the second sequence is padded to half of its length."""
    if task == "images":
        size = getattr(config, "image_size", 64)
        return {"pixel_values": torch.randn(2, 3, size if isinstance(size, int) else size[0], 64)}
    if task == "series":
        return _series(config)
    if task == "sounds":
        return _sound(config)
    tokens = torch.randint(3, 100, (2, 16))
    mask = torch.ones(2, 16, dtype=torch.long)
    mask[1, 8:] = 0
    labels = tokens.masked_fill(mask == 0, -100)
    return {"input_ids": tokens.masked_fill(mask == 0, 0), "attention_mask": mask, "labels": labels}


def _sound(config: Any) -> dict[str, Any]:
    if hasattr(config, "conv_dim"):
        return {"input_values": torch.randn(2, 800), "attention_mask": torch.ones(2, 800, dtype=torch.long)}
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_length") and not hasattr(config, "decoder_layers"):
        return {"input_values": torch.randn(2, config.max_length, config.num_mel_bins)}
    if config.model_type == "whisper":
        features = torch.randn(2, config.num_mel_bins, 2 * config.max_source_positions)
    else:
        features = torch.randn(2, 32, getattr(config, "input_feat_per_channel", 80))
    return {"input_features": features, "decoder_input_ids": torch.randint(3, 100, (2, 8))}


def _series(config: Any) -> dict[str, Any]:
    if config.model_type != "time_series_transformer":
        return {"past_values": torch.randn(2, config.context_length, getattr(config, "num_input_channels", 1))}
    past = config.context_length + max(config.lags_sequence)
    seen = torch.ones(2, past)
    seen[1, :4] = 0
    return {
        "past_values": torch.randn(2, past).abs(),
        "past_time_features": torch.zeros(2, past, 0),
        "past_observed_mask": seen,
        "future_values": torch.randn(2, config.prediction_length).abs(),
        "future_time_features": torch.zeros(2, config.prediction_length, 0),
    }


def loss_of(output: Any) -> torch.Tensor:
    """The model's own loss; where it gives none, the mean square of its first result."""
    if isinstance(output, torch.Tensor):
        return output if output.dim() == 0 else output.float().square().mean()
    loss = getattr(output, "loss", None)
    if loss is not None:
        return loss
    values = output.values() if isinstance(output, dict) else output
    return next(v for v in values if isinstance(v, torch.Tensor) and v.is_floating_point()).float().square().mean()


def debugger_of(level: str, folder: Path) -> Any:
    """What dumps a run into a folder."""
    from msprobe.pytorch import PrecisionDebugger

    statistics = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"}
    config = {"task": "statistics", "dump_path": str(folder), "rank": [], "step": [], "level": level}
    path = folder.with_suffix(".config.json")
    path.write_text(json.dumps({**config, "async_dump": False, "statistics": statistics}), encoding="utf-8")
    return PrecisionDebugger(config_path=str(path))


def train(family: Family, level: str, folder: Path) -> None:
    """One step of training, dumped into a folder."""
    torch.manual_seed(len(family.name))
    model, batch = family.make()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    debugger = debugger_of(level, folder)
    debugger.start(model=model)
    loss_of(model(**batch)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    debugger.stop()
    debugger.step()


def evaluate(family: Family, level: str, folder: Path) -> None:
    """A forward pass without gradients, and a few tokens that are drawn, dumped into a folder."""
    torch.manual_seed(len(family.name))
    model, batch = family.make()
    model.eval()
    debugger = debugger_of(level, folder)
    debugger.start(model=model)
    with torch.no_grad():
        loss_of(model(**batch))
        if getattr(model, "can_generate", lambda: False)() and "input_ids" in batch:
            asked = {key: batch[key] for key in ("input_ids", "attention_mask")}
            model.generate(**asked, max_new_tokens=3, do_sample=True, top_k=20)
    debugger.stop()
    debugger.step()


def _run_apart(
    work: Callable[[Family, str, Path], None], family: Family, level: str, folder: Path, words: Path
) -> None:
    """:func:`train` or :func:`evaluate` in a child process; what is said goes to a file."""
    with words.open("w", encoding="utf-8") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
        warnings.simplefilter("ignore")
        work(family, level, folder)


def run(family: Family, level: str, keep: Path, work: Callable[[Family, str, Path], None] = train) -> Outcome:
    """Trains or evaluates in a child process (MSProbe patches torch for good) and analyses what it dumped."""
    folder = keep / f"{family.name}-{level}"
    words = folder.with_suffix(".log")
    child = multiprocessing.get_context("fork").Process(target=_run_apart, args=(work, family, level, folder, words))
    child.start()
    child.join()
    if child.exitcode:
        said = words.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return Outcome(family.name, level, built=False, detail=said[-1] if said else f"ended with {child.exitcode}")
    answer = firstnan.analyze(folder, firstnan.Options(jobs=1))
    if not answer.input.records:  # L0 of a model without modules inside
        return Outcome(family.name, level, built=False, detail="nothing was dumped")
    if answer.exit_code == 0:
        return Outcome(family.name, level, built=True, clean=True)
    causes = [f"{c.op_name} {c.where.value} {c.mechanism.kind.value}" for c in answer.root_causes]
    problems = [f"{p.kind.value} ({p.detail})" for p in answer.input.problems if not p.judged]
    return Outcome(family.name, level, built=True, detail=f"exit {answer.exit_code}: " + "; ".join(causes + problems))


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints each run that is not clean, and the count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", help="default: all")
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=LEVELS)
    parser.add_argument("--keep", type=Path, help="folder for the dumps; default: they are removed")
    parser.add_argument(
        "--evaluate", action="store_true", help="a forward pass without gradients, in place of training"
    )
    asked = parser.parse_args(arguments)
    chosen = [family for family in families() if not asked.families or family.name in asked.families]
    torch.set_num_threads(1)
    import msprobe.pytorch
    import transformers  # noqa: F401  (once, here: the children then start at once)

    del msprobe
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="firstnan-healthy-") as scratch:
        keep = asked.keep or Path(scratch)
        keep.mkdir(parents=True, exist_ok=True)
        for family in chosen:
            for level in asked.levels:
                outcome = run(family, level, keep, evaluate if asked.evaluate else train)
                outcomes.append(outcome)
                if not outcome.clean:
                    word = "NOT CLEAN" if outcome.built else "not built"
                    print(f"{word}: {outcome.family} {outcome.level}: {outcome.detail}", flush=True)
                if not outcome.built:
                    break
    built = [one for one in outcomes if one.built]
    names = {one.family for one in built}
    print(f"{sum(one.clean for one in built)} of {len(built)} runs clean and complete, {len(names)} families")
    return 0 if all(one.clean for one in built) else 1


if __name__ == "__main__":
    sys.exit(main())
