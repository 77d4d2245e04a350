"""One rank leaves out a collective and goes on to the next one."""
# expect: hang
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

if rank != 2:
    dist.all_reduce(x)
dist.barrier()  # here
