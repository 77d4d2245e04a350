"""One rank has more to compute."""
# expect: slow
# ranks: 3
# rank: 2
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


def features(n):
    total = 0
    for i in range(n):
        total += i * i  # here
    return total


while True:
    features(400000 if rank == 2 else 4000)
    dist.all_reduce(x)
