"""Many ranks that train a small model, a step a second each, for the page and the node to watch.

usage: torch_many.py RANKS [SECONDS_A_STEP]
torch is imported once and the ranks are forked, so that 64 of them fit into a small machine.
"""
import os
import sys
import time

sys.path.pop(0)  # other targets are named like modules that torch imports

import torch
from torch import nn

torch.set_num_threads(1)


def make():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def train(pause):
    model, optimizer = make()
    parent = os.getppid()
    due = time.monotonic()
    while os.getppid() == parent:
        optimizer.zero_grad()
        loss = model(torch.randn(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        due = max(due + pause, time.monotonic())
        time.sleep(max(0, due - time.monotonic()))


def main():
    ranks, pause = int(sys.argv[1]), float((sys.argv[2:] or ["1"])[0])
    model, optimizer = make()
    optimizer.step()  # imports what an optimizer needs once, for all ranks
    os.environ["WORLD_SIZE"] = str(ranks)
    for rank in range(ranks):
        os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
        pid = os.fork()
        if not pid:
            train(pause)
            os._exit(0)
        print("rank %d is process %d" % (rank, pid), flush=True)
    for _ in range(ranks):
        os.wait()


main()
