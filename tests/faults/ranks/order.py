"""Two ranks call two collectives in another order."""
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

y = torch.ones(2)
if rank == 0:
    dist.all_reduce(x)  # here
    dist.broadcast(y, 0)
else:
    dist.broadcast(y, 0)  # here
    dist.all_reduce(x)
