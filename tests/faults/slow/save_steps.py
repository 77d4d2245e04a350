"""A checkpoint after each step."""
# expect: slow
import tempfile

import torch

path = tempfile.mktemp()
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)])


def train():
    while True:
        model(torch.randn(8, 512)).pow(2).mean().backward()
        torch.save(model.state_dict(), path)  # here


print("stall", flush=True)
train()
