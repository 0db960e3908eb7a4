"""Tiny real models with random weights: name -> a function that builds (module, batch maker).

Every model is used as `model(**batch).loss`. Hugging Face models are built from their config classes; nothing is
downloaded. The others are ordinary PyTorch code of the kind found in training repositories.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Batch = dict[str, Any]
BatchMaker = Callable[[torch.Generator], Batch]
VOCAB = 40


def _ids(g: torch.Generator, rows: int = 2, length: int = 8) -> torch.Tensor:
    return torch.randint(3, VOCAB, (rows, length), generator=g)


def bert(**over: Any) -> tuple[nn.Module, BatchMaker]:
    """Encoder with a masked-language-model head; the second sample is half padding."""
    from transformers import BertConfig, BertForMaskedLM

    cfg = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "vocab_size": VOCAB,
    }
    cfg |= {"max_position_embeddings": 16, "attn_implementation": "eager"} | over
    net = BertForMaskedLM(BertConfig(**cfg))

    def batch(g: torch.Generator) -> Batch:
        ids = _ids(g)
        mask = torch.ones_like(ids)
        mask[1, 5:] = 0
        return {"input_ids": ids, "attention_mask": mask, "labels": ids.clone()}

    return net, batch


def t5(**over: Any) -> tuple[nn.Module, BatchMaker]:
    """Encoder-decoder; its relative position buckets take log(0) in every forward pass."""
    from transformers import T5Config, T5ForConditionalGeneration

    cfg = {
        "d_model": 16,
        "d_kv": 8,
        "d_ff": 32,
        "num_layers": 1,
        "num_decoder_layers": 1,
        "num_heads": 2,
        "vocab_size": VOCAB,
    }
    cfg |= {"decoder_start_token_id": 0, "pad_token_id": 0, "attn_implementation": "eager"} | over
    net = T5ForConditionalGeneration(T5Config(**cfg))

    def batch(g: torch.Generator) -> Batch:
        ids = _ids(g)
        mask = torch.ones_like(ids)
        mask[0, 6:] = 0
        return {"input_ids": ids, "attention_mask": mask, "labels": _ids(g, length=6)}

    return net, batch


def llama(attn: str = "eager", **over: Any) -> tuple[nn.Module, BatchMaker]:
    """Decoder with rotary embeddings, grouped key/value heads and finfo.min masks."""
    from transformers import LlamaConfig, LlamaForCausalLM

    cfg = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 32,
    }
    cfg |= {"vocab_size": VOCAB, "max_position_embeddings": 32, "use_cache": False, "attn_implementation": attn} | over
    net = LlamaForCausalLM(LlamaConfig(**cfg))

    def batch(g: torch.Generator) -> Batch:
        ids = _ids(g)
        mask = torch.ones_like(ids)
        mask[0, :3] = 0  # left padding: the first rows of that sample see nothing but masked keys
        return {"input_ids": ids, "attention_mask": mask, "labels": ids.clone()}

    return net, batch


def gpt2(**over: Any) -> tuple[nn.Module, BatchMaker]:
    """Decoder with learned positions, Conv1D layers and the tanh GELU written out (pow 3)."""
    from transformers import GPT2Config, GPT2LMHeadModel

    cfg = {
        "n_embd": 16,
        "n_layer": 2,
        "n_head": 2,
        "n_positions": 16,
        "vocab_size": VOCAB,
        "attn_implementation": "eager",
    }
    cfg |= {"use_cache": False, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0} | over
    net = GPT2LMHeadModel(GPT2Config(**cfg))

    def batch(g: torch.Generator) -> Batch:
        ids = _ids(g)
        return {"input_ids": ids, "labels": ids.clone()}

    return net, batch


def mixtral(**over: Any) -> tuple[nn.Module, BatchMaker]:
    """Mixture of experts with top-2 routing and the load-balancing loss."""
    from transformers import MixtralConfig, MixtralForCausalLM

    cfg = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "intermediate_size": 24,
    }
    cfg |= {"vocab_size": VOCAB, "num_local_experts": 4, "output_router_logits": True, "use_cache": False}
    cfg |= {"max_position_embeddings": 32, "attn_implementation": "eager", "experts_implementation": "eager"} | over
    net = MixtralForCausalLM(MixtralConfig(**cfg))

    def batch(g: torch.Generator) -> Batch:
        ids = _ids(g)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}

    return net, batch


def vit(**over: Any) -> tuple[nn.Module, BatchMaker]:
    """Vision transformer, 3 classes."""
    from transformers import ViTConfig, ViTForImageClassification

    cfg = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "image_size": 8,
    }
    cfg |= {"patch_size": 4, "num_labels": 3, "attn_implementation": "eager"} | over
    net = ViTForImageClassification(ViTConfig(**cfg))

    def batch(g: torch.Generator) -> Batch:
        return {"pixel_values": torch.randn(2, 3, 8, 8, generator=g), "labels": torch.randint(0, 3, (2,), generator=g)}

    return net, batch


def mamba(**over: Any) -> tuple[nn.Module, BatchMaker]:
    """State-space model, the pure PyTorch path."""
    from transformers import MambaConfig, MambaForCausalLM

    cfg = {
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "state_size": 4,
        "vocab_size": VOCAB,
        "use_cache": False,
        "use_mambapy": False,
    }
    net = MambaForCausalLM(MambaConfig(**(cfg | over)))

    def batch(g: torch.Generator) -> Batch:
        ids = _ids(g, length=5)
        return {"input_ids": ids, "labels": ids.clone()}

    return net, batch


def mamba2(**over: Any) -> tuple[nn.Module, BatchMaker]:
    """State-space duality: segment sums masked with -inf before an exponential."""
    from transformers import Mamba2Config, Mamba2ForCausalLM

    cfg = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "state_size": 4,
        "vocab_size": VOCAB,
        "use_cache": False,
        "expand": 2,
    }
    cfg |= {"num_heads": 4, "head_dim": 4, "n_groups": 1, "chunk_size": 4} | over
    net = Mamba2ForCausalLM(Mamba2Config(**cfg))

    def batch(g: torch.Generator) -> Batch:
        ids = _ids(g, length=6)
        return {"input_ids": ids, "labels": ids.clone()}

    return net, batch


class ResBlock(nn.Module):
    """Convolution block with a time embedding."""

    def __init__(self, cin: int, cout: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(2, cin)
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.time = nn.Linear(8, cout)
        self.bn = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        h = self.conv1(functional.silu(self.norm(x)))
        h = h + self.time(t)[:, :, None, None]
        return self.conv2(functional.silu(self.bn(h))) + self.skip(x)


class DiffusionUNet(nn.Module):
    """Two-level U-Net that predicts noise; the loss is weighted by the signal-to-noise ratio."""

    def __init__(self, min_snr: float | None = 5.0) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 3, padding=1)
        self.down = nn.ModuleList([ResBlock(4, 8), ResBlock(8, 8)])
        self.up = nn.ModuleList([ResBlock(16, 8), ResBlock(12, 4)])
        self.out = nn.Conv2d(4, 2, 3, padding=1)
        self.min_snr = min_snr

    def embed(self, sigma: torch.Tensor) -> torch.Tensor:
        freq = torch.exp(torch.arange(4) * 0.5)
        angle = sigma[:, None] * freq
        return torch.cat([torch.sin(angle), torch.cos(angle)], dim=1)

    def forward(self, images: torch.Tensor, noise: torch.Tensor, alpha: torch.Tensor) -> SimpleNamespace:
        sigma = torch.sqrt(1 - alpha**2)
        noisy = alpha[:, None, None, None] * images + sigma[:, None, None, None] * noise
        t = self.embed(sigma)
        h0 = self.stem(noisy)
        h1 = self.down[0](functional.avg_pool2d(h0, 2), t)
        h2 = self.down[1](h1, t)
        h = self.up[0](torch.cat([h2, h1], dim=1), t)
        h = functional.interpolate(h, scale_factor=2, mode="nearest")
        predicted = self.out(self.up[1](torch.cat([h, h0], dim=1), t))
        snr = alpha**2 / sigma**2
        weight = snr if self.min_snr is None else torch.clamp(snr, max=self.min_snr) / (snr + 1)
        loss = (weight[:, None, None, None] * (predicted - noise) ** 2).mean()
        return SimpleNamespace(loss=loss, logits=predicted)


def unet(**over: Any) -> tuple[nn.Module, BatchMaker]:
    """Diffusion U-Net (convolutions, group and batch norm)."""
    net = DiffusionUNet(**over)

    def batch(g: torch.Generator) -> Batch:
        shape = (2, 2, 8, 8)
        alpha = 0.1 + 0.8 * torch.rand(2, generator=g)
        return {"images": torch.randn(shape, generator=g), "noise": torch.randn(shape, generator=g), "alpha": alpha}

    return net, batch


class SpeechLSTM(nn.Module):
    """Bidirectional LSTM with a CTC loss (zero_infinity off, as by default)."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(6, 8)
        self.rnn = nn.LSTM(8, 8, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(16, 7)

    def forward(self, feats: torch.Tensor, lens: torch.Tensor, text: torch.Tensor, tlens: torch.Tensor) -> Any:
        h, _ = self.rnn(torch.relu(self.proj(feats)))
        logits = self.head(h)
        logp = functional.log_softmax(logits, dim=-1).transpose(0, 1)
        return SimpleNamespace(loss=functional.ctc_loss(logp, text, lens, tlens), logits=logits)


def lstm(**over: Any) -> tuple[nn.Module, BatchMaker]:
    """Speech LSTM with CTC."""

    def batch(g: torch.Generator) -> Batch:
        text = torch.randint(1, 7, (2, 3), generator=g)
        feats = torch.randn(2, 9, 6, generator=g)
        return {"feats": feats, "lens": torch.tensor([9, 8]), "text": text, "tlens": torch.tensor([3, 2])}

    return SpeechLSTM(), batch


class TwoTower(nn.Module):
    """CLIP-like contrastive model: normalised embeddings, learned logit scale, symmetric cross entropy."""

    def __init__(self, eps: float = 0.0) -> None:
        super().__init__()
        self.image = nn.Sequential(nn.Linear(10, 16), nn.GELU(), nn.Linear(16, 8, bias=False))
        self.text = nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.Linear(16, 8, bias=False))
        self.logit_scale = nn.Parameter(torch.tensor(2.6))
        self.eps = eps

    def forward(self, images: torch.Tensor, texts: torch.Tensor) -> SimpleNamespace:
        a, b = self.image(images), self.text(texts)
        a = a / (a.norm(dim=-1, keepdim=True) + self.eps)
        b = b / (b.norm(dim=-1, keepdim=True) + self.eps)
        logits = self.logit_scale.exp() * a @ b.t()
        target = torch.arange(len(a))
        loss = (functional.cross_entropy(logits, target) + functional.cross_entropy(logits.t(), target)) / 2
        return SimpleNamespace(loss=loss, logits=logits)


