"""Losses kept with their graphs: memory of the GPU grows with every step."""
# expect: leak
# needs: cuda
# wait: 20
import time

import torch

model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)]).cuda()
kept = []
print("stall", flush=True)
while True:
    x = torch.randn(256, 1024, device="cuda")
    loss = (model(x) - x).pow(2).mean()
    loss.backward()
    kept.append(model(x))  # here
    time.sleep(0.05)
