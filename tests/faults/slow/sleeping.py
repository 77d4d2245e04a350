"""One rank takes longer for its part of each step."""
# expect: slow
# ranks: 2
# rank: 1
import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
x = torch.ones(4)
for _ in range(3):
    dist.all_reduce(x)
print("stall", flush=True)


def work():
    time.sleep(0.02)
    if rank == 1:
        time.sleep(0.2)  # here


while True:
    work()
    dist.all_reduce(x)
