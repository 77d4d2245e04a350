"""One rank does not leave a loop."""
# expect: hang
# ranks: 2
# rank: 0
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



def settle():
    n = 0
    while True:  # here
        n = n + 1 if n < 1000 else 0  # here


if rank == 0:
    settle()
dist.all_reduce(x)