def clip(**over: Any) -> tuple[nn.Module, BatchMaker]:
    """Contrastive two-tower model."""

    def batch(g: torch.Generator) -> Batch:
        return {"images": torch.randn(4, 10, generator=g), "texts": torch.randn(4, 12, generator=g)}

    return TwoTower(**over), batch


class BetaVAE(nn.Module):
    """Variational autoencoder with the KL term written out."""

    def __init__(self) -> None:
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(12, 16), nn.ReLU())
        self.mu, self.logvar = nn.Linear(16, 4), nn.Linear(16, 4)
        self.dec = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 12))

    def forward(self, x: torch.Tensor) -> SimpleNamespace:
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.exp(0.5 * logvar) * torch.ones_like(mu)
        recon = self.dec(z)
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).mean()
        return SimpleNamespace(loss=functional.mse_loss(recon, x) + 0.1 * kl, logits=recon)


def vae(**over: Any) -> tuple[nn.Module, BatchMaker]:
    """Variational autoencoder."""
    return BetaVAE(), lambda g: {"x": torch.randn(3, 12, generator=g)}


class PolicyGRU(nn.Module):
    """PPO-like actor-critic on top of a GRU: normalised advantages, ratio, entropy bonus, masked actions."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 8, batch_first=True)
        self.actor, self.critic = nn.Linear(8, 4), nn.Linear(8, 1)

    def forward(self, obs: Any, legal: Any, action: Any, old_logp: Any, returns: Any) -> SimpleNamespace:
        h, _ = self.gru(obs)
        h = h[:, -1]
        logits = self.actor(h).masked_fill(~legal, float("-inf"))
        logp = functional.log_softmax(logits, dim=-1)
        value = self.critic(h).squeeze(-1)
        adv = (returns - value).detach()
        adv = (adv - adv.mean()) / adv.std()
        chosen = logp.gather(1, action[:, None]).squeeze(1)
        ratio = torch.exp(chosen - old_logp)
        policy = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
        loss = policy + 0.5 * functional.mse_loss(value, returns)
        return SimpleNamespace(loss=loss, logits=logits)


def ppo(**over: Any) -> tuple[nn.Module, BatchMaker]:
    """Actor-critic with masked actions."""

    def batch(g: torch.Generator) -> Batch:
        legal = torch.ones(4, 4, dtype=torch.bool)
        legal[:, 3] = False
        out = {"obs": torch.randn(4, 5, 6, generator=g), "legal": legal}
        out |= {"action": torch.randint(0, 3, (4,), generator=g), "old_logp": -1.2 * torch.ones(4)}
        return out | {"returns": torch.randn(4, generator=g)}

    return PolicyGRU(), batch


NETS: dict[str, Callable[..., tuple[nn.Module, BatchMaker]]] = {
    f.__name__: f for f in (bert, t5, llama, gpt2, mixtral, vit, mamba, mamba2, unet, lstm, clip, vae, ppo)
}
