"""A finalizer of one rank does not end."""
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



class Handle:
    def __del__(self):
        time.sleep(4000)  # here


if rank == 1:
    h = Handle()
    del h
dist.all_reduce(x)
