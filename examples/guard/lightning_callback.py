"""A Lightning callback that puts a guard around every step.

Lightning runs forward and backward as a closure inside ``optimizer.step()``: the callback wraps that closure, and looks
at its result at once, before the optimizer uses it.
"""

import sys

import firstnan
import lightning
import torch
from torch import nn

BAD_STEP = 3


class Guard(lightning.Callback):
    """``Trainer(callbacks=[Guard("nan-dump")])``; for automatic optimization with one optimizer."""

    def __init__(self, out="nan-dump"):
        self.out, self.guard = out, None

    def on_fit_start(self, trainer, module):
        self.guard = firstnan.guard(module, self.out, immediate=True)
        original = module.optimizer_step

        def optimizer_step(epoch, batch_idx, optimizer, optimizer_closure=None):
            original(epoch, batch_idx, optimizer, lambda: self.guard.step(optimizer_closure))

        module.optimizer_step = optimizer_step


class Net(lightning.LightningModule):
    """Any module."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))

    def training_step(self, batch, index):
        return self.body(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main(out: str = "nan-dump") -> firstnan.Guard:
    torch.manual_seed(0)
    rows = torch.randn(24, 8)
    rows[4 * BAD_STEP : 4 * BAD_STEP + 4] *= 1e30
    guard = Guard(out)
    trainer = lightning.Trainer(
        max_steps=6, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[guard],
    )  # fmt: skip
    trainer.fit(Net(), torch.utils.data.DataLoader(rows, batch_size=4))
    guard.guard.close()
    return guard.guard


if __name__ == "__main__":
    main(*sys.argv[1:])
