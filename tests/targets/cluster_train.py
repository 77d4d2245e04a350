"""A rank of a job across machines: trains, and meets the others in each step until it is told."""
import os
import sys
import time

sys.path.pop(0)  # other targets are named like modules that torch imports

import torch
import torch.distributed as dist


def wait_elsewhere():
    """One rank that does something else than the others."""
    while os.path.exists(os.environ["STUCK_FILE"]):
        time.sleep(0.05)


def train_step(model, optimizer, rank):
    optimizer.zero_grad()
    loss = model(torch.ones(4, 16) * (rank + 1)).square().mean()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    return loss.item()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    print("rank %d is process %d" % (rank, os.getpid()), flush=True)
    while True:
        if rank == int(os.environ.get("STUCK_RANK", "-1")):
            wait_elsewhere()
        train_step(model, optimizer, rank)
        time.sleep(float(os.environ.get("STEP_SECONDS", "0.25")))


main()
