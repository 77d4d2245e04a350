"""A rank is stopped by a signal."""
# expect: hang
# ranks: 3
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

import signal  # noqa: E402

if rank == 1:
    os.kill(os.getpid(), signal.SIGSTOP)  # here
dist.all_reduce(x)
