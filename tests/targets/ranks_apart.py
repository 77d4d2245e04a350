"""
Two ranks of a training with SGD, which counts no steps. The rate is the program's own number of the
step, so that a row says by itself which step it is about.
usage: ranks_apart.py PORT sampler|loader|nothing
"""
import os
import sys
import time

sys.path.pop(0)  # other targets are named like modules that torch imports

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

PASS, RATE = 50, 1e-7  # batches in a pass; rate of the first step


def batches(kind, rank):
    """Numbers of steps, and batches for them."""
    data = TensorDataset(torch.randn(2 * 2 * PASS, 8))
    sampler = DistributedSampler(data, num_replicas=2, rank=rank)
    loader = DataLoader(data, batch_size=2, sampler=sampler)
    number = 0
    for epoch in range(100000):
        if kind == "sampler":
            sampler.set_epoch(epoch)
        for batch, in loader if kind != "nothing" else [[torch.randn(2, 8)]] * PASS:
            yield number, batch
            number += 1
        if epoch % 3 == 2:  # an evaluation of its own, with operations between the ranks
            dist.all_reduce(torch.ones(1))


def train(kind, rank):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for number, batch in batches(kind, rank):
        optimizer.param_groups[0]["lr"] = RATE * (number + 1)
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        time.sleep(0.005)


def main(rank, port, kind):
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:" + port, rank=rank, world_size=2)
    print("rank %d is process %d" % (rank, os.getpid()), flush=True)
    train(kind, rank)


if __name__ == "__main__":
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[1])
    mine = 1 if os.fork() == 0 else 0
    main(mine, sys.argv[1], sys.argv[2])
