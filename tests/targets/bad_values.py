"""A training whose loss explodes, or whose learning rate or gradients are zero: the argument."""
import os
import sys
import time

import torch

WAY = sys.argv[1]
net = torch.nn.Linear(4, 1)
x = torch.randn(64, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.0 if WAY == "rate" else 1e-9)
scale = 1.0


def train():
    global scale
    loss = (net(x) * scale).pow(2).mean()
    if WAY == "gradients":
        loss = loss * 0
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    if WAY == "explodes" and scale < 1e6:
        scale *= 1.1


print("ready", os.getpid(), flush=True)
sys.stdin.readline()
while True:
    train()
    time.sleep(0.02)
