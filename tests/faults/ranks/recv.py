"""A rank receives what nobody sends."""
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

if rank == 1:
    dist.recv(x, src=0)  # here
else:
    dist.barrier()
dist.barrier()
