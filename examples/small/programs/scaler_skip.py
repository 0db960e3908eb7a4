"""A float16 step whose gradients overflow at the first loss scale, and the next step with half the scale, which is fine."""

import torch
from torch import nn

STEPS = 2
scale = 2.0**17


def model():
    return nn.Sequential(nn.Linear(4, 4).half(), nn.Linear(4, 2).half())


def step(net, rank):
    global scale
    x = torch.full((3, 4), 2.0, dtype=torch.float16)
    loss = net(x).float().square().mean()
    (loss * scale).backward()
    with torch.no_grad():
        if all(p.grad.isfinite().all() for p in net.parameters()):
            for p in net.parameters():
                p -= 0.01 * p.grad / scale
        else:
            scale /= 1024  # the update is left out
    net.zero_grad()
