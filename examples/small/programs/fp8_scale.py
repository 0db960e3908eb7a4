"""fp8 weights that are scaled back with the scale of a block that held only zeros."""

import torch
from torch import nn

RISK = "ALL"


class Dequantise(nn.Module):
    def __init__(self):
        super().__init__()
        weight = torch.tensor([[1.0, -2.0, 0.5, 3.0], [0.0, 0.0, 0.0, 0.0]])
        amax = weight.abs().amax(-1, keepdim=True)
        scale = 448.0 / amax  # Inf for the second block
        self.register_buffer("quantised", (weight * scale).to(torch.float8_e4m3fn))
        self.register_buffer("scale", scale)

    def forward(self, x):
        weight = torch.div(self.quantised.to(torch.float32), self.scale)
        return x @ weight.t()


def model():
    return Dequantise()


def step(net, rank):
    x = torch.randn(2, 4, requires_grad=True)
    net(x).sum().backward()
