"""A loop of Hugging Face Accelerate with a guard: ``accelerate launch accelerate_loop.py``."""

import sys

import firstnan
import torch
from accelerate import Accelerator
from torch import nn

BAD_STEP = 3


def main(out: str = "nan-dump") -> firstnan.Guard:
    accelerator = Accelerator()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    guard = firstnan.guard(model, out, scaler=accelerator.scaler)
    for step in range(6):
        batch = torch.randn(4, 8, device=accelerator.device) * (1e30 if step == BAD_STEP else 1.0)

        def forward_backward(batch=batch):
            with accelerator.autocast():
                loss = model(batch).square().mean()
            accelerator.backward(loss)
            return loss

        optimizer.zero_grad()
        guard.step(forward_backward)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    guard.close()
    return guard


if __name__ == "__main__":
    main(*sys.argv[1:])
