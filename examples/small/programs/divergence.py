"""A learning rate a hundred times too large: every step throws the weights further, until their product overflows."""

import torch
from torch import nn

STEPS = 5


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 8)
        self.down = nn.Linear(8, 1)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def model():
    return Net()


def step(net, rank):
    x = torch.randn(6, 4)
    loss = (net(x) - 1).square().mean()
    net.zero_grad()
    loss.backward()
    with torch.no_grad():
        for weight in net.parameters():
            weight -= 5.0 * weight.grad
