"""One rank goes on computing tensors for ever."""
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



def fit(m):
    while True:  # here
        m = m @ m / m.norm()  # here


if rank == 0:
    fit(torch.randn(300, 300))
dist.all_reduce(x)
