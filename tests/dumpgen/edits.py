"""What spoils a model, a batch or an optimizer; and names that several tables share."""

from __future__ import annotations

from typing import Any

import torch

NAN, INF = float("nan"), float("inf")
BERT_OUT = "bert.encoder.layer.1.output.dense"
BERT_IN = "bert.encoder.layer.0.intermediate.dense"
LLAMA_UP = "model.layers.0.mlp.up_proj"
VIT_OUT = "vit.layers.0.mlp.fc2"
EXP = ("fp32_overflow",)
SQRT = ("div_by_zero", "zero_times_inf")


def part(path: str, name: str) -> dict[str, Any]:
    return {"parts": ((path, name),)}


def all_ignored(batch: dict[str, Any]) -> None:
    batch["labels"].fill_(-100)


def plain_sgd(params: Any) -> Any:
    return torch.optim.SGD(params, lr=1e-3, foreach=False)


def masked_rows(batch: dict[str, Any]) -> None:
    """A ready-made 4-d mask in which one sample sees nothing but -inf."""
    rows, n = batch["input_ids"].shape
    mask = torch.zeros(rows, 1, n, n).masked_fill(torch.ones(n, n).triu(1) > 0, float("-inf"))
    mask[1] = float("-inf")
    batch["attention_mask"] = mask


def short_clip(batch: dict[str, Any]) -> None:
    """A transcript longer than the audio: CTC has no path."""
    batch["lens"] = torch.tensor([9, 2])
    batch["text"] = torch.full_like(batch["text"], 4)
    batch["tlens"] = torch.tensor([3, 3])


def time_zero(batch: dict[str, Any]) -> None:
    batch["alpha"][0] = 1.0


def one_episode(batch: dict[str, Any]) -> None:
    for k in batch:
        batch[k] = batch[k][:1]


def illegal_action(batch: dict[str, Any]) -> None:
    batch["action"][1] = 3


def blank_pair(batch: dict[str, Any]) -> None:
    batch["images"][2] = 0


def dead_image(tm: Any) -> None:
    """Biases to zero, so that an empty image gives an embedding of exact zeros."""
    tm.net.image[0].bias.zero_()
    tm.net.image[2].weight.abs_()


def nan_weight(path: str, index: int = 3, value: float = NAN) -> Any:
    def edit(tm: Any) -> None:
        tm.get_parameter(path).view(-1)[index] = value

    return edit


def nan_row(tm: Any) -> None:
    tm.net.bert.embeddings.word_embeddings.weight[2] = NAN


def uses_row(batch: dict[str, Any]) -> None:
    batch["input_ids"][0, 4] = 2


def corrupt_image(batch: dict[str, Any]) -> None:
    batch["pixel_values"][1, 2, 3, 3] = NAN


def infinite_feature(batch: dict[str, Any]) -> None:
    batch["feats"][0, 0, 2] = INF


def nan_return(batch: dict[str, Any]) -> None:
    batch["returns"][2] = NAN


def shard_nan(tm: Any) -> None:
    tm.net.model.layers[1].self_attn.q_proj.weight.to_local().view(-1)[5] = NAN


def huge_logvar(tm: Any) -> None:
    tm.net.logvar.bias.fill_(300.0)


def huge_scale(tm: Any) -> None:
    tm.net.logit_scale.fill_(200.0)


def bad_running_var(tm: Any) -> None:
    for m in tm.modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            m.eval()
    tm.net.down[1].bn.running_var[1] = NAN


def rotary_inf(tm: Any) -> None:
    tm.net.model.rotary_emb.inv_freq[1] = INF


def adam_no_eps(params: Any) -> Any:
    return torch.optim.Adam(params, lr=1e-3, eps=0.0, foreach=False)


def sgd_huge(params: Any) -> Any:
    return torch.optim.SGD(params, lr=1e30, foreach=False)


def spoil_shard(shard: torch.Tensor) -> None:
    shard.numpy()[7] = NAN


def adam_plain(params: Any) -> Any:
    return torch.optim.AdamW(params, lr=1e-3, foreach=False)


def huge_decay(tm: Any) -> None:
    tm.net.backbone.layers[1].mixer.A_log[0, 0] = 95.0


def zero_variance(tm: Any) -> None:
    emb = tm.net.vit.embeddings
    emb.cls_token.zero_()
    emb.position_embeddings.zero_()


def big_query(tm: Any) -> None:
    layer = tm.net.vit.layers[0].attention
    for p in (layer.q_proj, layer.k_proj):
        p.weight.mul_(0).add_(9.0)
        p.bias.fill_(600.0)


def big_ffn(tm: Any) -> None:
    ff = tm.net.encoder.block[0].layer[1].DenseReluDense
    ff.wi.weight.fill_(60.0)
    ff.wo.weight.fill_(90.0)
