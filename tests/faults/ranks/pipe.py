"""A rank reads a shard from a pipe that stays empty."""
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

r, w = os.pipe()


def load_shard():
    return os.read(r, 100)  # here


if rank == 1:
    load_shard()
dist.barrier()
