"""A rank waits for a command that does not end."""
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

import subprocess  # noqa: E402

if rank == 0:
    subprocess.run(["sleep", "3600"])  # here
dist.all_reduce(x)
