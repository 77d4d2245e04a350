"""
A training loop that leaks: it keeps the loss of every step, and with it the whole graph.

    python examples/leak.py
"""
import argparse
import os
import time

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser(description="a loop that keeps its graphs")
    parser.add_argument("--steps", type=int, default=10**9)
    parser.add_argument("--sleep", type=float, default=0.02, help="seconds between steps")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    print("process %d" % os.getpid(), flush=True)
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(),
                          nn.Linear(512, 10)).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    history = []
    for step in range(args.steps):
        inputs = torch.randn(64, 256, device=args.device)
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        history.append(loss)  # the leak: loss.item() would be a number, this is the graph
        if step % 50 == 0:
            print("step %d loss %.4f" % (step, loss.item()), flush=True)
        time.sleep(args.sleep)


if __name__ == "__main__":
    main()
