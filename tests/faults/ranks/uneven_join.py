"""Uneven data: rank 1 has one batch less and goes on to barrier."""
# expect: hang
# ranks: 2
# rank: 0,1
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


for step in range(10 if rank else 12):
    dist.all_reduce(x)  # here
dist.barrier()  # here
