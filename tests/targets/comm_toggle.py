"""
Two ranks that train the same model again and again, from GO_FILE to END_FILE.
usage: comm_toggle.py PORT GO_FILE END_FILE STEPS
"""
import datetime
import os
import sys
import time

sys.path.pop(0)  # other targets are named like modules that torch imports

import torch
import torch.distributed as dist
from torch import nn


def train(steps, pair):
    """Two models with a group each, and some words between the ranks; what has become of them."""
    torch.manual_seed(0)
    nets = [nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4)),
                                                process_group=group) for group in (None, pair)]
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.01) for net in nets]
    for step in range(steps):
        for net, optimizer in zip(nets, optimizers):
            optimizer.zero_grad()
            net(torch.full((4, 8), float(step % 5))).pow(2).mean().backward()
            optimizer.step()
        work = dist.all_reduce(torch.ones(3), async_op=True)
        dist.all_gather_object([None, None], step, group=pair)
        assert work.wait() is True
    return [value for net in nets for one in net.parameters() for value in one.flatten().tolist()]


def run(rank, port, go, end, steps):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=str(rank), WORLD_SIZE="2")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    pair = dist.new_group([0, 1])
    first = train(steps, pair)
    print("rank %d is process %d" % (rank, os.getpid()), flush=True)
    while not os.path.exists(go):
        time.sleep(0.02)
    same, done = True, [False]
    while not done[0]:
        same = train(steps, pair) == first and same
        done = [os.path.exists(end)]
        dist.broadcast_object_list(done, src=0)
    print("same %d %s" % (rank, same), flush=True)
    time.sleep(600)


def main():
    port, go, end, steps = sys.argv[1:]
    getattr(torch, "_dynamo", None)  # a large import that each rank would do for itself
    for rank in range(2):
        if os.fork() == 0:
            run(rank, port, go, end, int(steps))
    os.wait()


main()
