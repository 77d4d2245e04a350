"""gc.collect() in each step, over many objects."""
# expect: slow
import gc

import torch

keep = [{"i": i} for i in range(300000)]
model = torch.nn.Linear(64, 64)


def train():
    while True:
        model(torch.randn(32, 64)).pow(2).mean().backward()
        gc.collect()  # here


print("stall", flush=True)
train()
