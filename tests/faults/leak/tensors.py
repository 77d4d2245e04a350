"""Losses are kept with their graphs."""
# expect: leak
# wait: 25
import time

import torch

model = torch.nn.Linear(256, 256)
losses = []
x = torch.randn(512, 256)
print("stall", flush=True)
while True:
    loss = model(x).pow(2).mean()
    losses.append(loss)  # here
    loss.backward(retain_graph=True)
    time.sleep(0.03)
