"""A Hugging Face ``Trainer`` with a guard: its ``training_step`` is forward and backward of one batch."""

import sys
import tempfile

import firstnan
import torch
from torch import nn
from transformers import Trainer, TrainingArguments

BAD_STEP = 3


class GuardedTrainer(Trainer):
    """The same trainer; every training step runs in the guard."""

    def __init__(self, *args, out="nan-dump", **kwargs):
        super().__init__(*args, **kwargs)
        self.guard = firstnan.guard(self.model, out)

    def training_step(self, model, inputs, *args, **kwargs):
        return self.guard.step(lambda: super(GuardedTrainer, self).training_step(model, dict(inputs), *args, **kwargs))


class Net(nn.Module):
    """Any model that a trainer takes."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x, labels=None):
        y = self.body(x)
        return {"loss": (y - labels).square().mean(), "logits": y}


def main(out: str = "nan-dump") -> firstnan.Guard:
    torch.manual_seed(0)
    rows = [{"x": torch.randn(8), "labels": torch.zeros(1)} for _ in range(24)]
    for row in rows[4 * BAD_STEP : 4 * BAD_STEP + 4]:
        row["x"] *= 1e30
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=6, per_device_train_batch_size=4, use_cpu=True, report_to=[], save_strategy="no",
            disable_tqdm=True,
        )  # fmt: skip
        trainer = GuardedTrainer(Net(), arguments, train_dataset=rows, out=out)
        trainer._get_train_sampler = lambda *_: torch.utils.data.SequentialSampler(rows)  # the example's bad batch is the 4th
        trainer.train()
    trainer.guard.close()
    return trainer.guard


if __name__ == "__main__":
    main(*sys.argv[1:])
