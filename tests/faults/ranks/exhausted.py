"""One rank has less data and is in the last barrier already."""
# expect: hang
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

steps = 5 if rank == 0 else 3
for _ in range(steps):
    dist.all_reduce(x)
dist.broadcast(x, 0)  # here
