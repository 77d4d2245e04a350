"""More memory of the GPU than there is."""
# expect: crash
# class: OutOfMemoryError
# probes: yes
# needs: cuda
import os

import torch


def load(kept):
    kept.append(torch.empty(1 << 32, dtype=torch.uint8, device="cuda"))  # here


torch.zeros(1, device="cuda")
print("stall", flush=True)
os.read(0, 1)
kept = []
while True:
    load(kept)
