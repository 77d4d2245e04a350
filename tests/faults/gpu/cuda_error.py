"""A label that is none of the classes: an assertion in a kernel, found where it is waited for."""
# expect: crash
# probes: yes
# needs: cuda
import os

import torch


def step(logits, labels):
    loss = torch.nn.functional.cross_entropy(logits, labels)  # here
    return loss.item()  # here


logits = torch.randn(64, 10, device="cuda")
step(logits, torch.randint(0, 10, (64,), device="cuda"))
labels = torch.full((64,), 10, device="cuda")
print("stall", flush=True)
os.read(0, 1)
step(logits, labels)
