"""A plain PyTorch loop with a guard. Runs on a CPU in seconds: ``python plain_loop.py``."""

import sys

import firstnan
import torch
from torch import nn

BAD_STEP = 3


def main(out: str = "nan-dump") -> firstnan.Guard:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    guard = firstnan.guard(model, out)
    for step in range(6):
        batch = torch.randn(4, 8) * (1e30 if step == BAD_STEP else 1.0)  # drawn outside of the step

        def forward_backward(batch=batch):
            loss = model(batch).square().mean()
            loss.backward()
            return loss

        optimizer.zero_grad()
        guard.step(forward_backward)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    guard.close()
    return guard


if __name__ == "__main__":
    main(*sys.argv[1:])
